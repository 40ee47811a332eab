#!/usr/bin/env python3
"""Official ONNX cases as a user runs them: check_cases.py SET SOURCE FOLDER TOOL KNOWN LEAST

The set (unpack_cases.sh) is run by `nestor test` interpreted, compiled on one thread (cold), and from the disk cache on one
and on two threads. At least LEAST cases must pass; what fails must stand in KNOWN (first column, the last says why; where
one between says "rtol R", the case must pass within that); compiled and interpreted must agree on what passes; all compiled
runs must give the same bits, and the warm ones must compile nothing. Exit status 77 where the cases are not there.
"""
import json
import os
import subprocess
import sys
import tempfile


def read_known(path):
    """Name -> the tolerance within which the case must pass, or None where nothing is asked of it."""
    with open(path, encoding="utf-8") as file:
        cells = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return {cell[0]: cell[1].removeprefix("rtol ") if len(cell) > 2 else None for cell in cells}


def run(tool, folders, *words):
    done = subprocess.run([tool, "test", *folders, "--json", *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or done.stderr:
        sys.exit(f"nestor test {' '.join(words)}: exit status {done.returncode}\n{done.stderr}\n{done.stdout[-2000:]}")
    return {case["path"]: case for case in json.loads(done.stdout)["cases"]}


def main():
    name, source, folder, tool, known, least = sys.argv[1:]
    unpack = os.path.join(os.path.dirname(__file__), "unpack_cases.sh")
    if (status := subprocess.run([unpack, name, source, folder], check=False).returncode) != 0:
        return status
    folder = os.path.join(folder, name)
    excused = read_known(known)
    with tempfile.TemporaryDirectory(prefix="nestor-cases-") as cache:
        cold = run(tool, [folder], "--cache", cache, "--threads", "1")
        again = [run(tool, [folder], "--cache", cache, "--threads", threads, "--fail-on-compile") for threads in "12"]
        near = {}  # those that have a tolerance of their own
        for rtol in set(excused.values()) - {None}:
            paths = [path for path, case in cold.items() if excused.get(case["name"]) == rtol]
            if paths:
                near |= run(tool, paths, "--cache", cache, "--threads", "1", "--rtol", rtol)
    interpreted = run(tool, [folder], "--no-cache", "--threads", "1", "--interpret")
    faults = []
    for path, case in cold.items():
        judged = near.get(path, case)
        if judged["verdict"] == "failed" and (path in near or case["name"] not in excused):
            faults.append(f"{case['name']}: {judged['why']}")
        other = interpreted[path]
        if case["verdict"] != other["verdict"]:
            faults.append(f"{case['name']}: compiled {case['verdict']} ({case['why']}), "
                          f"interpreted {other['verdict']} ({other['why']})")
        for threads, warm in enumerate(again, 1):
            # What was not compiled is in no cache: it stays what it was, with another reason.
            if case["verdict"] != "skipped" and warm[path]["hash"] != case["hash"]:
                faults.append(f"{case['name']}: from the cache on {threads} threads: other bits or {warm[path]['why']}")
    passed = sum(near.get(path, case)["verdict"] == "passed" for path, case in cold.items())
    for fault in faults:
        print(fault)
    if passed < int(least):
        print(f"fewer than {least} passed")
    skipped = sum(case["verdict"] == "skipped" for case in cold.values())
    print(f"{passed} of {len(cold)} passed, {skipped} not supported, {len(faults)} faults")
    return 1 if faults or passed < int(least) else 0


if __name__ == "__main__":
    sys.exit(main())
