#!/usr/bin/env bash
# Formats every C source of the repository in place.
set -eu
cd "$(dirname "$0")/.."
git ls-files -co --exclude-standard '*.c' '*.h' | xargs -r clang-format-19 -i
