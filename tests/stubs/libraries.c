/* Stands in for libcublas, libcudnn and libnccl where there is no GPU: STUB_LIBRARY names what goes wrong. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *name) {
    const char *text = getenv("STUB_LIBRARY");
    return text && strcmp(text, name) == 0;
}

int cublasGetProperty(int kind, int *value) { *value = kind == 0 ? 13 : kind; return 0; }
int cublasCreate_v2(void **handle) { *handle = (void *)7; return is("blas-arch") ? 8 : 0; }
int cublasDestroy_v2(void *handle) { (void)handle; return 0; }

int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc) {
    if (handle != (void *)7 || ta || tb || *beta != 0) return 7;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            float sum = 0;
            for (int l = 0; l < k; ++l) sum += a[i + l * lda] * b[l + j * ldb];
            c[i + j * ldc] = *alpha * sum;
        }
    if (is("blas-wrong")) c[3] += 1;
    return 0;
}

size_t cudnnGetVersion(void) { return 91400; }
const char *cudnnGetErrorString(int code) { return code == 1001 ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS_STUB"; }
int cudnnCreate(void **handle) { *handle = (void *)8; return is("dnn-init") ? 1001 : 0; }
int cudnnDestroy(void *handle) { (void)handle; return 0; }
int cudnnCreateTensorDescriptor(int **made) { *made = calloc(8, sizeof(int)); return 0; }
int cudnnCreateFilterDescriptor(int **made) { *made = calloc(8, sizeof(int)); return 0; }
int cudnnCreateConvolutionDescriptor(int **made) { *made = calloc(8, sizeof(int)); return 0; }

int cudnnSetTensor4dDescriptor(int *one, int format, int type, int n, int c, int h, int w) {
    if (format || type || n != 1 || c != 1) return 2000;
    one[0] = h, one[1] = w;
    return 0;
}

int cudnnSetFilter4dDescriptor(int *one, int type, int format, int k, int c, int h, int w) {
    if (format || type || k != 1 || c != 1) return 2000;
    one[0] = h, one[1] = w;
    return 0;
}

int cudnnSetConvolution2dDescriptor(int *one, int ph, int pw, int u, int v, int dh, int dw, int mode, int type) {
    one[0] = mode;
    return ph || pw || u != 1 || v != 1 || dh != 1 || dw != 1 || type ? 2000 : 0;
}

int cudnnConvolutionForward(void *handle, const float *alpha, int *from, const float *x, int *filter, const float *w,
                            int *how, int algorithm, void *room, size_t bytes, const float *beta, int *to, float *y) {
    if (handle != (void *)8 || how[0] != 1 || algorithm || room || bytes || *beta != 0) return 2000;
    for (int i = 0; i < to[0]; ++i)
        for (int j = 0; j < to[1]; ++j) {
            float sum = 0;
            for (int r = 0; r < filter[0]; ++r)
                for (int s = 0; s < filter[1]; ++s) sum += x[(i + r) * from[1] + j + s] * w[r * filter[1] + s];
            y[i * to[1] + j] = *alpha * sum;
        }
    return 0;
}

static const float *sources[16];
static float *targets[16];
static size_t length;
static int ranks, called;

const char *ncclGetErrorString(int code) { return code == 2 ? "unhandled system error" : "stub"; }
int ncclGetVersion(int *number) { *number = 22809; return 0; }

int ncclCommInitAll(void **made, int count, const int *devices) {
    ranks = count;
    for (int i = 0; i < count; ++i) made[i] = (void *)(size_t)(i + 1);
    return devices ? 4 : is("nccl-system") ? 2 : 0;
}

int ncclGroupStart(void) { called = 0; return 0; }

int ncclAllReduce(const float *from, float *to, size_t count, int type, int sum, void *rank, void *stream) {
    int number = (int)(size_t)rank - 1;
    if (type != 7 || sum != 0 || stream || number < 0 || number >= ranks) return 4;
    sources[number] = from, targets[number] = to, length = count, ++called;
    return 0;
}

int ncclGroupEnd(void) {
    if (called != ranks) return 4;
    if (is("nccl-hangs")) pause();
    if (is("nccl-crashes")) abort();
    for (size_t i = 0; i < length; ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += sources[r][i];
        for (int r = 0; r < ranks; ++r) targets[r][i] = sum;
    }
    if (is("nccl-wrong")) targets[ranks - 1][0] += 1;
    return 0;
}
