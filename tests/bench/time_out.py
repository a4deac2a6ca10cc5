#!/usr/bin/env python3
"""Prints how long a job with a time-out of 2 s takes to be answered, over stdio, on the embedded cluster.

Usage: time_out.py PROGRAM [RUNS]. Measures, and judges nothing: machines differ.
"""

import json
import subprocess
import sys
import tempfile
import time


def main() -> None:
    program, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as audit:
        command = [program, "serve", "--embedded", "--audit", audit + "/", "--log", "error"]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def request(number: int, method: str, params: dict) -> dict:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            while True:
                answer = json.loads(server.stdout.readline())
                if answer.get("id") == number:
                    return answer["result"]

        client = {"name": "time_out.py", "version": "1"}
        request(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        server.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        arguments = {"image": "busybox", "timeout_s": 2,
                     "command": ["sh", "-c", "echo begun; echo half > half.txt; sleep 60"]}
        times = []
        for run in range(1, runs + 1):
            begun = time.monotonic()
            answer = request(run, "tools/call", {"name": "run_job", "arguments": arguments})
            times.append(time.monotonic() - begun)
            result = answer["structuredContent"]
            assert result["status"] == "timeout" and result["stdout"] == "begun\n", result
            assert [file["name"] for file in result["artifacts"]] == ["half.txt"], result
        server.stdin.close()
        server.wait(30)
    times.sort()
    print(f"time-out of 2 s, {runs} runs: answered after min {times[0]:.3f} s, "
          f"median {times[len(times) // 2]:.3f} s, max {times[-1]:.3f} s")


main()
