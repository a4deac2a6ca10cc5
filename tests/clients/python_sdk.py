"""The official Python SDK lists and calls run_job over stdio, by every lifecycle that it speaks.

Usage: python_sdk.py PROGRAM. Needs the `mcp` package; exits non-zero when a check fails.
"""

import asyncio
import sys
import tempfile

from mcp import Client, StdioServerParameters

CALL = {"image": "busybox", "command": ["sh", "-c", "echo hello; echo data > out.txt"]}


async def session(program: str, mode: str, audit: str) -> None:
    server = StdioServerParameters(command=program, args=["serve", "--embedded", "--audit", audit])
    async with Client(server, mode=mode) as client:
        tools = (await client.list_tools()).tools
        names = {tool.name: tool for tool in tools}
        jobs = {"run_job", "submit_job", "fetch_job", "cancel_job"}
        assert set(names) == jobs | {"list_pods", "pod_logs", "describe_resource", "list_events"}, names
        assert "busybox" in names["run_job"].description
        assert "mcp-ephemeral" in names["list_pods"].description

        done = await client.call_tool("run_job", CALL)
        assert not done.is_error, done
        result = done.structured_content
        assert result["status"] == "succeeded" and result["exit_code"] == 0, result
        assert result["stdout"] == "hello\n", result
        assert [file["name"] for file in result["artifacts"]] == ["out.txt"], result

        refused = await client.call_tool("run_job", {**CALL, "image": "evil"})
        assert refused.is_error, refused
        assert "images.not_listed" in refused.content[0].text, refused
    print(f"python sdk, mode {mode}: listed, called, refused")


async def main() -> None:
    with tempfile.TemporaryDirectory() as audit:
        for mode in ["legacy", "auto"]:
            await asyncio.wait_for(session(sys.argv[1], mode, audit + "/"), 60)


asyncio.run(main())
