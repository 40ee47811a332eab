#!/usr/bin/env python3
"""Prints the longest functions and files of the C sources: sizes.py [--strict] [COUNT]

Limits are those of docs/CONVENTIONS.md: 60 lines a function, 150 where one switch over kinds is the body, 700 a file.
With --strict the exit status is 1 when one is broken.  Reads the layout that clang-format makes: a body opens and closes
with a brace in the first column.
"""
import os
import re
import subprocess
import sys

FUNCTION, SWITCH, FILE = 60, 150, 700  # lines
NAME = re.compile(r"(\w+)\(")


def functions(lines):
    """(lines, name, is a switch) of each function; the count is from the signature to the closing brace."""
    start = None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
            while start > 0 and lines[start - 1] and not lines[start - 1].startswith(("}", "#", "/*", " *")):
                start -= 1
        elif line == "}" and start is not None:
            head = " ".join(lines[start:i])
            found = NAME.search(head)
            switches = sum(1 for body in lines[start:i] if re.match(r"    switch \(", body))
            yield i - start + 1, found.group(1) if found else "?", switches == 1
            start = None


def main():
    words = [w for w in sys.argv[1:] if w != "--strict"]
    count = int(words[0]) if words else 10
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    by_function, by_file = [], []
    for path in filter(os.path.exists, listed):
        with open(path, encoding="utf-8", errors="replace") as f:
            lines = f.read().split("\n")
        by_file.append((len(lines) - 1, FILE, path))
        for n, name, switch in functions(lines):
            by_function.append((n, SWITCH if switch else FUNCTION, f"{path} {name}"))
    broken = 0
    for title, rows in ("functions", by_function), ("files", by_file):
        print(f"longest {title}")
        for n, limit, what in sorted(rows, reverse=True)[:count]:
            print(f"{n:6} {'  ' if n <= limit else '> '}{limit:4}  {what}")
        broken += sum(n > limit for n, limit, _ in rows)
    print(f"{broken} beyond their limit")
    sys.exit(1 if broken and "--strict" in sys.argv else 0)


if __name__ == "__main__":
    main()
