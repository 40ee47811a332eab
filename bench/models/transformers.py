#!/usr/bin/env python3
"""Writes a transformer as exporters write it, with seeded weights: bert, gpt2 or vit.

Usage: transformers.py bert|gpt2|vit OUT.onnx     (with the Python of scripts/venv.sh)

bert: the base encoder (12 layers, 768 wide, 12 heads), open batch and sequence.  gpt2: a decode step of the small model with a
key and value cache of open length.  vit: 12 layers, 384 wide, 6 heads, patches of 16 in 224x224, open batch.  The graphs
have what tracing exporters leave in them: sizes computed from Shape, layer norm and Gelu in pieces, heads split by Reshape and
Transpose, masks as large negative numbers.  Every call writes the same bytes.
"""
import sys

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

SEED = 11
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


class Graph:
    """A graph under construction: each call adds a node or a weight and returns the name of its value."""

    def __init__(self):
        self.nodes, self.tensors, self.rng = [], [], np.random.default_rng(SEED)
        self.scope, self.count = "", {}

    def op(self, kind, *inputs, out=None, outputs=1, **attributes):
        base = f"{self.scope}/{kind}"
        self.count[base] = self.count.get(base, -1) + 1
        name = f"{base}_{self.count[base]}" if self.count[base] else base
        names = [out or f"{name}_output_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def const(self, value, dtype=np.int64):
        tensor = numpy_helper.from_array(np.array(value, dtype))
        return self.op("Constant", value=tensor)

    def weight(self, role, shape, scale=None, mean=0):
        name = f"{self.scope}.{role}".strip("/").replace("/", ".")
        scale = 1 / np.sqrt(shape[0]) if scale is None else scale
        self.tensors.append(numpy_helper.from_array((self.rng.standard_normal(shape) * scale + mean).astype(np.float32), name))
        return name

    def size(self, x, axis):
        """A size of x as a tensor of one element, by the chain that tracing gives."""
        return self.op("Unsqueeze", self.op("Gather", self.op("Shape", x), self.const(axis), axis=0), self.const([0]))

    def shape(self, *parts):
        return self.op("Concat", *(self.const([part]) if isinstance(part, int) else part for part in parts), axis=0)

    def linear(self, x, n_in, n_out, role="weight"):
        return self.op("Add", self.weight(role.replace("weight", "bias"), (n_out,), 0.1),
                       self.op("MatMul", x, self.weight(role, (n_in, n_out))))

    def norm(self, x, width, epsilon):
        centred = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        square = self.op("ReduceMean", self.op("Pow", centred, self.const(2, np.float32)), axes=[-1])
        root = self.op("Sqrt", self.op("Add", square, self.const(epsilon, np.float32)))
        scaled = self.op("Mul", self.op("Div", centred, root), self.weight("norm.weight", (width,), 0.1, 1))
        return self.op("Add", scaled, self.weight("norm.bias", (width,), 0.1))

    def gelu(self, x):
        half = self.op("Erf", self.op("Div", x, self.const(np.sqrt(2), np.float32)))
        return self.op("Mul", self.op("Mul", x, self.op("Add", half, self.const(1, np.float32))), self.const(0.5, np.float32))

    def gelu_tanh(self, x):
        cube = self.op("Mul", self.op("Pow", x, self.const(3, np.float32)), self.const(0.044715, np.float32))
        inner = self.op("Mul", self.op("Add", x, cube), self.const(np.sqrt(2 / np.pi), np.float32))
        return self.op("Mul", self.op("Mul", x, self.const(0.5, np.float32)),
                       self.op("Add", self.op("Tanh", inner), self.const(1, np.float32)))

    def split_heads(self, x, heads, width):
        shape = self.shape(self.size(x, 0), self.size(x, 1), heads, width // heads)
        return self.op("Reshape", x, shape)

    def merge_heads(self, x, width):
        turned = self.op("Transpose", x, perm=[0, 2, 1, 3])
        return self.op("Reshape", turned, self.shape(self.size(turned, 0), self.size(turned, 1), width))

    def attend(self, query, key_turned, value, width_of_head, mask=None):
        """query, value [b, h, s, d], key_turned [b, h, d, s]."""
        scores = self.op("Div", self.op("MatMul", query, key_turned), self.const(np.sqrt(width_of_head), np.float32))
        if mask:
            scores = self.op("Add", scores, mask)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), value)

    def model(self, name, inputs, outputs, opset):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8,
                                  producer_name="nestor bench/models/transformers.py")
        checker.check_model(model)
        return model


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def encoder_mask(g, mask):
    """1 where a token counts -> 0, 0 -> the lowest float, as [b, 1, 1, s]."""
    wide = g.op("Cast", g.op("Unsqueeze", g.op("Unsqueeze", mask, g.const([1])), g.const([2])), to=F32)
    lowest = np.finfo(np.float32).min
    return g.op("Mul", g.op("Sub", g.const(1, np.float32), wide), g.const(lowest, np.float32))


def bert():
    width, heads, layers, words, longest = 768, 12, 12, 30522, 512
    g = Graph()
    g.scope = "/embeddings"
    positions = numpy_helper.from_array(np.arange(longest, dtype=np.int64)[None], "embeddings.position_ids")
    g.tensors.append(positions)
    ids = g.op("Slice", positions.name, g.const([0]), g.size("input_ids", 1), g.const([1]), g.const([1]))
    x = g.op("Add", g.op("Gather", g.weight("word", (words, width), 0.5), "input_ids"),
             g.op("Gather", g.weight("type", (2, width), 0.5), "token_type_ids"))
    x = g.op("Add", x, g.op("Gather", g.weight("position", (longest, width), 0.5), ids))
    x = g.norm(x, width, 1e-12)
    g.scope = ""
    mask = encoder_mask(g, "attention_mask")
    for layer in range(layers):
        g.scope = f"/encoder/layer.{layer}/attention"
        query = g.op("Transpose", g.split_heads(g.linear(x, width, width, "query.weight"), heads, width), perm=[0, 2, 1, 3])
        key = g.op("Transpose", g.split_heads(g.linear(x, width, width, "key.weight"), heads, width), perm=[0, 2, 3, 1])
        heads_value = g.op("Transpose", g.split_heads(g.linear(x, width, width, "value.weight"), heads, width), perm=[0, 2, 1, 3])
        merged = g.merge_heads(g.attend(query, key, heads_value, width // heads, mask), width)
        g.scope = f"/encoder/layer.{layer}/output"
        x = g.norm(g.op("Add", g.linear(merged, width, width, "dense.weight"), x), width, 1e-12)
        g.scope = f"/encoder/layer.{layer}/mlp"
        inner = g.gelu(g.linear(x, width, 4 * width, "up.weight"))
        x = g.norm(g.op("Add", g.linear(inner, 4 * width, width, "down.weight"), x), width, 1e-12)
    g.scope = "/pooler"
    first = g.op("Gather", x, g.const(0), axis=1)
    pooled = g.op("Gemm", first, g.weight("weight", (width, width), 0.03), g.weight("bias", (width,), 0.1), transB=1)
    g.op("Tanh", pooled, out="pooler_output")
    g.op("Identity", x, out="last_hidden_state")
    inputs = [value(name, I64, ["batch", "sequence"]) for name in ("input_ids", "attention_mask", "token_type_ids")]
    return g.model("bert", inputs, [value("last_hidden_state", F32, ["batch", "sequence", width]),
                                    value("pooler_output", F32, ["batch", width])], 14)


def gpt2_layer(g, layer, x, mask, width, heads):
    """One block; the cache of layer and what is appended to it are inputs and outputs of the model."""
    g.scope = f"/h.{layer}/attn"
    joined = g.linear(g.norm(x, width, 1e-5), width, 3 * width, "c_attn.weight")
    query, key, new_value = g.op("Split", joined, g.const([width] * 3), outputs=3, axis=2)
    query, key, new_value = (g.op("Transpose", g.split_heads(part, heads, width), perm=[0, 2, 1, 3])
                             for part in (query, key, new_value))
    key = g.op("Concat", f"past_key_{layer}", key, out=f"present_key_{layer}", axis=2)
    new_value = g.op("Concat", f"past_value_{layer}", new_value, out=f"present_value_{layer}", axis=2)
    key = g.op("Transpose", key, perm=[0, 1, 3, 2])
    merged = g.merge_heads(g.attend(query, key, new_value, width // heads, mask), width)
    x = g.op("Add", g.linear(merged, width, width, "c_proj.weight"), x)
    g.scope = f"/h.{layer}/mlp"
    inner = g.gelu_tanh(g.linear(g.norm(x, width, 1e-5), width, 4 * width, "c_fc.weight"))
    return g.op("Add", x, g.linear(inner, 4 * width, width, "c_proj.weight"))


def gpt2():
    width, heads, layers, words, longest = 768, 12, 12, 50257, 1024
    g = Graph()
    g.scope = "/embeddings"
    word = g.weight("wte", (words, width), 0.05)
    x = g.op("Add", g.op("Gather", word, "input_ids"), g.op("Gather", g.weight("wpe", (longest, width), 0.05), "position_ids"))
    g.scope = ""
    mask = encoder_mask(g, "attention_mask")
    for layer in range(layers):
        x = gpt2_layer(g, layer, x, mask, width, heads)
    g.scope = "/ln_f"
    x = g.norm(x, width, 1e-5)
    g.scope = "/lm_head"
    g.op("MatMul", x, g.op("Transpose", word, perm=[1, 0]), out="logits")
    inputs = [value("input_ids", I64, ["batch", "sequence"]), value("attention_mask", I64, ["batch", "total"]),
              value("position_ids", I64, ["batch", "sequence"])]
    outputs = [value("logits", F32, ["batch", "sequence", words])]
    for layer in range(layers):
        for role in ("key", "value"):
            inputs.append(value(f"past_{role}_{layer}", F32, ["batch", heads, "past", width // heads]))
            outputs.append(value(f"present_{role}_{layer}", F32, ["batch", heads, "total", width // heads]))
    return g.model("gpt2", inputs, outputs, 14)


def vit():
    width, heads, layers, patch, patches = 384, 6, 12, 16, 196
    g = Graph()
    g.scope = "/embeddings"
    x = g.op("Conv", "pixel_values", g.weight("projection.weight", (width, 3, patch, patch), 0.04),
             g.weight("projection.bias", (width,), 0.1), kernel_shape=[patch, patch], strides=[patch, patch], pads=[0] * 4)
    x = g.op("Reshape", x, g.shape(g.size(x, 0), width, -1))
    x = g.op("Transpose", x, perm=[0, 2, 1])
    wanted = g.shape(g.size("pixel_values", 0), 1, width)
    token = g.op("Expand", g.weight("cls_token", (1, 1, width), 0.5), wanted)
    x = g.op("Add", g.op("Concat", token, x, axis=1), g.weight("position", (1, patches + 1, width), 0.5))
    for layer in range(layers):
        g.scope = f"/blocks.{layer}/attn"
        joined = g.linear(g.norm(x, width, 1e-6), width, 3 * width, "qkv.weight")
        shape = g.shape(g.size(joined, 0), g.size(joined, 1), 3, heads, width // heads)
        turned = g.op("Transpose", g.op("Reshape", joined, shape), perm=[2, 0, 3, 1, 4])
        query, key, heads_value = (g.op("Gather", turned, g.const(k), axis=0) for k in range(3))
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = g.op("Mul", scores, g.const((width // heads) ** -0.5, np.float32))
        merged = g.merge_heads(g.op("MatMul", g.op("Softmax", scores, axis=-1), heads_value), width)
        x = g.op("Add", x, g.linear(merged, width, width, "proj.weight"))
        g.scope = f"/blocks.{layer}/mlp"
        inner = g.gelu(g.linear(g.norm(x, width, 1e-6), width, 4 * width, "fc1.weight"))
        x = g.op("Add", x, g.linear(inner, 4 * width, width, "fc2.weight"))
    g.scope = "/head"
    first = g.op("Gather", g.norm(x, width, 1e-6), g.const(0), axis=1)
    g.op("Gemm", first, g.weight("weight", (1000, width), 0.05), g.weight("bias", (1000,), 0.1), out="logits", transB=1)
    return g.model("vit", [value("pixel_values", F32, ["batch", 3, 224, 224])], [value("logits", F32, ["batch", 1000])], 14)


if __name__ == "__main__":
    makers = {"bert": bert, "gpt2": gpt2, "vit": vit}
    if len(sys.argv) != 3 or sys.argv[1] not in makers:
        sys.exit(__doc__)
    save(makers[sys.argv[1]](), sys.argv[2])
