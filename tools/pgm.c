/* pgm.c: "P5", width, height, 255, one blank, the pixels row by row. */
#include "tools/pgm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIDE 65536

static int read_pixels(FILE *file, int32_t rank, NstTensor *tensor, void **memory)
{
    long width, height, top;
    if (fscanf(file, "P5 %ld %ld %ld", &width, &height, &top) != 3 || getc(file) == EOF) return -1;
    if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE || top != 255) return -1;
    size_t n = (size_t)width * (size_t)height;
    float *at = *memory = malloc(n * sizeof *at);
    if (!at) return -1;
    for (size_t k = 0; k < n; k++) {
        int pixel = getc(file);
        if (pixel == EOF) return -1;
        at[k] = (float)pixel / 255;
    }
    *tensor = (NstTensor){.dtype = NST_F32, .rank = rank, .data = at, .bytes = n * sizeof *at};
    for (int axis = 0; axis < rank; axis++) tensor->shape[axis] = 1;
    tensor->shape[rank - 2] = height;
    tensor->shape[rank - 1] = width;
    return 0;
}

int pgm_read(const char *path, int32_t rank, NstTensor *tensor, void **memory, char error[FILE_ERROR])
{
    *memory = NULL;
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(error, FILE_ERROR, "cannot open '%s': %s", path, strerror(errno));
        return -1;
    }
    int status = rank >= 2 && rank <= NST_TENSOR_MAX_RANK ? read_pixels(file, rank, tensor, memory) : -1;
    fclose(file);
    if (status == 0) return 0;
    free(*memory);
    *memory = NULL;
    snprintf(error, FILE_ERROR, "'%s' is no grey image of 8 bits (PGM, P5) that can be read as an input of rank %d",
             path, (int)rank);
    return -1;
}
