/* Stands in for libcuda.so.1 where there is no GPU: what it answers is named by the environment variable STUB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *name) {
    const char *text = getenv("STUB");
    return text && strcmp(text, name) == 0;
}

static int gpus(void) {
    const char *text = getenv("STUB_GPUS");
    return text ? atoi(text) : 1;
}

int cuInit(unsigned flags) {
    const char *text = getenv("STUB_CUINIT");
    (void)flags;
    if (is("hang-init")) pause();
    return text ? atoi(text) : 0;
}

int cuGetErrorName(int code, const char **name) {
    *name = code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : code == 0 ? "CUDA_SUCCESS" : "CUDA_ERROR_STUB";
    return 0;
}

int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = gpus(); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) { (void)device; snprintf(name, length, "NVIDIA L4"); return 0; }

int cuDeviceGetPCIBusId(char *bus, int length, int device) {
    snprintf(bus, length, "0000:%02X:00.0", device + 1);
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)(is("other-uuid") ? device + 100 : device);
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    const char *text = getenv("STUB_CONTEXT");
    *context = (void *)(size_t)(device + 1);
    if (is("hang-context") && device == gpus() - 1) pause();
    return text && device == gpus() - 1 ? atoi(text) : 0;
}

int cuDevicePrimaryCtxRelease(int device) { (void)device; return 0; }
static size_t current;
int cuCtxSetCurrent(void *context) { current = (size_t)context - 1; return 0; }
int cuMemAlloc_v2(unsigned long long *memory, size_t bytes) { *memory = (unsigned long long)(size_t)malloc(bytes); return 0; }
int cuMemFree_v2(unsigned long long memory) { free((void *)(size_t)memory); return 0; }

int cuMemsetD8_v2(unsigned long long memory, unsigned char value, size_t bytes) {
    memset((void *)(size_t)memory, value, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
    memcpy(to, (void *)(size_t)from, bytes);
    if (is("wrong-bytes")) ((unsigned char *)to)[7] ^= 1;
    return 0;
}

/* The kernel of sums.ptx, by the processor: what stands in refuses code that is not that PTX. */
int cuModuleLoadDataEx(void **module, const char *image, unsigned count, int *options, void **values) {
    const char *text = getenv("STUB_MODULE"), *only = getenv("STUB_MODULE_GPU");
    *module = (void *)2;
    if (!strstr(image, ".entry add(")) return 218;
    if (only && (size_t)atoi(only) != current) return 0;
    if (text && count == 2 && options[0] == 5 && options[1] == 6)
        snprintf(values[0], (size_t)values[1], "ptxas application ptx input, line 9; fatal");
    return text ? atoi(text) : 0;
}

int cuModuleUnload(void *module) { (void)module; return 0; }

int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    *function = (void *)3;
    return strcmp(name, "add") ? 500 : 0;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) {
    memcpy((void *)(size_t)to, from, bytes);
    return 0;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **given, void **extra) {
    float *a = *(float **)given[0], *b = *(float **)given[1], *c = *(float **)given[2];
    int n = *(int *)given[3];
    (void)shared, (void)stream, (void)extra;
    if (function != (void *)3 || y * z * ty * tz != 1) return 1;
    for (unsigned i = 0; i < x * threads && (int)i < n; ++i) c[i] = a[i] + b[i];
    if (is("wrong-sums")) c[5] += 1, c[6] += 1;
    return 0;
}

int cuCtxSynchronize(void) {
    const char *text = getenv("STUB_KERNEL");
    if (is("hang-kernel")) pause();
    return text ? atoi(text) : 0;
}
