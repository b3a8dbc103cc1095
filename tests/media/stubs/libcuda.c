/* A stand-in for the driver's CUDA library: every function that FFmpeg loads, answering success unless told otherwise.
   CUDA_INIT is what cuInit answers, CUDA_DEVICES how many devices there are, CUDA_CONTEXT what making a context gives.
   Its memory is that of the host. Of kernels it knows those of scale_cuda, by name, and does their work in plain C: the
   machine code that FFmpeg hands over is not run. */
#include <ffnvcodec/dynlink_cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int told(const char *name, int otherwise) { return getenv(name) ? atoi(getenv(name)) : otherwise; }

int cuInit(unsigned flags) { (void)flags; return told("CUDA_INIT", 0); }
int cuDeviceGetCount(int *count) { *count = told("CUDA_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number < told("CUDA_DEVICES", 1) ? 0 : 101; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; strncpy(name, "Stand-in", size); return 0; }
int cuDeviceComputeCapability(int *major, int *minor, int device) { (void)device; *major = 8; *minor = 9; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device)
{
    (void)device;
    *value = which == 75 ? 8 : which == 76 ? 9 : 1;
    return 0;
}
int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    (void)flags; (void)device;
    *context = (void *)0x1;
    return told("CUDA_CONTEXT", 0);
}
int cuCtxPopCurrent_v2(void **context) { if (context) *context = (void *)0x1; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)0x1; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = (void *)0x1; return told("CUDA_CONTEXT", 0); }
int cuGetErrorName(int error, const char **text)
{
    *text = error == 100 ? "CUDA_ERROR_NO_DEVICE" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuGetErrorString(int error, const char **text)
{
    *text = error == 100 ? "no CUDA-capable device is detected" : error == 2 ? "out of memory" : "unknown error";
    return 0;
}
#define PLAIN(name) int name(void) { return 0; }
PLAIN(cuCtxSetLimit) PLAIN(cuCtxPushCurrent_v2) PLAIN(cuCtxDestroy_v2)
PLAIN(cuMemAllocManaged) PLAIN(cuMemcpy) PLAIN(cuMemcpyAsync)
PLAIN(cuMemcpyHtoD_v2) PLAIN(cuMemcpyHtoDAsync_v2)
PLAIN(cuMemcpyDtoH_v2) PLAIN(cuMemcpyDtoHAsync_v2) PLAIN(cuMemcpyDtoD_v2) PLAIN(cuMemcpyDtoDAsync_v2)
PLAIN(cuDeviceGetUuid) PLAIN(cuDeviceGetUuid_v2) PLAIN(cuDeviceGetLuid) PLAIN(cuDeviceGetByPCIBusId)
PLAIN(cuDeviceGetPCIBusId) PLAIN(cuDevicePrimaryCtxRelease) PLAIN(cuDevicePrimaryCtxRelease_v2)
PLAIN(cuDevicePrimaryCtxSetFlags) PLAIN(cuDevicePrimaryCtxSetFlags_v2) PLAIN(cuDevicePrimaryCtxGetState)
PLAIN(cuDevicePrimaryCtxReset) PLAIN(cuDevicePrimaryCtxReset_v2) PLAIN(cuStreamCreate) PLAIN(cuStreamQuery)
PLAIN(cuStreamSynchronize) PLAIN(cuStreamDestroy_v2) PLAIN(cuStreamAddCallback) PLAIN(cuStreamWaitEvent)
PLAIN(cuEventCreate) PLAIN(cuEventDestroy_v2) PLAIN(cuEventSynchronize) PLAIN(cuEventQuery) PLAIN(cuEventRecord)
PLAIN(cuLinkCreate) PLAIN(cuLinkAddData) PLAIN(cuLinkComplete) PLAIN(cuLinkDestroy)
PLAIN(cuModuleUnload) PLAIN(cuModuleGetGlobal)
PLAIN(cuModuleGetGlobal_v2) PLAIN(cuTexObjectDestroy) PLAIN(cuGLGetDevices_v2)
PLAIN(cuGraphicsGLRegisterImage) PLAIN(cuGraphicsUnregisterResource) PLAIN(cuGraphicsMapResources)
PLAIN(cuGraphicsUnmapResources) PLAIN(cuGraphicsSubResourceGetMappedArray)
PLAIN(cuGraphicsResourceGetMappedPointer_v2) PLAIN(cuImportExternalMemory) PLAIN(cuDestroyExternalMemory)
PLAIN(cuExternalMemoryGetMappedBuffer) PLAIN(cuExternalMemoryGetMappedMipmappedArray)
PLAIN(cuMipmappedArrayGetLevel) PLAIN(cuMipmappedArrayDestroy) PLAIN(cuImportExternalSemaphore)
PLAIN(cuDestroyExternalSemaphore) PLAIN(cuSignalExternalSemaphoresAsync) PLAIN(cuWaitExternalSemaphoresAsync)
PLAIN(cuArrayCreate_v2) PLAIN(cuArray3DCreate_v2) PLAIN(cuArrayDestroy) PLAIN(cuEGLStreamProducerConnect)
PLAIN(cuEGLStreamProducerDisconnect) PLAIN(cuEGLStreamConsumerDisconnect) PLAIN(cuEGLStreamProducerPresentFrame)
PLAIN(cuEGLStreamProducerReturnFrame) PLAIN(cuMemHostRegister_v2) PLAIN(cuMemHostUnregister)
PLAIN(cuArray3DGetDescriptor_v2) PLAIN(cuArrayGetPlane) PLAIN(cuCtxGetStreamPriorityRange)
PLAIN(cuCtxSynchronize) PLAIN(cuLaunchHostFunc) PLAIN(cuMemAllocAsync)
PLAIN(cuMemFreeAsync) PLAIN(cuMemFreeHost) PLAIN(cuMemHostAlloc) PLAIN(cuMemsetD16Async)
PLAIN(cuMemsetD2D16Async) PLAIN(cuMemsetD2D32Async) PLAIN(cuMemsetD2D8Async) PLAIN(cuMemsetD32Async)
PLAIN(cuStreamCreateWithPriority)
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }

int cuMemAlloc_v2(CUdeviceptr *place, size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes ? bytes : 1))
        return 2;
    memset(memory, 0, bytes);
    *place = (CUdeviceptr)memory;
    return 0;
}
int cuMemAllocPitch_v2(CUdeviceptr *place, size_t *pitch, size_t width, size_t height, unsigned element)
{
    (void)element;
    *pitch = (width + 255) / 256 * 256;
    return cuMemAlloc_v2(place, *pitch * height);
}
int cuMemFree_v2(CUdeviceptr place) { free((void *)place); return 0; }
int cuMemsetD8Async(CUdeviceptr place, unsigned char value, size_t bytes, void *stream)
{
    (void)stream;
    memset((void *)place, value, bytes);
    return 0;
}
int cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    const char *from = copy->srcMemoryType == CU_MEMORYTYPE_HOST ? copy->srcHost : (const char *)copy->srcDevice;
    char *to = copy->dstMemoryType == CU_MEMORYTYPE_HOST ? copy->dstHost : (char *)copy->dstDevice;
    size_t row;
    for (row = 0; row < copy->Height; row++)
        memcpy(to + (copy->dstY + row) * copy->dstPitch + copy->dstXInBytes,
               from + (copy->srcY + row) * copy->srcPitch + copy->srcXInBytes, copy->WidthInBytes);
    return 0;
}
int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, void *stream) { (void)stream; return cuMemcpy2D_v2(copy); }

/* A module is the text of its code; a function is its name, and whether it takes its arguments as one structure. */
struct function { int is_planar, is_chroma, takes_structure; };

int cuModuleLoadData(void **module, const void *image) { *module = strdup(image); return *module ? 0 : 2; }
int cuModuleGetFunction(struct function **found, const char *module, const char *name)
{
    char second[256];
    *found = calloc(1, sizeof **found);
    snprintf(second, sizeof second, "%s_param_1", name);
    (*found)->takes_structure = strstr(module, second) == NULL;
    (*found)->is_planar = strstr(name, "yuv420p") != NULL;
    (*found)->is_chroma = strlen(name) > 3 && !strcmp(name + strlen(name) - 3, "_uv");
    return 0;
}
int cuTexObjectCreate(CUtexObject *made, const CUDA_RESOURCE_DESC *what, const void *how, const void *view)
{
    CUDA_RESOURCE_DESC *kept = malloc(sizeof *kept);
    (void)how; (void)view;
    *kept = *what;
    *made = (CUtexObject)(uintptr_t)kept;
    return 0;
}

/* Where a place of the target lies in the source, in 1/256, from its first texel to its last. */
static int place_in(int place, int to, int from)
{
    long found = (2L * place + 1) * from * 128 / to - 128;
    return found < 0 ? 0 : found > (from - 1) * 256L ? (from - 1) * 256 : (int)found;
}
static void scale_plane(CUtexObject source, CUdeviceptr target, const int *to, const int *from)
{
    const CUDA_RESOURCE_DESC *texture = (const CUDA_RESOURCE_DESC *)(uintptr_t)source;
    int channels = texture->res.pitch2D.numChannels, channel, row, column;
    size_t pitch = texture->res.pitch2D.pitchInBytes;
    for (row = 0; row < to[1]; row++) {
        int y = place_in(row, to[1], from[1]), down = y & 255;
        const uint8_t *upper = (const uint8_t *)texture->res.pitch2D.devPtr + (y >> 8) * pitch;
        const uint8_t *lower = upper + (down ? pitch : 0);
        uint8_t *made = (uint8_t *)target + row * (size_t)to[2];
        for (column = 0; column < to[0]; column++) {
            int x = place_in(column, to[0], from[0]), right = x & 255, left = (x >> 8) * channels;
            int next = left + (right ? channels : 0);
            for (channel = 0; channel < channels; channel++)
                *made++ = (uint8_t)((((256 - right) * upper[left + channel] + right * upper[next + channel]) * (256 - down)
                                     + ((256 - right) * lower[left + channel] + right * lower[next + channel]) * down
                                     + 32768) >> 16);
        }
    }
}

/* Up to FFmpeg 7 the arguments stand one by one, later in one structure of the same order. */
struct arguments {
    CUtexObject source[4];
    CUdeviceptr target[4];
    int to[3], from_corner[2], from[2];
};
int cuLaunchKernel(struct function *called, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **given, void **extra)
{
    struct arguments all;
    int place, last = called->is_chroma ? (called->is_planar ? 2 : 1) : 0;
    (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)stream; (void)extra;
    if (called->takes_structure)
        all = *(struct arguments *)given[0];
    else {
        for (place = 0; place < 4; place++) {
            all.source[place] = *(CUtexObject *)given[place];
            all.target[place] = *(CUdeviceptr *)given[4 + place];
        }
        for (place = 0; place < 3; place++)
            all.to[place] = *(int *)given[8 + place];
        all.from[0] = *(int *)given[11];
        all.from[1] = *(int *)given[12];
    }
    for (place = called->is_chroma; place <= last; place++)
        scale_plane(all.source[place], all.target[place], all.to, all.from);
    return 0;
}
