#!/usr/bin/env bash
# Makes build/venv with the Python packages of benchmarks and conformance tests, pinned in scripts/requirements.txt.
# Prints the path of its interpreter.  Does nothing when the venv is up to date.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
venv=$top/build/venv
stamp=$venv/requirements.txt
if ! cmp -s "$top/scripts/requirements.txt" "$stamp"; then
    "$top/scripts/deps.sh" venv >&2
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$top/scripts/requirements.txt" >&2
    cp "$top/scripts/requirements.txt" "$stamp"
fi
echo "$venv/bin/python"
