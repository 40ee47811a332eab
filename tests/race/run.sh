#!/usr/bin/env bash
# Builds tests/race/race.c and what it uses with the thread sanitizer and runs it.  usage: run.sh COMPILER FOLDER
set -eu
cd "$(dirname "$0")/../.."
compiler=$1 folder=$2
rm -rf "$folder" && mkdir -p "$folder"
flags=(-std=c11 -g -O1 -fsanitize=thread -D_GNU_SOURCE -I. -Iinclude)
# All of ir/ and of runtime/ but the driver; the linker takes what is used.
sources=(ir/base/*.c ir/*.c $(ls runtime/*.c | grep -v /compile))
export compiler folder options="${flags[*]}"
# shellcheck disable=SC2016,SC2086
printf '%s\n' "${sources[@]}" |
    xargs -P "$(nproc)" -I{} sh -c '$compiler $options -c {} -o "$folder/$(echo {} | tr / _).o"'
echo 'extern const char nst_build_id[]; const char nst_build_id[] = "race";' >"$folder/build_id.c"
$compiler $options -c "$folder/build_id.c" -o "$folder/build_id.o"
ar rcs "$folder/libused.a" "$folder"/*.o
"$compiler" "${flags[@]}" -o "$folder/race" tests/unit/support_plan.c tests/race/race.c "$folder/libused.a" -lxxhash -lm \
    -lpthread -ldl
"$folder/race" "$folder/cache"
