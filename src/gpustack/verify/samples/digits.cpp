// Reads pictures of digits with a small network through cuDNN (7 to 9), and once more on the CPU, and compares.
// argv: folder with network.f32 and pictures.u8, then the GPU's number. JSON lines; "Test passed!" at the end.
// The layout of network.f32 is that of network.json.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#include <cudnn.h>

static const int PICTURES = 20, SIDE = 28, CELLS = SIDE * SIDE;
static const double TOLERANCE = 2e-3;

struct Convolution { int out, in, size; size_t weight, bias; };
static const Convolution LAYERS[4] = {{8, 1, 5, 0, 200}, {16, 8, 5, 208, 3408}, {32, 16, 4, 3424, 11616}, {10, 32, 1, 11648, 11968}};
static const size_t NUMBERS = 11978;

static int fault(const char *step, int code, const char *words) {
    std::printf("{\"step\": \"%s\", \"code\": %d, \"name\": \"%s\"}\n", step, code, words);
    std::fflush(stdout);
    return 1;
}
#define CUDA(call) do { cudaError_t held = (call); if (held) return fault("cuda " #call, (int)held, cudaGetErrorName(held)); } while (0)
#define CUDNN(call) do { cudnnStatus_t held = (call); if (held != CUDNN_STATUS_SUCCESS) return fault("cudnn " #call, (int)held, cudnnGetErrorString(held)); } while (0)

static bool read(const std::string &path, void *to, size_t bytes) {
    FILE *file = std::fopen(path.c_str(), "rb");
    bool whole = file && std::fread(to, 1, bytes, file) == bytes;
    if (file) std::fclose(file);
    return whole;
}

// One layer on the CPU: correlation and bias, then (for the first two) the maximum of 2 x 2, then relu but for the last.
static std::vector<double> layer(const std::vector<double> &x, int side, const Convolution &one, const float *net, int number) {
    int wide = side - one.size + 1;
    std::vector<double> y((size_t)one.out * wide * wide);
    for (int o = 0; o < one.out; ++o)
        for (int r = 0; r < wide; ++r)
            for (int c = 0; c < wide; ++c) {
                double sum = net[one.bias + o];
                for (int i = 0; i < one.in; ++i)
                    for (int u = 0; u < one.size; ++u)
                        for (int v = 0; v < one.size; ++v)
                            sum += x[((size_t)i * side + r + u) * side + c + v] *
                                   net[one.weight + (((size_t)o * one.in + i) * one.size + u) * one.size + v];
                y[((size_t)o * wide + r) * wide + c] = sum;
            }
    if (number < 2) {
        int half = wide / 2;
        std::vector<double> z((size_t)one.out * half * half);
        for (int o = 0; o < one.out; ++o)
            for (int r = 0; r < half; ++r)
                for (int c = 0; c < half; ++c) {
                    const double *at = &y[((size_t)o * wide + 2 * r) * wide + 2 * c];
                    z[((size_t)o * half + r) * half + c] = std::max(std::max(at[0], at[1]), std::max(at[wide], at[wide + 1]));
                }
        y.swap(z);
    }
    if (number < 3)
        for (double &value : y) value = std::max(value, 0.0);
    return y;
}

static std::vector<double> reference(const float *picture, const float *net) {
    std::vector<double> x(picture, picture + CELLS);
    const int sides[4] = {28, 12, 4, 1};
    for (int number = 0; number < 4; ++number) x = layer(x, sides[number], LAYERS[number], net, number);
    double top = *std::max_element(x.begin(), x.end()), sum = 0;
    for (double &value : x) sum += value = std::exp(value - top);
    for (double &value : x) value /= sum;
    return x;
}

static int forward(cudnnHandle_t handle, const float *net, const float *pictures, float *answers) {
    const float one = 1, zero = 0;
    int channels = 1, side = SIDE;
    float *x = nullptr, *weights = nullptr;
    CUDA(cudaMalloc((void **)&weights, NUMBERS * sizeof(float)));
    CUDA(cudaMemcpy(weights, net, NUMBERS * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMalloc((void **)&x, PICTURES * CELLS * sizeof(float)));
    CUDA(cudaMemcpy(x, pictures, PICTURES * CELLS * sizeof(float), cudaMemcpyHostToDevice));
    cudnnTensorDescriptor_t from, to, bias;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnPoolingDescriptor_t pooling;
    cudnnActivationDescriptor_t relu;
    CUDNN(cudnnCreateTensorDescriptor(&from));
    CUDNN(cudnnCreateTensorDescriptor(&to));
    CUDNN(cudnnCreateTensorDescriptor(&bias));
    CUDNN(cudnnCreateFilterDescriptor(&filter));
    CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
    CUDNN(cudnnCreatePoolingDescriptor(&pooling));
    CUDNN(cudnnCreateActivationDescriptor(&relu));
    CUDNN(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    CUDNN(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
    CUDNN(cudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
#if CUDNN_MAJOR >= 8
    CUDNN(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
#endif
    for (int number = 0; number < 4; ++number) {
        const Convolution &now = LAYERS[number];
        int wide = side - now.size + 1, found = 0;
        float *y = nullptr;
        void *room = nullptr;
        size_t bytes = 0;
        CUDNN(cudnnSetTensor4dDescriptor(from, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, PICTURES, channels, side, side));
        CUDNN(cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, PICTURES, now.out, wide, wide));
        CUDNN(cudnnSetTensor4dDescriptor(bias, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, now.out, 1, 1));
        CUDNN(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, now.out, now.in, now.size, now.size));
        cudnnConvolutionFwdAlgoPerf_t best[8];
        CUDNN(cudnnGetConvolutionForwardAlgorithm_v7(handle, from, filter, convolution, to, 8, &found, best));
        if (!found || best[0].status != CUDNN_STATUS_SUCCESS)
            return fault("cudnn no algorithm", found ? (int)best[0].status : -1, "no algorithm for a convolution");
        CUDNN(cudnnGetConvolutionForwardWorkspaceSize(handle, from, filter, convolution, to, best[0].algo, &bytes));
        CUDA(cudaMalloc((void **)&y, (size_t)PICTURES * now.out * wide * wide * sizeof(float)));
        if (bytes) CUDA(cudaMalloc(&room, bytes));
        CUDNN(cudnnConvolutionForward(handle, &one, from, x, filter, weights + now.weight, convolution, best[0].algo, room, bytes, &zero, to, y));
        CUDNN(cudnnAddTensor(handle, &one, bias, weights + now.bias, &one, to, y));
        cudaFree(room);
        cudaFree(x);
        x = y;
        side = wide;
        channels = now.out;
        if (number < 2) {
            CUDNN(cudnnSetTensor4dDescriptor(from, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, PICTURES, channels, side / 2, side / 2));
            CUDA(cudaMalloc((void **)&y, (size_t)PICTURES * channels * (side / 2) * (side / 2) * sizeof(float)));
            CUDNN(cudnnPoolingForward(handle, pooling, &one, to, x, &zero, from, y));
            cudaFree(x);
            x = y;
            side /= 2;
        } else {
            CUDNN(cudnnSetTensor4dDescriptor(from, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, PICTURES, channels, side, side));
        }
        if (number < 3)
            CUDNN(cudnnActivationForward(handle, relu, &one, from, x, &zero, from, x));
        else
            CUDNN(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, from, x, &zero, from, x));
    }
    CUDA(cudaMemcpy(answers, x, PICTURES * 10 * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA(cudaFree(x));
    CUDA(cudaFree(weights));
    return 0;
}

static void loaded() {
    FILE *maps = std::fopen("/proc/self/maps", "r");
    char line[4096], last[4096] = "";
    while (maps && std::fgets(line, sizeof line, maps)) {
        char *path = std::strchr(line, '/');
        if (!path || !std::strstr(path, "libcudnn")) continue;
        path[std::strcspn(path, "\n")] = 0;
        if (std::strcmp(path, last)) std::printf("{\"loaded\": \"%s\"}\n", path);
        std::strcpy(last, path);
    }
    if (maps) std::fclose(maps);
}

int main(int argc, char **argv) {
    std::string folder = argc > 1 ? argv[1] : ".";
    int device = argc > 2 ? std::atoi(argv[2]) : 0, wrong = 0;
    std::vector<float> net(NUMBERS), pictures(PICTURES * CELLS), answers(PICTURES * 10);
    std::vector<unsigned char> bytes(PICTURES * CELLS);
    std::printf("{\"header\": %d, \"library\": %zu, \"cuda\": %zu}\n", CUDNN_VERSION, cudnnGetVersion(), cudnnGetCudartVersion());
    loaded();
    std::fflush(stdout);
    if (!read(folder + "/network.f32", net.data(), NUMBERS * sizeof(float))) return fault("network.f32", 0, "cannot be read");
    if (!read(folder + "/pictures.u8", bytes.data(), bytes.size())) return fault("pictures.u8", 0, "cannot be read");
    for (size_t i = 0; i < bytes.size(); ++i) pictures[i] = bytes[i] / 255.0f;
    cudnnHandle_t handle;
    CUDA(cudaSetDevice(device));
    CUDNN(cudnnCreate(&handle));
    if (forward(handle, net.data(), pictures.data(), answers.data())) return 1;
    double most = 0;
    std::string digits;
    for (int i = 0; i < PICTURES; ++i) {
        std::vector<double> known = reference(&pictures[(size_t)i * CELLS], net.data());
        const float *row = &answers[(size_t)i * 10];
        for (int d = 0; d < 10; ++d) {
            double apart = std::fabs(known[d] - row[d]);
            if (!(apart <= TOLERANCE)) ++wrong;  // a NaN is wrong too
            if (apart > most) most = apart;
        }
        digits += (char)('0' + (std::max_element(row, row + 10) - row));
    }
    std::printf("{\"gpu\": %d, \"digits\": \"%s\", \"most_apart\": %.3g, \"wrong\": %d}\n", device, digits.c_str(), most, wrong);
    cudnnDestroy(handle);
    std::printf(wrong ? "Test failed!\n" : "Test passed!\n");
    return wrong != 0;
}
