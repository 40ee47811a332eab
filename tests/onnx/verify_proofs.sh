#!/bin/sh
# verify_proofs.sh PYTHON FOLDER RUN_CASES OPERATOR_CASES PROOFS [write]: runs what proves operators and holds PROOFS against it
# (proofs.py), or writes it.  FOLDER: of official cases (unpack_cases.sh).  Run from the top of the repository.
set -eu
python=$1 folder=$2 run_cases=$3 operator_cases=$4 proofs=$5 command=${6:-verify}
here=$(dirname "$0")
for set in package types; do
    "$here/unpack_cases.sh" "$set" "$python" "$folder"
    "$run_cases" --known "$here/known.tsv" --proofs "$folder/$set.proofs" "$folder/$set"/*/
done
NESTOR_PROOFS=$folder/written.proofs "$operator_cases"
exec python3 "$here/proofs.py" "$command" "$NESTOR_OPERATORS" "$proofs" "$folder/package.proofs" "$folder/types.proofs" \
    "$folder/written.proofs"
