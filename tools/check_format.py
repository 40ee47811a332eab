#!/usr/bin/env python3
"""Checks the tracked C sources against .clang-format with clang-format-19; names the files that differ."""
import os
import subprocess
import sys

top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
listed = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard", "*.c", "*.h"], check=True,
                        capture_output=True, text=True).stdout.splitlines()
files = [f for f in listed if os.path.exists(os.path.join(top, f))]
found = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *files], cwd=top, capture_output=True, text=True)
if found.returncode:
    faulty = sorted({line.split(":")[0] for line in found.stderr.splitlines() if ": error:" in line})
    print("not formatted (scripts/format.sh does it, then commit): " + " ".join(faulty))
    print(found.stderr[:1000] if not faulty else "")
sys.exit(found.returncode)
