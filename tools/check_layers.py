#!/usr/bin/env python3
"""Checks every #include of the tracked sources against tools/layers.txt.

Rules: includes of ours are rooted at the repository ("ir/graph.h", "nestor/base.h"); a folder includes itself and lower
ranks only; some foreign headers belong to one folder; the headers of one folder include one another without a cycle.
The driver runtime/compile*.c is the only code above the three middle folders that includes all of them: other files of
runtime/ must not, since libnestor has no compiler in it.  Exit status 1 and one line a fault otherwise.
"""
import os
import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)
SOURCE = (".c", ".h", ".def")
GENERATED = {"onnx.pb-c.h"}


def read_layers(text):
    rank, only = {}, {}
    level = 0
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "only":
            only[words[1]] = set(words[2:])
        else:
            for folder in words:
                rank[folder] = level
            level += 1
    return rank, only


def folder_of(path, rank):
    """The longest ranked folder that holds path, or None."""
    parts = os.path.dirname(path).split("/")
    for n in range(len(parts), 0, -1):
        if "/".join(parts[:n]) in rank:
            return "/".join(parts[:n])
    return None


def find_target(name, files):
    return name if name in files else "include/" + name if "include/" + name in files else None


def find_cycle(edges):
    """One cycle of the graph {node: [nodes]} as a list, or None."""
    state, stack = {}, []

    def visit(node):
        state[node] = 1
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if state.get(target) == 1:
                return stack[stack.index(target):] + [target]
            if target not in state:
                found = visit(target)
                if found:
                    return found
        stack.pop()
        state[node] = 2
        return None

    for node in sorted(edges):
        if node not in state:
            found = visit(node)
            if found:
                return found
    return None


def check(files, rank, only):
    """Faults of {path: text} as a list of lines."""
    faults, edges = [], {}
    middle = {f for f in rank if list(rank.values()).count(rank[f]) > 1 and rank[f] < max(rank.values())}
    for path, text in sorted(files.items()):
        home = folder_of(path, rank)
        if home is None:
            continue
        for quote, name in INCLUDE.findall(text):
            for prefix, folders in only.items():
                if name.startswith(prefix) and home not in folders:
                    faults.append(f"{path}: includes {name}, which only {' '.join(sorted(folders))} may")
            target = find_target(name, files)
            if target is None:
                if quote == '"' and name not in GENERATED:
                    faults.append(f'{path}: "{name}" is no file of the repository (includes are rooted there)')
                continue
            there = folder_of(target, rank)
            if there is None:
                faults.append(f"{path}: {target} stands in no folder of tools/layers.txt")
            elif there != home and rank[there] >= rank[home]:
                faults.append(f"{path}: {home} must not include {target} of {there}")
            elif home == "runtime" and there in middle and not os.path.basename(path).startswith("compile"):
                faults.append(f"{path}: only the driver runtime/compile*.c may include {target}")
            if path.endswith(".h"):
                edges.setdefault(path, set()).add(target)
    cycle = find_cycle(edges)
    if cycle:
        faults.append("cycle of includes: " + " -> ".join(cycle))
    return faults


def self_test(rank, only):
    good = {"ir/a.h": '#include "ir/base/b.h"\n', "ir/base/b.h": "", "passes/p.c": '#include "ir/a.h"\n',
            "runtime/compile.c": '#include "passes/p.h"\n', "passes/p.h": "", "codegen/c.h": "#include <llvm-c/Core.h>\n"}
    bad = {
        "sideways": {"passes/p.c": '#include "codegen/c.h"\n'},
        "upward": {"ir/base/c.c": '#include "ir/a.h"\n'},
        "unrooted": {"passes/q.c": '#include "p.h"\n'},
        "llvm": {"passes/q.c": "#include <llvm-c/Core.h>\n"},
        "protobuf": {"codegen/q.c": "#include <protobuf-c/protobuf-c.h>\n"},
        "runtime": {"runtime/q.c": '#include "passes/p.h"\n'},
        "cycle": {"ir/base/b.h": '#include "ir/base/d.h"\n', "ir/base/d.h": '#include "ir/base/b.h"\n'},
    }
    if check(good, rank, only):
        sys.exit("self-test: a clean tree is called faulty: " + str(check(good, rank, only)))
    for name, change in bad.items():
        if not check({**good, **change}, rank, only):
            sys.exit(f"self-test: fault not found: {name}")
    print(f"self-test: {len(bad)} kinds of fault found")


def main():
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(top, "tools/layers.txt"), encoding="utf-8") as f:
        rank, only = read_layers(f.read())
    if sys.argv[1:] == ["--self-test"]:
        self_test(rank, only)
        return
    listed = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    files = {}
    for path in listed:
        if path.endswith(SOURCE) and os.path.exists(os.path.join(top, path)):
            with open(os.path.join(top, path), encoding="utf-8", errors="replace") as f:
                files[path] = f.read()
    faults = check(files, rank, only)
    print("\n".join(faults) if faults else f"{len(files)} files in order")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
