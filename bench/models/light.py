#!/usr/bin/env python3
"""Writes a network of the official light set with weights that are not constant.

Usage: light.py NAME OUT.onnx     (with the Python of scripts/venv.sh)

The light set has ConstantOfShape nodes for weights.  Each becomes an initialiser, normal or uniform from one seed a weight,
and scaled by what reads it: products keep the variance of what they read (He's rule), normalisations
shrink it where blocks are summed, and the last product gives logits of a few units.  $NESTOR_CONFORMANCE names
the folder of current.tar.xz, the official cases; it is ../shared/conformance beside the checkout when not set.
"""
import os
import sys
import tarfile
import zlib

import numpy as np
from onnx import checker, load_from_string, numpy_helper, save

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.environ.get("NESTOR_CONFORMANCE") or os.path.join(TOP, "..", "shared", "conformance")


def reader(graph, name):
    """(node, input index) of the first node that computes with name; Unsqueeze and Reshape only pass it on."""
    for node in graph.node:
        for index, value in enumerate(node.input):
            if value == name:
                return reader(graph, node.output[0]) if node.op_type in ("Unsqueeze", "Reshape") else (node, index)
    raise ValueError(f"nothing reads {name}")


def values(graph, name, shape, rng):
    node, index = reader(graph, name)
    operators = {other.op_type for other in graph.node}
    if node.op_type == "Conv" and index == 1:
        return rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
    if node.op_type == "Gemm" and index == 1:
        logits = any(other.op_type == "Softmax" and other.input[0] == node.output[0] for other in graph.node)
        return rng.normal(0, np.sqrt((0.05 if logits else 2) / shape[-1]), shape)
    if node.op_type == "BatchNormalization" and index in (1, 4):  # scale, variance
        sums = "Sum" in operators  # of a block and what went around it: the variances add
        scale = rng.uniform(0.3, 0.7, shape) if sums else rng.uniform(0.8, 1.2, shape)
        return scale if index == 1 else rng.uniform(0.8, 1.2, shape)
    if node.op_type == "Mul":
        return rng.uniform(0.8, 1.2, shape)
    return rng.uniform(-0.1, 0.1, shape)  # biases and means


def fill(model):
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    for node in made:
        name, shape = node.output[0], [int(size) for size in shapes[node.input[0]]]
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        graph.initializer.append(numpy_helper.from_array(
            values(graph, name, shape, rng).astype(np.float32), name))
        graph.node.remove(node)
    read = {value for node in graph.node for value in node.input}
    for unused in [tensor for tensor in graph.initializer if tensor.name not in read]:
        graph.initializer.remove(unused)
    # In the set's IR version 3 a weight had to be an input too, and was constant; since version 4 it would be overridable.
    model.ir_version = 4
    weights = {tensor.name for tensor in graph.initializer}
    for weight in [value for value in graph.input if value.name in weights or value.name not in read]:
        graph.input.remove(weight)
    return model


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    name, out = sys.argv[1], sys.argv[2]
    with tarfile.open(os.path.join(FOLDER, "current.tar.xz")) as archive:
        model = load_from_string(archive.extractfile(f"current/light/light_{name}.onnx").read())
    model = fill(model)
    checker.check_model(model)
    save(model, out)


if __name__ == "__main__":
    main()
