#!/usr/bin/env python3
"""Seeds of fuzz_model: model_seeds.py ARCHIVE FOLDER

Unpacks the small models of the official ONNX cases (../shared/conformance/current.tar.xz beside the checkout) into FOLDER, each
under the hash of its bytes: one node of nearly every operator.  Without the archive the folder stays empty, and that is said.
"""
import hashlib
import os
import sys
import tarfile

MOST_BYTES = 4096  # of a model: larger ones leave a minute too little

archive, folder = sys.argv[1:3]
os.makedirs(folder, exist_ok=True)
if not os.path.exists(archive):
    print(f"no archive of official cases at {archive}: models are made up from the seeds of the tree alone")
    sys.exit(0)
with tarfile.open(archive) as cases:
    for member in cases:
        if not member.name.endswith(".onnx") or member.size > MOST_BYTES:
            continue
        model = cases.extractfile(member).read()
        with open(os.path.join(folder, hashlib.sha256(model).hexdigest()[:16]), "wb") as f:
            f.write(model)
print(f"{len(os.listdir(folder))} models")
