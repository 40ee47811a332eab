/* host_regex.c: regular expressions by PCRE2, which is loaded when a model has one and only then.  The standard asks for RE2's
 * syntax, which is with few exceptions a part of PCRE2's; what PCRE2 has beyond it is not refused. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include "ir/base/library.h"
#include "runtime/host.h"

#define LIBRARY     "libpcre2-8.so.0"
#define MATCH_LIMIT 1000000 /* steps of a match, a bound on backtracking: well under a second */

NstStatus nst_host_regex_full_match(NstHostStep *step);

typedef struct Regex {
    pcre2_code *(*compile)(PCRE2_SPTR, PCRE2_SIZE, uint32_t, int *, PCRE2_SIZE *, pcre2_compile_context *);
    pcre2_match_data *(*match_data)(const pcre2_code *, pcre2_general_context *);
    pcre2_match_context *(*context)(pcre2_general_context *);
    int (*limit)(pcre2_match_context *, uint32_t);
    int (*match)(const pcre2_code *, PCRE2_SPTR, PCRE2_SIZE, PCRE2_SIZE, uint32_t, pcre2_match_data *,
                 pcre2_match_context *);
    void (*free_code)(pcre2_code *), (*free_data)(pcre2_match_data *), (*free_context)(pcre2_match_context *);
} Regex;

static NstStatus load(NstCtx *ctx, Regex *r)
{
    void *library;
    NST_TRY(nst_library_open(ctx, LIBRARY, &library));
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"pcre2_compile_8", &r->compile},
                   {"pcre2_match_data_create_from_pattern_8", &r->match_data},
                   {"pcre2_match_context_create_8", &r->context},
                   {"pcre2_set_match_limit_8", &r->limit},
                   {"pcre2_match_8", &r->match},
                   {"pcre2_code_free_8", &r->free_code},
                   {"pcre2_match_data_free_8", &r->free_data},
                   {"pcre2_match_context_free_8", &r->free_context}};
    for (size_t k = 0; k < sizeof symbols / sizeof *symbols; k++) {
        void *at = nst_library_symbol(library, symbols[k].name);
        NST_CHECK(ctx, at, NST_E_UNSUPPORTED, "%s has no %s", LIBRARY, symbols[k].name);
        memcpy(symbols[k].to, &at, sizeof at);
    }
    return NST_OK;
}

static NstStatus match_all(NstHostStep *step, const Regex *r, const pcre2_code *code)
{
    const NstTensor *in = &step->in[0];
    unsigned char *out = step->out[0].data;
    pcre2_match_data *data = r->match_data(code, NULL);
    pcre2_match_context *context = r->context(NULL);
    NstStatus status = data && context ? NST_OK : nst_fail(step->ctx, NST_E_NOMEM, "no memory for a match");
    if (status == NST_OK) r->limit(context, MATCH_LIMIT);
    size_t n = 1;
    for (int k = 0; k < in->rank; k++) n *= (size_t)in->shape[k];
    for (size_t k = 0; k < n && status == NST_OK; k++) {
        const NstString *s = nst_strings_get(step->strings, ((const uint64_t *)in->data)[k]);
        int code_or_count = s ? r->match(code, (PCRE2_SPTR)s->at, s->n, 0, 0, data, context) : PCRE2_ERROR_NOMATCH;
        out[k] = code_or_count >= 0;
        if (code_or_count < 0 && code_or_count != PCRE2_ERROR_NOMATCH)
            status = nst_fail(step->ctx, NST_E_LIMIT, "pattern '%.100s' on '%.60s': PCRE2 error %d", step->config,
                              s->at, code_or_count);
    }
    if (context) r->free_context(context);
    if (data) r->free_data(data);
    return status;
}

/* config: the pattern.  Every string as a whole. */
NstStatus nst_host_regex_full_match(NstHostStep *step)
{
    Regex r;
    int error;
    PCRE2_SIZE at;
    NST_CHECK(step->ctx, step->strings, NST_E_UNSUPPORTED, "%s: strings are not supported here", step->name);
    bool fits = step->n_in == 1 && step->n_out == 1 && step->config && step->in[0].dtype == NST_STR &&
                step->out[0].dtype == NST_BOOL && step->out[0].rank == step->in[0].rank;
    NST_CHECK(step->ctx, fits, NST_E_INVALID, "regex_full_match: a step of another form");
    memcpy(step->out[0].shape, step->in[0].shape, sizeof step->out[0].shape);
    NST_TRY(step->give(step, 0));
    NST_TRY(load(step->ctx, &r));
    pcre2_code *code =
        r.compile((PCRE2_SPTR)step->config, strlen(step->config),
                  PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_MATCH_INVALID_UTF, &error, &at, NULL);
    NST_CHECK(step->ctx, code, NST_E_MODEL, "pattern '%.100s' is no regular expression (PCRE2 error %d at byte %zu)",
              step->config, error, (size_t)at);
    NstStatus status = match_all(step, &r, code);
    r.free_code(code);
    return status;
}
