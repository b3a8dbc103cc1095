"""Requirements as users write them: ``cuda>=12.4,<13``, ``cudnn==9.*``, ``ffmpeg``."""

from __future__ import annotations

import re

from gpustack.errors import UsageError
from gpustack.model.facts import COMPONENTS
from gpustack.model.frameworks import COMPILER, DISTRIBUTIONS, FRAMEWORKS
from gpustack.model.request import METHODS, Method, Requirement
from gpustack.versions import version_range

_CLAUSE = r"(?:==|!=|>=|<=|<|>|~=)\d+(?:\.\d+)*(?:(?:a|b|rc)\d+|\.(?:post|dev)\d+)?(?:\.\*)?"
_LOCAL = re.compile(r"==\d+(?:\.\d+)*(?:\.post\d+)?\+[a-z]+[a-z0-9.]*")
_SPECIFIER = re.compile(rf"{_CLAUSE}(?:,{_CLAUSE})*,?")
_EXTRAS = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)\[([A-Za-z0-9_,. -]+)\](.*)")
_REQUIREMENT = re.compile(r"([A-Za-z](?:[A-Za-z0-9_-]|(?<=\d)\.(?=\d))*)\s*(.*)", re.DOTALL)


def parse_requirement(text: str) -> Requirement:
    """The requirement in ``text``. Raises UsageError naming the nearest component or the invalid clause."""
    text = _without_extras(text.strip())
    match = _REQUIREMENT.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a requirement"
        raise UsageError(
            msg,
            code="malformed-requirement",
            hint="write a component and versions of it: cuda>=12.4,<13 or cudnn==9.* or ffmpeg",
        )
    return Requirement(component=component_named(match[1]), versions=specifier(match[2], of=match[1]))


def _without_extras(text: str) -> str:
    """A framework without extras, which only add packages. Raises UsageError for those of JAX, which name plugins."""
    match = _EXTRAS.fullmatch(text)
    name = match[1].lower().replace("_", "-") if match is not None else ""
    if match is None or name not in DISTRIBUTIONS:
        return text
    if name == "jax" and (plugin := f"jax-{match[2].partition('-')[0]}-plugin") in FRAMEWORKS:
        msg = f"{text!r} names two distributions"
        hint = f"ask for both: jax{match[3]} {plugin}"
        raise UsageError(msg, code="malformed-requirement", hint=hint)
    return f"{match[1]}{match[3]}"


def component_named(name: str) -> str:
    """The component with this name in any case. Raises UsageError with the nearest names."""
    lowered = name.lower().replace("_", "-")
    if lowered in COMPONENTS or lowered in DISTRIBUTIONS:
        return lowered
    msg = f"{name!r} is not a component"
    raise UsageError(msg, code="unknown-component", hint=_not_a_component(lowered))


def specifier(text: str, *, of: str) -> str:
    """A PEP 440 specifier as one of our ranges.

    Raises UsageError. A bare version (``cuda 12.4``) is refused: it could mean the version or the line.
    """
    cleaned = "".join(text.split())
    if not cleaned:
        return ""
    if of.lower().replace("_", "-") in FRAMEWORKS and _LOCAL.fullmatch(cleaned.lower()):
        return cleaned.lower()
    if _SPECIFIER.fullmatch(cleaned):
        try:
            return version_range(cleaned).text
        except ValueError:
            pass  # the sentence below says it better
    msg = f"{text.strip()!r} is not a version specifier for {of}"
    raise UsageError(msg, code="malformed-requirement", hint=_advice(cleaned, of))


def _advice(text: str, of: str) -> str:
    """What to write instead, made of the numbers in it, else an example."""
    if re.search(r"latest|newest|stable", text, re.IGNORECASE):
        return f"leave the version out to get the newest compatible one: {of}"
    if clauses := re.findall(r"([<>=~!]+)v?(\d[\d.]*)", text):
        spelled = [(_MISSPELT.get(operator, operator), number.rstrip(".")) for operator, number in clauses]
        listed = ",".join(f"{operator}{number}" for operator, number in spelled)
        if _SPECIFIER.fullmatch(listed) and not re.search(r"[!+]|===", text):
            return f"write {of}{listed}" + (_or_line(of, spelled[0][1]) if listed.startswith("==") else "")
    numbers = re.search(r"\d+(?:\.\d+)*", text)
    if numbers and not re.search(r"[!+]|===", text):
        return f"write {of}=={numbers[0]}{_or_line(of, numbers[0])}"
    return f"write for example {of}>=12.4,<13 or {of}==12.4.*; the vendor's versions are numbers"


_MISSPELT = {"=": "==", "=>": ">=", "=<": "<=", "===": "=="}


def _or_line(of: str, number: str) -> str:
    return "" if number.count(".") > 1 else f", or {of}=={number}.* for any release of that line"


_PACKAGE_LIKE = re.compile(r"(?:lib)?([a-z-]*?[a-z])-?(\d+(?:[.-]\d+)*)")
"""A component and a version in one word, like a package name: cuda-12-4, cudnn8, libcudnn9."""


_GUIDES = (
    "the facts do not cover its releases: ask for driver, container-toolkit and dcgm in the versions that it names"
)
_PURE = "it is Python alone, and runs with the wheels next to it: ask for torch"

_SPOKEN = {
    "accelerate": _PURE,
    "clang": "it is a property of the host: --clang 19",
    "conda": "a form of a plan: plan torch --format conda",
    "cudatoolkit": "conda's name of CUDA's libraries: did you mean cuda?",
    "cupy": "did you mean cupy-cuda12x or cupy-cuda13x, its wheels for CUDA 12 and 13?",
    "cutlass": "it consists of headers, and compiles with cuda; its wheel is nvidia-cutlass-dsl",
    "datacenter-gpu-manager": "did you mean dcgm?",
    "deepstream": "it is an image: check --image nvcr.io/nvidia/deepstream:TAG",
    "diffusers": _PURE,
    **dict.fromkeys(
        ("containerd", "docker", "docker-ce", "podman"),
        "the facts do not cover releases of container engines: ask for container-toolkit, which they start GPUs with",
    ),
    **dict.fromkeys(("faiss", "faiss-gpu"), "did you mean faiss-gpu-cu12?"),
    "faster-whisper": "it is Python alone: ask for ctranslate2, whose wheels load CUDA and cuDNN",
    **dict.fromkeys(("ffnvcodec", "nvcodec", "nv-codec-sdk"), "did you mean nv-codec-headers?"),
    **dict.fromkeys(("g++", "gcc"), "it is a property of the host: --gcc 13"),
    "glibc": "it is a property of the host: --glibc 2.35",
    **dict.fromkeys(("gpu-operator", "network-operator", "nim-operator"), f"Kubernetes runs it, and {_GUIDES}"),
    "jetpack": "it is the system of a Jetson: --os jetpack6.2",
    **dict.fromkeys(
        ("k8s", "k8s-device-plugin", "kubernetes", "nvidia-device-plugin"),
        "the facts do not cover releases of Kubernetes and of its device plugin: ask for driver and container-toolkit",
    ),
    "keras": "ask for the framework below it: tensorflow, torch or jax",
    **dict.fromkeys(("kernel", "linux"), "it is a property of the host: --kernel 6.8.0"),
    "l4t": "it is the system of a Jetson: --os l4t36.4.3",
    "libnvidia-container": "did you mean container-toolkit?",
    "mig": "MIG is a state of the GPUs: --mig",
    **dict.fromkeys(("msvc", "visual-studio", "vs2019", "vs2022"), "it is a property of the host: --msvc 19.44"),
    "mxnet": "the facts do not cover it: ask for cuda and cudnn",
    "nim": "it is an image: check --image nvcr.io/nim/NAME:TAG",
    "nsight-systems": "it comes with cuda",
    "numpy": "it has no code for GPUs; --python gives the Python of the host",
    "nvcc": "the compiler of cuda has the versions of CUDA: did you mean cuda?",
    "nvdec": "name a codec, for example nvdec-h264",
    "nvenc": "name a codec, for example nvenc-h264",
    "nvidia": "did you mean driver?",
    **dict.fromkeys(
        ("nvidia-container-runtime", "nvidia-container-toolkit", "nvidia-docker", "nvidia-docker2"),
        "did you mean container-toolkit? nvidia-docker2 is a package for it",
    ),
    "nvidia-driver": "did you mean driver?",
    "nvidia-fs": "did you mean gds?",
    "nvidia-smi": "it comes with driver",
    "nvjpeg": "its library comes with cuda",
    "nvlink": "ask for fabric-manager or imex, which GPUs behind NVSwitch need",
    "nvshmem": "did you mean nvidia-nvshmem-cu12 or nvidia-nvshmem-cu13, its wheels?",
    **dict.fromkeys(
        ("nv-peer-mem", "nvidia-peer-memory", "nvidia-peermem", "peermem"),
        "nvidia_peermem is a module of driver 470 and later: ask for driver, and `verify nvidia-peermem` afterwards",
    ),
    "ollama": "it is judged as an image: check --image ollama/ollama:TAG",
    "onnx": "it is a format: ask for onnxruntime-gpu or tensorrt, which run its models",
    **dict.fromkeys(
        ("onnx-opset", "opset"),
        "an opset belongs to a model; `matrix show tensorrt==VERSION` has the newest that its parser reads",
    ),
    **dict.fromkeys(
        ("opencv", "opencv-contrib-python", "opencv-python", "opencv-python-headless"),
        "its wheels have no CUDA, and one with CUDA is compiled on the host: ask for cuda and cudnn",
    ),
    "openai-whisper": _PURE,
    "opengl": "its library comes with driver",
    "optix": "its library comes with driver; the facts do not cover the releases of its SDK",
    "peft": _PURE,
    **dict.fromkeys(("py", "python", "python3"), "it is a property of the host: --python 3.12"),
    "pytorch": "did you mean torch?",
    **dict.fromkeys(("rapids", "cudf"), "did you mean cudf-cu12 or cudf-cu13, its wheels for CUDA 12 and 13?"),
    "cuml": "did you mean cuml-cu12 or cuml-cu13, its wheels for CUDA 12 and 13?",
    "sageattention": "the facts do not cover it: it is compiled for the PyTorch and the CUDA of the host",
    **dict.fromkeys(
        ("tensorflow-gpu", "tf"),
        "did you mean tensorflow, whose wheels have the code for GPUs since 2.1?",
    ),
    "transformers": _PURE,
    **dict.fromkeys(("tritonserver", "triton-server", "triton-inference-server"), "did you mean triton?"),
    **dict.fromkeys(("trt", "nvidia-tensorrt"), "did you mean tensorrt?"),
    "trt-llm": "did you mean tensorrt-llm?",
    "ubuntu": "it is the system of the host: --os ubuntu24.04",
    "vgpu": "a vGPU is a GPU by name: --gpu 'GRID T4-8Q'",
    "video-codec-sdk": "its headers are judged by the version of its interface: did you mean nv-codec-headers?",
    "vulkan": "its library comes with driver",
    "windows": "it is the system of the host: --os windows11",
    **dict.fromkeys(("wsl", "wsl2"), "it is a property of the host: --environment wsl, or --os wsl-ubuntu24.04"),
}
"""Words that people use for a component, or for what is none."""


_PACKAGES = (
    (r"nvidia-fabric-?manager", "fabric-manager"),
    (r"nvidia-imex", "imex"),
    (r"(?:python3-)?libnvinfer", "tensorrt"),
    (r"libcudnn", "cudnn"),
    (r"libnccl", "nccl"),
    (r"(?:nvidia-)?cuda-drivers|nvidia-(?:dkms|driver|headless|kernel|open|utils)", "driver"),
    (r"a?kmod-nvidia|libnvidia|linux-modules-nvidia|xorg-x11-drv-nvidia|xserver-xorg-", "driver"),
    (r"nvidia-cuda-(?:dev|toolkit)|pytorch-cuda|cuda-(?:libraries|runtime|version)", "cuda"),
)
"""Packages of apt, dnf, pacman and conda, by how their names begin, and the component that they belong to."""


def _not_a_component(name: str) -> str:
    """A hint for a word that names no component: what it is, or the nearest one, with the version in the word."""
    spoken = _SPOKEN.get(name) or _SPOKEN.get(re.sub(r"-cu(?:da)?\d+x?$", "", name))
    if spoken is not None:
        return spoken
    match = _PACKAGE_LIKE.fullmatch(name)
    if match is not None and match[1] in COMPONENTS:
        return f"did you mean {match[1]}=={match[2].replace('-', '.')}.*?"
    for package, component in _PACKAGES:
        if re.match(package, name):
            return f"it is a package of {component}: did you mean {component}?"
    usual = (*COMPONENTS, *FRAMEWORKS)
    return nearest(name, (*COMPONENTS, *DISTRIBUTIONS) if "-" in name else usual, shown=usual)


_FORMS = frozenset({"conda", "pixi", "uv"})
"""Forms of a plan that users ask for as methods."""

_SPELLED = {"wheel": "pip", "archive": "tar"}
"""Other words for methods, by what they install."""


def parse_methods(texts: tuple[str, ...]) -> dict[str, Method]:
    """``--method network --method cudnn=tar`` as a mapping from component ("" for all) to method. Raises UsageError."""
    methods: dict[str, Method] = {}
    for text in texts:
        component, equals, name = text.rpartition("=")
        where = component_named(component) if equals else ""
        found = next((method for method in METHODS if method == _SPELLED.get(name, name)), None)
        if found is None:
            msg = f"{name!r} is not a method"
            hint = f"{name} is a form: --format {name}" if name in _FORMS else nearest(name, METHODS)
            raise UsageError(msg, code="unknown-method", hint=hint)
        if methods.get(where, found) != found:
            msg = f"two methods are given for {where or 'all components'}: {methods[where]} and {found}"
            raise UsageError(
                msg, code="conflicting-options", hint="give one, or name the component: --method cudnn=tar"
            )
        methods[where] = found
    return methods


def parse_upgrades(texts: tuple[str, ...]) -> tuple[str, ...]:
    """``--upgrade`` and ``--upgrade cudnn``: components, or "all". Raises UsageError."""
    return tuple(sorted({text if text == "all" else component_named(text) for text in texts}))


def merge(requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """One requirement per component, in the given order: all its clauses together."""
    merged: dict[str, list[str]] = {}
    for requirement in requirements:
        clauses = merged.setdefault(requirement.component, [])
        if requirement.versions and requirement.versions not in clauses:
            clauses.append(requirement.versions)
    return tuple(Requirement(component=name, versions=",".join(clauses)) for name, clauses in merged.items())


def split_frameworks(
    requirements: tuple[Requirement, ...],
) -> tuple[tuple[Requirement, ...], tuple[Requirement, ...]]:
    """The requirements on components of the stack, and those on frameworks for Python."""
    stack = tuple(one for one in requirements if one.component in COMPONENTS and not _is_compiler(one))
    return stack, tuple(one for one in requirements if one not in stack)


def _is_compiler(requirement: Requirement) -> bool:
    """Whether this means PyTorch's compiler and not the server, whose releases are 0.x to 2.x, or years."""
    return requirement.component == COMPILER and re.match(r"==3(?:\.|$)", requirement.versions) is not None


def nearest(word: str, names: tuple[str, ...], *, shown: tuple[str, ...] = ()) -> str:
    """A hint: the names nearest to ``word``, or all of them; of very many those of ``shown``."""
    import difflib  # noqa: PLC0415 (only on the way to an error)

    close = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(shown or names)}"
