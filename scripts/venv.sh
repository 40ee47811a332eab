#!/usr/bin/env bash
# Makes build/venv, the Python environment of the scripts that train models and ask the reference
# (numpy, onnx, onnxruntime at the versions of requirements.txt). Does nothing when it is up to date.
# Prints the path of its python.
set -eu
cd "$(dirname "$0")/.."
venv=build/venv
stamp=$venv/requirements.txt
if ! cmp -s scripts/requirements.txt "$stamp"; then
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements.txt >&2
    cp scripts/requirements.txt "$stamp"
fi
echo "$PWD/$venv/bin/python"
