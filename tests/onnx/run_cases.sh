#!/bin/sh
# run_cases.sh SET SOURCE FOLDER PROGRAM KNOWN LEAST [FLAG]: the official cases of a set (unpack_cases.sh) by run_cases; at least
# LEAST must pass.
set -eu
set=$1 source=$2 folder=$3 program=$4 known=$5 least=$6 flag=${7:-}
"$(dirname "$0")/unpack_cases.sh" "$set" "$source" "$folder"
exec "$program" $flag --known "$known" --at-least "$least" "$folder/$set"/*/
