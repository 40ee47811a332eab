#!/usr/bin/env python3
"""Checks that headers stand alone: check_headers.py INCLUDE-DIRECTORY... (of foreign headers)

Public headers compile by themselves as C99, C11 and C++11 without a warning; every other header as C11.
"""
import concurrent.futures
import glob
import os
import subprocess
import sys

WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
PUBLIC = [["gcc", "-std=c99", "-x", "c"], ["gcc", "-std=c11", "-x", "c"], ["g++", "-std=c++11", "-x", "c++"]]
INNER = [["gcc", "-std=c11", "-x", "c"]]
FOLDERS = ["ir/base", "ir", "frontend", "frontend/lower", "passes", "codegen", "runtime"]


def compile_alone(job):
    compiler, include, header, foreign = job
    source = f'#include "{header}"\n#include "{header}"\nextern int nothing;\n'
    done = subprocess.run([*compiler, *WARN, *include, *foreign, "-"], input=source, capture_output=True, text=True)
    return f"{header} as {compiler[1][5:]}:\n{done.stderr}" if done.returncode else None


def main():
    foreign = [word for folder in sys.argv[1:] for word in ("-isystem", folder)]
    jobs = []
    for path in sorted(glob.glob("include/nestor/*.h")):
        jobs += [(c, ["-Iinclude"], os.path.relpath(path, "include"), []) for c in PUBLIC]
    for folder in FOLDERS:
        for path in sorted(glob.glob(folder + "/*.h")):
            jobs += [(c, ["-I.", "-Iinclude"], path, foreign) for c in INNER]
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(compile_alone, jobs) if fault]
    print("\n".join(faults) if faults else f"{len(jobs)} headers stand alone")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
