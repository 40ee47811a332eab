#!/usr/bin/env python3
"""Checks the two shared libraries in a build's lib folder: exported names, SONAME, NEEDED entries.

libnestor exports versioned nst_ symbols and needs neither LLVM nor protobuf; libnestor-compiler exports at most
nst_compiler_table.
"""
import os
import re
import subprocess
import sys

FOREIGN = re.compile(r"LLVM|protobuf|nestor-compiler|clang")


def dynamic(path, flag):
    return subprocess.run(["readelf", "-W", flag, path], check=True, capture_output=True, text=True).stdout


def exported(path):
    """Defined global names with their versions, without the version nodes themselves."""
    names = []
    for line in dynamic(path, "--dyn-syms").splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK", "UNIQUE") and fields[6] not in ("UND", "ABS"):
            names.append(fields[7])
    return names


def check_library(path, allowed, version):
    faults = []
    for name in exported(path):
        base, _, node = name.partition("@")
        if not re.fullmatch(allowed, base):
            faults.append(f"{path}: exports {name}")
        elif node.lstrip("@") != version:
            faults.append(f"{path}: {name} has not version {version}")
    if not re.search(r"SONAME.*\.so\.\d+\]", dynamic(path, "-d")):
        faults.append(f"{path}: no SONAME with a version")
    return faults


def main():
    lib = sys.argv[1]
    nestor, compiler = (os.path.join(lib, f"lib{n}.so") for n in ("nestor", "nestor-compiler"))
    faults = check_library(nestor, r"nst_\w+", "NESTOR_0.1")
    faults += check_library(compiler, r"nst_compiler_table", "NESTOR_COMPILER_0.1")
    if "nst_version" not in {n.partition("@")[0] for n in exported(nestor)}:
        faults.append(f"{nestor}: nst_version is not exported")
    for needed in re.findall(r"NEEDED.*\[(.*)\]", dynamic(nestor, "-d")):
        if FOREIGN.search(needed):
            faults.append(f"{nestor}: needs {needed}")
    for path in (nestor, compiler):
        runpath = re.search(r"R(?:UN)?PATH.*\[(.*)\]", dynamic(path, "-d"))
        if not runpath or runpath.group(1) != "$ORIGIN/../lib":
            faults.append(f"{path}: run path is {runpath.group(1) if runpath else 'missing'}, not $ORIGIN/../lib")
    print("\n".join(faults) if faults else "exports as designed")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
