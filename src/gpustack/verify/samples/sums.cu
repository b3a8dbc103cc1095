// Adds two vectors: the kernel that cuda_contexts.py runs through libcuda alone. sums.ptx is made of it by ci/build_ptx.py.
extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
