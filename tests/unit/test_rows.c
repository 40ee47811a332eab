/* test_rows.c: the schedule of maps and rows: rows in turn, wide vectors of dear maps, sums across memory and outputs past the
 * caches give the interpreter's bits. */
#include <criterion/criterion.h>
#include "tests/unit/support_module.h"

/* More than twelve operations, two exp: a dear map. */
#define DEAR                                                                                                           \
    "  %a = map \"exp(max(a * b + 0.5, -3)) * 0.25\" %x, %w : f32[n, m]\n"                                             \
    "  %y = map \"max((exp((max(a * b + 1, 0.75) + 0.125) * 0.5) + b) * b, 0) + 3\" %a, %w : f32[n, m]\n"              \
    "  return out = %y\n}\n"

static const SizedCase cases[] = {
    /* softmax and layer norm: blocks of rows in turn, and what is left over */
    {"graph t(x: f32[n, m]) {\n  %m = reduce \"max(a, b)\" axes [1] keep %x : f32[n, 1]\n"
     "  %e = map \"exp(a - b)\" %x, %m : f32[n, m]\n  %s = reduce \"a + b\" axes [1] keep %e : f32[n, 1]\n"
     "  %y = map \"a / b\" %e, %s : f32[n, m]\n  return out = %y\n}\n",
     {"n=37 m=45", "n=70 m=130"}},
    {"graph t(x: f32[67, m], g: f32[1, m]) {\n  %s = reduce \"a + b\" axes [1] keep %x : f32[67, 1]\n"
     "  %d = map \"a - b / 40\" %x, %s : f32[67, m]\n  %q = map \"a * a\" %d : f32[67, m]\n"
     "  %t = reduce \"a + b\" axes [1] keep %q : f32[67, 1]\n"
     "  %y = map \"a / sqrt(b + 0.5) * c\" %d, %t, %g : f32[67, m]\n  return out = %y\n}\n",
     {"m=40", "m=1"}},
    /* a local in the output that replaces it: moved between other axes, across a reshape; not where it is wanted again, of
     * another type, turned, or a part of what is stored */
    {"graph t(x: f32[n, 4, m]) {\n  %m = reduce \"max(a, b)\" axes [2] keep %x : f32[n, 4, 1]\n"
     "  %e = map \"exp(a - b)\" %x, %m : f32[n, 4, m]\n  %s = reduce \"a + b\" axes [2] keep %e : f32[n, 4, 1]\n"
     "  %d = map \"a / b\" %e, %s : f32[n, 4, m]\n  %y = permute [1, 0, 2] %d : f32[4, n, m]\n  return out = %y\n}\n",
     {"n=37 m=45", "n=3 m=130"}},
    {"graph t(x: f32[n, 4, m]) {\n  %m = reduce \"max(a, b)\" axes [2] keep %x : f32[n, 4, 1]\n"
     "  %e = map \"exp(a - b)\" %x, %m : f32[n, 4, m]\n  %s = reduce \"a + b\" axes [2] keep %e : f32[n, 4, 1]\n"
     "  %d = map \"a / b\" %e, %s : f32[n, 4, m]\n  %y = permute [1, 2, 0] %d : f32[4, m, n]\n  return out = %y\n}\n",
     {"n=37 m=45", "n=3 m=130"}},
    {"graph t(x: f32[n, m], z: f32[n, m]) {\n  %s = reduce \"a + b\" axes [1] keep %x : f32[n, 1]\n"
     "  %e = map \"exp(a - b / 40)\" %x, %s : f32[n, m]\n  %t = reduce \"a + b\" axes [1] keep %e : f32[n, 1]\n"
     "  %y = map \"a / b\" %e, %t : f32[n, m]\n  %u = reduce \"a * b\" axes [1] keep %y : f32[n, 1]\n"
     "  %v = map \"a - b * c\" %e, %u, %z : f32[n, m]\n  return y = %y, v = %v\n}\n",
     {"n=37 m=45", "n=3 m=130"}},
    {"graph t(x: f32[n, m]) {\n  %s = reduce \"a + b\" axes [1] keep %x : f32[n, 1]\n"
     "  %e = map \"exp(a - b / 40)\" %x, %s : f32[n, m]\n  %t = reduce \"a + b\" axes [1] keep %e : f32[n, 1]\n"
     "  %y = map \"convert<f16>(a / b)\" %e, %t : f16[n, m]\n  return y = %y\n}\n",
     {"n=37 m=45", "n=3 m=130"}},
    {"graph t(x: f32[n, 70], z: f32[n, 30]) {\n  %s = reduce \"a + b\" axes [1] keep %x : f32[n, 1]\n"
     "  %e = map \"exp(a - b / 40)\" %x, %s : f32[n, 70]\n  %t = reduce \"a + b\" axes [1] keep %e : f32[n, 1]\n"
     "  %l = slice start [0, 20] %e : f32[n, 50]\n  %d = map \"a / b\" %l, %t : f32[n, 50]\n"
     "  %y = concat axis 1 %z, %d : f32[n, 80]\n  return y = %y\n}\n",
     {"n=37", "n=3"}},
    /* rows of more than L1 that share weights of as much: the last map column block by column block, and what is left over */
    {"graph t(x: f32[n, m], g: f32[1, m], o: f32[1, m]) {\n  %s = reduce \"a + b\" axes [1] keep %x : f32[n, 1]\n"
     "  %d = map \"a - b / 40\" %x, %s : f32[n, m]\n  %q = map \"a * a\" %d : f32[n, m]\n"
     "  %t = reduce \"a + b\" axes [1] keep %q : f32[n, 1]\n"
     "  %y = map \"a / sqrt(b + 0.5) * c + d\" %d, %t, %g, %o : f32[n, m]\n  return out = %y\n}\n",
     {"n=37 m=4100", "n=3 m=20"}},
    {"graph t(x: f32[37, 4100], g: f32[1, 4100], o: f32[1, 4100]) {\n  %s = reduce \"a + b\" axes [1] keep %x : "
     "f32[37, 1]\n"
     "  %y = map \"(a - b) * c + d\" %x, %s, %g, %o : f32[37, 4100]\n  return out = %y\n}\n",
     {"", ""}},
    /* likewise rows of two axes, which are one for the last map */
    {"graph t(x: f32[n, p, m], g: f32[1, p, m]) {\n  %s = reduce \"a + b\" axes [1, 2] keep %x : f32[n, 1, 1]\n"
     "  %y = map \"(a - b / 40) * c\" %x, %s, %g : f32[n, p, m]\n  return out = %y\n}\n",
     {"n=37 p=3 m=3000", "n=40 p=33 m=4"}},
    {"graph t(x: f32[37, 3, 3000], g: f32[1, 3, 3000]) {\n  %s = reduce \"a + b\" axes [1, 2] keep %x : f32[37, 1, 1]\n"
     "  %y = map \"(a - b / 40) * c\" %x, %s, %g : f32[37, 3, 3000]\n  return out = %y\n}\n",
     {"", ""}},
    /* in pieces, over strips and in turned blocks; a tree of functions, a piece that two others use */
    {"graph t(x: f32[n, m], w: f32[n, 1], b: f32[1, m]) {\n"
     "  %a = map \"exp(max(a * b + 0.5, -3)) * 0.25\" %x, %w : f32[n, m]\n"
     "  %z = map \"max((exp((max(a * b + c, 0.75) + 0.125) * 0.5) + b) * c, 0) + 3\" %a, %w, %b : f32[n, m]\n"
     "  %y = permute [1, 0] %z : f32[m, n]\n  return out = %y\n}\n",
     {"n=83 m=150", "n=40 m=17"}},
    {"graph t(x: f32[n, m], w: f32[n, m]) {\n  %a = map \"exp(a * 0.5) + 1\" %x : f32[n, m]\n"
     "  %z = map \"(tanh(a) * exp(b) + a * 0.5 + tanh(b * 3 + 1) - b * 2 + a * b) / (a + 2)\" %a, %w : f32[n, m]\n"
     "  %y = permute [1, 0] %z : f32[m, n]\n  return y = %y, z = %z\n}\n",
     {"n=70 m=65", "n=5 m=1100"}},
    /* 64 lanes a register */
    {"graph t(x: i8[n, m], w: i8[n, m]) {\n"
     "  %y = map \"(a * b + a - b * 3 + max(a, b) * min(b + 1, a) - 7 + a * 2 - b + max(a - 1, b)) * a\" %x, %w : "
     "i8[n, m]\n"
     "  return out = %y\n}\n",
     {"n=3 m=300", "n=1 m=700"}},
    {"graph t(x: f32[n, m], w: f32[n, 1]) {\n" DEAR, {"n=3 m=200", "n=2 m=61"}},
    {"graph t(x: f32[n, m], w: f32[1, m]) {\n" DEAR, {"n=3 m=200", "n=2 m=61"}},
    /* lanes of a sum whose neighbours lie across memory: each lane of a vector of columns in turn, then the tree */
    {"graph t(x: f32[n, m]) {\n  %p = permute [1, 0] %x : f32[m, n]\n"
     "  %s = reduce \"a + b\" axes [1] lanes 64 %p : f32[m]\n  return s = %s\n}\n",
     {"n=301 m=90", "n=5 m=64"}},
    {"graph t(x: f32[k, n, m]) {\n  %p = permute [2, 0, 1] %x : f32[m, k, n]\n"
     "  %s, %t = reduce state \"0f32\" step \"fma(c, c, a)\" merge \"a + c\" state \"0f32\" step \"b + c\" merge \"b + "
     "d\" "
     "axes [1, 2] lanes 16 %p : f32[m], f32[m]\n  return s = %s, t = %t\n}\n",
     {"k=3 n=37 m=21", "k=1 n=16 m=1"}},
    {"graph t(x: f32[40, n, m]) {\n  %p = permute [0, 2, 1] %x : f32[40, m, n]\n"
     "  %s = reduce \"a + b\" axes [2] keep lanes 16 %p : f32[40, m, 1]\n"
     "  %y = map \"a - b\" %p, %s : f32[40, m, n]\n  return y = %y\n}\n",
     {"n=33 m=70", "n=1 m=7"}},
    /* the axis whose lanes they are has one element */
    {"graph t(x: f32[n, 40, 1], w: f32[n, 1]) {\n  %s = reduce \"a + b\" axes [1, 2] lanes 16 %x : f32[n]\n"
     "  %t = reduce \"a + b\" axes [1] keep lanes 64 %w : f32[n, 1]\n"
     "  %y = contract \"ik,jk->ij\" lanes 16 %w, %t : f32[n, n]\n  return s = %s, t = %t, y = %y\n}\n",
     {"n=37", "n=1"}},
    /* any order: as memory lies */
    {"graph t(x: f32[n, m, 5]) {\n  %p = permute [2, 0, 1] %x : f32[5, n, m]\n"
     "  %s = reduce \"max(a, b)\" axes [0, 1, 2] %p : f32[]\n  %t = reduce \"min(a, b)\" axes [0, 2] %p : f32[n]\n"
     "  return s = %s, t = %t\n}\n",
     {"n=30 m=13", "n=1 m=1"}},
    {"graph t(x: i32[n, m, 5]) {\n  %p = permute [2, 1, 0] %x : i32[5, m, n]\n"
     "  %s = reduce \"a + b\" axes [0, 1, 2] %p : i32[]\n  %t = reduce \"a ^ b\" axes [0, 2] %p : i32[m]\n"
     "  %u = reduce \"a * b\" axes [1] %p : i32[5, n]\n  return s = %s, t = %t, u = %u\n}\n",
     {"n=30 m=13", "n=2 m=70"}},
    /* a row across memory: fused where an axis stays inside, else by columns */
    {"graph t(x: f32[3, n, m]) {\n  %m = reduce \"max(a, b)\" axes [1] keep %x : f32[3, 1, m]\n"
     "  %e = map \"exp(a - b)\" %x, %m : f32[3, n, m]\n  %s = reduce \"a + b\" axes [1] keep %e : f32[3, 1, m]\n"
     "  %y = map \"a / b\" %e, %s : f32[3, n, m]\n  return out = %y\n}\n",
     {"n=21 m=75", "n=1 m=3"}},
};

static void check(const char *target_name)
{
    support_same_on_target(cases, sizeof cases / sizeof *cases, target_name);
}

Test(rows, baseline)
{
    check("baseline");
}

Test(rows, avx2)
{
    check("avx2");
}

Test(rows, avx512)
{
    check("avx512");
}

/* A target whose L2 holds next to nothing: every output is streamed. */
Test(rows, outputs_past_the_caches)
{
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_eq(nst_target_parse(&ctx, "host", &target), NST_OK);
    target.l2_bytes = 64;
    ModuleCase test = {.text = "graph t(x: f32[48, 70]) {\n  %t = permute [1, 0] %x : f32[70, 48]\n"
                               "  %y = map \"a * 2 + 1\" %t : f32[70, 48]\n  return out = %y\n}\n",
                       .sizes = "",
                       .seed = 5};
    support_same_on_threads(&ctx, &test, &target, "a cache of 64 bytes");
    nst_ctx_dispose(&ctx);
}
