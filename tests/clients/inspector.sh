#!/usr/bin/env bash
# MCP Inspector's command line lists and calls run_job over stdio.
#
# Usage: inspector.sh PROGRAM. Needs node and npx; exits non-zero when a check fails.
set -euo pipefail
program=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The Inspector writes a folder into HOME.
export HOME="$work" npm_config_update_notifier=false

inspect() {
    npx -y @modelcontextprotocol/inspector@2.12.0 --cli "$@" -- "$program" serve --embedded --audit "$work/audit/"
}

inspect --method tools/list >"$work/list.json"
grep -q '"run_job"' "$work/list.json" || { cat "$work/list.json"; exit 1; }

inspect --method tools/call --tool-name run_job --tool-arg image=busybox \
    --tool-arg 'command=["sh","-c","echo hello from the inspector"]' >"$work/call.json"
grep -q 'hello from the inspector' "$work/call.json" || { cat "$work/call.json"; exit 1; }

if inspect --method tools/call --tool-name run_job --tool-arg image=evil --tool-arg 'command=["true"]' \
    >"$work/refused.json" 2>&1; then
    echo "a refused call did not fail"
    exit 1
fi
grep -q 'images.not_listed' "$work/refused.json" || { cat "$work/refused.json"; exit 1; }
echo "inspector: listed, called, refused"
