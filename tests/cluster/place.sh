# Where the one test cluster of a machine lives, and what it is called. Read by `up`, `node` and `down`.
STATE=/tmp/kubepermit-cluster
VETH=kubepermit-test
HOST_ADDRESS=203.0.113.241
NODE_ADDRESS=203.0.113.242
CGROUP=kubepermit-cluster

# When a process started, which with its pid tells it from all others: the 22nd field, counted behind the name in brackets.
started_at() {
    sed -E 's/.*\) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20
}
