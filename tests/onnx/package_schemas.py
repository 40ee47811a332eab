#!/usr/bin/env python3
"""Prints the operator versions that the Python package onnx knows as JSON: "domain name version" -> status, inputs and outputs
[name, a type or the types of its variable, ""|"?"|"*"|"**"], attributes name -> [kind, required, default]; types and kinds as the operator table names them."""
import json
import re

from onnx import defs, helper

KINDS = {"INT": "i", "FLOAT": "f", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "TYPE_PROTO": "type", "SPARSE_TENSOR": "sparse",
         "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings"}
TYPES = {"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "b1", "string": "str",
         "complex64": "c64", "complex128": "c128"}


def type_name(text):
    """tensor(float) -> f32, seq(tensor(float)) -> seq, optional(seq(..)) -> optseq"""
    if text.startswith("optional(seq("):
        return "optseq"
    outer, inner = re.fullmatch(r"(\w+)\((.*)\)", text).groups()
    if outer != "tensor":
        return {"optional": "opt"}.get(outer, outer)
    short = re.sub(r"^uint(\d+)$", r"u\1", re.sub(r"^int(\d+)$", r"i\1", inner))
    return TYPES.get(inner, re.sub(r"^float(\d+)(e\d+m\d+)", r"f\1\2", short))


def port(formal):
    variadic = formal.option == defs.OpSchema.FormalParameterOption.Variadic
    optional = formal.option == defs.OpSchema.FormalParameterOption.Optional
    option = ("*" if formal.is_homogeneous else "**") if variadic else "?" if optional else ""
    types = type_name(formal.type_str) if "(" in formal.type_str else sorted({type_name(t) for t in formal.types})
    return [formal.name.rstrip("."), types, option]


def attribute(formal):
    value = helper.get_attribute_value(formal.default_value) if formal.default_value.name else None
    if isinstance(value, (list, tuple)):
        value = [v.decode() if isinstance(v, bytes) else v for v in value]
    return [KINDS[formal.type.name], formal.required, value.decode() if isinstance(value, bytes) else value]


def main():
    rows = {}
    for schema in defs.get_all_schemas_with_history():
        rows[f"{schema.domain or 'ai.onnx'} {schema.name} {schema.since_version}"] = {
            "status": "deprecated" if schema.deprecated else "normal", "in": [port(x) for x in schema.inputs],
            "out": [port(x) for x in schema.outputs],
            "attributes": {name: attribute(x) for name, x in schema.attributes.items()}}
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
