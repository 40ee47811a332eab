#!/usr/bin/env python3
"""Checks the tracked C sources against .clang-format with clang-format-19 (and prints what differs)."""
import os
import subprocess
import sys

top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
listed = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard", "*.c", "*.h"], check=True,
                        capture_output=True, text=True).stdout.splitlines()
files = [f for f in listed if os.path.exists(os.path.join(top, f))]
status = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *files], cwd=top).returncode
if status:
    print("run scripts/format.sh")
sys.exit(status)
