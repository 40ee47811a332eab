#!/usr/bin/env bash
# Writes docs/ARCHITECTURE.md: the pipeline, with docs/architecture.nsg printed at each stage by the tool just built.
#   docs/architecture.sh [TOOL]             writes it
#   docs/architecture.sh --check [TOOL]     shows how it differs; exit status 1 if it does
set -eu
cd "$(dirname "$0")/.."
page=docs/ARCHITECTURE.md out=$page
if [ "${1-}" = --check ]; then
    shift
    out=$(mktemp)
    trap 'rm -f "$out"' EXIT
fi
tool=${1:-build/release/bin/nestor}
dump() { "$tool" dump-ir docs/architecture.nsg --target nominal-avx2 --no-cache --stage "$@"; }
fence() { printf '```\n%s\n```\n' "$1"; }
{
    cat <<'TEXT'
# How a model becomes code

Written by docs/architecture.sh; the example is docs/architecture.nsg: a product with weights, bias and Relu, then a softmax.

    model.onnx --frontend--> graph --passes--> nests --passes--> kernels --codegen--> machine code --runtime--> plan, run

| step | where | in | out |
| --- | --- | --- | --- |
| import | frontend/ | bytes of an ONNX model | a graph of the 28 primitives (ir/prim.def); no operator name goes further |
| rows | passes/moments.c, reciprocal.c | the graph | the same with other roundings; off under strict |
| to nests | passes/to_nests.c | the graph | one nest a primitive; views are index maps, not nests |
| fuse | passes/fuse*.c | nests | groups of nests, each to be one kernel, with the reason why the next is another |
| online | passes/online*.c | groups | rows that are weighted sums about their maximum in chunks of 1,024 keys, however many keys there are; off under strict |
| ahead | passes/ahead.c | groups | those that read constants alone stand before the run |
| layout | passes/layout.c | row-major buffers | channels-last ones where weights and windows work |
| siblings | passes/fuse_siblings.c | groups | small products that read the same operand as one kernel |
| small | passes/small.c | groups | where steps cost something beside what they do, groups in a row as one kernel on one thread |
| tiles, strips, rows | passes/tile*.c, strip.c, rows.c | a group | its kernel: register tiles, vectors, threads; operands packed (pack.c), 8-bit products (int_dot.c) |
| simplify | passes/simplify*.c | a kernel | the same with guards decided and what does not change computed once |
| canon | passes/canon.c, share.c | all kernels | those that differ in sizes and strides alone as one text, the sizes as arguments |
| emit | codegen/ | kernels | LLVM IR, an object, one blob without relocations (object.c) |
| plan | runtime/compile_plan.c | blob, buffers | steps over one arena; serialised as the plan cache stores it |
| run | runtime/exec.c | plan, inputs | outputs; no LLVM, no allocation on the way |

Dims (ir/dim.h) and scalar expressions (ir/expr.h) are the same from the graph to the emitted code. Both levels have a text
form (docs/IR.md), a verifier with numbered checks (ir/verify.def) and an interpreter that every pass is compared with.

## Chunks of keys: one strip, however long the row

Rule 5 of the design. A row that is sums of exp(score - maximum) times something, scores and sums by contractions, is taken 1,024 keys at a
time: scores of a chunk into a strip of scratch, the maximum so far, exps, their sums; what the chunks before left is scaled by exp(maximum
before - maximum now). It is found by what nests compute, not where they came from (passes/online_find.c). One chunk is the plain form to
the bit, and only the number of keys decides, so that open and declared sizes, batches and threads give the same bits. Rows of less than
1,024 keys, and all under strict, stay whole. Measured on one core of Zen 3 (512 KB of L2), ms a run, best of several interleaved, 2026-12:

| heads x queries x keys x width | whole rows | chunks |
| --- | --- | --- |
| 2 x 128 x 16,384 x 64 | 26.9 (six kernels, 16 MB of scores) | 18.3 |
| 12 x 128 x 2,048 x 64 | 12.9 (a strip) | 12.2 |

## Siblings: one kernel, not one wide product

Rule 6 of the design joins products that read the same operand as one wide contraction. Here they become one kernel in which each
keeps its tiles, its weights, its results and its epilogue: nothing is copied or cut, sizes and epilogues may differ, and on several
threads all are dealt out as one job. Measured on two cores of Zen 4 (us a run, 2026-11; the wide product written by hand):

| products | threads | apart | one kernel | one wide product |
| --- | --- | --- | --- | --- |
| three 1 x 256 x 256 | 1, 2 | 8.1, 4.8 | 7.6, 4.1 | 7.6, 3.9 |
| three 1 x 384 x 384 | 1, 2 | 23.7, 12.1 | 23.6, 11.3 | 23.4, 11.4 |
| four 4 x 256 x 256 | 1, 2 | 18.6, 10.6 | 18.5, 9.7 | 18.6, 10.6 |
| three 8 x 192 x 192 | 1, 2 | 15.5, 11.8 | 15.6, 9.3 | 15.4, 9.4 |
| three 1 x 128 x 128 | 1 | 2.05 | 1.96 | 1.88 |
| three 1 x 64 x 64 | 1 | 0.69 | 0.67 | 0.60 |

Only below 2 us is the wide product ahead: tiles of 64 columns keep fewer sums in flight. From 12 us a product on, a kernel of its own costs
less than 2 % and siblings stay apart (three 768 x 768 at 1, 8 and 128 rows gain 0 to 2 % as one wide product).
TEXT
    printf '\n## The graph\n\n'; fence "$(dump graph)"
    printf '\n## The nests, fused\n\n'; fence "$(dump nest)"
    printf '\n## The kernels, scheduled for AVX2 (the first 70 lines)\n\n'; fence "$(dump sched | head -70)"
    printf '\n## The plan\n\n'; fence "$(dump plan)"
} >"$out"
[ "$out" = "$page" ] || diff "$page" "$out"
