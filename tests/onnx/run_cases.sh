#!/bin/sh
# run_cases.sh ARCHIVE FOLDER PROGRAM KNOWN: unpacks the official cases once and runs them.
set -eu
archive=$1 folder=$2 program=$3 known=$4
if [ ! -f "$archive" ]; then
    echo "skipped: no archive of official cases at $archive (set NESTOR_CONFORMANCE)"
    exit 77
fi
if [ ! -d "$folder/current" ]; then
    mkdir -p "$folder"
    tar -xJf "$archive" -C "$folder"
fi
exec "$program" --known "$known" "$folder/current/node" "$folder/current/simple" "$folder/current/pytorch-operator" \
    "$folder/current/pytorch-converted"
