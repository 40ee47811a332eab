#!/usr/bin/env python3
"""Runs golden texts: run_golden.py [--passes passes/pass.def] TOOL FILE-OR-FOLDER...   (NST_BLESS=1 rewrites what differs)

A golden file is a text of the IR (.nsg graph, .nsl loops) followed by a line of its own and what the tool must print:

    # RUN: opt --passes fuse,layout         the command; FILE goes after its first word, or where %s stands
    graph f(...) {                          the input
    # EXPECT
    kernel f(...)                           the exact standard output

With `# RUN-FAIL:` instead the command must end with an exit status from 1 to 63 (not by a signal) and the text after
`# EXPECT` is its exact standard error.  The tool sees the part above `# EXPECT` as a file of the same name in a
folder of its own, so that line numbers and names in messages are stable.

A file named PASS_CASE shows what PASS does: where it runs `opt` with that pass, leaving the pass out must print something
else.  --passes: each pass of that table has such a file.
"""
import argparse
import concurrent.futures
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile

RUN = re.compile(r"^\s*(?:;|#|//)\s*RUN(-FAIL)?:\s*(.+?)\s*$", re.M)
EXPECT = re.compile(r"^(?:;|#|//)\s*EXPECT[ \t]*\n", re.M)
TIMEOUT = 60  # seconds a file


def split(text):
    """(input, separator line, expected); the separator is made when there is none yet."""
    found = EXPECT.search(text)
    if found:
        return text[:found.start()], found.group(0), text[found.end():]
    return text + ("" if text.endswith("\n") else "\n"), "# EXPECT\n", None


def run(tool, path, command, source):
    with tempfile.TemporaryDirectory(prefix="nestor-golden-") as folder:
        name = os.path.basename(path)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(source)
        words = shlex.split(command)
        words = [name if w == "%s" else w for w in words] if "%s" in words else [words[0], name, *words[1:]]
        return subprocess.run([tool, *words], cwd=folder, capture_output=True, text=True, errors="replace",
                              timeout=TIMEOUT, env={**os.environ, "NESTOR_CACHE": os.path.join(folder, "cache")})


def without_pass(path, command):
    """The command without the pass that the file is named for; None if it is named for none that the command runs."""
    words = shlex.split(command)
    if words[0] != "opt" or "--passes" not in words[:-1]:
        return None
    at = words.index("--passes") + 1
    names = words[at].split(",")
    shown = [n for n in names if os.path.basename(path).startswith(n.replace("-", "_") + "_")]
    if not shown:
        return None
    words[at] = ",".join(n for n in names if n not in shown)
    return shlex.join(words)


def uncovered(table, paths):
    """The passes of the table for which no file is named that runs them."""
    with open(table, encoding="utf-8") as f:
        names = re.findall(r'^NST_PASS\(\w+, "([^"]+)"', f.read(), re.M)
    for name in names:
        runs = []
        for path in paths:
            if os.path.basename(path).startswith(name.replace("-", "_") + "_"):
                with open(path, encoding="utf-8") as f:
                    runs += re.findall(r"--passes (\S+)", f.readline())
        if not any(name in run.split(",") for run in runs):
            yield f"{table}: pass '{name}' has no golden text {name.replace('-', '_')}_*.nsg or .nsl that runs it"


def check(tool, path, bless):
    """None if all is well, else what is wrong."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    source, separator, expected = split(text)
    runs = RUN.findall(source)
    if len(runs) != 1:
        return f"{path}: {len(runs)} RUN lines above EXPECT, one is needed"
    must_fail, command = runs[0]
    try:
        done = run(tool, path, command, source)
    except subprocess.TimeoutExpired:
        return f"{path}: no end after {TIMEOUT} s"
    if must_fail:
        if not 1 <= done.returncode <= 63:
            return f"{path}: exit status {done.returncode}, 1 to 63 expected\n{done.stdout}{done.stderr}"
        got = done.stderr
    else:
        if done.returncode != 0:
            return f"{path}: exit status {done.returncode}\n{done.stderr}"
        got = done.stdout
    shorter = without_pass(path, command)
    if shorter is not None and run(tool, path, shorter, source).stdout == got:
        return f"{path}: '{shorter}' prints the same: the pass that the file is named for does nothing"
    if got == expected:
        return None
    if bless:
        with open(path, "w", encoding="utf-8") as f:
            f.write(source + separator + got)
        print(f"blessed {path}")
        return None
    return "".join(difflib.unified_diff((expected or "").splitlines(True), got.splitlines(True), f"{path} (expected)",
                                        "got", n=2)) + f"\n{path}: differs; NST_BLESS=1 accepts it"


def collect(arguments):
    for argument in arguments:
        if os.path.isdir(argument):
            for folder, _, names in sorted(os.walk(argument)):
                yield from (os.path.join(folder, n) for n in sorted(names) if n.endswith((".nsg", ".nsl")))
        else:
            yield argument


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--passes", metavar="TABLE")
    arguments.add_argument("tool")
    arguments.add_argument("paths", nargs="+")
    given = arguments.parse_args()
    tool = os.path.abspath(given.tool)
    paths = list(collect(given.paths))
    bless = os.environ.get("NST_BLESS", "") not in ("", "0")
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(lambda p: check(tool, p, bless), paths) if fault]
    missing = list(uncovered(given.passes, paths)) if given.passes else []
    print("\n".join(faults + missing))
    print(f"{len(paths) - len(faults)} of {len(paths)} golden files as expected")
    sys.exit(1 if faults or missing or not paths else 0)


if __name__ == "__main__":
    main()
