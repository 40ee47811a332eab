/* proof.h: which operator versions and types a case that passed has proved.
 *
 * A case notes its nodes while it is imported; where it passed, each is printed to a file as a line of columns between tabs:
 * test, domain, operator, version, variables of the row's types with what they were ("T=f32 T1=i64", one node's). */
#ifndef NST_TESTS_ONNX_PROOF_H
#define NST_TESTS_ONNX_PROOF_H

#include <stdio.h>
#include <string.h>
#include "frontend/import.h"
#include "frontend/schema.h"
#include "ir/base/str.h"

typedef struct Proof {
    NstText lines; /* without the test's name; initialised by proof_begin */
} Proof;

static inline void proof_begin(Proof *proof, NstArena *arena)
{
    nst_text_init(&proof->lines, arena);
}

static inline const char *proof_kind(const NstType *type)
{
    if (type->kind == NST_TYPE_SEQUENCE) return "seq";
    if (type->kind == NST_TYPE_OPTIONAL) return type->item->kind == NST_TYPE_SEQUENCE ? "optseq" : "opt";
    return type->kind == NST_TYPE_MAP ? "map" : nst_dtype_info(type->dtype)->name;
}

static inline void proof_side(NstText *lines, const NstFormal *formal, int n_formal, const NstType *const *type, int n)
{
    for (int k = 0; k < n && n_formal > 0; k++) {
        const NstFormal *f = &formal[k < n_formal ? k : n_formal - 1];
        if (type[k]) nst_text_add(lines, " %.*s=%s", f->type_n, f->type, proof_kind(type[k]));
    }
}

/* For NstImportOptions.imported; arg: a Proof. */
static inline void proof_add(void *arg, const NstImportedNode *node)
{
    Proof *proof = arg;
    NstSignature s;
    NST_ASSERT(nst_signature_parse(nst_op_signature(node->row), &s));
    nst_text_add(&proof->lines, "\t%s\t%s\t%d\t", node->row->domain, node->row->name, node->row->since);
    proof_side(&proof->lines, s.in, s.n_in, node->in, node->n_in);
    proof_side(&proof->lines, s.out, s.n_out, node->out, node->n_out);
    nst_text_add(&proof->lines, "\n");
}

static inline void proof_print(const Proof *proof, FILE *file, const char *test)
{
    for (const char *at = proof->lines.at; file && at && *at; at += strcspn(at, "\n") + 1)
        fprintf(file, "%s%.*s\n", test, (int)strcspn(at, "\n"), at);
}

#endif
