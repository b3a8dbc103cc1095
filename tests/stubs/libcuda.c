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
    *context = (void *)1;
    if (is("hang-context") && device == gpus() - 1) pause();
    return text && device == gpus() - 1 ? atoi(text) : 0;
}

int cuDevicePrimaryCtxRelease(int device) { (void)device; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
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
