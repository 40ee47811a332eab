#!/usr/bin/env python3
"""Fails when a tracked text file names a path of one machine or a package registry's host.

What Debian, pip and git are configured to use is theirs to know.  Binary files are skipped.
"""
import os
import re
import subprocess
import sys

# Written in pieces so that this file passes its own test.
ROOTS = ["work", "root", "home", "Users"]
HOSTS = ["deb.debian" + ".org", "pypi" + ".org", "pythonhosted" + ".org", "security.debian" + ".org",
         "ftp.debian" + ".org", "registry.npmjs" + ".org", "crates" + ".io", "proxy.golang" + ".org", "local" + "host:"]
BAD = re.compile(r"(?<![\w.)}$-])/(?:" + "|".join(ROOTS) + r")/[\w.]|" + "|".join(map(re.escape, HOSTS)))


def main():
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    listed = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                            capture_output=True).stdout.decode().split("\0")
    faults, n = [], 0
    for path in filter(None, listed):
        full = os.path.join(top, path)
        if os.path.islink(full) or not os.path.isfile(full):
            continue
        with open(full, "rb") as f:
            data = f.read()
        if b"\0" in data[:8192]:
            continue
        n += 1
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            found = BAD.search(line)
            if found:
                faults.append(f"{path}:{number}: '{found.group(0)}' belongs to one machine or registry")
    print("\n".join(faults) if faults else f"{n} text files without machine paths")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
