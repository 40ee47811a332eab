/* test_turned_maps.c: maps that read along one axis and write along another run in square blocks, with the same bits. */
#include <criterion/criterion.h>
#include "tests/unit/support_module.h"

#define DEAR "max(max(((a + c) * b - 3) * 2 + b, c) * 3 - a, b) * 2 + (max(a * 5 - c, 1) + b) * 4"

static const SizedCase cases[] = {
    {"graph t(x: f32[n, m]) {\n  %t = permute [1, 0] %x : f32[m, n]\n  %y = map \"a * 2 + 1\" %t : f32[m, n]\n"
     "  return out = %y\n}\n",
     {"n=48 m=32", "n=37 m=21", "n=5 m=3"}},
    {"graph t(x: f32[2, 24, 5, n]) {\n  %t = permute [0, 2, 3, 1] %x : f32[2, 5, n, 24]\n"
     "  %y = map \"max(a, 0)\" %t : f32[2, 5, n, 24]\n  return out = %y\n}\n",
     {"n=7", "n=16", "n=1"}},
    {"graph t(x: i32[n, m], z: i32[m, 40]) {\n  %t = permute [1, 0] %x : i32[m, n]\n"
     "  %s = slice start [0, 3] %t : i32[m, 16]\n  %c = concat axis 1 %s, %z : i32[m, 56]\n"
     "  %y = map \"a + 1\" %c : i32[m, 56]\n  return out = %y\n}\n",
     {"n=20 m=32", "n=33 m=19", "n=19 m=5"}},
    {"graph t(x: f32[n, 50], w: f32[n, 50]) {\n  %t = permute [1, 0] %x : f32[50, n]\n"
     "  %u = permute [1, 0] %w : f32[50, n]\n  %y = map \"a * b\" %t, %u : f32[50, n]\n  return out = %y\n}\n",
     {"n=48", "n=33", "n=2"}},
    /* dear maps of no elementary function: computed in parts before they are turned */
    {"graph t(x: f32[n, m], w: f32[n, 1], v: f32[1, m]) {\n"
     "  %z = map \"" DEAR "\" %x, %w, %v : f32[n, m]\n"
     "  %y = permute [1, 0] %z : f32[m, n]\n  return out = %y\n}\n",
     {"n=70 m=83", "n=37 m=16", "n=5 m=3"}},
    {"graph t(x: i32[n, m], w: i32[n, 1], v: i32[1, m]) {\n"
     "  %z = map \"" DEAR " > 3\" %x, %w, %v : b1[n, m]\n"
     "  %y = permute [1, 0] %z : b1[m, n]\n  return out = %y\n}\n",
     {"n=70 m=83", "n=37 m=16", "n=5 m=3"}},
    {"graph t(x: f32[n, m], w: f32[n, 1], v: f32[1, m]) {\n"
     "  %z = map \"convert<f16>(" DEAR ")\" %x, %w, %v : f16[n, m]\n"
     "  %y = permute [1, 0] %z : f16[m, n]\n  return out = %y\n}\n",
     {"n=70 m=83", "n=37 m=16", "n=5 m=3"}},
    {"graph t(x: f32[n, m], w: f32[n, m], v: f32[1, m]) {\n" /* two chains that meet */
     "  %z = map \"(" DEAR ") * (" DEAR " - a * c) + a\" %x, %w, %v : f32[n, m]\n"
     "  %y = permute [1, 0] %z : f32[m, n]\n  return out = %y\n}\n",
     {"n=70 m=83", "n=37 m=16", "n=5 m=3"}},
};

static void check(const char *target_name)
{
    support_same_on_target(cases, sizeof cases / sizeof *cases, target_name);
}

Test(turned_maps, baseline)
{
    check("baseline");
}

Test(turned_maps, avx2)
{
    check("avx2");
}

Test(turned_maps, avx512)
{
    check("avx512");
}
