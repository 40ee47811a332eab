#!/bin/sh
# run_cases.sh SET ARCHIVE FOLDER PROGRAM KNOWN LEAST [FLAG]: unpacks the official cases of a set once and runs them; at least
# LEAST must pass.
set -eu
set=$1 archive=$2 folder=$3 program=$4 known=$5 least=$6 flag=${7:-}
if [ ! -f "$archive" ]; then
    echo "skipped: no archive of official cases at $archive (set NESTOR_CONFORMANCE to its folder)"
    exit 77
fi
if [ ! -f "$folder/$set.done" ]; then
    mkdir -p "$folder"
    tar -xJf "$archive" -C "$folder"
    touch "$folder/$set.done"
fi
exec "$program" $flag --known "$known" --at-least "$least" $(find "$folder/$set" -mindepth 1 -maxdepth 1 -type d | sort)
