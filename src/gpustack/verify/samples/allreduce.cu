// Adds up one vector of every GPU on every GPU through NCCL, in one process, and checks each sum.
// argv[1] is the size in MiB that is timed; 0 times nothing. JSON lines.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <nccl.h>

static int fault(const char *step, int code, const char *words) {
    std::printf("{\"step\": \"%s\", \"code\": %d, \"name\": \"%s\"}\n", step, code, words);
    std::fflush(stdout);
    return 1;
}
#define CUDA(call) do { cudaError_t held = (call); if (held) return fault("cuda " #call, (int)held, cudaGetErrorName(held)); } while (0)
#define NCCL(call) do { ncclResult_t held = (call); if (held != ncclSuccess) return fault("nccl " #call, (int)held, ncclGetErrorString(held)); } while (0)

__global__ void fill(float *values, size_t n, float base) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        values[i] = base + (float)(i % 1000);
}

static int add_up(int count, std::vector<ncclComm_t> &comms, std::vector<cudaStream_t> &streams,
                  std::vector<float *> &data, size_t n) {
    NCCL(ncclGroupStart());
    for (int g = 0; g < count; ++g) NCCL(ncclAllReduce(data[g], data[g], n, ncclFloat, ncclSum, comms[g], streams[g]));
    NCCL(ncclGroupEnd());
    for (int g = 0; g < count; ++g) {
        CUDA(cudaSetDevice(g));
        CUDA(cudaStreamSynchronize(streams[g]));
    }
    return 0;
}

int main(int argc, char **argv) {
    int count = 0, version = 0;
    size_t timed = (argc > 1 ? (size_t)std::atoi(argv[1]) : 0) << 20;
    const size_t n = (size_t)1 << 20;
    size_t most = timed / sizeof(float) > n ? timed / sizeof(float) : n;
    NCCL(ncclGetVersion(&version));
    CUDA(cudaGetDeviceCount(&count));
    std::printf("{\"header\": %d, \"library\": %d, \"gpus\": %d}\n", NCCL_VERSION_CODE, version, count);
    std::fflush(stdout);
    std::vector<ncclComm_t> comms(count);
    std::vector<cudaStream_t> streams(count);
    std::vector<float *> data(count);
    NCCL(ncclCommInitAll(comms.data(), count, nullptr));
    for (int g = 0; g < count; ++g) {
        CUDA(cudaSetDevice(g));
        CUDA(cudaStreamCreate(&streams[g]));
        CUDA(cudaMalloc((void **)&data[g], most * sizeof(float)));
        fill<<<256, 256, 0, streams[g]>>>(data[g], n, (float)(g + 1));
        CUDA(cudaGetLastError());
    }
    if (add_up(count, comms, streams, data, n)) return 1;
    int bad = 0;
    std::vector<float> back(n);
    for (int g = 0; g < count; ++g) {
        CUDA(cudaSetDevice(g));
        CUDA(cudaMemcpy(back.data(), data[g], n * sizeof(float), cudaMemcpyDeviceToHost));
        int wrong = 0;
        float ranks = count * (count + 1) / 2.0f;
        for (size_t i = 0; i < n; ++i) wrong += back[i] != ranks + count * (float)(i % 1000);
        bad += wrong != 0;
        std::printf("{\"gpu\": %d, \"wrong\": %d}\n", g, wrong);
    }
    if (timed && !bad) {
        const int rounds = 10;
        cudaEvent_t begin, end;
        float spent = 0;
        for (int i = 0; i < 3; ++i)
            if (add_up(count, comms, streams, data, most)) return 1;
        CUDA(cudaSetDevice(0));
        CUDA(cudaEventCreate(&begin));
        CUDA(cudaEventCreate(&end));
        CUDA(cudaEventRecord(begin, streams[0]));
        for (int i = 0; i < rounds; ++i) {
            NCCL(ncclGroupStart());
            for (int g = 0; g < count; ++g) NCCL(ncclAllReduce(data[g], data[g], most, ncclFloat, ncclSum, comms[g], streams[g]));
            NCCL(ncclGroupEnd());
        }
        CUDA(cudaSetDevice(0));
        CUDA(cudaEventRecord(end, streams[0]));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&spent, begin, end));
        double rate = (double)most * sizeof(float) * rounds / (spent / 1000.0) / 1e9;
        std::printf("{\"name\": \"algorithm-bandwidth\", \"value\": %.6g, \"unit\": \"GB/s\"}\n", rate);
        std::printf("{\"name\": \"bus-bandwidth\", \"value\": %.6g, \"unit\": \"GB/s\"}\n", rate * 2 * (count - 1) / count);
    }
    for (int g = 0; g < count; ++g) ncclCommDestroy(comms[g]);
    return bad != 0;
}
