"""What is read of a Python environment, as data. Paths are relative to its folder of packages."""

from __future__ import annotations

PLACES = (
    "/usr/lib/python3*/site-packages", "/usr/lib/python3/dist-packages", "/usr/lib64/python3*/site-packages",
    "/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages",
    "/venv/lib/python3*/site-packages", "/*/.venv/lib/python3*/site-packages", "/*/venv/lib/python3*/site-packages",
    "/opt/*/lib/python3*/site-packages", "/opt/*/*/lib/python3*/site-packages",
    "/opt/*/envs/*/lib/python3*/site-packages", "/srv/*/*/lib/python3*/site-packages",
    "/root/*/lib/python3*/site-packages", "/root/*/envs/*/lib/python3*/site-packages",
    "/root/*/.venv/lib/python3*/site-packages",
    "/home/*/*/lib/python3*/site-packages", "/home/*/*/envs/*/lib/python3*/site-packages",
    "/home/*/*/.venv/lib/python3*/site-packages", "/home/*/*/venv/lib/python3*/site-packages",
    "/home/*/.pyenv/versions/*/lib/python3*/site-packages",
    "/root/.pyenv/versions/*/lib/python3*/site-packages", "/home/*/.local/share/uv/tools/*/lib/python3*/site-packages",
    "/home/*/.local/share/pipx/venvs/*/lib/python3*/site-packages",
    "/root/.local/share/uv/tools/*/lib/python3*/site-packages",
    "/root/.local/share/pipx/venvs/*/lib/python3*/site-packages",
    "/home/*/.cache/pypoetry/virtualenvs/*/lib/python3*/site-packages",
    "/root/.cache/pypoetry/virtualenvs/*/lib/python3*/site-packages",
    "/home/*/.local/share/virtualenvs/*/lib/python3*/site-packages",
    "/root/.local/share/virtualenvs/*/lib/python3*/site-packages",
    "/snap/*/current/lib/python3*/site-packages",
    "/*/.pixi/envs/*/lib/python3*/site-packages", "/opt/*/.pixi/envs/*/lib/python3*/site-packages",
    "/root/*/.pixi/envs/*/lib/python3*/site-packages", "/home/*/*/.pixi/envs/*/lib/python3*/site-packages",
    "/root/.local/share/mamba/envs/*/lib/python3*/site-packages",
    "/home/*/.local/share/mamba/envs/*/lib/python3*/site-packages",
)  # fmt: skip
"""Where environments usually are: of the system, virtual ones, conda's, those of pyenv, uv, pipx, poetry, pixi."""

KERNELS = (
    "/usr/share/jupyter/kernels/*/kernel.json", "/usr/local/share/jupyter/kernels/*/kernel.json",
    "/home/*/.local/share/jupyter/kernels/*/kernel.json", "/root/.local/share/jupyter/kernels/*/kernel.json",
)  # fmt: skip
"""Jupyter's kernels: each names the interpreter that it starts."""

CONDA_LISTS = ("/home/*/.conda/environments.txt", "/root/.conda/environments.txt")
"""Where conda and mamba list the environments that they made, wherever these are."""

MAX_ENVIRONMENTS = 200
MAX_DISTRIBUTIONS = 400
"""In one environment."""

METADATA_LIMIT = 128 << 10
"""Of a METADATA file so many bytes are read: its fields come first."""

DISTRIBUTIONS = (
    r"torch(?:vision|audio|text|data|codec|ao|_tensorrt)?|triton|xformers|flash_attn\w*|bitsandbytes|vllm\w*|sglang\w*|sgl_kernel|"
    r"tensorrt\w*|flashinfer\w*|deepspeed|apex|"
    r"tensorflow|tensorflow_cpu|tensorflow_gpu|tf_nightly|jax|jaxlib|jax_cuda\w+|onnxruntime\w*|cupy|cupy_cuda\w+|"
    r"ctranslate2|faster_whisper|av|opencv_\w+|numpy|nvidia_\w+|cuda_\w+|numba|numba_cuda|transformer_engine\w*|"
    r"paddlepaddle\w*|faiss\w*|llama_cpp_python|(?:lib)?cu(?:df|ml|vs)_\w+|rmm_\w+|pynvml|"
    r"mxnet\w*|lmdeploy|nemo_toolkit|unsloth\w*|auto_?gptq|autoawq\w*|gptqmodel|exllamav2|mamba_ssm|causal_conv1d|pycuda"
)
"""Names of distributions that matter, as their folders spell them (small letters, ``_`` for ``-``)."""

STARTS = (
    "torch", "triton", "xformers", "flash", "bitsandbytes", "vllm", "sgl", "tensor", "deepspeed", "apex", "tf_nightly",
    "jax", "onnxruntime", "cupy", "ctranslate2", "faster_whisper", "av-", "opencv", "numpy", "nvidia", "cuda", "numba",
    "transformer_engine", "paddlepaddle", "faiss", "llama_cpp", "cudf", "cuml", "cuvs", "libcu", "rmm", "pynvml",
    "mxnet", "lmdeploy", "nemo_", "unsloth", "auto", "gptq", "exllama", "mamba", "causal", "pycuda", "~",
)  # fmt: skip
"""How the names begin: of a thousand distributions only these are worth a regular expression."""

COMMON = frozenset({"numpy"})
"""Distributions that alone make no environment worth naming."""

REMOVED = r"~(?:orch\w*|vidia_\w+|ensor\w+|nnxruntime\w*|ax\w*|umpy|upy\w*)"
"""What pip leaves of a removal that failed: the first letter is replaced."""

CONDA = (
    r"(?:pytorch|pytorch-gpu|pytorch-cpu|libtorch|torchvision|torchaudio|tensorflow(?:-base|-gpu|-cpu)?|jax|jaxlib|"
    r"cupy(?:-core)?|cudnn|nccl|cudatoolkit|cuda-version|cuda-cudart|libcublas|tensorrt|onnxruntime[\w-]*|numpy|"
    r"pytorch-cuda|cuda-toolkit|cuda-nvcc|ctranslate2|xformers|vllm|opencv|libopencv|av)-\d[^-]*-[^-]+\.json"
)
"""Records of conda: name, version and build."""

TEXTS = (
    "torch/version.py", "torchvision/version.py", "torchaudio/version.py",
    "tensorflow/python/platform/build_info.py", "onnxruntime/capi/build_and_package_info.py",
)  # fmt: skip
"""Files in which a framework says what it was built for."""

TEXT_LIMIT = 20_000

LIBRARIES = (
    "torch/lib/libtorch_cuda.so", "onnxruntime/capi/libonnxruntime_providers_cuda.so",
    "onnxruntime/capi/libonnxruntime_providers_tensorrt.so", "tensorflow/libtensorflow_cc.so.2",
    "jax_plugins/xla_cuda*/xla_cuda_plugin.so", "ctranslate2.libs/libctranslate2*.so*", "flash_attn_2_cuda*.so",
    "xformers/_C.so", "vllm/_C.abi3.so", "torchvision/_C*.so", "faiss_gpu_cu1*.libs/libfaiss*.so*",
    "nvidia/dali/libdali_kernels.so", "libcudf/lib64/libcudf.so", "libcuml/lib64/libcuml*.so",
    "transformer_engine/wheel_lib/libtransformer_engine.so", "lmdeploy/*/_turbomind*.so",
)  # fmt: skip
"""Libraries of frameworks with GPU code, or that load NVIDIA's libraries."""

CODECS = "av.libs/libavcodec*"
DECODER = b"h264_cuvid"
"""The name of a decoder that every FFmpeg with NVDEC has."""

CODEC_LIMIT = 256 << 20
