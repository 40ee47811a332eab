#!/usr/bin/env python3
"""Official ONNX cases out of the Python package onnx: make_cases.py FOLDER

Writes FOLDER/KIND/NAME/model.onnx and test_data_set_N/{input,output}_K.pb: the cases of operators, which the package computes with
numpy, and its stored small models. Random inputs are drawn from one seed, so that every machine has the same ones.
FOLDER.done says what was written, and nothing is written again while that holds.
"""
import hashlib
import pathlib
import shutil
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case import node as node_cases
from onnx.backend.test.loader import DATA_DIR

STORED = ("simple", "pytorch-converted", "pytorch-operator")


def stamp():
    own = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    return f"onnx {onnx.__version__}, numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}, make_cases.py {own}\n"


def value_bytes(value, info):
    """A value of a case as the protobuf that its port's type asks for."""
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    kind = info.type.WhichOneof("value")
    make = {"map_type": numpy_helper.from_dict, "sequence_type": numpy_helper.from_list,
            "optional_type": numpy_helper.from_optional, "tensor_type": numpy_helper.from_array}[kind]
    return make(value, info.name).SerializeToString()


def write_case(folder, case):
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    graph = case.model.graph
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{number}"
        data.mkdir()
        for word, values, ports in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for k, value in enumerate(values):
                (data / f"{word}_{k}.pb").write_bytes(value_bytes(value, ports[k]))


def main():
    folder = pathlib.Path(sys.argv[1])
    done = folder.with_name(folder.name + ".done")
    if done.exists() and done.read_text(encoding="utf-8") == stamp():
        return
    done.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "node").mkdir(parents=True)
    np.random.seed(0)
    for case in node_cases.collect_testcases():
        write_case(folder / "node" / case.name, case)
    for kind in STORED:
        shutil.copytree(pathlib.Path(DATA_DIR, kind), folder / kind)
    done.write_text(stamp(), encoding="utf-8")
    print(f"{sum(1 for _ in folder.glob('*/*/model.onnx'))} cases in {folder}")


if __name__ == "__main__":
    main()
