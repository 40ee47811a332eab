#!/usr/bin/env python3
"""Which test proves each operator version and type: tests/onnx/proofs.tsv, shown in docs/OPERATORS.md.

    proofs.py check OPERATORS PROOFS                     every row that runs has a test, no other row has
    proofs.py verify OPERATORS PROOFS LINES...           what PROOFS says holds by what passed (files of proof.h)
    proofs.py write OPERATORS PROOFS LINES...            writes PROOFS from what passed

OPERATORS prints the table (`operators --tsv`). Columns of PROOFS: domain, operator, version, tests (official cases of the
package onnx, types_* of make_types.py, cases.txt), types that no test has ("T=c64 T=c128").
"""
import collections
import subprocess
import sys


def needed(program):
    """(domain, operator, version) of each row that runs -> its types, as variable=type."""
    rows = {}
    for line in subprocess.run([program, "--tsv"], check=True, capture_output=True, text=True).stdout.splitlines():
        domain, name, since, state, _, _, types = line.split("\t")
        if state == "runs":
            rows[domain, name, since] = [f"{variable}={kind}" for variable, kinds in
                                         (x.split("=", 1) for x in types.split()) for kind in kinds.split("+")[1:]]
    return rows


def passed(files):
    """Row -> test -> types."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in files:
        with open(path, encoding="utf-8") as file:
            for line in file:
                test, domain, name, since, types = line.rstrip("\n").split("\t")
                found[domain, name, since][test].update(types.split())
    return found


def choose(tests, types):
    """Few tests that have all types some test has: one of the operator's own official cases first."""
    chosen, left = [], set(types) & set().union(*tests.values())
    official = sorted((t for t in tests if t.startswith("test_") and "_expanded" not in t), key=lambda t: (len(t), t))
    if official:
        chosen.append(official[0])
        left -= tests[official[0]]
    while left:
        best = max(sorted(tests), key=lambda t: (len(tests[t] & left), t.startswith("types_")))
        chosen.append(best)
        left -= tests[best]
    return chosen or [min(tests, key=lambda t: (len(t), t))]


def read(path):
    with open(path, encoding="utf-8") as file:
        cells = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return {tuple(c[:3]): (c[3].split(), c[4].split()) for c in cells}


def write(path, rows, found):
    with open(path, "w", encoding="utf-8") as file:
        file.write("# Written by proofs.py: domain, operator, version, tests that pass, types that no test has.\n")
        for row, types in rows.items():
            tests = found.get(row)
            if not tests:
                sys.exit(f"{' '.join(row)}: no test")
            missing = [t for t in types if not any(t in have for have in tests.values())]
            file.write("\t".join([*row, " ".join(choose(tests, types)), " ".join(missing)]) + "\n")


def main():
    command, program, path, *files = sys.argv[1:]
    rows, found, bad = needed(program), passed(files), 0
    if command == "write":
        return write(path, rows, found)
    proofs = read(path)
    for row in sorted(rows.keys() | proofs.keys()):
        tests, missing = proofs.get(row, ([], []))
        types, fault = rows.get(row), None
        if types is None or not tests:
            fault = "is no row that runs" if types is None else "has no test"
        elif not set(missing) <= set(types):
            fault = f"has no {sorted(set(missing) - set(types))}"
        elif command == "verify":
            have = set().union(*(found[row].get(t, set()) for t in tests))
            lost = [t for t in tests if t not in found[row]] + [t for t in types if t not in have and t not in missing]
            fault = f"not proved: {' '.join(lost)}" if lost else None
        if fault:
            print(f"{' '.join(row)} {fault}")
            bad += 1
    print(f"{len(rows)} rows, {sum(map(len, rows.values()))} types, {sum(len(m) for _, m in proofs.values())} of them without a test, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
