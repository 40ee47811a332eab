#!/usr/bin/env bash
# Builds tests/race/race.c and what it uses with the thread sanitizer and runs it.  usage: run.sh COMPILER FOLDER
set -eu
cd "$(dirname "$0")/../.."
compiler=$1 folder=$2
rm -rf "$folder" && mkdir -p "$folder"
sources=(runtime/threads.c runtime/exec.c runtime/run_state.c runtime/sizes.c runtime/plan_layout.c runtime/helpers.c
    runtime/cache.c runtime/cache_file.c ir/base/*.c ir/dim*.c ir/type.c tests/unit/support_plan.c tests/race/race.c)
"$compiler" -std=c11 -g -O1 -fsanitize=thread -D_GNU_SOURCE -I. -Iinclude -o "$folder/race" "${sources[@]}" -lxxhash -lm -lpthread -ldl
"$folder/race" "$folder/cache"
