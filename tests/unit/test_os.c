/* test_os.c: ir/base/os.h. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/os.h"

static NstCtx ctx;
static char path[4096];

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/nestor-test-os-%lld", base ? base : "/tmp", (long long)nst_os_now_ns());
}

static void end(void)
{
    nst_arena_fail_after(0);
    remove(path);
    nst_ctx_dispose(&ctx);
}

TestSuite(os, .init = begin, .fini = end);

Test(os, a_file_written_reads_back)
{
    const NstPart parts[] = {{"head", 4}, {NULL, 0}, {"\0tail", 5}};
    char *bytes;
    size_t size;
    cr_assert_eq(nst_os_write_file(&ctx, path, parts, 3), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 9, &bytes, &size), NST_OK, "%s", ctx.error);
    cr_assert_eq(size, 9);
    cr_assert_eq(memcmp(bytes, "head\0tail", 10), 0);
    NstMapping mapping;
    cr_assert_eq(nst_os_map_file(&ctx, path, &mapping), NST_OK);
    cr_assert_eq(mapping.size, 9);
    cr_assert_eq(memcmp(mapping.at, "head\0tail", 9), 0);
    nst_os_unmap(&mapping);
    cr_assert_null(mapping.at);
    nst_os_unmap(&mapping);

    cr_assert_eq(nst_os_write_file(&ctx, path, parts, 1), NST_OK, "it is replaced");
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 100, &bytes, &size), NST_OK);
    cr_assert_eq(size, 4);
}

Test(os, an_empty_file_is_an_empty_mapping)
{
    NstMapping mapping;
    char *bytes;
    size_t size;
    cr_assert_eq(nst_os_write_file(&ctx, path, NULL, 0), NST_OK);
    cr_assert_eq(nst_os_map_file(&ctx, path, &mapping), NST_OK);
    cr_assert(mapping.at == NULL && mapping.size == 0);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 0, &bytes, &size), NST_OK);
    cr_assert(size == 0 && bytes[0] == '\0');
}

Test(os, failures_say_what_and_where)
{
    char *bytes;
    size_t size;
    NstMapping mapping;
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 9, &bytes, &size), NST_E_IO);
    cr_assert(strstr(ctx.error, path) && strstr(ctx.error, "cannot open"), "%s", ctx.error);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_os_map_file(&ctx, "/", &mapping), NST_E_IO);
    cr_assert(strstr(ctx.error, "not a regular file"), "%s", ctx.error);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_os_write_file(&ctx, "/nonexistent-folder/x", NULL, 0), NST_E_IO);
    cr_assert(strstr(ctx.error, "/nonexistent-folder/x"), "%s", ctx.error);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_os_write_file(&ctx, path, &(NstPart){"12345", 5}, 1), NST_OK);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 4, &bytes, &size), NST_E_LIMIT);
    cr_assert(strstr(ctx.error, "5 bytes, allowed are 4"), "%s", ctx.error);
    cr_assert_eq(nst_os_read_file(NULL, ctx.arena, "/nonexistent-folder/x", 4, &bytes, &size), NST_E_IO);
    static char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    cr_assert_eq(nst_os_write_file(NULL, longer, NULL, 0), NST_E_IO);
}

Test(os, mapped_code_is_a_copy)
{
    NstMapping mapping;
    unsigned char code[] = {0xc3, 1, 2, 3};
    cr_assert_eq(nst_os_map_code(&ctx, code, sizeof code, &mapping), NST_OK);
    cr_assert_eq(memcmp(mapping.at, code, sizeof code), 0);
    nst_os_unmap(&mapping);
    nst_arena_fail_after(1);
    cr_assert_eq(nst_os_map_code(&ctx, code, sizeof code, &mapping), NST_E_NOMEM);
    cr_assert_null(mapping.at);
    cr_assert_eq(nst_os_map_code(&ctx, NULL, 0, &mapping), NST_OK);
}

Test(os, clock_and_processors)
{
    int64_t before = nst_os_now_ns();
    cr_assert_geq(nst_os_now_ns(), before);
    cr_assert(nst_os_cpu_count() >= 1);
}

/* Whatever the size: whole lines, zero, the caller's to write. */
Test(os, large_pages)
{
    static const size_t sizes[] = {1, 4096, (size_t)1 << 20, ((size_t)2 << 20) + 1, (size_t)7 << 20};
    char *before = NULL;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char *at = nst_os_large_pages(ctx.arena, sizes[k]);
        cr_assert_eq((uintptr_t)at % 64, 0);
        for (size_t b = 0; b < sizes[k]; b += 4096) cr_assert_eq(at[b], 0);
        memset(at, 1 + (int)k, sizes[k]);
        if (before)
            cr_assert(before[0] == (int)k && before[sizes[k - 1] - 1] == (int)k, "piece %zu was overwritten", k);
        before = at;
    }
}
