// Adds two vectors on every GPU that the CUDA runtime lists and checks each sum. One JSON line a GPU.
// Without arguments every GPU; exit code 0 only when every sum was right.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

static int told(int device, const char *step, cudaError_t code) {
    std::printf("{\"gpu\": %d, \"step\": \"%s\", \"code\": %d, \"name\": \"%s\"}\n", device, step, (int)code,
                cudaGetErrorName(code));
    std::fflush(stdout);
    return 1;
}

static int run(int device) {
    const int n = 1 << 20;
    const size_t bytes = n * sizeof(float);
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; ++i) { a[i] = (float)(i % 1000); b[i] = (float)(i % 7) * 1000; }
    cudaDeviceProp about;
    cudaError_t code;
    if ((code = cudaGetDeviceProperties(&about, device))) return told(device, "properties", code);
    if ((code = cudaSetDevice(device))) return told(device, "context", code);
    float *x = nullptr, *y = nullptr, *z = nullptr;
    if ((code = cudaMalloc((void **)&x, bytes))) return told(device, "memory", code);
    if ((code = cudaMalloc((void **)&y, bytes))) return told(device, "memory", code);
    if ((code = cudaMalloc((void **)&z, bytes))) return told(device, "memory", code);
    if ((code = cudaMemcpy(x, a.data(), bytes, cudaMemcpyHostToDevice))) return told(device, "copy", code);
    if ((code = cudaMemcpy(y, b.data(), bytes, cudaMemcpyHostToDevice))) return told(device, "copy", code);
    add<<<(n + 255) / 256, 256>>>(x, y, z, n);
    if ((code = cudaGetLastError())) return told(device, "launch", code);
    if ((code = cudaDeviceSynchronize())) return told(device, "kernel", code);
    if ((code = cudaMemcpy(c.data(), z, bytes, cudaMemcpyDeviceToHost))) return told(device, "copy", code);
    int wrong = 0;
    for (int i = 0; i < n; ++i) wrong += c[i] != a[i] + b[i];
    std::printf("{\"gpu\": %d, \"called\": \"%s\", \"capability\": \"%d.%d\", \"bus\": \"%04x:%02x:%02x.0\", \"wrong\": %d}\n",
                device, about.name, about.major, about.minor, about.pciDomainID, about.pciBusID, about.pciDeviceID,
                wrong);
    std::fflush(stdout);
    cudaDeviceReset();
    return wrong != 0;
}

int main() {
    int count = 0, bad = 0, runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    std::printf("{\"runtime\": %d, \"driver\": %d}\n", runtime, driver);
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code) return told(-1, "devices", code);
    for (int device = 0; device < count; ++device) bad += run(device);
    return bad != 0;
}
