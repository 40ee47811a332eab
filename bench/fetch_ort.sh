#!/usr/bin/env bash
# Puts ONNX Runtime's C library at build/ort/libonnxruntime.so for bench/ort.h: a link to the one inside the PyPI
# package onnxruntime, at the version of scripts/requirements.txt. Downloads on the first call only.
set -eu
cd "$(dirname "$0")/.."
python=$(scripts/venv.sh)
library=$("$python" - <<'PY'
import importlib.util, pathlib
package = pathlib.Path(importlib.util.find_spec("onnxruntime").origin).parent
print(*sorted((package / "capi").glob("libonnxruntime.so*")), sep="\n")
PY
)
[ "$(printf '%s\n' "$library" | grep -c .)" = 1 ] || {
    echo "fetch_ort.sh: expected one libonnxruntime.so* in the package, found: ${library:-none}" >&2
    exit 1
}
mkdir -p build/ort
ln -sfn "$library" build/ort/libonnxruntime.so
echo "build/ort/libonnxruntime.so"
