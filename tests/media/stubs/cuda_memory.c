/* A stand-in for the driver that keeps memory and time on the host, for what verify's TensorRT child asks of libcuda.
   It computes nothing: CI has no GPU. Streams are in order because every call is done when it returns. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long place;

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = malloc(1); return 0; }
int cuCtxSetCurrent(void *context) { return context == 0; }
int cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = malloc(1); return 0; }
int cuStreamSynchronize(void *stream) { return stream == 0; }
int cuEventCreate(struct timespec **event, unsigned flags) { (void)flags; *event = calloc(1, sizeof **event); return 0; }
int cuEventRecord(struct timespec *event, void *stream) {
    (void)stream;
    return clock_gettime(CLOCK_MONOTONIC, event);
}
int cuEventElapsedTime(float *milliseconds, struct timespec *begin, struct timespec *end) {
    *milliseconds = (end->tv_sec - begin->tv_sec) * 1e3f + (end->tv_nsec - begin->tv_nsec) / 1e6f;
    return 0;
}
int cuMemAlloc_v2(place *at, size_t size) { *at = (place)(size_t)calloc(1, size); return *at == 0; }
int cuMemHostAlloc(void **at, size_t size, unsigned flags) { (void)flags; *at = calloc(1, size); return *at == 0; }
int cuMemcpyHtoDAsync_v2(place to, const void *from, size_t size, void *stream) {
    (void)stream;
    memcpy((void *)(size_t)to, from, size);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, place from, size_t size, void *stream) {
    (void)stream;
    memcpy(to, (const void *)(size_t)from, size);
    return 0;
}
int cuGetErrorName(int status, const char **name) { (void)status; *name = "CUDA_ERROR_UNKNOWN"; return 0; }

/* What a measurement of one's own network asks for as well. A graph holds nothing: what ran while it was recorded did run. */
int cuMemGetInfo_v2(size_t *unused, size_t *whole) {
    static size_t left = 1u << 30;
    *unused = left -= 4096;
    *whole = 1u << 30;
    return 0;
}
int cuDeviceGetPCIBusId(char *name, int length, int device) {
    (void)device;
    strncpy(name, "0000:01:00.0", (size_t)length);
    return 0;
}
int cuStreamBeginCapture_v2(void *stream, int mode) { return stream == 0 || mode != 1; }
int cuStreamEndCapture(void *stream, void **graph) {
    *graph = stream;
    return getenv("CUDA_STUB_NO_GRAPH") ? 900 : 0;
}
int cuGraphInstantiateWithFlags(void **ready, void *graph, unsigned long long flags) { *ready = graph; return flags != 0; }
int cuGraphLaunch(void *ready, void *stream) { return ready != stream; }

/* NVML's part, for the copy of this library that is called libnvidia-ml.so.1. */
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { *device = 0; return strcmp(bus, "0000:01:00.0") != 0; }
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *value) {
    (void)device;
    *value = kind == 1 ? 1500 : 2600;
    return 0;
}
