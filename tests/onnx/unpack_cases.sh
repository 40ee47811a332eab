#!/bin/sh
# unpack_cases.sh SET SOURCE FOLDER: puts the official cases of a set into FOLDER/SET, once.  SOURCE: an archive of them, or a
# Python interpreter whose package onnx makes them (make_cases.py; the set `types`: make_types.py with $NESTOR_OPERATORS, the
# program that prints the table).  Exit status 77 where that is not there.
set -eu
set=$1 source=$2 folder=$3
if [ ! -f "$source" ]; then
    echo "skipped: no official cases without $source (scripts/venv.sh makes build/venv; NESTOR_CONFORMANCE names the folder of archives)"
    exit 77
fi
case $source in
*.tar.xz)
    [ ! -f "$folder/$set.done" ] || exit 0
    mkdir -p "$folder"
    tar -xJf "$source" -C "$folder"
    touch "$folder/$set.done"
    ;;
*) [ "$set" != types ] || exec "$source" "$(dirname "$0")/make_types.py" "$folder/$set" "$NESTOR_OPERATORS"
   "$source" -W ignore::RuntimeWarning "$(dirname "$0")/make_cases.py" "$folder/$set" ;;
esac
