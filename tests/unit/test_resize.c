/* test_resize.c: resized images with elements that are not finite: the same bits for open, declared and written sizes; what an axis
 * that stays as it is has of them does not spread along it. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "tests/unit/support_engine.h"
#include "tests/unit/support_onnx.h"

SUPPORT_ENGINE_SUITE(resize, .timeout = 110);

#define AXES 4
#define ROOM 256
#define WAYS 5

static const int64_t image[AXES] = {1, 2, 3, 4};

typedef struct ResizeCase {
    const char *mode, *coordinates;
    bool by_scales;
    int64_t to[AXES];
} ResizeCase;

/* How the sizes are known: not at all, declared, in the model; the target too; not at all and interpreted. */
typedef enum Way { OPEN, DECLARED, WRITTEN, CONSTANT, INTERPRETED } Way;

static NstText resize_model(const ResizeCase *test, Way way, const float *scales)
{
    static const int64_t four[] = {AXES, INT64_MIN};
    const int64_t open[] = {ONNX_UNNAMED, ONNX_UNNAMED, ONNX_UNNAMED, ONNX_UNNAMED, INT64_MIN},
                  written[] = {image[0], image[1], image[2], image[3], INT64_MIN};
    OnnxModel m = onnx_model(ctx.arena);
    NstText attributes;
    nst_text_init(&attributes, ctx.arena);
    onnx_attr_text(&attributes, "mode", test->mode);
    onnx_attr_text(&attributes, "coordinate_transformation_mode", test->coordinates);
    if (strcmp(test->mode, "nearest") == 0) onnx_attr_text(&attributes, "nearest_mode", "ceil");
    onnx_input(&m, "x", 1, way == WRITTEN || way == CONSTANT ? written : open);
    if (way == CONSTANT && test->by_scales)
        onnx_floats(&m, "t", four, scales, AXES);
    else if (way == CONSTANT)
        onnx_ints(&m, "t", four, test->to, AXES);
    else
        onnx_input(&m, "t", test->by_scales ? 1 : 7, four);
    onnx_output(&m, "y", 1, NULL);
    onnx_node(&m, "Resize", "resize", test->by_scales ? "x - t" : "x - - t", "y", &attributes);
    return onnx_bytes(&m);
}

/* The elements of the result. */
static size_t run(const ResizeCase *test, Way way, float *x, float *y)
{
    static const NstInputShape shape = {"x", AXES, {1, 2, 3, 4}};
    float scales[AXES];
    for (int k = 0; k < AXES; k++) scales[k] = (float)test->to[k] / (float)image[k];
    NstText bytes = resize_model(test, way, scales);
    NstSessionOptions options = {.shapes = &shape, .n_shapes = way == DECLARED, .interpret = way == INTERPRETED};
    NstModel *model = NULL;
    NstSession *session = NULL;
    support_engine_open(engine, &bytes, &options, &model, &session);
    NstNamedTensor in[2] = {{"x", {.dtype = NST_F32, .rank = AXES, .data = x, .bytes = 96}},
                            {"t", {.dtype = NST_I64, .rank = 1, .shape = {AXES}, .bytes = sizeof test->to}}},
                   out = {.name = "y"};
    int64_t sizes[AXES];
    memcpy(in[0].tensor.shape, image, sizeof image);
    memcpy(sizes, test->to, sizeof sizes);
    in[1].tensor.data = test->by_scales ? (void *)scales : sizes;
    if (test->by_scales) in[1].tensor.dtype = NST_F32;
    if (test->by_scales) in[1].tensor.bytes = sizeof scales;
    NstStatus status = nst_session_run(session, in, way == CONSTANT ? 1 : 2, &out, 1, NULL);
    cr_assert_eq(status, NST_OK, "%s", nst_error_text());
    size_t n = out.tensor.bytes / sizeof *y;
    cr_assert_leq(n, ROOM);
    memcpy(y, out.tensor.data, out.tensor.bytes);
    nst_tensor_release(&out.tensor);
    nst_session_free(session);
    nst_model_free(model);
    return n;
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Row 1 of channel 0 has what is not finite: only rows that are made of it may. */
static void check_spread(const ResizeCase *test, const float *y)
{
    int64_t rows = test->to[2], columns = test->to[3];
    for (int64_t k = 0; rows == image[2] && k < 2 * rows * columns; k++)
        if (k / columns != 1)
            cr_expect(isfinite(y[k]), "%s, %s: element %d is %g", test->mode, test->coordinates, (int)k, y[k]);
    for (int64_t k = 0; columns == image[3] && rows != image[2] && k < 2 * rows * columns; k++)
        if (k % columns == 0)
            cr_expect(isfinite(y[k]), "%s, %s: element %d is %g", test->mode, test->coordinates, (int)k, y[k]);
}

Test(resize, what_stays_is_as_it_was)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"}, *const coordinates[] = {"half_pixel",
                                                                                               "align_corners",
                                                                                               "tf_half_pixel_for_nn"};
    static const int64_t to[][AXES] = {{1, 2, 3, 4}, {1, 2, 3, 8}, {1, 2, 6, 4}};
    float x[24], y[WAYS][ROOM];
    for (int k = 0; k < 24; k++) x[k] = (float)(k % 7) - 3.5F;
    x[0] = -0.0F;
    x[1] = 1e-45F;
    x[5] = INFINITY;
    x[6] = NAN;
    x[7] = -INFINITY;
    for (int k = 0; k < 54; k++) {
        ResizeCase test = {modes[k % 3], coordinates[k / 3 % 3], k / 9 % 2, {0}};
        memcpy(test.to, to[k / 18], sizeof test.to);
        size_t n = 0;
        for (Way way = OPEN; way <= INTERPRETED; way++) {
            n = run(&test, way, x, y[way]);
            for (size_t e = 0; e < n; e++)
                cr_expect(same(y[0][e], y[way][e]), "case %d, way %d: element %zu is %g, %g with open sizes", k,
                          (int)way, e, y[way][e], y[0][e]);
        }
        cr_expect_eq((int64_t)n, 2 * test.to[2] * test.to[3]);
        for (size_t e = 0; k < 18 && e < n; e++) cr_expect(same(y[0][e], x[e]), "case %d: element %zu", k, e);
        check_spread(&test, y[0]);
    }
}
