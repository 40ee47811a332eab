#!/usr/bin/env python3
"""docs/MODELS.md out of what `bench/compare --json` prints: models_page.py RESULT.json COMMIT > docs/MODELS.md"""
import datetime
import json
import sys


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "unknown CPU")


def main():
    path, commit = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        found = json.load(f)
    by_name = {}
    for row in found["models"]:
        by_name.setdefault(row["name"], {})[row["threads"]] = row
    threads = sorted({row["threads"] for row in found["models"]})
    print("# Models\n")
    print(f"Written by `bench/compare --write`, never by hand. Commit {commit}, {cpu()}, {datetime.date.today()}.\n")
    print("The models of `tools/models.py`, Nestor and ONNX Runtime in one process and in turn. Ratio: ONNX Runtime's median time")
    print("over ours, above 1 we are faster; outputs are compared before anything is timed. Where we are slower, the kernel that")
    print("costs most.\n")
    print("| model | " + " | ".join(f"ratio, {t} thread{'s' * (t > 1)} | ours, ms" for t in threads) + " | costs most |")
    print("| --- |" + " --- | --- |" * len(threads) + " --- |")
    for name, rows in sorted(by_name.items()):
        cells, worst = [], ""
        for t in threads:
            row = rows.get(t, {"error": "not run"})
            if "error" in row:
                cells += ["**does not run**", ""]
                worst = row["error"]
            else:
                cells += [f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})", f"{row['ours_ms']:.3f}"]
                worst = worst or row["worst"]
        print(f"| {name} | " + " | ".join(cells) + " | " + worst.replace("|", "/") + " |")
    means = ", ".join(f"{t} thread{'s' * (int(t) > 1)} {m:.2f}" for t, m in sorted(found["geometric_mean"].items()))
    print(f"\nGeometric mean: {means}.")


main()
