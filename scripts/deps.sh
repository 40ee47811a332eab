#!/usr/bin/env bash
# Installs what the build and the tests need from Debian 12, and nothing when all of it is there.
# Usage: scripts/deps.sh [bench|models|venv]...   more groups beside the base one
set -eu

base="cmake ninja-build mold gcc g++ libc6-dev clang-19 clang-format-19 libclang-rt-19-dev llvm-19-dev
libprotobuf-c-dev protobuf-c-compiler libxxhash-dev libcriterion-dev libpcre2-dev pkg-config git python3 python3-mpmath xz-utils binutils"
venv="python3-venv ca-certificates"
bench="libdnnl-dev $venv"
models="npm $venv"

wanted=$base
for group in "$@"; do
    case $group in
    bench) wanted="$wanted $bench" ;;
    models) wanted="$wanted $models" ;;
    venv) wanted="$wanted $venv" ;;
    *) echo "deps.sh: unknown group '$group' (bench, models, venv)" >&2; exit 2 ;;
    esac
done

missing=
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] && continue
    # npm may have come with a Node.js of another source, which Debian's package refuses to stand beside.
    [ "$package" = npm ] && command -v npm >/dev/null && continue
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "deps.sh: need root or sudo to install:$missing" >&2; exit 1; }
    as_root="sudo"
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get -qq update
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $missing >/dev/null
