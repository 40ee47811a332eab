#!/usr/bin/env python3
"""Runs the tool as a user does: check_tool.py TOOL WARM

Cold and warm, compiled and interpreted, threads, NumPy files, exit statuses, the disk cache, what a warm process maps.
"""
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL, WARM = (os.path.abspath(p) for p in sys.argv[1:3])
SOFTMAX = """graph softmax(x: f32[n, 100]) {
  %m = reduce "max(a, b)" axes [1] keep %x
  %e = map "exp(a - b)" %x, %m
  %s = reduce "a + b" axes [1] keep %e
  %y = map "a / b" %e, %s
  return y = %y
}
"""
GATHER = """graph pick(x: f32[8], i: i64[n]) {
  %y = gather axis 0 %x, %i
  return y = %y
}
"""
# Exit statuses of docs/TOOL.md.
USAGE, STATUS = 2, 10
INVALID, PARSE, SHAPE, TYPE, UNSUPPORTED, LIMIT, IO, INDEX, NOT_FOUND, VERIFY = 1, 2, 4, 5, 6, 7, 9, 10, 13, 14


def write_npy(path, descr, shape, data, fortran=False, version=1):
    head = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"
    size = "<H" if version == 1 else "<I"
    head += " " * (-(8 + struct.calcsize(size) + len(head) + 1) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY" + bytes([version, 0]) + struct.pack(size, len(head)) + head.encode() + data)


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<H", data[8:10])[0]
    assert data[:8] == b"\x93NUMPY\x01\x00" and (10 + n) % 64 == 0
    return data[10:10 + n].decode(), data[10 + n:]


class Tool(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="nestor-tool-")
        self.addCleanup(self.folder.cleanup)
        self.cache = os.path.join(self.folder.name, "cache")
        self.softmax = self.file("softmax.nsg", SOFTMAX)

    def file(self, name, text=""):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def call(self, *words):
        for _ in range(3):
            done = subprocess.run([TOOL, *words], capture_output=True, text=True, check=False, timeout=120,
                                  env={**os.environ, "NESTOR_CACHE": self.cache})
            if "Tracer caught signal" not in done.stderr: # LeakSanitizer's own tracer died at exit: it found nothing
                break
        return done

    def ok(self, *words):
        done = self.call(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def fails(self, status, text, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")

    def output(self, *words):
        folder = os.path.join(self.folder.name, "out")
        self.ok("run", self.softmax, "--output-dir", folder, *words)
        return read_npy(os.path.join(folder, "y.npy"))

    def test_cold_warm_threads_and_interpreter_agree(self):
        head, cold = self.output("--dim", "n=37")
        self.assertIn("'descr': '<f4', 'fortran_order': False, 'shape': (37, 100,)", head)
        values = struct.unpack(f"<{37 * 100}f", cold)
        for row in range(37):
            self.assertAlmostEqual(sum(values[100 * row:100 * row + 100]), 1, places=5)
        for words in [[], ["--threads", "1"], ["--threads", "2"], ["--no-cache"], ["--bounds-checks"],
                      ["--shape", "x=37x100"], ["--shape", "x=?x100"], ["--passes-off", "schedule"],
                      ["--passes-off", "fuse,schedule"]]:
            with self.subTest(words):
                self.assertEqual(self.output("--dim", "n=37", *words)[1], cold)
        for words in [["--interpret"], ["--strict"]]: # without the approximate passes
            exact = struct.unpack(f"<{37 * 100}f", self.output("--dim", "n=37", *words)[1])
            for a, b in zip(values, exact):
                self.assertAlmostEqual(a, b, delta=1e-6 * max(abs(a), 1e-3))

    def test_targets_agree(self):
        outs = []
        for target in ["baseline", "avx2", "avx512", "vnni", "amx", "host"]:
            done = self.call("run", self.softmax, "--dim", "n=5", "--target", target, "--output-dir", self.folder.name)
            if done.returncode == STATUS + UNSUPPORTED:
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            outs.append(struct.unpack("<500f", read_npy(os.path.join(self.folder.name, "y.npy"))[1]))
        self.assertGreaterEqual(len(outs), 2)
        for other in outs[1:]:
            for a, b in zip(outs[0], other):
                self.assertAlmostEqual(a, b, delta=1e-6)

    def test_inputs_from_numpy_files(self):
        data = struct.pack("<200f", *[(7 * k % 13) / 13 for k in range(200)])
        columns = b"".join(data[4 * (100 * r + c):][:4] for c in range(100) for r in range(2))
        path, turned = (os.path.join(self.folder.name, n) for n in ("a.npy", "b.npy"))
        write_npy(path, "<f4", [2, 100], data)
        write_npy(turned, "<f4", [2, 100], columns, fortran=True, version=2)
        self.assertEqual(self.output("--input", f"x={path}"), self.output("--input", f"x={turned}"))
        self.assertNotEqual(self.output("--input", "x=random:1", "--dim", "n=2"),
                            self.output("--input", "x=random:2", "--dim", "n=2"))
        write_npy(path, "<f8", [2, 100], 2 * data)
        self.fails(STATUS + TYPE, "input 'x' is given as f64, allowed is f32[n, 100]", "run", self.softmax, "--input",
                   f"x={path}")
        write_npy(path, "<f4", [2, 99], data)
        self.fails(STATUS + SHAPE, "axis 1 is 99, allowed is 100", "run", self.softmax, "--input", f"x={path}")
        write_npy(path, "<f4", [3, 100], data)
        self.fails(USAGE, "ends before its 300 elements do", "run", self.softmax, "--input", f"x={path}")
        self.file("a.npy", "no array at all")
        self.fails(USAGE, "is no NumPy file", "run", self.softmax, "--input", f"x={path}")
        self.fails(USAGE, "cannot open", "run", self.softmax, "--input", f"x={path}x")

    def test_strings(self):
        words = self.file("words.nsg", """graph words(words: str[n], more: str[n]) {
  %both = host "string_concat" "" %words, %more : str[n]
  return both = %both
}
""")
        a, b, out = (os.path.join(self.folder.name, n) for n in ("a.npy", "b.npy", "out"))
        write_npy(a, "<U3", [3], "".join(w.ljust(3, "\0") for w in ("\u00e4", "", "a\0b")).encode("utf-32-le"))
        write_npy(b, "|S2", [3], b"1\0" + b"\0\0" + b"\"\n")
        for words_of in [[], ["--threads", "1", "--fail-on-compile"], ["--interpret"]]:
            text = self.ok("run", words, "--input", f"words={a}", "--input", f"more={b}", "--output-dir", out, *words_of)
            self.assertEqual(text.splitlines()[0], 'both: str[3] = "\u00e41" "" "a\\x00b\\"\\x0a"')
            head, data = read_npy(os.path.join(out, "both.npy"))
            self.assertIn("'descr': '|S5', 'fortran_order': False, 'shape': (3,)", head)
            self.assertEqual(data, "\u00e41".encode().ljust(5, b"\0") + b"\0" * 5 + b'a\0b"\n')
        found = json.loads(self.ok("bench", words, "--input", f"words={a}", "--input", f"more={b}", "--repeat", "3", "--json"))
        self.assertEqual(found["runs"], 3)
        self.fails(USAGE, "input 'words' holds strings, which are not made at random", "run", words, "--dim", "n=1")
        write_npy(a, "<U1", [1], struct.pack("<I", 0x110000))
        self.fails(USAGE, "is no NumPy file of a type that can be read", "run", words, "--input", f"words={a}")
        write_npy(a, "|V16", [3], bytes(48))
        self.fails(USAGE, "is no NumPy file of a type that can be read", "run", words, "--input", f"words={a}")
        write_npy(a, "|S4", [3], bytes(11))
        self.fails(USAGE, "ends before its 3 elements do", "run", words, "--input", f"words={a}")
        zero = self.file("zero.nsg", 'graph zero() { %z = const str[1] data ["a\\x00"] return z = %z }')
        self.fails_at_the_end("ends in a zero byte", "run", zero, "--output-dir", out)

    def fails_at_the_end(self, text, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn(text, done.stderr)

    def string_case(self, name, words):
        """A folder of test data: the words given come back in upper case."""
        def tensor(texts):
            return (b"\x08" + bytes([len(texts)]) + b"\x10\x08" +
                    b"".join(b"\x32" + bytes([len(t)]) + t for t in texts))
        data = os.path.join(self.folder.name, "cases", name, "test_data_set_0")
        os.makedirs(data)
        model = 'graph up(x: str[n]) { %y = host "string_normalize" "UPPER exact" %x : str[n] return y = %y }'
        for path, content in [(os.path.join(os.path.dirname(data), "model.onnx"), model.encode()),
                              (os.path.join(data, "input_0.pb"), tensor([b"one", b"\xc3\xa4"])),
                              (os.path.join(data, "output_0.pb"), tensor(words))]:
            with open(path, "wb") as f:
                f.write(content)

    def test_cases_of_strings(self):
        self.string_case("good", [b"ONE", b"\xc3\x84"])
        self.string_case("wrong", [b"ONE", b"A"])
        cases = os.path.join(self.folder.name, "cases")
        seen = set()
        for words in [[], ["--interpret"], ["--threads", "1", "--fail-on-compile"]]:
            done = self.call("test", cases, "--json", *words)
            self.assertEqual((done.returncode, done.stderr), (1, ""))
            good, wrong = json.loads(done.stdout)["cases"]
            self.assertEqual(good["verdict"], "passed", good["why"])
            self.assertEqual(wrong["why"], 'output 0: 1 of 2 elements differ, the first at 1: "\u00c4", expected "A"')
            seen.add(good["hash"])
        self.assertEqual(len(seen), 1)

    def test_digits(self):
        with open("models/expected.tsv", encoding="utf-8") as f:
            rows = [line.split("\t") for line in f if not line.startswith("#")]
        self.assertEqual(len(rows), 10)
        for row in rows:
            expected = [float(v) for v in row[1:]]
            line = self.ok("run", "models/digits.onnx", "--input", f"image=models/digits/{row[0]}.pgm").splitlines()[0]
            self.assertTrue(line.startswith("probability: f32[1, 10] = "), line)
            got = [float(v) for v in line.split(" = ")[1].split()]
            for a, b in zip(got, expected):
                self.assertAlmostEqual(a, b, delta=2e-6)
        pgm = self.file("bad.pgm", "P5 3 3 255 12")
        self.fails(USAGE, "cannot open 'none.pgm': No such file", "run", "models/digits.onnx", "--input", "image=none.pgm")
        self.fails(USAGE, "is no grey image", "run", "models/digits.onnx", "--input", f"image={pgm}")

    def test_onnx_tensors_as_inputs(self):
        values = [0.25 * k for k in range(200)]
        raw = struct.pack("<200f", *values)
        # TensorProto: dims 2 and 100 (field 1), data_type FLOAT (field 2), raw_data (field 9).
        bytes_of = bytes([8, 2, 8, 100, 16, 1, 9 << 3 | 2, len(raw) & 127 | 128, len(raw) >> 7]) + raw
        pb, npy = (os.path.join(self.folder.name, n) for n in ("x.pb", "x.npy"))
        with open(pb, "wb") as f:
            f.write(bytes_of)
        write_npy(npy, "<f4", [2, 100], raw)
        self.assertEqual(*(self.ok("run", self.softmax, "--input", f"x={path}").splitlines()[0] for path in (pb, npy)))
        with open(pb, "wb") as f:
            f.write(bytes_of[:-1])
        self.fails(USAGE, "is no tensor of ONNX", "run", self.softmax, "--input", f"x={pb}")
        self.fails(USAGE, "cannot open", "run", self.softmax, "--input", "x=nowhere.pb")

    def test_json(self):
        out = json.loads(self.ok("run", self.softmax, "--dim", "n=3", "--json"))
        self.assertFalse(out["from_cache"])
        self.assertEqual(out["outputs"], [{"name": "y", "dtype": "f32", "shape": [3, 100]}])
        self.assertTrue(json.loads(self.ok("run", self.softmax, "--dim", "n=9", "--json"))["from_cache"])
        bench = json.loads(self.ok("bench", self.softmax, "--dim", "n=3", "--json", "--repeat", "5"))
        self.assertEqual(bench["runs"], 5)
        self.assertEqual(len(bench["steps"]), bench["kernels"])

    def test_bench_counts_operations(self):
        conv, gemm = 16 * 784 * 9 + 32 * 196 * 9 * 16 + 32 * 49 * 9 * 32, 64 * 288 + 10 * 64
        words = ["bench", "models/digits.onnx", "--dim", "N=2", "--repeat", "3", "--warmup", "0"]
        bench = json.loads(self.ok(*words, "--json"))
        self.assertEqual(bench["operations"], 2 * 2 * (conv + gemm))
        self.assertEqual(sum(step["operations"] for step in bench["steps"]), bench["operations"])
        self.assertAlmostEqual(bench["gflop_per_s"], bench["operations"] / bench["median_ms"] / 1e6,
                               delta=1e-3 + bench["gflop_per_s"] * 1e-3)
        for step in bench["steps"]:
            self.assertEqual(step["gflop_per_s"] > 0, step["operations"] > 0)
        text = self.ok(*words)
        self.assertRegex(text, r"5\.94688 million operations of products and convolutions, [0-9.]+ GFLOP/s\n")
        self.assertEqual(text.count(" GFLOP/s "), sum(step["operations"] > 0 for step in bench["steps"]))

    def test_progress(self):
        words = ["run", self.softmax, "--dim", "n=3"]
        done = self.call(*words, "--no-cache", "--progress")
        self.assertEqual(done.returncode, 0)
        lines = done.stderr.splitlines()
        self.assertEqual(lines[0], "nestor: compiling: the model is read")
        self.assertRegex(lines[-1], r"^nestor: compiling (\d+) of \1 kernels$")
        for quiet in ("--json", "--quiet"):
            self.assertEqual(self.call(*words, "--no-cache", "--progress", quiet).stderr, "")
        self.assertEqual(self.call(*words, "--no-cache").stderr, "") # no terminal
        self.ok(*words)
        self.assertEqual(self.call(*words, "--progress").stderr, "") # from the cache
        self.assertIn("compiling", self.call("dump-ir", self.softmax, "--stage", "plan", "--progress").stderr)

    def test_progress_on_a_terminal_is_written_over_and_gone_in_the_end(self):
        ours, tools = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as screen:
            with os.fdopen(tools, "wb") as terminal:
                subprocess.run([TOOL, "run", self.softmax, "--dim", "n=3", "--no-cache", "--progress"], check=True,
                               stdout=subprocess.DEVNULL, stderr=terminal, timeout=120)
                shown = screen.read(4096).decode()
        self.assertTrue(shown.startswith("\r\x1b[Knestor: compiling: the model is read"), repr(shown))
        self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown))
        self.assertNotIn("\n", shown)

    def test_inspect(self):
        text = self.ok("inspect", "models/digits.onnx")
        self.assertIn("  image: f32[N, 1, 28, 28]\n", text)
        self.assertIn("       3  ai.onnx.Conv 11\n", text)
        info = json.loads(self.ok("inspect", "models/digits.onnx", "--json"))
        self.assertEqual(info["inputs"], [{"name": "image", "type": "f32", "shape": ["N", 1, 28, 28]}])
        self.assertEqual(info["opsets"], {"ai.onnx": 17})
        self.assertEqual({o["state"] for o in info["operators"]}, {"runs"})
        self.assertIn("  x: f32[n, 100]\n", self.ok("inspect", self.softmax))
        self.fails(STATUS + PARSE, "these are no bytes", "inspect", "README.md")

    def test_ops(self):
        rows = [line.split("\t") for line in self.ok("ops", "--tsv").splitlines()]
        self.assertEqual(rows[0], ["domain", "operator", "version", "state", "signature", "attributes", "types"])
        self.assertGreater(len(rows), 600)
        listed = json.loads(self.ok("ops", "--json"))
        self.assertEqual([list(row.values())[3] for row in listed], [row[3] for row in rows[1:]])
        self.assertEqual(len(self.ok("ops").splitlines()), len(listed))
        self.fails(USAGE, "one word too many", "ops", "x")

    def test_index_errors_name_index_and_bound(self):
        pick = self.file("pick.nsg", GATHER)
        path = os.path.join(self.folder.name, "i.npy")
        for index in (8, -1, 1 << 40):
            write_npy(path, "<i8", [3], struct.pack("<3q", 0, index, 7))
            self.fails(STATUS + INDEX, f"index {index} is given, allowed are 0 to 7", "run", pick, "--input", f"i={path}")

    def test_exit_statuses(self):
        self.fails(USAGE, "no command")
        self.fails(USAGE, "there is no command 'walk'", "walk", "x")
        self.fails(USAGE, "one word too many", "run", "x", "y")
        self.fails(USAGE, "needs one more word", "run")
        self.fails(USAGE, "option '--walk' is unknown", "run", "x", "--walk")
        self.fails(USAGE, "'run' has no option --repeat, which belongs to bench", "run", "x", "--repeat", "5")
        self.fails(USAGE, "'inspect' has no option --input, which belongs to run bench", "inspect", "x", "--input", "a=random")
        self.fails(USAGE, "--threads '0'", "run", "x", "--threads", "0")
        for size in ("x", "-1", "", "9" * 20):
            self.fails(USAGE, f"--dim 'n={size}', allowed are 0 and above", "run", self.softmax, "--dim", f"n={size}")
        self.fails(USAGE, "is no folder", "test", self.softmax + "x")
        self.fails(STATUS + LIMIT, "at most 68719476736 bytes", "run", "models/digits.onnx", "--shape",
                   "image=5000000000x1x28x28")
        self.fails(USAGE, "allowed is like 2x3x224", "run", "x", "--shape", "x=2x")
        self.fails(USAGE, "axis 0 of input 'x' is open (n)", "run", self.softmax)
        self.fails(USAGE, "--dim 'z': no input of the model has an open size of this name", "run", self.softmax, "--dim", "n=1",
                   "--dim", "z=1")
        self.ok("run", self.softmax, "--shape", "x=2x100", "--dim", "n=2")
        for seed in ("", "x", "-1", "1x"):
            self.fails(USAGE, f"the seed is '{seed}', allowed are 0 and above", "run", self.softmax, "--dim", "n=1", "--input",
                       f"x=random:{seed}")
        self.fails(USAGE, "is no text, allowed are graphs (.nsg) and kernels (.nsl)", "opt", "models/digits.onnx")
        self.fails(USAGE, "the model has no input 'z'", "run", self.softmax, "--dim", "n=1", "--input", "z=random")
        self.fails(STATUS + IO, "nothing.nsg", "run", self.softmax + "/nothing.nsg")
        self.fails(STATUS + INVALID, "target", "run", self.softmax, "--target", "z80")
        self.fails(STATUS + NOT_FOUND, "fail_on_compile", "run", self.softmax, "--strict", "--fail-on-compile")
        self.fails(STATUS + NOT_FOUND, "there is no pass 'magic'", "run", self.softmax, "--passes-off", "fuse,magic")
        self.fails(STATUS + NOT_FOUND, "'z', which there is not", "run", self.softmax, "--shape", "z=1")
        self.fails(STATUS + SHAPE, "axis 1, the model has 100", "run", self.softmax, "--shape", "x=3x99")
        self.fails(STATUS + PARSE, "", "run", self.file("bad.nsg", "graph f(x: f32[2]) { nonsense }"))
        self.fails(STATUS + PARSE, "empty", "run", self.file("empty.onnx", ""))
        self.assertIn("usage: nestor", self.ok("--help"))
        self.assertEqual(self.ok("help"), self.ok("--help"))
        for name, data, said in [("text.onnx", "This is a text file.\n", "these are no bytes"),
                                 ("lfs.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
                                  "git lfs pull")]:
            for command in ("run", "bench", "inspect", "dump-ir"):
                self.fails(STATUS + PARSE, said, command, self.file(name, data))
        self.assertRegex(self.ok("--version"), r"^nestor \d+\.\d+\.\d+\n$")

    def test_stages(self):
        for stage, mark in [("graph", "graph softmax"), ("nest", "kernel "), ("sched", "kernel "), ("llvm", "define "),
                            ("asm", "ret"), ("plan", "plan softmax: ")]:
            with self.subTest(stage):
                self.assertIn(mark, self.ok("dump-ir", self.softmax, "--stage", stage))
                self.assertEqual(self.ok("dump-ir", self.softmax, "--stage", stage),
                                 self.ok("dump-ir", self.softmax, "--stage", stage, "--threads", "1"))
        self.assertIn("kernel ", self.ok("dump-ir", self.softmax, "--stage", "nest", "--kernel", "0"))
        self.fails(STATUS + NOT_FOUND, "there is no kernel '77'", "dump-ir", self.softmax, "--stage", "asm", "--kernel", "77")
        self.fails(USAGE, "stage 'soup'", "dump-ir", self.softmax, "--stage", "soup")

    def test_opt(self):
        printed = self.ok("opt", self.softmax)
        again = self.ok("opt", self.file("again.nsg", printed))
        self.assertEqual(printed, again)
        nests = self.ok("opt", self.softmax, "--passes", "to-nests")
        self.assertEqual(nests.count("kernel "), 4)
        self.assertEqual(self.ok("opt", self.softmax, "--passes", "to-nests,fuse").count("kernel "), 1)
        first = "kernel " + nests.split("kernel ")[2]
        kernel = self.file("one.nsl", first)
        self.assertEqual(self.ok("opt", kernel), first)
        scheduled = self.ok("opt", kernel, "--passes", "schedule", "--target", "nominal-avx512")
        self.assertIn(" width 16 ", scheduled)
        again = self.file("again.nsl", scheduled) # no plain nest any more: passes on kernels take it
        self.assertIn("kernel ", self.ok("opt", again, "--passes", "simplify"))
        self.fails(STATUS + UNSUPPORTED, "not one plain nest", "opt", again, "--passes", "fuse,simplify")

    def test_nominal_targets_run_nothing(self):
        self.fails(STATUS + UNSUPPORTED, "nominal", "run", self.softmax, "--dim", "n=5", "--target", "nominal-baseline")
        self.ok("run", self.softmax, "--dim", "n=5", "--target", "nominal-baseline", "--interpret")
        self.assertIn("f32", self.ok("dump-ir", self.softmax, "--stage", "sched", "--target", "nominal-amx"))

    def test_cache_layers_and_limit(self):
        words = ["run", self.softmax, "--dim", "n=3", "--json"]
        self.ok(*words)
        own = os.path.join(self.folder.name, "own")
        layered = ["--cache", own, "--cache-layer", self.cache]
        self.assertTrue(json.loads(self.ok(*words, *layered))["from_cache"])
        self.assertFalse(os.path.exists(own))
        self.assertTrue(json.loads(self.ok(*words, "--no-cache", "--cache-layer", self.cache))["from_cache"])
        self.assertFalse(json.loads(self.ok(*words, "--cache", own, "--cache-limit", "0"))["from_cache"])
        self.fails(USAGE, "--cache-limit 'x'", *words, "--cache-limit", "x")
        self.fails(STATUS + 1, "layer 0 of the cache is 'x', allowed: absolute paths", *words, "--cache-layer", "x")

    def test_a_cache_that_cannot_be_used_is_told(self):
        words = ["run", self.softmax, "--dim", "n=3"]
        file = os.path.join(self.folder.name, "file")
        with open(file, "w", encoding="utf-8"):
            pass
        for folder, text in ((file, "not a folder"), (os.path.join(file, "below"), "not used")):
            done = self.call(*words, "--cache", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"nestor: warning: the disk cache '{folder}' is not used: ", done.stderr)
            self.assertIn(text, done.stderr)
        self.fails(STATUS + 1, "cache is 'x', allowed: an absolute path", *words, "--cache", "x")

    def test_a_file_that_is_no_model_is_named(self):
        text = os.path.join(self.folder.name, "text.onnx")
        with open(text, "w", encoding="utf-8") as file:
            file.write("hello\n")
        self.fails(STATUS + 2, f"these are no bytes of an ONNX message; in '{text}'", "run", text)

    def test_cache_commands(self):
        self.assertIn("plans    0", self.ok("cache", "stats"))
        self.ok("run", self.softmax, "--dim", "n=3")
        report = json.loads(self.ok("cache", "verify", "--json"))
        self.assertEqual((report["plans"], report["damaged"]), (1, 0))
        self.assertGreaterEqual(report["kernels"], 1)
        for name in os.listdir(self.cache):
            if name.endswith(".plan"):
                with open(os.path.join(self.cache, name), "r+b") as f:
                    f.seek(-1, 2)
                    last = f.read(1)
                    f.seek(-1, 2)
                    f.write(bytes([last[0] ^ 1]))
        self.assertEqual(self.call("cache", "verify").returncode, 1)
        self.assertFalse(json.loads(self.ok("run", self.softmax, "--dim", "n=3", "--json"))["from_cache"])
        self.assertEqual(json.loads(self.ok("cache", "verify", "--json"))["damaged"], 0)
        os.truncate(os.path.join(self.cache, next(n for n in os.listdir(self.cache) if n.endswith(".kernel"))), 100)
        self.assertEqual(json.loads(self.ok("cache", "verify", "--remove", "--json"))["removed"], 1)
        self.assertIn("folder   none", self.ok("cache", "stats", "--no-cache"))
        self.fails(USAGE, "allowed are stats and verify", "cache", "sing")

    def case(self, name, model, inputs, outputs):
        """A folder of test data; tensors are (ONNX type, dims, bytes)."""
        data = os.path.join(self.folder.name, "cases", name, "test_data_set_0")
        os.makedirs(data)
        with open(os.path.join(os.path.dirname(data), "model.onnx"), "w", encoding="utf-8") as f:
            f.write(model)
        for kind, tensors in [("input", inputs), ("output", outputs)]:
            for k, (dtype, dims, raw) in enumerate(tensors):
                with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                    f.write(b"".join(b"\x08" + bytes([d]) for d in dims) + b"\x10" + bytes([dtype]) +
                            b"\x4a" + bytes([len(raw)]) + raw)

    def test_cases_of_test_data(self):
        add = "graph add(x: f32[n], i: i32[n]) { %y = map \"a + 1\" %x %j = map \"a + 1\" %i return y = %y, j = %j }"
        three, ints = struct.pack("<3f", 1, 2, 3), struct.pack("<3i", 1, 2, 3)
        x, i = (1, [3], three), (6, [3], ints)
        good = [(1, [3], struct.pack("<3f", 2, 3.001, 4)), (6, [3], struct.pack("<3i", 2, 3, 4))]
        bad = [(1, [3], struct.pack("<3f", 2, 3, 4)), (6, [3], struct.pack("<3i", 2, 3, -4))]
        unfit = "graph f(x: str[n]) { %y = host \"none\" %x : str[n] return y = %y }"
        self.case("good", add, [x, i], good)
        cases = os.path.join(self.folder.name, "cases")
        for words in [[], ["--interpret"], ["--threads", "1"], ["--fail-on-compile"]]:
            self.assertEqual(self.ok("test", cases, *words), "1 passed, 0 failed, 0 skipped\n")
        self.case("few", add, [x], good)
        self.case("half", add, [x, i], [(1, [3], struct.pack("<3f", 2, 3.01, 4))])
        self.case("shape", add, [x, i], [(1, [1, 3], good[0][2]), good[1]])
        self.case("whole", add, [x, i], bad)
        self.case("unfit", unfit, [x], good)
        done = self.call("test", cases)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:4], [
            "failed few: i: the data have no input_1.pb",
            "failed half: output 0: 1 of 3 elements differ, the first at 1: 3, expected 3.00999999, 41943 ulp",
            "failed shape: output 0: is f32[3], expected f32[1x3]",
            lines[3]])
        self.assertTrue(lines[3].startswith("skipped unfit: not supported: "), lines[3])
        self.assertEqual(lines[4:], ["failed whole: output 1: 1 of 3 elements differ, the first at 2: 4, expected -4",
                                     "1 passed, 4 failed, 1 skipped"])
        self.case("near", add, [x, i], [(1, [3], struct.pack("<3f", 2, 3.02, 4)), good[1]])
        near = os.path.join(cases, "near")
        self.assertEqual(self.ok("test", near, "--rtol", "0.01"), "1 passed, 0 failed, 0 skipped\n")
        self.assertEqual(self.call("test", near, "--rtol", "0.005").returncode, 1)
        self.fails(USAGE, "--rtol '2', allowed are 0 to 1", "test", cases, "--rtol", "2")
        found = json.loads(self.call("test", os.path.join(cases, "good"), os.path.join(cases, "half"), "--json").stdout)
        self.assertEqual((found["passed"], found["failed"], found["skipped"]), (1, 1, 0))
        self.assertEqual([c["verdict"] for c in found["cases"]], ["passed", "failed"])
        self.fails(USAGE, "no model.onnx below", "test", os.path.join(cases, "good", "test_data_set_0"))

    def test_another_cpu_is_a_miss(self):
        self.ok("run", self.softmax, "--dim", "n=3", "--target", "baseline")
        self.fails(STATUS + NOT_FOUND, "in no cache", "run", self.softmax, "--dim", "n=3", "--fail-on-compile")
        self.ok("run", self.softmax, "--dim", "n=3", "--target", "baseline", "--fail-on-compile")
        self.fails(STATUS + NOT_FOUND, "in no cache", "run", self.softmax, "--dim", "n=3", "--target", "baseline",
                   "--strict", "--fail-on-compile")
        changed = self.file("changed.nsg", SOFTMAX.replace("a / b", "b / a"))
        self.fails(STATUS + NOT_FOUND, "in no cache", "run", changed, "--dim", "n=3", "--target", "baseline",
                   "--fail-on-compile")

    def test_kernels_outlive_plans(self):
        self.ok("run", self.softmax, "--dim", "n=3")
        renamed = self.file("renamed.nsg", SOFTMAX.replace("softmax", "other").replace("%e", "%f").replace("[n,", "[k,"))
        before = {n for n in os.listdir(self.cache) if n.endswith(".kernel")}
        self.ok("run", renamed, "--dim", "k=3")
        self.assertEqual({n for n in os.listdir(self.cache) if n.endswith(".kernel")}, before)

    def test_a_warm_process_has_neither_llvm_nor_protobuf(self):
        def warm():
            done = subprocess.run([WARM, self.softmax, self.cache], capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return re.fullmatch(r"compiled (\d+) cached (\d+) llvm (\d+) protobuf (\d+)\n", done.stdout).groups()
        cold = warm()
        self.assertEqual(cold[:2], ("1", "0"))
        self.assertNotEqual(cold[2], "0")
        self.assertEqual(warm(), ("0", "1", "0", "0"))

    def test_the_tool_needs_libnestor_alone(self):
        needed = subprocess.run(["readelf", "-Wd", TOOL], capture_output=True, text=True, check=True).stdout
        ours = [n for n in re.findall(r"NEEDED.*\[(.*)\]", needed) if not re.match(r"libc\.|libm\.|lib(a|ub|t)san", n)]
        self.assertEqual(ours, ["libnestor.so.0"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
