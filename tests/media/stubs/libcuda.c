/* A stand-in for the driver's CUDA library: every function that FFmpeg loads, answering success unless told otherwise.
   CUDA_INIT is what cuInit answers, CUDA_DEVICES how many devices there are, CUDA_CONTEXT what making a context gives. */
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
PLAIN(cuCtxSetLimit) PLAIN(cuCtxPushCurrent_v2) PLAIN(cuCtxDestroy_v2) PLAIN(cuMemAlloc_v2) PLAIN(cuMemAllocPitch_v2)
PLAIN(cuMemAllocManaged) PLAIN(cuMemsetD8Async) PLAIN(cuMemFree_v2) PLAIN(cuMemcpy) PLAIN(cuMemcpyAsync)
PLAIN(cuMemcpy2D_v2) PLAIN(cuMemcpy2DAsync_v2) PLAIN(cuMemcpyHtoD_v2) PLAIN(cuMemcpyHtoDAsync_v2)
PLAIN(cuMemcpyDtoH_v2) PLAIN(cuMemcpyDtoHAsync_v2) PLAIN(cuMemcpyDtoD_v2) PLAIN(cuMemcpyDtoDAsync_v2)
PLAIN(cuDeviceGetUuid) PLAIN(cuDeviceGetUuid_v2) PLAIN(cuDeviceGetLuid) PLAIN(cuDeviceGetByPCIBusId)
PLAIN(cuDeviceGetPCIBusId) PLAIN(cuDevicePrimaryCtxRelease) PLAIN(cuDevicePrimaryCtxRelease_v2)
PLAIN(cuDevicePrimaryCtxSetFlags) PLAIN(cuDevicePrimaryCtxSetFlags_v2) PLAIN(cuDevicePrimaryCtxGetState)
PLAIN(cuDevicePrimaryCtxReset) PLAIN(cuDevicePrimaryCtxReset_v2) PLAIN(cuStreamCreate) PLAIN(cuStreamQuery)
PLAIN(cuStreamSynchronize) PLAIN(cuStreamDestroy_v2) PLAIN(cuStreamAddCallback) PLAIN(cuStreamWaitEvent)
PLAIN(cuEventCreate) PLAIN(cuEventDestroy_v2) PLAIN(cuEventSynchronize) PLAIN(cuEventQuery) PLAIN(cuEventRecord)
PLAIN(cuLaunchKernel) PLAIN(cuLinkCreate) PLAIN(cuLinkAddData) PLAIN(cuLinkComplete) PLAIN(cuLinkDestroy)
PLAIN(cuModuleLoadData) PLAIN(cuModuleUnload) PLAIN(cuModuleGetFunction) PLAIN(cuModuleGetGlobal)
PLAIN(cuModuleGetGlobal_v2) PLAIN(cuTexObjectCreate) PLAIN(cuTexObjectDestroy) PLAIN(cuGLGetDevices_v2)
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
