"""GPUDirect RDMA by the driver's module nvidia_peermem, and where DMA-BUF takes its place."""
