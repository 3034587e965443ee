// @title@
// @tile@
// Build: cc -O2 conv.c -lOpenCL      (on a phone: with the vendor's libOpenCL.so; headers: CL/cl.h)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Images are [BATCH][CHANNELS][HEIGHT][WIDTH], results [BATCH][FILTERS][ROWS][COLUMNS], both dense.
enum {
@sizes@
};
typedef @element@ Element;  // as stored; sums are f32

static const char *const text[] = {
@text@
};

// A kernel's memories in the order of its arguments; `first`, the first row of results, is what STRIP holds.
enum { IMAGE, ROWS_HELD, WEIGHTS, STRIP, RESULT };
typedef struct {
    const char *kernel;
    int arguments, memories[4];
    size_t global[3], local[3];
    uint32_t first;
} Launch;
static const Launch launches[] = {
@launches@
};
enum { LAUNCHES = sizeof launches / sizeof *launches };

// Weights [FILTERS][CHANNELS / GROUPS][KERNEL_ROWS][KERNEL_COLUMNS] and a bias for each filter, as kernels
// read them: for EACH filters at a time their biases, then their weights tap by tap, PITCH numbers each.
static void pack_weights(const float *weights, const float *bias, float *packed) {
    const int taps = CHANNELS / GROUPS * KERNEL_ROWS * KERNEL_COLUMNS, filters = FILTERS / GROUPS;
    for (int group = 0; group < GROUPS; ++group)
        for (int block = 0; block < BLOCKS; ++block) {
            const int least = block * EACH, most = filters - EACH;
            const int filter = group * filters + (least < most ? least : most);
            for (int tap = -1; tap < taps; ++tap)
                for (int f = filter; f < filter + PITCH; ++f)
                    *packed++ = f >= filter + EACH ? 0 : tap < 0 ? bias[f] : weights[f * taps + tap];
        }
}

@conversion@

static void check(cl_int code, const char *what) {
    if (code != CL_SUCCESS) {
        fprintf(stderr, "%s: OpenCL error %d\n", what, (int)code);
        exit(1);
    }
}

static void *room(size_t bytes) {
    void *found = malloc(bytes);
    if (!found)
        check(CL_OUT_OF_HOST_MEMORY, "malloc");
    return found;
}

// The first @device@, or else any device.
static cl_device_id open_device(void) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_device_id device;
    check(clGetPlatformIDs(16, platforms, &count), "platforms");
    const cl_device_type types[] = {CL_DEVICE_TYPE_@device@, CL_DEVICE_TYPE_ALL};
    for (int type = 0; type < 2; ++type)
        for (cl_uint i = 0; i < count && i < 16; ++i)
            if (clGetDeviceIDs(platforms[i], types[type], 1, &device, NULL) == CL_SUCCESS)
                return device;
    check(CL_DEVICE_NOT_FOUND, "devices");
    return NULL;
}

// A result by its definition.
static double expected(const Element *image, const float *weights, double sum, int n, int f, int y, int x) {
    const int deep = CHANNELS / GROUPS, first = f / (FILTERS / GROUPS) * deep;
    for (int c = 0; c < deep; ++c)
        for (int i = 0; i < KERNEL_ROWS; ++i)
            for (int j = 0; j < KERNEL_COLUMNS; ++j) {
                const int a = y * STRIDE_DOWN + i * DILATION_DOWN - TOP;
                const int b = x * STRIDE_ALONG + j * DILATION_ALONG - LEFT;
                if (a >= 0 && a < HEIGHT && b >= 0 && b < WIDTH)
                    sum += number(image[((size_t)(n * CHANNELS + first + c) * HEIGHT + a) * WIDTH + b]) *
                           weights[((f * deep + c) * KERNEL_ROWS + i) * KERNEL_COLUMNS + j];
            }
    return sum;
}

static double milliseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e3 * now.tv_sec + 1e-6 * now.tv_nsec;
}

int main(void) {
    const size_t elements = (size_t)BATCH * CHANNELS * HEIGHT * WIDTH;
    const size_t results = (size_t)BATCH * FILTERS * ROWS * COLUMNS;
    const size_t taps = (size_t)CHANNELS / GROUPS * KERNEL_ROWS * KERNEL_COLUMNS;
    const size_t packed_bytes = sizeof(float) * GROUPS * BLOCKS * (1 + taps) * PITCH;
    Element *image = room(elements * sizeof *image), *result = room(results * sizeof *result);
    float *weights = room(FILTERS * taps * sizeof *weights), *bias = room(FILTERS * sizeof *bias);
    float *packed = room(packed_bytes);
    for (size_t i = 0; i < elements; ++i)
        image[i] = stored((rand() % 17 - 8) / 8.0f);
    for (size_t i = 0; i < FILTERS * taps; ++i)
        weights[i] = (rand() % 255 - 127) / 128.0f;
    for (int i = 0; i < FILTERS; ++i)
        bias[i] = (rand() % 17 - 8) / 8.0f;
    pack_weights(weights, bias, packed);

    cl_int code;
    cl_device_id device = open_device();
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "context");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "queue");
    cl_program program =
        clCreateProgramWithSource(context, sizeof text / sizeof *text, (const char **)text, NULL, &code);
    check(code, "text");
    if (clBuildProgram(program, 1, &device, "@options@", NULL, NULL) != CL_SUCCESS) {
        static char log[65536];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fprintf(stderr, "%s\n", log);
        return 1;
    }

    cl_mem memories[5], strips[LAUNCHES];
    const cl_mem_flags given = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
    memories[IMAGE] = clCreateBuffer(context, given, elements * sizeof *image, image, &code);
    check(code, "memory for the image");
    memories[WEIGHTS] = clCreateBuffer(context, given, packed_bytes, packed, &code);
    check(code, "memory for weights");
    memories[RESULT] = clCreateBuffer(context, CL_MEM_READ_WRITE, results * sizeof *result, NULL, &code);
    check(code, "memory for the result");
    memories[ROWS_HELD] = clCreateBuffer(context, CL_MEM_READ_WRITE, WORKSPACE ? WORKSPACE : 4, NULL, &code);
    check(code, "memory for rearranged rows");
    cl_kernel kernels[LAUNCHES];
    for (int i = 0; i < LAUNCHES; ++i) {
        strips[i] = clCreateBuffer(context, given, 4, (void *)&launches[i].first, &code);
        check(code, "memory for a number");
        kernels[i] = clCreateKernel(program, launches[i].kernel, &code);
        check(code, launches[i].kernel);
        for (int k = 0; k < launches[i].arguments; ++k) {
            const int which = launches[i].memories[k];
            const cl_mem *const memory = which == STRIP ? &strips[i] : &memories[which];
            check(clSetKernelArg(kernels[i], k, sizeof *memory, memory), "an argument");
        }
    }

    double best = INFINITY;
    for (int run = 0; run < 10; ++run) {
        const double start = milliseconds();
        for (int i = 0; i < LAUNCHES; ++i) {
            const Launch *const l = &launches[i];
            code = clEnqueueNDRangeKernel(queue, kernels[i], 3, NULL, l->global, l->local, 0, NULL, NULL);
            check(code, l->kernel);
        }
        check(clFinish(queue), "kernels");
        best = fmin(best, milliseconds() - start);
    }
    const size_t size = results * sizeof *result;
    code = clEnqueueReadBuffer(queue, memories[RESULT], CL_TRUE, 0, size, result, 0, NULL, NULL);
    check(code, "the result");

    double error = 0, largest = 1e-30;
    const int looks = 2000;
    for (int i = 0; i < looks; ++i) {
        const int n = rand() % BATCH, f = rand() % FILTERS;
        // corners, edges, and places anywhere
        const int y = i % 4 == 0 ? 0 : i % 4 == 1 ? ROWS - 1 : rand() % ROWS;
        const int x = i % 3 == 0 ? 0 : i % 3 == 1 ? COLUMNS - 1 : rand() % COLUMNS;
        const double want = expected(image, weights, bias[f], n, f, y, x);
        const double found = number(result[((size_t)(n * FILTERS + f) * ROWS + y) * COLUMNS + x]);
        largest = fmax(largest, fabs(want));
        error = found == found ? fmax(error, fabs(found - want)) : INFINITY;
    }
    char name[256] = "";
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    printf("%s: %d results compared, largest error %.1e; %.3f ms\n", name, looks, error / largest, best);
    return error <= @tolerance@ * largest ? 0 : 1;
}
