/* test_op_table.c: every row of the operator table follows the form of ops/all.def. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "frontend/lower.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(op_table, .init = begin, .fini = end);

Test(op_table, signatures_and_attributes_parse)
{
    const NstOpRow *rows;
    int n = nst_op_rows(&rows);
    cr_assert_geq(n, 670);
    for (int k = 0; k < n; k++) {
        NstSignature s;
        NstAttrFormal f;
        bool ok;
        cr_expect(nst_signature_parse(nst_op_signature(&rows[k]), &s), "%s-%d: %s", rows[k].name, rows[k].since,
                  nst_op_signature(&rows[k]));
        cr_expect(s.n_out > 0, "%s-%d has no output", rows[k].name, rows[k].since);
        const char *p = nst_op_attributes(&rows[k]);
        while (nst_attr_formal_next(&p, &f, &ok)) {
        }
        cr_expect(ok, "%s-%d: %s", rows[k].name, rows[k].since, nst_op_attributes(&rows[k]));
    }
}

Test(op_table, history_falls_and_lookup_finds_each_version)
{
    const NstOpRow *rows;
    int n = nst_op_rows(&rows);
    cr_assert(rows[0].newest);
    for (int k = 0; k < n; k++) {
        if (!rows[k].newest) {
            cr_expect_str_eq(rows[k].name, rows[k - 1].name);
            cr_expect_lt(rows[k].since, rows[k - 1].since, "%s", rows[k].name);
        }
        cr_expect_eq(nst_op_find(rows[k].domain, rows[k].name, rows[k].since), &rows[k], "%s-%d", rows[k].name,
                     rows[k].since);
        if (k + 1 == n || rows[k + 1].newest)
            cr_expect_eq(nst_op_first_version(rows[k].domain, rows[k].name), rows[k].since, "%s", rows[k].name);
    }
    cr_expect_null(nst_op_find("ai.onnx", "Gelu", 19));
    cr_expect_null(nst_op_find("ai.onnx", "NoSuchThing", 19));
}

/* Each variable of a signature is one of the types, or an element type itself. */
Test(op_table, type_sets_hold_something)
{
    const NstOpRow *rows;
    int n = nst_op_rows(&rows);
    for (int k = 0; k < n; k++)
        for (const char *p = nst_op_types(&rows[k]); *p;) {
            const char *set = strchr(p, '='), *stop;
            cr_assert(set, "%s-%d: %s", rows[k].name, rows[k].since, p);
            stop = set + strcspn(set, " ");
            bool some =
                strncmp(set + 1, "seq", 3) == 0 || strncmp(set + 1, "opt", 3) == 0 || strncmp(set + 1, "map", 3) == 0;
            for (int type = 1; type < NST_DTYPE_COUNT; type++)
                some = some || nst_type_set_has(set + 1, (size_t)(stop - set) - 1, (NstDtype)type);
            cr_expect(some, "%s-%d: %.*s", rows[k].name, rows[k].since, (int)(stop - p), p);
            p = stop + (*stop == ' ');
        }
    cr_expect(nst_type_set_has("num-bf16+b1", 11, NST_BOOL));
    cr_expect(!nst_type_set_has("num-bf16+b1", 11, NST_BF16));
    cr_expect(nst_type_set_has("any-f8", 6, NST_I4) && !nst_type_set_has("any-f8", 6, NST_F8E5M2));
}

/* Formulas of rows parse for f32, or (what works on bits and logic) for i32 or bool. */
Test(op_table, formulas_parse)
{
    const NstOpRow *rows;
    int n = nst_op_rows(&rows), formulas = 0;
    NstExprs *exprs = nst_exprs_new(ctx.arena, nst_dims_new(ctx.arena));
    NstExpr one = nst_expr_float(exprs, NST_F64, 0.5), e;
    NstFormulaWord words[5] = {{"@alpha", one}, {"@beta", one}, {"@gamma", one}, {"@lambd", one}, {"@scale", one}};
    void nst_onnx_map(NstLower * c, const char *arg);
    for (int k = 0; k < n; k++) {
        if (rows[k].fn != nst_onnx_map) continue;
        bool ok = false;
        for (int t = 0; t < 4 && !ok; t++) {
            NstDtype type = (NstDtype[]){NST_F32, NST_I32, NST_BOOL, NST_F32}[t];
            NstDtype args[3] = {t == 3 ? NST_BOOL : type, type, type};
            nst_ctx_clear(&ctx);
            ok = nst_formula_parse(&ctx, exprs, rows[k].arg, args, 3, words, 5, NST_DTYPE_NONE, NULL, &e) == NST_OK;
        }
        cr_expect(ok, "%s-%d: \"%s\": %s", rows[k].name, rows[k].since, rows[k].arg, ctx.error);
        formulas++;
    }
    cr_expect_geq(formulas, 50);
}
