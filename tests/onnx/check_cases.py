#!/usr/bin/env python3
"""Official ONNX cases as a user runs them: check_cases.py SET ARCHIVE FOLDER TOOL KNOWN LEAST

The set is unpacked once into FOLDER and run by `nestor test` interpreted, compiled on one thread (cold), and from the disk
cache on one and on two threads. At least LEAST cases must pass; what fails must stand in KNOWN (first column; then why);
compiled and interpreted must agree on what passes; all compiled runs must give the same bits, and the warm ones must
compile nothing. Exit status 77 where the archive is not there.
"""
import json
import os
import subprocess
import sys
import tarfile
import tempfile

SKIPPED = 77


def unpack(name, archive, folder):
    done = os.path.join(folder, name + ".done")
    if os.path.exists(done):
        return
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(folder)
    with open(done, "w", encoding="utf-8"):
        pass


def run(tool, folder, *words):
    done = subprocess.run([tool, "test", folder, "--json", *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or done.stderr:
        sys.exit(f"nestor test {' '.join(words)}: exit status {done.returncode}\n{done.stderr}\n{done.stdout[-2000:]}")
    return {case["path"]: case for case in json.loads(done.stdout)["cases"]}


def main():
    name, archive, folder, tool, known, least = sys.argv[1:]
    if not os.path.exists(archive):
        print(f"skipped: no archive of official cases at {archive} (set NESTOR_CONFORMANCE to its folder)")
        return SKIPPED
    unpack(name, archive, folder)
    folder = os.path.join(folder, name)
    with open(known, encoding="utf-8") as file:
        excused = {line.split("\t")[0] for line in file if not line.startswith("#")}
    with tempfile.TemporaryDirectory(prefix="nestor-cases-") as cache:
        cold = run(tool, folder, "--cache", cache, "--threads", "1")
        again = [run(tool, folder, "--cache", cache, "--threads", threads, "--fail-on-compile") for threads in "12"]
    interpreted = run(tool, folder, "--no-cache", "--threads", "1", "--interpret")
    faults = []
    for path, case in cold.items():
        if case["verdict"] == "failed" and case["name"] not in excused:
            faults.append(f"{case['name']}: {case['why']}")
        other = interpreted[path]
        if case["verdict"] != other["verdict"]:
            faults.append(f"{case['name']}: compiled {case['verdict']} ({case['why']}), "
                          f"interpreted {other['verdict']} ({other['why']})")
        for threads, warm in enumerate(again, 1):
            # What was not compiled is in no cache: it stays what it was, with another reason.
            if case["verdict"] != "skipped" and warm[path]["hash"] != case["hash"]:
                faults.append(f"{case['name']}: from the cache on {threads} threads: other bits or {warm[path]['why']}")
    passed = sum(case["verdict"] == "passed" for case in cold.values())
    for fault in faults:
        print(fault)
    if passed < int(least):
        print(f"fewer than {least} passed")
    skipped = sum(case["verdict"] == "skipped" for case in cold.values())
    print(f"{passed} of {len(cold)} passed, {skipped} not supported, {len(faults)} faults")
    return 1 if faults or passed < int(least) else 0


if __name__ == "__main__":
    sys.exit(main())
