/* host_sort.c: stable sort of lines by one or more keys, with payload; the first entries alone where fewer are kept.
 *
 * Keys become unsigned words in the same order (NaN last, -0 equal to 0, complement for descending), so that one comparison
 * serves every type.  A line is sorted by merging in n log n comparisons; where few of many are kept, by a heap of those in
 * n log k. */
#include <stdio.h>
#include <string.h>
#include "ir/expr.h"
#include "runtime/host.h"

NstStatus nst_host_sort(NstHostStep *step);

/* Kept entries below this part of a line go through a heap: it does log2(k) comparisons an entry in the worst case and one
 * for most entries of random data, merging log2(n). */
#define HEAP_PART 8

typedef struct Sort {
    NstHostStep *step;
    int axis, keys;
    bool descending;
    int64_t n, keep;        /* entries of a line, and of a result's */
    size_t outer, inner;    /* lines: outer x inner */
    uint64_t *word;         /* by key: n words of the line */
    int64_t *order, *other; /* n entries */
} Sort;

static uint64_t key_word(const Sort *s, NstDtype dtype, const char *at)
{
    const uint64_t top = (uint64_t)1 << 63;
    NstScalar v = nst_scalar_load(dtype, at);
    uint64_t word = (uint64_t)v.i;
    if (nst_dtype_is_float(dtype)) {
        double value = v.f;
        if (nst_dtype_info(dtype)->compute != dtype) value = (double)nst_narrow_to_f32(dtype, (uint32_t)v.bits);
        if (value != value) return UINT64_MAX;
        if (value == 0) value = 0; /* -0 too */
        memcpy(&word, &value, sizeof word);
        word = word & top ? ~word : word | top;
    } else if (dtype != NST_U64) {
        word ^= top;
    }
    return s->descending ? ~word : word;
}

static bool goes_before(const Sort *s, int64_t a, int64_t b)
{
    for (int k = 0; k < s->keys; k++) {
        uint64_t x = s->word[k * s->n + a], y = s->word[k * s->n + b];
        if (x != y) return x < y;
    }
    return a < b;
}

static void merge_sort(Sort *s)
{
    for (int64_t i = 0; i < s->n; i++) s->order[i] = i;
    for (int64_t width = 1; width < s->n; width *= 2) {
        for (int64_t lo = 0; lo < s->n; lo += 2 * width) {
            int64_t mid = lo + width < s->n ? lo + width : s->n, hi = lo + 2 * width < s->n ? lo + 2 * width : s->n;
            for (int64_t i = lo, j = mid, k = lo; k < hi; k++) {
                bool right = i >= mid || (j < hi && goes_before(s, s->order[j], s->order[i]));
                s->other[k] = right ? s->order[j++] : s->order[i++];
            }
        }
        int64_t *swap = s->order;
        s->order = s->other;
        s->other = swap;
    }
}

/* Restores a heap of n entries, the one that goes last on top, below position `at`. */
static void sift_down(const Sort *s, int64_t *heap, int64_t n, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && goes_before(s, heap[child], heap[child + 1])) child++;
        if (!goes_before(s, heap[at], heap[child])) return;
        int64_t swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

/* The `keep` entries that go first, in order. */
static void select_first(Sort *s)
{
    int64_t *heap = s->order;
    for (int64_t i = 0; i < s->keep; i++) heap[i] = i;
    for (int64_t i = s->keep / 2; i-- > 0;) sift_down(s, heap, s->keep, i);
    for (int64_t i = s->keep; i < s->n; i++) {
        if (!goes_before(s, i, heap[0])) continue;
        heap[0] = i;
        sift_down(s, heap, s->keep, 0);
    }
    for (int64_t n = s->keep; n > 1; n--) {
        int64_t last = heap[0];
        heap[0] = heap[n - 1];
        heap[n - 1] = last;
        sift_down(s, heap, n - 1, 0);
    }
}

static void sort_line(Sort *s, size_t outer, size_t inner)
{
    const NstHostStep *step = s->step;
    for (int k = 0; k < s->keys; k++) {
        size_t size = (size_t)nst_dtype_info(step->in[k].dtype)->bytes;
        const char *at = (const char *)step->in[k].data + (outer * (size_t)s->n * s->inner + inner) * size;
        for (int64_t i = 0; i < s->n; i++, at += s->inner * size)
            s->word[k * s->n + i] = key_word(s, step->in[k].dtype, at);
    }
    if (s->keep > 0 && s->keep < s->n / HEAP_PART)
        select_first(s);
    else
        merge_sort(s);
    for (uint32_t k = 0; k < step->n_in; k++) {
        size_t size = (size_t)nst_dtype_info(step->in[k].dtype)->bytes;
        const char *from = (const char *)step->in[k].data + (outer * (size_t)s->n * s->inner + inner) * size;
        char *to = (char *)step->out[k].data + (outer * (size_t)s->keep * s->inner + inner) * size;
        for (int64_t i = 0; i < s->keep; i++)
            memcpy(to + (size_t)i * s->inner * size, from + (size_t)s->order[i] * s->inner * size, size);
    }
}

static NstStatus check(Sort *s)
{
    NstHostStep *step = s->step;
    int descending = 0;
    bool fits = step->config && step->n_in >= 1 && step->n_out == step->n_in &&
                sscanf(step->config, "axis %d descending %d keys %d", &s->axis, &descending, &s->keys) == 3 &&
                s->axis >= 0 && s->axis < step->in[0].rank && s->keys >= 1 && (uint32_t)s->keys <= step->n_in;
    for (uint32_t k = 0; k < step->n_in && fits; k++) {
        fits = step->in[k].rank == step->in[0].rank && step->out[k].rank == step->in[0].rank &&
               step->out[k].dtype == step->in[k].dtype;
        for (int d = 0; d < step->in[0].rank && fits; d++) fits = step->in[k].shape[d] == step->in[0].shape[d];
    }
    NST_CHECK(step->ctx, fits, NST_E_INVALID, "sort: a step of another form");
    for (int k = 0; k < s->keys; k++) {
        NstDtypeClass klass = nst_dtype_info(step->in[k].dtype)->klass;
        NST_CHECK(step->ctx, klass != NST_CLASS_STRING && klass != NST_CLASS_COMPLEX, NST_E_UNSUPPORTED,
                  "sort by keys of type %s", nst_dtype_name(step->in[k].dtype));
    }
    s->descending = descending != 0;
    return NST_OK;
}

NstStatus nst_host_sort(NstHostStep *step)
{
    Sort s = {.step = step, .outer = 1, .inner = 1};
    NST_TRY(check(&s));
    s.n = step->in[0].shape[s.axis];
    for (int d = 0; d < s.axis; d++) s.outer *= (size_t)step->in[0].shape[d];
    for (int d = s.axis + 1; d < step->in[0].rank; d++) s.inner *= (size_t)step->in[0].shape[d];
    for (uint32_t k = 0; k < step->n_out; k++) NST_TRY(step->give(step, k));
    for (uint32_t k = 0; k < step->n_out; k++)
        for (int d = 0; d < step->in[0].rank; d++) {
            bool fits = d == s.axis ? step->out[k].shape[d] >= 0 && step->out[k].shape[d] <= s.n &&
                                          step->out[k].shape[d] == step->out[0].shape[d]
                                    : step->out[k].shape[d] == step->in[0].shape[d];
            NST_CHECK(step->ctx, fits, NST_E_SHAPE, "sort keeps %lld of %lld elements",
                      (long long)step->out[k].shape[d], (long long)step->in[0].shape[d]);
        }
    s.keep = step->out[0].shape[s.axis];
    if (s.n == 0 || s.keep == 0) return NST_OK;
    s.word = NST_NEW_ARRAY(step->arena, uint64_t, (size_t)s.keys *(size_t)s.n);
    s.order = NST_NEW_ARRAY(step->arena, int64_t, s.n);
    s.other = NST_NEW_ARRAY(step->arena, int64_t, s.n);
    for (size_t o = 0; o < s.outer; o++)
        for (size_t i = 0; i < s.inner; i++) sort_line(&s, o, i);
    return NST_OK;
}
