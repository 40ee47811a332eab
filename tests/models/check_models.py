#!/usr/bin/env python3
"""Compares real models with ONNX Runtime: check_models.py TOOL [--class small,medium] [--seeds N] [--json FILE] [NAME...]

tools/models.py brings the models, scripts/venv.sh ONNX Runtime; without them the test says so and is skipped (77).  A model
runs on each of its sets of shapes: with open sizes and with declared ones, compiled cold and taken warm from the cache, on
1 and 2 threads, and interpreted (models that are not small on their smallest shapes alone).  Where open sizes decide about
ranks, runs with open sizes get plans for their shapes.  All compiled runs must give the same bits, and each run must be near to
ONNX Runtime: rtol 1e-3 and atol 1e-5 for floats, equality for all else; where sums cancel and floats are farther apart, they must be
that near to the model in double precision.  Models with a feedback run 20 steps.
"""
import argparse
import fnmatch
import functools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(TOP, "build", "models")
PYTHON = os.path.join(TOP, "build", "venv", "bin", "python")
RTOL, ATOL = 1e-3, 1e-5
QUANTISED = 2e-2  # of the range, for models that quantise activations as they come: ONNX Runtime itself moves by 0.5 to 0.8 % of
                  # the range when the inputs of ddddocr-old change by 1e-7
DOUBLE = {1: 11}  # TensorProto.FLOAT: what it becomes in the judge
STEPS = 20  # of a model with feedback
SKIPPED = 77

if not os.path.exists(os.path.join(MODELS, "models.tsv")) or not os.path.exists(PYTHON):
    print("skipped: tools/models.py brings the models and scripts/venv.sh ONNX Runtime, and one was not run")
    sys.exit(SKIPPED)
if os.path.realpath(sys.prefix) != os.path.realpath(os.path.join(TOP, "build", "venv")):
    os.execv(PYTHON, [PYTHON, *sys.argv])

import numpy as np  # noqa: E402: of the environment
import onnx  # noqa: E402
import onnx.reference  # noqa: E402
import onnxruntime  # noqa: E402

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(double)": np.float64}


class Fault(Exception):
    """What is wrong with a model's run."""


def make_inputs(session, shapes, seed):
    """{name: array} of a set of shapes (the form stands in tools/models.py)."""
    rng = np.random.default_rng(seed)
    made = {}
    for word in shapes.split():
        name, _, rest = word.partition("=")
        sizes, _, filling = rest.partition(":")
        shape = [int(size) for size in sizes.split("x")] if sizes else []
        wanted = [port for port in session.get_inputs() if fnmatch.fnmatchcase(port.name, name)]
        if not wanted:
            raise Fault(f"the model has no input '{name}'")
        for port in wanted:
            dtype = TYPES[port.type]
            if filling.startswith("="):
                value = np.full(shape, float(filling[1:]))
            elif filling:
                value = rng.integers(0, int(filling), shape)
            else:
                value = rng.uniform(-1, 1, shape)
            made[port.name] = np.asarray(value).astype(dtype)
    return made


class Tool:
    """Runs of one model by the tool, in a folder of its own with its own cache."""

    def __init__(self, tool, model, folder):
        self.tool, self.model, self.folder = tool, model, folder
        self.cache = os.path.join(folder, "cache")
        self.facts = {}

    def run(self, inputs, names, *options, declared=False):
        """Outputs in the order of names."""
        out = os.path.join(self.folder, "out")
        shutil.rmtree(out, ignore_errors=True)
        command = [self.tool, "run", self.model, "--json", "--output-dir", out, "--cache", self.cache, *options]
        for k, (name, array) in enumerate(inputs.items()):
            path = os.path.join(self.folder, f"in{k}.npy")
            np.save(path, array)
            command += ["--input", f"{name}={path}"]
            if declared:
                command += ["--shape", f"{name}=" + "x".join(map(str, array.shape))]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Fault(f"{' '.join(options)}: {done.stderr.strip()[-600:]} (exit status {done.returncode})")
        self.facts = json.loads(done.stdout)
        files = ["".join(c if c.isalnum() and c.isascii() or c in "-_." else "_" for c in name) for name in names]
        return [np.load(os.path.join(out, file + ".npy")) for file in files]


def widen(tensor):
    if tensor.data_type in DOUBLE:
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def judge(path, inputs):
    """Outputs of the model in double precision, by ONNX's reference evaluator: slow, and asked only where two results in single
    precision are farther apart than the tolerance, which sums that cancel can be."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        widen(tensor)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to":
                attribute.i = DOUBLE.get(attribute.i, attribute.i)
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        kind = value.type.tensor_type
        kind.elem_type = DOUBLE.get(kind.elem_type, kind.elem_type)
    wide = {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in inputs.items()}
    return onnx.reference.ReferenceEvaluator(model).run(None, wide)


def compare(got, wanted, names, what, path=None, judged=None):
    """Greatest error beyond none, in tolerances; raises beyond one.  judged: gives the outputs in double precision, which decide
    about floats that are too far from ONNX Runtime's."""
    if path and quantises(path):
        return compare_classes(got, wanted, names, what)
    try:
        return compare_all(got, wanted, names, what)
    except Fault as fault:
        if not judged:
            raise
        try:
            worst = compare_all(got, [array.astype(np.float32) if array.dtype == np.float64 else array for array in judged()],
                                names, what + " in double precision")
        except Fault:
            raise fault from None
        print(f"      {fault}; within the tolerance of the model in double precision", flush=True)
        return worst


def quantises(path):
    """True for a model that quantises activations as they come: a rounding that falls the other way, for sums in another order,
    moves a value by a step, so that no tolerance of single precision holds for what follows."""
    return any(node.op_type.startswith("DynamicQuantize") for node in onnx.load(path).graph.node)


def compare_classes(got, wanted, names, what):
    """Equal classes along the last axis wherever ONNX Runtime's best two are apart; values within QUANTISED of the range."""
    worst = 0.0
    for name, a, b in zip(names, got, wanted):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Fault(f"{what}: '{name}' is {a.dtype}{list(a.shape)}, ONNX Runtime gives {b.dtype}{list(b.shape)}")
        allowed = QUANTISED * float(np.abs(b).max())
        error = float(np.abs(a.astype(np.float64) - b).max())
        best = np.sort(b, axis=-1)[..., -2:]
        clear = best[..., -1] - best[..., 0] > 2 * allowed
        if not error <= allowed:
            raise Fault(f"{what}: '{name}' is {error} off ONNX Runtime's, allowed for a quantising model is {allowed}")
        if not np.array_equal(np.argmax(a, -1)[clear], np.argmax(b, -1)[clear]):
            raise Fault(f"{what}: '{name}' has other classes than ONNX Runtime's")
        worst = max(worst, error / allowed)
    return worst


def compare_all(got, wanted, names, what):
    worst = 0.0
    for name, a, b in zip(names, got, wanted):
        b = np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Fault(f"{what}: '{name}' is {a.dtype}{list(a.shape)}, ONNX Runtime gives {b.dtype}{list(b.shape)}")
        if a.dtype.kind != "f":
            if not np.array_equal(a, b):
                raise Fault(f"{what}: '{name}' differs in {np.count_nonzero(a != b)} of {a.size} elements")
            continue
        if not np.all(np.isfinite(b)):
            raise Fault(f"'{name}' of ONNX Runtime is not finite, so that it proves nothing")
        excess = np.abs(a.astype(np.float64) - b) / (ATOL + RTOL * np.abs(b.astype(np.float64)))
        if a.size and not np.all(excess <= 1):
            at = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), a.shape)
            raise Fault(f"{what}: '{name}'{list(map(int, at))} is {a[at]}, ONNX Runtime gives {b[at]}; "
                        f"{np.count_nonzero(~(excess <= 1))} of {a.size} are beyond the tolerance")
        worst = max(worst, float(excess.max()) if a.size else 0)
    return worst


def same_bits(a, b, names, what):
    for name, x, y in zip(names, a, b):
        if x.tobytes() != y.tobytes():
            raise Fault(f"'{name}': {what} give different bits ({np.count_nonzero(x != y)} of {x.size} elements)")


def check_feedback(session, run, inputs, feedback, names):
    """STEPS steps, each with the outputs of the one before as its state; on either side its own."""
    pairs = [pair.split(">") for pair in feedback.split(",")]
    ours, theirs = dict(inputs), dict(inputs)
    rng = np.random.default_rng(99)
    states = {name for _, name in pairs}
    worst = 0.0
    for step in range(STEPS):
        wanted = session.run(None, theirs)
        got = run(ours, names, "--fail-on-compile")
        worst = max(worst, compare(got, wanted, names, f"step {step}"))
        for output, name in pairs:
            ours[name], theirs[name] = got[names.index(output)], wanted[names.index(output)]
        for name, array in inputs.items():
            if name not in states and array.dtype == np.float32:
                ours[name] = theirs[name] = rng.uniform(-1, 1, array.shape).astype(np.float32)
    return worst


def check_plan(tool, inputs, wanted, judged, names, declared, times):
    """Outputs of a plan for open or declared sizes: compiled on two threads, warm on one, the same bits."""
    what = "declared" if declared else "open"
    cold = tool.run(inputs, names, "--threads", "2", declared=declared)
    times[what], times["kernels"] = tool.facts["compile_ms"], tool.facts["kernels"]
    times["error"] = max(times.get("error", 0), compare(cold, wanted, names, what + " sizes", tool.model, judged))
    warm = tool.run(inputs, names, "--threads", "1", "--fail-on-compile", declared=declared)
    same_bits(cold, warm, names, f"{what} sizes compiled on 2 threads and warm on 1")
    return cold


def check_set(session, tool, shapes, seeds, interpreted, feedback):
    """One set of shapes; what was measured."""
    names = [port.name for port in session.get_outputs()]
    inputs = make_inputs(session, shapes, 0)
    wanted = session.run(None, inputs)
    judged = functools.cache(lambda: judge(tool.model, inputs))
    times = {"shapes": shapes}
    general = check_plan(tool, inputs, wanted, judged, names, False, times)
    same_bits(general, check_plan(tool, inputs, wanted, judged, names, True, times), names, "open and declared sizes")
    errors = [compare(tool.run(more, names, "--fail-on-compile"), session.run(None, more), names, f"seed {seed}", tool.model,
                      lambda more=more: judge(tool.model, more))
              for seed in range(1, seeds) for more in [make_inputs(session, shapes, seed)]]
    if feedback:
        errors.append(check_feedback(session, tool.run, inputs, feedback, names))
    if interpreted:
        errors.append(compare(tool.run(inputs, names, "--interpret"), wanted, names, "interpreted", tool.model, judged))
    times["error"] = max([times["error"], *errors])
    return times


def input_elements(shapes):
    sizes = [word.partition("=")[2].partition(":")[0] for word in shapes.split()]
    return sum(math.prod(int(size) for size in text.split("x")) for text in sizes if text)


def check_model(options, name, weight, feedback, sets):
    path = os.path.join(MODELS, name + ".onnx")
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    report = []
    every = sets.split(" | ")
    for shapes in every:
        with tempfile.TemporaryDirectory() as folder:
            tool = Tool(os.path.abspath(options.tool), path, folder)
            interpreted = weight == "small" or shapes is min(every, key=input_elements)
            report.append(check_set(session, tool, shapes, options.seeds, interpreted, feedback))
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--class", dest="classes", default="small,medium,large", help="weight classes of tools/models.py")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write what was measured")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    with open(os.path.join(MODELS, "models.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    rows = [row for row in rows if (row[0] in options.names if options.names else row[1] in options.classes.split(","))]
    if not rows:
        print("skipped: none of these models is in build/models")
        sys.exit(SKIPPED)
    failed, measured = 0, {}
    for name, weight, feedback, sets in rows:
        try:
            measured[name] = check_model(options, name, weight, feedback, sets)
            text = "; ".join(f"compiled in {r['declared']:.0f} ms for declared sizes, " +
                             f"{r['open']:.0f} for open ones, " +
                             f"{r['kernels']} kernels, error {r['error']:.3f} of the tolerance" for r in measured[name])
            print(f"ok    {name}: {text}", flush=True)
        except Fault as fault:
            failed += 1
            print(f"FAIL  {name}: {fault}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(measured, f, indent=1)
    print(f"{len(rows) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
