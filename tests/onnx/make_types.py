#!/usr/bin/env python3
"""A case of each operator version and type that the table says runs: make_types.py FOLDER OPERATORS

OPERATORS prints the table (`operators --tsv`). For each version of an operator a seed, an official case of the package onnx or
one of cases.txt, is rewritten to that version: inputs that were attributes go back, newer attributes that have their default
are left out, and values take each type a variable may have. What is expected comes from the package's reference on the seed's
own version (in f32 where numpy has not the type), or, where there is none, from the seed's values if the type holds all of
them. The nodes of a version stand in one model, FOLDER/types/OPERATOR_VERSION; those of f16 and bf16 in another each, with
the tolerance of one or two units in the last place (data.json). Prints what has no case with -v.
"""
import collections
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as node_cases
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).parent
CODES = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "str": 8, "b1": 9, "f16": 10, "f64": 11, "u32": 12,
         "u64": 13, "c64": 14, "c128": 15, "bf16": 16, "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20,
         "u4": 21, "i4": 22, "f4e2m1": 23, "f8e8m0": 24, "u2": 25, "i2": 26, "f6e2m3": 27, "f6e3m2": 28}
NAMES = {code: name for name, code in CODES.items()}
DTYPES = {name: helper.tensor_dtype_to_np_dtype(code) for name, code in CODES.items()}
INTS = {"u2": (0, 3), "i2": (-2, 1), "u4": (0, 15), "i4": (-8, 7)} | {
    f"{sign}{bits}": (0, 60) if sign == "u" else (-60, 60) for sign in "ui" for bits in (8, 16, 32, 64)}
TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype")
RTOL = {"f16": 2e-3, "bf16": 2**-7}  # one or two units in the last place; everything else: the runner's own
SATURATING = ("QLinearConv", "QLinearMatMul", "QuantizeLinear")  # results are of the type, not only values
RECURRENT = ("GRU", "LSTM", "RNN")  # round at each step
PORTS = 120  # inputs of a model
LARGEST = 4096  # elements of an input of a seed
DRAWN = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
GRAPHS = ("FlexAttention", "If", "Loop", "Scan", "SequenceMap")  # types inside of attributes change with those outside
COUPLED = ("CategoryMapper", "DictVectorizer", "Imputer", "LabelEncoder", "OneHotEncoder", "TreeEnsemble")  # to attributes
POSITIVE = ("Cast", "CastLike", "ReduceLogSum", "ReduceLogSumExp")  # of others the standard says nothing
OLD_MEANING = {("RoiAlign", "coordinate_transformation_mode"): "output_half_pixel"}  # of a newer attribute's absence

Row = collections.namedtuple("Row", "domain name since ins outs attributes types newest")
Seed = collections.namedtuple("Seed", "name node opset ins outs constant")
Case = collections.namedtuple("Case", "nodes ins outs types constant")  # ins, outs: name -> array; constant: names of ins


def read_rows(program):
    rows, last = {}, None
    for line in subprocess.run([program, "--tsv"], check=True, capture_output=True, text=True).stdout.splitlines():
        domain, name, since, state, signature, attributes, types = line.split("\t")
        sides = [re.findall(r"(\w+):(\w+)([?*]*)", side) for side in signature.split("->")]
        defaults = {n: (kind, mark, text) for n, kind, mark, text in
                    (re.fullmatch(r"(\w+):(\w+)([?=]?)(.*)", a).groups() for a in attributes.split())}
        row = Row(domain, name, int(since), *sides, defaults,
                  {n: s.split("+")[1:] for n, s in (t.split("=", 1) for t in types.split())}, last != (domain, name))
        last = (domain, name)
        if state == "runs":
            rows.setdefault((domain, name), []).append(row)
    return rows


def row_at(rows, opset):
    return next((row for row in rows if row.since <= opset), None)


def type_of(array):
    return NAMES[helper.np_dtype_to_tensor_dtype(array.dtype)]


class Unfit(Exception):
    """A seed that does not give that case."""


# --- seeds ---------------------------------------------------------------------------------------------------------------


def official_seeds():
    np.random.seed(0)
    for case in node_cases.collect_testcases():
        graph = case.model.graph
        ins, outs = case.data_sets[0]
        ins, outs = ([numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in side] for side in (ins, outs))
        if graph.node[0].op_type in DRAWN or graph.node[0].op_type in GRAPHS:
            continue
        tensors = all(isinstance(x, (np.ndarray, np.generic)) for x in [*ins, *outs])
        if len(graph.node) != 1 or not tensors or any(np.size(x) > LARGEST for x in ins):
            continue
        node = graph.node[0]
        opsets = {o.domain or "ai.onnx": o.version for o in case.model.opset_import}
        named = {i.name: np.asarray(x) for i, x in zip(graph.input, ins)}
        yield Seed(case.name, node, opsets[node.domain or "ai.onnx"], [named.get(n) for n in node.input],
                   [np.asarray(dict(zip((o.name for o in graph.output), outs)).get(n)) for n in node.output if n], ())


def written_attribute(text):
    name, kind, value = re.fullmatch(r"(\w+):(\w+)=(.*)", text).groups()
    convert = {"i": int, "f": float, "s": str}[kind[0]]
    if len(kind) == 1:
        return name, convert(value)
    return name, [convert(v) for v in value.split(",")] if value else []


def written_tensor(text):
    kind, shape, numbers = re.fullmatch(r"(\w+)\[([\d, ]*)\] ?(.*)", text).groups()
    shape = [int(n) for n in shape.split(",")] if shape else []
    if kind == "str":
        return np.array(re.findall(r'"([^"]*)"', numbers), dtype=object).reshape(shape)
    return np.array([float(x) for x in numbers.split()], np.float64).astype(DTYPES[kind]).reshape(shape)


def written_seeds():
    for block in (HERE / "cases.txt").read_text(encoding="utf-8").split("\ncase ")[1:]:
        head, *lines = [line.strip() for line in block.splitlines() if line and not line.startswith("#")]
        domain, op, version, *attributes = head.split()
        if any(line.startswith("error") for line in lines):
            continue
        ins, outs, constant = [], [], []
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "const":
                constant.append(len(ins))
            if word == "out":
                outs.append(written_tensor(rest))
            else:
                ins.append(None if word == "none" else written_tensor(rest))
        node = helper.make_node(op, [f"i{k}" if x is not None else "" for k, x in enumerate(ins)],
                                [f"o{k}" for k in range(len(outs))], domain="" if domain == "ai.onnx" else domain,
                                **dict(map(written_attribute, attributes)))
        seed = Seed(f"cases.txt {op} {version}", node, int(version), ins, outs, tuple(constant))
        if not contradicted(seed):
            yield seed


# --- values --------------------------------------------------------------------------------------------------------------


def is_float(kind):
    return kind[0] in "fb" and kind != "b1"


def cast(array, kind):
    """Values of the seed in another type, kept apart and inside of what the type holds."""
    own = type_of(array)
    if own == kind:
        return array
    if kind == "str":
        return np.array([f"{x:g}" for x in np.ravel(array).astype(np.float64)], dtype=object).reshape(array.shape)
    if own == "str":
        array = np.arange(array.size, dtype=np.float64).reshape(array.shape) - array.size // 2
        own = "f64"
    if own in ("c64", "c128"):
        array = array.real
    wide = array.astype(np.float64)
    if kind == "b1":
        return wide > 0
    if kind in ("c64", "c128"):
        return (wide + 1j * np.roll(wide, 1)).astype(DTYPES[kind])
    if kind in INTS:
        low, high = INTS[kind]
        if is_float(own) and np.any(wide != np.rint(wide)):
            wide = np.rint(4 * wide)
        return np.clip(np.nan_to_num(wide), low, high).astype(DTYPES[kind])
    if kind == "f8e8m0":
        return (2.0 ** np.clip(np.rint(np.nan_to_num(wide)), -3, 3)).astype(DTYPES[kind])
    return np.clip(wide, -1e4, 1e4).astype(DTYPES[kind]) if kind in ("f16", "bf16") else wide.astype(DTYPES[kind])


def widened(array):
    """What numpy can compute with."""
    if array is None:
        return None
    kind = type_of(array)
    if is_float(kind) and kind not in ("f32", "f64"):
        return array.astype(np.float32)
    return array.astype(np.int8 if kind[0] == "i" else np.uint8) if kind in ("u2", "i2", "u4", "i4") else array


def narrowed(array, kind):
    array = np.asarray(array)
    if kind == "str":
        if array.dtype.kind not in "OUS" or not all(isinstance(x, (str, np.str_)) for x in array.flat):
            raise Unfit("no strings")
        return array.astype(object)
    if kind in INTS and array.dtype.kind in "iu" and array.size:
        low, high = {"u2": (0, 3), "i2": (-2, 1), "u4": (0, 15), "i4": (-8, 7)}.get(kind, (array.min(), array.max()))
        if array.min() < low or array.max() > high:
            raise ValueError("does not fit")
    return array.astype(DTYPES[kind])


def make_model(node, ins, outs, opset, constant=()):
    """Inputs, or initializers where they are constant; outputs of the types given."""
    def info(name, array):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    graph = helper.make_graph(
        [node], "types", [info(n, x) for k, (n, x) in enumerate(zip(node.input, ins)) if n and k not in constant],
        [info(n, x) for n, x in zip([n for n in node.output if n], outs)],
        [numpy_helper.from_array(ins[k], node.input[k]) for k in constant])
    return helper.make_model(graph, opset_imports=opset, ir_version=onnx.IR_VERSION)


def has_schema(row):
    return row.domain != "com.microsoft" and onnx.defs.has(row.name, row.since, "" if row.domain == "ai.onnx" else row.domain)


def opsets(domain, version):
    own = "" if domain == "ai.onnx" else domain
    return [helper.make_operatorsetid(own, version)] + ([helper.make_operatorsetid("", 28)] if own else [])


def reference(seed, node, ins):
    """The outputs of a node of the seed's version."""
    domain = node.domain or "ai.onnx"
    graph = helper.make_graph([node], "types", [helper.make_tensor_value_info(n, 1, None) for n in node.input if n],
                              [helper.make_tensor_value_info(n, 1, None) for n in node.output if n])
    model = helper.make_model(graph, opset_imports=opsets(domain, seed.opset))
    return ReferenceEvaluator(model).run(None, {n: x for n, x in zip(node.input, ins) if n})


def contradicted(seed):
    """True if the reference gives other extents than the standard's text, as a Slice that begins before a negative step."""
    try:
        results = reference(seed, seed.node, [widened(x) for x in seed.ins])
    except Exception:  # it lacks the operator, or numpy the type
        return False
    return any(np.shape(y) != np.shape(own) for y, own in zip(results, seed.outs))


def quantized(ins, kind):
    """By one scale, to floats that have no reference."""
    if any(x is not None and x.size != 1 for x in ins[1:]):
        raise Unfit("more than one scale")
    y = ins[0] / ins[1] + (ins[2] if len(ins) > 2 and ins[2] is not None else 0)
    largest = float(ml_dtypes.finfo(DTYPES[kind]).max)
    return np.clip(y, -largest, largest)


# --- rewriting -----------------------------------------------------------------------------------------------------------


def formal_at(formals, k):
    if k < len(formals):
        return formals[k]
    if formals and "*" in formals[-1][2]:
        return formals[-1]
    raise Unfit("more operands than the version has")


def default_of(row, name):
    kind, mark, text = row.attributes.get(name, ("", "", ""))
    return text if mark == "=" else None


def rewrite(seed, seed_row, row):
    """The seed's node as one of row: (attributes, operands left)."""
    attributes = {a.name: helper.get_attribute_value(a) for a in seed.node.attribute}
    ins = list(seed.ins)
    if seed_row.since < row.since:
        raise Unfit("older than the version")
    for k in range(len(ins) - 1, -1, -1):
        name = formal_at(seed_row.ins, k)[0]
        if name in row.attributes and name not in [f[0] for f in row.ins]:
            if ins[k] is not None:
                kind = row.attributes[name][0]
                value = np.ravel(ins[k]).tolist()
                attributes[name] = value if len(kind) > 1 else value[0]
            if k != len(ins) - 1:
                raise Unfit("an attribute between operands")
            ins.pop()
    for name, value in list(attributes.items()):
        if name in row.attributes:
            continue
        value = value.decode() if isinstance(value, bytes) else value
        absent = OLD_MEANING.get((row.name, name), default_of(seed_row, name))
        if (f"{value:g}" if isinstance(value, (int, float)) else str(value)) != absent:
            raise Unfit(f"attribute {name} is newer")
        del attributes[name]
    for (op, name), meaning in OLD_MEANING.items():
        if op == row.name and name not in row.attributes and name in seed_row.attributes and meaning != default_of(
                seed_row, name) and name not in [a.name for a in seed.node.attribute]:
            raise Unfit(f"attribute {name} is newer")
    if row.name == "PRelu" and row.since < 7 and ins[1].size > 1 and ins[1].shape != ins[0].shape:
        raise Unfit("the slope is broadcast")
    return attributes, ins


def kinds_of(row, ins, variable, kind):
    """The type of each variable: that of the seed's operand, the first that is allowed, or the one that is asked for."""
    kinds = {}
    for k, x in enumerate(ins):
        if x is not None:
            name, own = formal_at(row.ins, k)[1], type_of(x)
            allowed = row.types.get(name, [name])
            kinds.setdefault(name, own if own in allowed else next(t for t in ("f32", "i64", *allowed) if t in allowed))
    kinds[variable] = kind
    if row.name == "BitCast":
        kinds["T1"] = kind
    return kinds


def output_kinds(seed, row, given, attributes):
    """Position -> what the standard's inference says comes out."""
    node = helper.make_node(row.name, seed.node.input[:len(given)], seed.node.output, domain=seed.node.domain, **attributes)
    if not has_schema(row):
        return {}
    names = [n for n in node.output if n]
    graph = helper.make_graph([node], "types", [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(node.input, given) if n and x is not None], [onnx.ValueInfoProto(name=n) for n in names])
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets(row.domain, row.since)))
    kinds = {o.name: NAMES.get(o.type.tensor_type.elem_type) for o in model.graph.output}
    return {k: kinds.get(n) for k, n in enumerate(node.output)}


def refuse(row, seed, attributes, variable, kind):
    """What would ask for more than the type."""
    whole = kind in INTS
    if row.name == "Mod" and row.since < 28 and is_float(kind) and not attributes.get("fmod"):
        raise Unfit("fmod 0")
    if row.name.startswith("Scatter") and attributes.get("reduction", b"none") != b"none" and not is_float(kind):
        raise Unfit("a reduction")
    if row.name == "Split" and row.since == 1 and len(seed.ins) > 1:
        raise Unfit("sizes of the elements' type")
    if row.name in ("BlackmanWindow", "GridSample") and whole or row.name == "Attention" and variable == "U" and whole:
        raise Unfit("the reference is right up to the last bit")
    if row.name in ("Cast", "CastLike") and variable == "T2" and kind == "str":
        raise Unfit("numbers have more than one text")
    if row.name in ("Cast", "CastLike") and attributes.get("to") in (8, b"STRING"):
        raise Unfit("numbers have more than one text")
    if row.name in ("Resize", "GridSample", "Col2Im", "NonZero", "Unique") and kind in ("c64", "c128"):
        raise Unfit("the reference takes no complex numbers, or we do not")
    if row.name == "Cast" and kind[0] == "u" and any(x is not None and type_of(x) == "str" for x in seed.ins):
        raise Unfit("texts of negative numbers")
    if row.name == "Col2Im" and kind in ("b1", "str"):
        raise Unfit("not supported: sums of strings and truth values")
    if row.name.startswith("QLinear") and is_float(kind) and kind.startswith("f8"):
        raise Unfit("not supported: 8-bit floats")
    if row.name.startswith("ReduceLog") and whole and any(x is not None and x.size == 0 for x in seed.ins):
        raise Unfit("the logarithm of 0")
    if row.name == "LayerNormalization" and row.since == 1 and "f64" in (kind, type_of(seed.ins[0])) and len(seed.outs) > 1:
        raise Unfit("the standard does not have it")


def derive(seed, seed_row, row, variable, kind):
    attributes, ins = rewrite(seed, seed_row, row)
    kinds = kinds_of(row, ins, variable, kind)
    refuse(row, seed, attributes, variable, kind)
    if row.name in COUPLED and any(kinds[formal_at(row.ins, k)[1]] != type_of(x) for k, x in enumerate(ins) if x is not None
                                   and formal_at(row.ins, k)[1] in kinds):
        raise Unfit("attributes are of its types")
    floats = is_float(kind) or kind in ("c64", "c128", "b1", "str")
    if row.name in POSITIVE:
        ins = [x if x is None or type_of(x) in ("b1", "str") else np.clip(np.abs(widened(x)) + (0 if floats else 1), 1, 3 if row.name.startswith("R") else 1) for x in ins]
    if row.name == "Erf" and not floats:
        ins = [np.clip(ins[0] / 4, -0.7, 0.7)]
    used = {formal_at(row.ins, k)[1] for k, x in enumerate(ins) if x is not None}
    given = [None if x is None else cast(x, kinds.get(formal_at(row.ins, k)[1], formal_at(row.ins, k)[1]))
             for k, x in enumerate(ins)]
    if row.name in ("Div", "Mod") and kind in INTS:
        given[1] = np.where(given[1] == 0, 1, given[1]).astype(given[1].dtype)
    asked = next((a for a in TYPE_ATTRIBUTES if a in row.attributes), None)
    if variable not in used:
        if asked:
            attributes[asked] = CODES[kind] if row.attributes[asked][0] == "i" else next(
                name for name, code in TensorProto.DataType.items() if code == CODES[kind])
        else:
            del kinds[variable]  # what comes out decides
    if row.name == "BitCast":
        attributes["to"] = CODES[kind]
    newer = {a.name: helper.get_attribute_value(a) for a in seed.node.attribute}  # as the seed's version has them
    if variable not in used and asked:
        newer[asked] = CODES["f32" if is_float(kind) and kind != "f64" else kind]
    own = helper.make_node(seed.node.op_type, seed.node.input, seed.node.output, domain=seed.node.domain, **newer)
    full = [widened(x) for x in given] + seed.ins[len(given):]
    if row.domain == "ai.onnx.ml":  # which computes in f32
        full = [x if x is None or x.dtype.kind not in "iuf" else x.astype(np.float32) for x in full]
    lossless = all(x is None or np.array_equal(widened(x).astype(object) if type_of(x) == "str" else widened(x), y,
                                                equal_nan=y.dtype.kind == "f")
                   for x, y in zip(given, seed.ins)) and row.name not in SATURATING
    own_values = lossless and (row.name in DRAWN or row.domain == "ai.onnx.ml" and all(
        kinds.get(formal_at(row.outs, k)[1], type_of(y)) == type_of(y) for k, y in enumerate(seed.outs)))
    if row.name in DRAWN and not own_values:
        raise Unfit("the type does not hold the seed's values")
    try:
        results = seed.outs if own_values else [given[0]] if row.name == "BitCast" else [quantized(full, kind)] if row.name == "QuantizeLinear" and is_float(kind) and variable == "T3" else reference(
            seed, own, full)
        if any(not isinstance(y, (np.ndarray, np.generic)) for y in results):
            raise Unfit("no tensors")
    except Unfit:
        raise
    except Exception as error:  # the reference lacks the operator, or numpy the type
        if not lossless or variable not in used and asked:
            raise Unfit(f"no reference: {error}") from error
        results = seed.outs
    outs = []
    position = [k for k, n in enumerate(seed.node.output) if n]
    declared = output_kinds(seed, row, given, attributes)
    for k, y in zip(position, results):
        name = formal_at(row.outs, k)[1]
        to = kinds.get(name, name)
        if name not in kinds and name in row.types:
            to = declared.get(k) or type_of(np.asarray(y))
            if to not in row.types[name]:
                raise Unfit(f"gives {to}")
        y = np.asarray(y)
        if to in INTS and y.dtype.kind == "f" and np.any((y != np.rint(y)) & (np.abs(y - np.rint(y)) < 1e-4)):
            raise Unfit("hardly whole numbers")
        if is_float(to) and y.dtype.kind == "f" and to not in ("f32", "f64") and np.any(np.abs(y) > 1e4):
            raise Unfit("large values")
        outs.append(narrowed(y, to))
    if variable not in used and not asked and kind not in (
            type_of(y) for k, y in zip(position, outs) if formal_at(row.outs, k)[1] == variable):
        raise Unfit("the type is of no operand")
    n_in = max((k + 1 for k, x in enumerate(given) if x is not None), default=0)
    given = given[:n_in]
    node = helper.make_node(row.name, [f"i{k}" if x is not None else "" for k, x in enumerate(given)],
                            [n and f"o{k}" for k, n in enumerate(seed.node.output)],
                            domain="" if row.domain == "ai.onnx" else row.domain, **attributes)
    if has_schema(row) and not onnx.defs.get_schema(row.name, row.since, node.domain).deprecated:
        onnx.checker.check_model(make_model(node, given, outs, opsets(row.domain, row.since), seed.constant))
    return Case([node], {n: x for n, x in zip(node.input, given) if n},
                dict(zip([n for n in node.output if n], outs)), (variable, kind),
                [node.input[k] for k in seed.constant if k < n_in])


# --- writing -------------------------------------------------------------------------------------------------------------


def write_bundle(folder, row, cases, rtol):
    nodes, inputs, outputs, constants, files = [], [], [], [], {}
    for number, case in enumerate(cases):
        for given in case.nodes:
            node = onnx.NodeProto()
            node.CopyFrom(given)
            for branch in (a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH):
                for inner in branch.node:
                    inner.input[:] = [n.format(number) for n in inner.input]
            node.name = "_".join(case.types)
            for names in (node.input, node.output):
                for k, name in enumerate(names):
                    names[k] = name and f"n{number}{name}"
            nodes.append(node)
        for name, x in case.ins.items():
            tensor = numpy_helper.from_array(x, f"n{number}{name}")
            if name in case.constant:
                constants.append(tensor)
            else:
                files[f"input_{len(inputs)}.pb"] = tensor
                inputs.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, x.shape))
        for name, y in case.outs.items():
            tensor = numpy_helper.from_array(y, f"n{number}{name}")
            files[f"output_{len(outputs)}.pb"] = tensor
            outputs.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, y.shape))
    graph = helper.make_graph(nodes, folder.name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=opsets(row.domain, row.since), ir_version=onnx.IR_VERSION)
    (folder / "test_data_set_0").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    if rtol:
        (folder / "data.json").write_text(json.dumps({"rtol": rtol}), encoding="utf-8")
    for name, tensor in files.items():
        (folder / "test_data_set_0" / name).write_bytes(tensor.SerializeToString())


def small(kind):
    """Two values of any type."""
    return cast(np.array([1.0, 2.0], np.float32), kind)


def built_case(row, variable, kind):
    """Control flow, constants, sequences and optionals: nodes whose types are inside of attributes, or no tensors."""
    x, name = small(kind), row.name
    code = helper.np_dtype_to_tensor_dtype(x.dtype)
    node, info = helper.make_node, helper.make_tensor_value_info
    true, scalar = np.array(True), np.array(1, np.int64)

    def same(a, b):
        return node("Identity", [a], [b])

    def case(nodes, ins, outs, constant=()):
        return Case(nodes, ins, outs, (variable, kind), constant)

    if name == "If":
        branch = helper.make_graph([node("Identity", ["n{}x"], ["y"])], "branch", [], [info("y", code, [2])])
        return case([node(name, ["c"], ["o"], then_branch=branch, else_branch=branch)], {"c": true, "x": x}, {"o": x})
    if name == "Loop":
        body = helper.make_graph([same("a", "b"), same("v", "w"), same("v", "s")], "body",
                                 [info("i", 7, []), info("a", 9, []), info("v", code, [2])],
                                 [info("b", 9, []), info("w", code, [2]), info("s", code, [2])])
        return case([node(name, ["m", "c", "x"], ["o", "p"], body=body)], {"m": np.array(3, np.int64), "c": true, "x": x},
                    {"o": x, "p": np.stack([x, x, x])})
    if name == "Scan" and row.since > 8:
        body = helper.make_graph([same("v", "w"), same("e", "s")], "body", [info("v", code, [2]), info("e", code, [])],
                                 [info("w", code, [2]), info("s", code, [])])
        return case([node(name, ["x", "z"], ["o", "p"], body=body, num_scan_inputs=1)], {"x": x, "z": x[::-1].copy()},
                    {"o": x, "p": x[::-1].copy()})
    if name == "Constant" and "value" in row.attributes:
        return case([node(name, [], ["o"], value=numpy_helper.from_array(x))], {}, {"o": x})
    if name == "ConstantOfShape" and variable == "T2":
        return case([node(name, ["n"], ["o"], value=numpy_helper.from_array(x[1:]))], {"n": np.array([2], np.int64)},
                    {"o": np.array([x[1], x[1]], x.dtype)}, ("n",))
    if name in ("SequenceConstruct", "SequenceAt", "SequenceInsert", "ConcatFromSequence") and kind in row.types["T"]:
        nodes = [node("SequenceConstruct", ["x", "y"], ["s"])]
        if name == "ConcatFromSequence":
            return case([*nodes, node(name, ["s"], ["o"], axis=0)], {"x": x, "y": x}, {"o": np.concatenate([x, x])})
        if name == "SequenceInsert":
            nodes.append(node(name, ["s", "x", "k"], ["t"]))
        last = "t" if name == "SequenceInsert" else "s"
        return case([*nodes, node("SequenceAt", [last, "k"], ["o"])], {"x": x, "y": x, "k": scalar}, {"o": x}, ("k",))
    if name == "SplitToSequence" and variable == "T":
        return case([node(name, ["x"], ["s"]), node("SequenceAt", ["s", "k"], ["o"])], {"x": x, "k": scalar}, {"o": x[1:]}, ("k",))
    if name in ("Optional", "OptionalGetElement"):
        return case([node("Optional", ["x"], ["e"]), node("OptionalGetElement", ["e"], ["o"])], {"x": x}, {"o": x})
    raise Unfit("no seed")


def cases_of(row, rows, seeds, verbose):
    for variable, kinds in row.types.items():
        for kind in kinds:
            if kind not in CODES:
                continue
            why = "no seed"
            try:
                yield built_case(row, variable, kind)
                continue
            except Unfit:
                pass
            for seed, seed_row in seeds:
                try:
                    yield derive(seed, seed_row, row, variable, kind)
                    break
                except Unfit as error:
                    why = f"{seed.name}: {error}"
                except Exception as error:
                    why = f"{seed.name}: {type(error).__name__} {str(error)[:200]}"
            else:
                if verbose:
                    print(f"{row.domain} {row.name} {row.since} {variable}={kind}: {why}".replace("\n", " "))


def stamp(program):
    text = subprocess.run([program, "--tsv"], check=True, capture_output=True, text=True).stdout
    parts = [text.encode(), pathlib.Path(__file__).read_bytes(), (HERE / "cases.txt").read_bytes()]
    return f"onnx {onnx.__version__}, numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}, {hashlib.sha256(b''.join(parts)).hexdigest()}\n"


def main():
    folder, program, verbose = pathlib.Path(sys.argv[1]), sys.argv[2], "-v" in sys.argv
    done = folder.with_name(folder.name + ".done")
    if done.exists() and done.read_text(encoding="utf-8") == stamp(program):
        return
    done.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    warnings.simplefilter("ignore")
    table = read_rows(program)
    by_op = collections.defaultdict(list)
    for seed in [*official_seeds(), *written_seeds()]:
        key = (seed.node.domain or "ai.onnx", seed.node.op_type)
        row = row_at(table.get(key, []), seed.opset)
        if row:
            by_op[key].append((seed, row))
    written = 0
    for key, rows in table.items():
        for row in rows:
            seeds = sorted(by_op[key], key=lambda s: (any(x is not None and x.size == 0 for x in s[0].ins), s[1].since != row.since, s[1].since,
                                                      sum(np.size(x) for x in s[0].ins if x is not None)))
            bundles = collections.defaultdict(list)
            for case in cases_of(row, rows, seeds, verbose):
                low = [k for k in RTOL if any(type_of(y) == k for y in case.outs.values())]
                bundles[low[0] if low else ""].append(case)
            name = ("" if row.domain == "ai.onnx" else row.domain.replace(".", "_") + "_") + f"{row.name}_{row.since}"
            if "--apart" in sys.argv:
                bundles = {"_".join(case.types): [case] for cases in bundles.values() for case in cases}
            bundles = {low + (f"_{part}" if part else ""): cases[part * size:(part + 1) * size] for low, cases in bundles.items()
                       for size in [max(1, PORTS // max(len(case.ins) for case in cases) if cases[0].ins else len(cases))]
                       for part in range((len(cases) + size - 1) // size)}
            for low, cases in bundles.items():
                rtol = max([RTOL.get(type_of(y), 0) for case in cases for y in case.outs.values()], default=0) * (4 if row.name in RECURRENT else 1)
                write_bundle(folder / "types" / (f"types_{name}" + (low and f"_{low}")), row, cases, rtol)
                written += len(cases)
    done.write_text(stamp(program), encoding="utf-8")
    print(f"{written} nodes in {folder}")


if __name__ == "__main__":
    main()
