#!/usr/bin/env bash
# check_install.sh BUILD WORK: installs a build, moves the installed tree, and builds and runs a user's project against it, by
# CMake package and by pkg-config.
set -eu
build=$1 work=$2 here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/moved"
prefix=$work/moved

expected='nestor 0.1.0: 2 4 6'
same() { [ "$2" = "$expected" ] || { echo "$1 prints '$2', expected '$expected'" >&2; exit 1; }; }

cmake -G Ninja -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log"
cmake --build "$work/build" >"$work/build.log"
same "use-c" "$("$work/build/use-c")"
same "use-cpp" "$("$work/build/use-cpp")"

libdir=$(dirname "$(find "$prefix" -name nestor.pc)")
export PKG_CONFIG_PATH=$libdir
# shellcheck disable=SC2046
cc -std=c99 "$here/use.c" -o "$work/use" $(pkg-config --cflags --libs nestor) -Wl,-rpath,"$(pkg-config --variable=prefix nestor)/$(basename "$(dirname "$libdir")")"
same "use (pkg-config)" "$("$work/use")"

"$prefix/bin/nestor" run "$here/../../models/digits.onnx" --dim N=1 --no-cache | grep -q '^probability: f32\[1, 10\]' ||
    { echo "the installed tool does not run digits.onnx" >&2; exit 1; }
! grep -rlF "$build" "$prefix" --include='*.cmake' --include='*.pc' --include='*.h' ||
    { echo "an installed text names the build folder" >&2; exit 1; }
echo "installed, moved, found by CMake and pkg-config, used from C and C++"
