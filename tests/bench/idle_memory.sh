#!/usr/bin/env bash
# Prints the resident memory of an idle `kubepermit serve` after a handshake and a list of tools.
#
# Usage: idle_memory.sh PROGRAM [ARGUMENT ...], for example idle_memory.sh target/release/kubepermit --embedded
set -euo pipefail
program=$1
shift
work=$(mktemp -d)
mkfifo "$work/in"
"$program" serve --audit "$work/audit/" --log error "$@" <"$work/in" >"$work/out" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
exec 3>"$work/in"
printf '%s\n' \
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"idle_memory.sh","version":"1"}}}' \
    '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
    '{"jsonrpc":"2.0","id":2,"method":"tools/list"}' >&3
for _ in $(seq 100); do
    [ "$(wc -l <"$work/out")" -ge 2 ] && break
    sleep 0.1
done
sleep 2
printf 'idle serve %s: %s\n' "$*" "$(grep -E '^VmRSS' "/proc/$server/status" | tr -s '\t ' ' ')"
exec 3>&-
wait "$server"
