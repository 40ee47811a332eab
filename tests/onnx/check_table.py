"""check_table.py OPERATORS SPEC PYTHON: the operator table against the standard's schemas.

OPERATORS prints the table (`operators --tsv`), PYTHON has the package onnx (package_schemas.py), SPEC is the folder of ops.tsv
and typesets.tsv, which has legacy operators too.  Every row of the four domains must be there with the same number, names,
types and options of inputs and outputs, the same attributes with kinds and defaults, and no other row (where SPEC is not
there: rows that the package lacks are not compared).  Sequences, optionals and maps are compared by kind only.  Exit status
77: no such PYTHON."""

import json
import pathlib
import re
import subprocess
import sys

CONTRIB = "com.microsoft"  # of ONNX Runtime: only what the table has
DOMAINS = ("ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
KINDS = {"int64": "i", "float32": "f", "string": "s", "tensor": "t", "graph": "g", "type_proto": "type",
         "sparse_tensor": "sparse", "int64[]": "ints", "float32[]": "floats", "string[]": "strings"}
OPTIONS = {"s": "", "o": "?", "v": "*", "h": "**"}


def kind_of(word):
    """A type as the table names it: f32, seq, optseq, opt, map."""
    if word.startswith("opt<seq<"):
        return "optseq"
    return re.sub(r"<.*", "", word)


def spec_rows(folder):
    sets = {}
    for line in (folder / "typesets.tsv").read_text().splitlines()[1:]:
        name, _, words = line.split("\t")
        sets[name] = words.split(",")
    for line in (folder / "ops.tsv").read_text().splitlines()[1:]:
        cell = line.split("\t")
        if cell[0] not in (*DOMAINS, CONTRIB):
            continue
        types = {}
        for item in cell[11].split(" ") if cell[11] != "-" else []:
            name, words = item.split("=", 1)
            words = sets[words] if words.startswith("#") else re.findall(r"(?:[^,<]|<[^>]*>+)+", words)
            types[name] = frozenset(map(kind_of, words))
        row = {"status": cell[3]}
        for name, text in (("in", cell[8]), ("out", cell[9])):
            row[name] = [(n.rstrip("."), types.get(t, t), OPTIONS[o])
                         for n, t, o in (x.rsplit(":", 2) for x in text.split(" ") if x != "-")]
        row["attributes"] = {}
        for text in cell[10].split(" ") if cell[10] != "-" else []:
            name, kind, required, default = text.split(":", 3)
            value = None if default == "-" else json.loads(default)
            row["attributes"][name] = (KINDS[kind], required == "R", value)
        yield (cell[0], cell[1], int(cell[2])), row


def package_rows(python):
    """As spec_rows, out of the package."""
    script = pathlib.Path(__file__).with_name("package_schemas.py")
    printed = subprocess.run([python, script], check=True, capture_output=True, text=True).stdout
    for key, row in json.loads(printed).items():
        domain, name, since = key.split()
        for side in ("in", "out"):
            row[side] = [(n, types if isinstance(types, str) else frozenset(types), option) for n, types, option in row[side]]
        row["attributes"] = {n: tuple(x) for n, x in row["attributes"].items()}
        yield (domain, name, int(since)), row


def value_of(kind, text):
    if kind == "i":
        return int(text)
    if kind == "f":
        return float(text)
    if kind == "s":
        return text
    return [value_of(kind[0], x) for x in text.split(",")] if text else []


def table_rows(program):
    for line in subprocess.run([program, "--tsv"], check=True, capture_output=True, text=True).stdout.splitlines():
        cell = line.split("\t")
        domain, name, since, how, signature, attributes, types = cell
        types = {n: frozenset(s.split("+")[1:]) for n, s in (x.split("=", 1) for x in types.split())}
        row = {"status": how}
        for side, text in zip(("in", "out"), signature.split("->")):
            row[side] = [(n, types.get(t, t), o) for n, t, o in re.findall(r"(\w+):(\w+)([?*]*)", text)]
        row["attributes"] = {}
        for text in attributes.split():
            n, kind, mark, default = re.fullmatch(r"(\w+):(\w+)([?=]?)(.*)", text).groups()
            row["attributes"][n] = (kind, mark == "", value_of(kind, default) if mark == "=" else None)
        yield (domain, name, int(since)), row


def close(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and abs(a - b) <= 1e-6 * abs(b)
    return a == b


def differences(own, spec):
    """Removed operators keep no signature of their own."""
    if own["status"] == "gone":
        if spec["status"] != "deprecated":
            yield f"status {own['status']}, the standard says {spec['status']}"
        return
    for side in ("in", "out"):
        if own[side] != spec[side]:
            yield f"{side}puts {own[side]}, the standard says {spec[side]}"
    for name in sorted(own["attributes"].keys() | spec["attributes"].keys()):
        a, b = own["attributes"].get(name), spec["attributes"].get(name)
        if a is None or b is None or a[:2] != b[:2] or not close(a[2], b[2]):
            yield f"attribute {name} {a}, the standard says {b}"


def main(program, folder, python):
    folder = pathlib.Path(folder)
    if not pathlib.Path(python).exists():
        print(f"skipped: no {python} (scripts/venv.sh makes it)")
        return 77
    package, own = dict(package_rows(python)), dict(table_rows(program))
    if (folder / "ops.tsv").exists():
        spec = dict(spec_rows(folder)) | package
    else:
        spec = package
        own = {key: row for key, row in own.items() if key in package}
    spec = {key: row for key, row in spec.items() if key[0] in DOMAINS or key in own}
    bad = 0
    for key in sorted(spec.keys() | own.keys()):
        name = f"{key[0]} {key[1]}-{key[2]}"
        if key not in own or key not in spec:
            found = [f"is not in the {'table' if key not in own else 'standard'}"]
        else:
            found = list(differences(own[key], spec[key]))
        for text in found:
            print(f"{name}: {text}")
        bad += bool(found)
    print(f"{len(spec)} rows, {bad} differ")
    return 1 if bad or len(spec) < 659 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
