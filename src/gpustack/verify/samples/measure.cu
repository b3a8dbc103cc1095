// Measures one GPU: copies from and to the host, memory bandwidth on the GPU, copies to the other GPUs, and the
// matrix rate in half precision through cuBLAS. argv[1] is the GPU's number, or -1 to
// count them. JSON lines: name, value, unit.
#include <cstdio>
#include <cstdlib>
#include <algorithm>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#ifdef WITH_CUBLAS
#include <cublas_v2.h>
#endif

#define HOLD(call)                                                                                       \
    do {                                                                                                 \
        cudaError_t held = (call);                                                                       \
        if (held) {                                                                                      \
            std::printf("{\"step\": \"%s\", \"code\": %d, \"name\": \"%s\"}\n", #call, (int)held,        \
                        cudaGetErrorName(held));                                                         \
            return 1;                                                                                    \
        }                                                                                                \
    } while (0)

static void told(const char *name, double value, const char *unit) {
    std::printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name, value, unit);
    std::fflush(stdout);
}

__global__ void copy(const float4 *from, float4 *to, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        to[i] = from[i];
}

__global__ void fill(__half *values, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) values[i] = __float2half((float)((i * 2654435761u >> 16) % 2048) / 1024.0f - 1.0f);
}

// The best of several runs, in seconds: what the hardware can do, with the least of what else disturbs it.
template <typename Work> static int best(Work work, int runs, double *seconds) {
    cudaEvent_t begin, end;
    HOLD(cudaEventCreate(&begin));
    HOLD(cudaEventCreate(&end));
    float least = 1e30f, spent = 0;
    for (int i = 0; i < runs + 2; ++i) {
        HOLD(cudaEventRecord(begin));
        if (work()) return 1;
        HOLD(cudaEventRecord(end));
        HOLD(cudaEventSynchronize(end));
        HOLD(cudaEventElapsedTime(&spent, begin, end));
        if (i >= 2) least = std::min(least, spent);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    *seconds = least / 1000.0;
    return 0;
}

static int host_copies(size_t bytes) {
    void *host = nullptr, *device = nullptr;
    double seconds = 0;
    HOLD(cudaMallocHost(&host, bytes));
    HOLD(cudaMalloc(&device, bytes));
    if (best([&] { HOLD(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice)); return 0; }, 8, &seconds)) return 1;
    told("host-to-device", bytes / seconds / 1e9, "GB/s");
    if (best([&] { HOLD(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost)); return 0; }, 8, &seconds)) return 1;
    told("device-to-host", bytes / seconds / 1e9, "GB/s");
    cudaFreeHost(host);
    cudaFree(device);
    return 0;
}

static int memory(int processors) {
    size_t free_bytes = 0, all_bytes = 0;
    HOLD(cudaMemGetInfo(&free_bytes, &all_bytes));
    size_t bytes = std::min((size_t)2 << 30, free_bytes / 4) & ~(size_t)255;
    float4 *from = nullptr, *to = nullptr;
    double seconds = 0;
    HOLD(cudaMalloc((void **)&from, bytes));
    HOLD(cudaMalloc((void **)&to, bytes));
    HOLD(cudaMemset(from, 1, bytes));
    if (best([&] { copy<<<processors * 16, 512>>>(from, to, bytes / sizeof(float4)); HOLD(cudaGetLastError()); return 0; },
             20, &seconds))
        return 1;
    told("memory-bandwidth", 2.0 * bytes / seconds / 1e9, "GB/s");
    cudaFree(from);
    cudaFree(to);
    return 0;
}

static int peers(int device, int count) {
    const size_t bytes = (size_t)256 << 20;
    for (int other = 0; other < count; ++other) {
        int able = 0;
        double seconds = 0;
        void *from = nullptr, *to = nullptr;
        char name[64];
        if (other == device) continue;
        HOLD(cudaDeviceCanAccessPeer(&able, device, other));
        std::snprintf(name, sizeof name, "peer-access-to-%d", other);
        told(name, able, "");
        HOLD(cudaMalloc(&from, bytes));
        HOLD(cudaSetDevice(other));
        HOLD(cudaMalloc(&to, bytes));
        HOLD(cudaSetDevice(device));
        if (able) {
            cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
            if (code != cudaErrorPeerAccessAlreadyEnabled) HOLD(code);
        }
        if (best([&] { HOLD(cudaMemcpyPeerAsync(to, other, from, device, bytes)); return 0; }, 8, &seconds)) return 1;
        std::snprintf(name, sizeof name, "copy-to-gpu-%d", other);
        told(name, bytes / seconds / 1e9, "GB/s");
        cudaFree(from);
        cudaFree(to);
    }
    return 0;
}

#ifdef WITH_CUBLAS
static int matrices() {
    const int n = 8192;
    const size_t cells = (size_t)n * n;
    __half *a = nullptr, *b = nullptr, *c = nullptr;
    double seconds = 0;
    HOLD(cudaMalloc((void **)&a, cells * sizeof(__half)));
    HOLD(cudaMalloc((void **)&b, cells * sizeof(__half)));
    HOLD(cudaMalloc((void **)&c, cells * sizeof(__half)));
    fill<<<(unsigned)((cells + 255) / 256), 256>>>(a, cells);
    fill<<<(unsigned)((cells + 255) / 256), 256>>>(b, cells);
    HOLD(cudaGetLastError());
    cublasHandle_t handle;
    int status = cublasCreate(&handle);
    float one = 1, zero = 0;
    auto multiply = [&] {
        return (int)cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, CUDA_R_16F, n, b, CUDA_R_16F, n,
                                 &zero, c, CUDA_R_16F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    };
    if (!status && !best(multiply, 10, &seconds)) {
        told("matrix-rate-fp16", 2.0 * n * n * n / seconds / 1e12, "TFLOP/s");
        cublasDestroy(handle);
        return 0;
    }
    std::printf("{\"step\": \"cublas\", \"code\": %d, \"name\": \"cuBLAS status\"}\n", status);
    return 1;
}
#endif

int main(int argc, char **argv) {
    int device = argc > 1 ? std::atoi(argv[1]) : 0, count = 0;
    cudaDeviceProp about;
    HOLD(cudaGetDeviceCount(&count));
    if (device < 0) {
        std::printf("{\"count\": %d}\n", count);
        return 0;
    }
    HOLD(cudaSetDevice(device));
    HOLD(cudaGetDeviceProperties(&about, device));
    std::printf("{\"called\": \"%s\", \"bus\": \"%04x:%02x:%02x.0\"}\n", about.name, about.pciDomainID, about.pciBusID,
                about.pciDeviceID);
    if (host_copies((size_t)256 << 20) || memory(about.multiProcessorCount) || peers(device, count)) return 1;
#ifdef WITH_CUBLAS
    if (matrices()) return 1;
#endif
    return 0;
}
