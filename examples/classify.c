/* classify.c: what is in a picture, by any model that maps one picture to scores of classes; on the public interface alone.
 *
 * usage: classify MODEL.onnx PICTURE [LABELS.txt]
 * PICTURE: binary PGM or PPM of 8 bits, of any size: it is scaled to what the model wants, as numbers from 0 to 1.  LABELS: a name
 * a line.  Prints the best classes, the compile time (none when the plan came from the cache) and the run time. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "nestor/session.h"

enum { BEST = 3, RUNS = 20, MOST_SIDE = 1 << 14, LABEL = 80 };

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void must(NstStatus status, const char *what)
{
    if (status != NST_OK) stop(what, nst_error_text());
}

static void *memory(size_t n)
{
    void *at = calloc(n, 1);
    if (!at) stop("classify", "no memory");
    return at;
}

/* --- pictures ------------------------------------------------------------------------------------------------------ */

typedef struct Picture {
    int width, height, channels;
    unsigned char *at; /* rows of pixels, channels together */
} Picture;

static Picture read_picture(const char *path)
{
    Picture p = {0};
    char kind;
    int most;
    FILE *file = fopen(path, "rb");
    if (!file) stop(path, "cannot be opened");
    if (fscanf(file, "P%c %d %d %d", &kind, &p.width, &p.height, &most) != 4 || fgetc(file) == EOF || most != 255 ||
        (kind != '5' && kind != '6') || p.width < 1 || p.height < 1 || p.width > MOST_SIDE || p.height > MOST_SIDE)
        stop(path, "is no binary PGM or PPM of 8 bits");
    p.channels = kind == '6' ? 3 : 1;
    size_t n = (size_t)p.width * (size_t)p.height * (size_t)p.channels;
    p.at = memory(n);
    if (fread(p.at, 1, n, file) != n) stop(path, "ends too early");
    fclose(file);
    return p;
}

/* The pixel at a place between pixels, a weighted mean of its four neighbours; grey from colour and colour from grey. */
static float sample(const Picture *p, double y, double x, int channel, int channels)
{
    double sum = 0, top = floor(y), left = floor(x);
    for (int corner = 0; corner < 4; corner++) {
        int row = (int)top + corner / 2, column = (int)left + corner % 2;
        double weight = (corner / 2 ? y - top : top + 1 - y) * (corner % 2 ? x - left : left + 1 - x), value = 0;
        row = row < 0 ? 0 : row >= p->height ? p->height - 1 : row;
        column = column < 0 ? 0 : column >= p->width ? p->width - 1 : column;
        const unsigned char *pixel = p->at + ((size_t)row * (size_t)p->width + (size_t)column) * (size_t)p->channels;
        if (channels == p->channels)
            value = pixel[channel];
        else if (p->channels == 1)
            value = pixel[0];
        else
            value = 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
        sum += weight * value;
    }
    return (float)(sum / 255);
}

/* A tensor of the model's shape: [1, C, H, W] or [1, H, W, C], with 1 or 3 channels. */
static NstTensor tensor_of(const Picture *p, const NstPort *port)
{
    NstTensor t = {.dtype = NST_F32, .rank = 4};
    bool last = port->rank == 4 && (port->shape[3] == 1 || port->shape[3] == 3);
    if (port->dtype != NST_F32 || port->rank != 4) stop(port->name, "the input is no f32 picture of four axes");
    for (int axis = 0; axis < 4; axis++) t.shape[axis] = port->shape[axis];
    int c_axis = last ? 3 : 1, y_axis = last ? 1 : 2, x_axis = y_axis + 1;
    if (t.shape[0] < 0) t.shape[0] = 1;
    if (t.shape[y_axis] < 0) t.shape[y_axis] = p->height;
    if (t.shape[x_axis] < 0) t.shape[x_axis] = p->width;
    int channels = (int)t.shape[c_axis], height = (int)t.shape[y_axis], width = (int)t.shape[x_axis];
    if (t.shape[0] != 1 || (channels != 1 && channels != 3)) stop(port->name, "the input is no one picture");
    t.bytes = sizeof(float) * (size_t)channels * (size_t)height * (size_t)width;
    float *at = t.data = memory(t.bytes);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++) {
                int place = last ? (y * width + x) * channels + c : (c * height + y) * width + x;
                at[place] =
                    sample(p, (y + 0.5) * p->height / height - 0.5, (x + 0.5) * p->width / width - 0.5, c, channels);
            }
    return t;
}

/* --- classes ------------------------------------------------------------------------------------------------------- */

static void label_of(const char *path, size_t class, char *text)
{
    snprintf(text, LABEL, "%zu", class);
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return;
    char line[LABEL];
    for (size_t k = 0; fgets(line, sizeof line, file); k++)
        if (k == class) memcpy(text, line, strcspn(line, "\r\n") + 1), text[strcspn(line, "\r\n")] = '\0';
    fclose(file);
}

static void print_best(const NstTensor *scores, const char *labels)
{
    const float *score = scores->data;
    size_t n = scores->bytes / sizeof(float), taken[BEST];
    if (scores->dtype != NST_F32 || n == 0) stop("the output", "is no list of f32 scores");
    for (size_t place = 0; place < BEST && place < n; place++) {
        size_t best = n;
        for (size_t k = 0; k < n; k++) {
            bool seen = false;
            for (size_t t = 0; t < place; t++) seen |= taken[t] == k;
            if (!seen && (best == n || score[k] > score[best])) best = k;
        }
        char label[LABEL];
        taken[place] = best;
        label_of(labels, best, label);
        printf("%s%s %.3f", place ? ", " : "", label, (double)score[best]);
    }
    printf("; ");
}

static double now_ms(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: classify MODEL.onnx PICTURE [LABELS.txt]\n");
        return 2;
    }
    NstEngine *engine;
    NstModel *model;
    NstSession *session;
    NstPort port;
    Picture picture = read_picture(argv[2]);
    must(nst_engine_new(NULL, &engine), "engine");
    must(nst_model_open_file(engine, argv[1], &model), argv[1]);
    must(nst_session_new(model, NULL, &session), argv[1]);
    if (nst_session_input_count(session) != 1) stop(argv[1], "the model has not one input");
    must(nst_session_input(session, 0, &port), argv[1]);

    NstNamedTensor input = {NULL, tensor_of(&picture, &port)}, output = {0};
    double best = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        nst_tensor_release(&output.tensor); /* of the run before: this program lets the engine provide the memory */
        double start = now_ms();
        must(nst_session_run(session, &input, 1, &output, 1, NULL), "run");
        best = fmin(best, now_ms() - start);
    }

    NstSessionFacts facts;
    nst_session_facts(session, &facts);
    print_best(&output.tensor, argc == 4 ? argv[3] : NULL);
    if (facts.compiled)
        printf("compiled in %.1f ms, ", (double)facts.compile_ns / 1e6);
    else
        printf("warm from the cache, ");
    printf("run in %.3f ms (best of %d), %u kernels\n", best, RUNS, facts.kernels);

    nst_tensor_release(&output.tensor);
    free(input.tensor.data);
    free(picture.at);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
    return 0;
}
