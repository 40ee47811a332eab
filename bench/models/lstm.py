#!/usr/bin/env python3
"""Writes the LSTM model of bench/gates: two stacked ONNX LSTM nodes, batch 1, 100 steps, 256 wide.

Usage: lstm.py OUT.onnx     (with the Python of scripts/venv.sh)

Input `x` f32 [100, 1, 256], output `y` f32 [100, 1, 256]; weights are initialisers, uniform in +-1/16 from one
seed, so that every call writes the same bytes.
"""
import sys

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

STEPS, BATCH, WIDTH = 100, 1, 256
SEED = 7


def lstm(layer, x, rng):
    """Returns (nodes, initialisers, output name) of one layer; its output has the shape of its input."""
    bound = 1 / np.sqrt(WIDTH)
    shapes = {"weight": (1, 4 * WIDTH, WIDTH), "recurrence": (1, 4 * WIDTH, WIDTH), "bias": (1, 8 * WIDTH)}
    names = {role: f"lstm{layer}_{role}" for role in shapes}
    tensors = [numpy_helper.from_array(rng.uniform(-bound, bound, shape).astype(np.float32), names[role])
               for role, shape in shapes.items()]
    y = "y" if layer == 2 else f"lstm{layer}_y"
    nodes = [helper.make_node("LSTM", [x, names["weight"], names["recurrence"], names["bias"]],
                              [f"lstm{layer}_directions"], name=f"lstm{layer}", hidden_size=WIDTH),
             helper.make_node("Reshape", [f"lstm{layer}_directions", "sequence_shape"], [y],
                              name=f"lstm{layer}_merge")]
    return nodes, tensors, y


def build():
    rng = np.random.default_rng(SEED)
    shape = [STEPS, BATCH, WIDTH]
    nodes, x = [], "x"
    tensors = [numpy_helper.from_array(np.array(shape, np.int64), "sequence_shape")]
    for layer in (1, 2):
        more_nodes, more_tensors, x = lstm(layer, x, rng)
        nodes += more_nodes
        tensors += more_tensors
    graph = helper.make_graph(nodes, "lstm", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="nestor bench/models/lstm.py")
    checker.check_model(model, full_check=True)
    return model


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    save(build(), sys.argv[1])
