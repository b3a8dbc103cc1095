"""What builds of CUDA programs say when they do not find the toolkit, or find one that does not fit."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.detect.problems.cures import plan
from gpustack.detect.problems.phrases import Cause, said
from gpustack.detect.scene import Scene
from gpustack.patterns import later
from gpustack.versions import is_within, version_key

ABOUT = later(
    r"nvcc|ptxas|cudafe|nvlink (?:fatal|error)|unsupported (?:GNU|clang|Microsoft Visual Studio) version|"
    r"host compiler found|cannot find -l(?:cu|nv|nccl)|CMAKE_CUDA|host_config\.h|\bATen\b|ldtilecfg|amxtile|"
    r"\b(?:cuda|cudnn|cublas|cusparse|cusolver|nccl|NvInfer|nvEncode|nvml|ffnvcodec|nvcuvid|cufile|cufft|curand|gdrapi|"
    r"nvToolsExt|nvtx3)"
    r"[\w/]*\.h(?:pp)?\b|(?:fatal error: |source file \")(?:nv/target|cub/|thrust/|cuda/)|\"NV_(?:IS|IF|PROVIDES)_|"
    r"include path is not compatible with this release of Thrust|cudaMemLocation|bare_metal_version|"
    r"namespace \"(?:cub|thrust)\"|identifier \"cu(?:dnn|blas|sparse|solver|fft)|C\+\+ versions less than C\+\+1|"
    r"undefined reference to .(?:(?:__)?cu[A-Zbdfrst]|nccl|nvml|nvrtc|nvJitLink|nvjpeg|npp|createInfer|createNvOnnx|"
    r"nvinfer1::|initLibNvInfer|NvEncodeAPI|c10::|at::|torch::|cv::cuda::|ompi_|MPIR_)|"
    r"/usr/(?:include|lib)/\S+\(\d+\): (?:catastrophic )?error|parameter packs not expanded"
)
"""Lines about such builds that need not name NVIDIA."""

_HEADER = later(r"(?:fatal error: (?=\S+ [Nn]o such file)|cannot open source file \")(?P<name>[\w/]+\.h(?:pp)?)\W")
_OWNERS = (
    (r"cudnn", "cudnn"), (r"nccl", "nccl"), (r"(?i)nv(?:infer|onnxparser|utils)", "tensorrt"),
    (r"nvEncodeAPI|ffnvcodec|nvcuvid|cuviddec", "nv-codec-headers"), (r"gdrapi", "gdrcopy"),
    (r"cu|nvml|nvToolsExt|nvrtc|npp|device_launch|math_constants|vector_types|thrust|cub/", "cuda"),
)  # fmt: skip
_LINKED = later(r"cannot find -l(?P<name>cuda|nvidia-ml|cudart|cudnn|nccl|nvinfer|cu\w+|nv\w+)\b")
_GCC = later(r"unsupported GNU version.{0,60}later than (?P<number>\d+)")
_HEADERS = later(r"/(?:c\+\+|gcc/[\w-]+)/(?P<number>\d+)/")
_MISMATCH = later(
    r"(?:detected|Installed) CUDA version \(?(?P<here>[\d.]+)\)? (?:mismatches|has a \w+ version mismatch with|"
    r"does not match) the version (?:that was used to compile\s*PyTorch|torch was compiled with) "
    r"\(?(?P<wanted>[\d.]*\d)"
)
_MISMATCH_RAW = later(r"detected CUDA version \(%s\) mismatches .{0,300}'(?P<here>\d[\d.]*)', '(?P<wanted>\d[\d.]*)'\)")
"""Some releases of PyTorch print the sentence and its words apart."""
_MISMATCH_CUT = later(r"detected CUDA version \((?P<here>[\d.]+)\) mismatches the version that was used to compile\s*$")
"""PyTorch breaks the line before its own release of CUDA."""
_ARCHITECTURE = later(
    r"[Uu]nsupported gpu architecture '?(?P<compute>compute_\w+)|"
    r"'(?P<code>sm_\w+|native)' is not defined\b"
)
_NO_TOOLKIT = later(
    r"[Ff]ailed to find nvcc|No CMAKE_CUDA_COMPILER|CUDA_TOOLKIT_ROOT_DIR|Could (?:NOT|not) find (?:CUDA|nvcc)|"
    r"CUDA_HOME environment variable is not set|'nvcc' failed: No such file|nvcc was not found|"
    r"CUDA_HOME does not exist|nvcc not found and PyTorch|CUDA extension requires nvcc|"
    r"name 'bare_metal_version' is not defined|"
    r"CUDA compiler .{0,80}is not able to compile"
)
_TRIAL = later(r"detect a default CUDA architecture|CUDA compiler identification is unknown|CMakeDetermineCUDACompiler")
_SYSTEM = later(r"(?P<file>/usr/(?:include|lib/gcc)/\S+)\(\d+\): (?:catastrophic )?error")
"""So nvcc names a place in a header; gcc and clang write `file:line:column`."""
_NEWER_GCC = later(
    r"ldtilecfg|amxtile|_Float(?:32|64|128)x?\W.*undefined|parameter packs not expanded|__bf16|__cospi|"
    r"C\+\+17 or later compatible compiler is required to use ATen|No supported gcc/g\+\+ host compiler"
)
_GLIBC = later(r"exception specification is incompatible.*(?:pi|rsqrt)|different exception specifier")
_UNDEFINED = later(r"undefined reference to .(?P<name>[\w:~]+)")
_LINKS = (
    (r"__cuda(?!RegisterLinked)|cuda[A-Z]", "libcudart", "cuda"),
    (r"cublasLt", "libcublasLt", "cuda"), (r"cublas", "libcublas", "cuda"),
    (r"cufft", "libcufft", "cuda"), (r"curand", "libcurand", "cuda"), (r"cusparse", "libcusparse", "cuda"),
    (r"cusolver", "libcusolver", "cuda"), (r"nvrtc", "libnvrtc", "cuda"), (r"nvJitLink", "libnvJitLink", "cuda"),
    (r"nvjpeg", "libnvjpeg", "cuda"), (r"npp", "libnppc and libnpp's part for it", "cuda"),
    (r"cuFile", "libcufile", "cuda"), (r"cudnn", "libcudnn", "cudnn"), (r"nccl", "libnccl", "nccl"),
    (r"createNvOnnx", "libnvonnxparser", "tensorrt"), (r"initLibNvInfer", "libnvinfer_plugin", "tensorrt"),
    (r"createInfer|nvinfer1::", "libnvinfer", "tensorrt"), (r"nvml", "libnvidia-ml", "driver"),
    (r"cuvid", "libnvcuvid", "driver"), (r"NvEncodeAPI", "libnvidia-encode", "driver"),
    (r"cu[A-Z]", "libcuda", "driver"),
)  # fmt: skip
"""Which library has a function, by the start of its name, and the component that has the library."""

_LINKS_OF_OTHERS = (
    (
        r"c10::|at::|torch::",
        "PyTorch's libraries, or built for another release of it or the other ABI of C++ (_GLIBCXX_USE_CXX11_ABI)",
        (
            "build with the torch of the environment that will run it (`pip install --no-build-isolation`), with "
            "-D_GLIBCXX_USE_CXX11_ABI of `python -c 'import torch; print(torch._C._GLIBCXX_USE_CXX11_ABI)'`"
        ),
    ),
    (
        r"cv::cuda::",
        "an OpenCV with its CUDA modules: that of distributions and of the index has none",
        "build OpenCV with -DWITH_CUDA=ON and opencv_contrib, and let OpenCV_DIR name that build",
    ),
    (
        r"ompi_|MPIR_",
        "the MPI that this code was compiled against",
        (
            "use that MPI for the whole build: ompi_ is Open MPI (Debian, Ubuntu: libopenmpi-dev), MPIR_ MPICH; an "
            "MPI of another kind, or of a Cray, does not stand in for it"
        ),
    ),
)
"""The same for functions of others: what is missing, and what to do."""


class Compiler(Struct, frozen=True, kw_only=True):
    """The GPUs that a release of CUDA compiles for: what its ptxas accepts, else from which to which."""

    version: str
    minor: str
    cc_min: str = ""
    cc_max: str = ""
    cc_list: tuple[str, ...] = ()


def compiled(scene: Scene, line: str) -> Cause | None:
    """What a build's message means on this host."""
    told = said(scene, "compile", line)
    return told or next((found for judge in _JUDGES if (found := judge(scene, line)) is not None), None)


def _where(scene: Scene) -> str:
    """The toolkit that is here, "" without one."""
    return next((kit.path for kit in reversed(scene.toolkits)), "")


def _owner(name: str) -> str:
    """Which component has a header or a library, by its name without lib; "" for another's."""
    return next((component for like, component in _OWNERS if re.match(like, name)), "")


def _header(scene: Scene, line: str) -> Cause | None:
    found = _HEADER.search(line)
    owner = _owner(found["name"]) if found else ""
    if found is None or not owner:
        return None
    here = _where(scene) if owner == "cuda" else ""
    if here:
        return Cause(
            says=f"a compiler does not find {found['name']}, which {here} has",
            fix=f"`export CPATH={here}/include` or -I {here}/include; CMake: -DCUDAToolkit_ROOT={here}",
            sure=True,
        )
    return Cause(
        says=f"a compiler does not find {found['name']} of {owner}",
        fix=f"{plan(owner)} installs it with its headers (the package for development)",
        sure=True,
    )


def _library(scene: Scene, line: str) -> Cause | None:
    found = _LINKED.search(line)
    if found is None:
        return None
    here, name = _where(scene) or "/usr/local/cuda", found["name"]
    if name in {"cuda", "nvidia-ml"}:
        return Cause(
            says=f"the linker does not find lib{name}.so, which the driver has and the toolkit a stub of",
            fix=f"-L {here}/lib64/stubs while linking (never at run time); or install the driver's package for "
            "development",
            sure=True,
        )
    owner = _owner(name) or "cuda"
    return Cause(
        says=f"the linker does not find lib{name}.so of {owner}",
        fix=f"-L {here}/lib64; {plan(owner)} installs it where it is missing"
        + (
            ""
            if owner != "cuda" or _where(scene)
            else "; a toolkit of conda has it in `export LIBRARY_PATH=$CONDA_PREFIX/lib`"
        ),
        sure=True,
    )


def _compiler(scene: Scene, line: str) -> Cause | None:
    number = _GCC.search(line)
    if number is None and not _NEWER_GCC.search(line):
        return None
    limit, option = _older_gcc(line, number["number"] if number else "")
    kit = next((f" of CUDA {kit.folder}" for kit in reversed(scene.toolkits)), "")
    return Cause(
        says=f"the host's gcc is newer than nvcc{kit} accepts" + (f" ({limit} is the last)" if number else ""),
        fix=f"install {limit} and give it to nvcc (`export NVCC_PREPEND_FLAGS='-ccbin {option}'`; CMake: "
        f"-DCMAKE_CUDA_HOST_COMPILER={option}), or use a newer CUDA: `gpustack check cuda` judges gcc",
        sure=True,
    )


def _older_gcc(line: str, last: str) -> tuple[str, str]:
    """The gcc to install, as words and as the name of its g++: the last one that nvcc accepts, else an older one.

    Without a number it is gcc 12, which CUDA 12 accepts, and for headers of gcc 12 or older the one before them.
    """
    headers = _HEADERS.search(line)
    older = min(12, int(headers["number"]) - 1) if headers is not None else 12
    return (f"gcc {last}", f"g++-{last}") if last else ("an older gcc", f"g++-{older}")


def _versions(_: Scene, line: str) -> Cause | None:
    found = _MISMATCH.search(line) or _MISMATCH_RAW.search(line)
    if found is None:
        cut = _MISMATCH_CUT.search(line)
        return cut and Cause(
            says=f"nvcc is of CUDA {cut['here']} and PyTorch was built for another, which the next line names",
            fix=f"{plan('cuda')} with that release, and CUDA_HOME to it; or the wheel of PyTorch for {cut['here']}",
            sure=True,
        )
    return Cause(
        says=f"nvcc is of CUDA {found['here']} and PyTorch was built for {found['wanted']}",
        fix=f"{plan('cuda==' + found['wanted'] + '.*')} and CUDA_HOME to it; or the wheel of PyTorch for "
        f"{found['here']}",
        sure=True,
    )


def _architecture(scene: Scene, line: str) -> Cause | None:
    found = _ARCHITECTURE.search(line)
    if found is None:
        return None
    name = found["compute"] or found["code"]
    who, own = "nvcc that ran", ""
    if name == "native":
        return Cause(
            says="the nvcc that ran does not know the architecture native: it is older than CUDA 11.6",
            fix=f"{plan('cuda')} installs a newer one, first on PATH; or name the GPU's architecture (-arch=sm_86)",
            sure=True,
        )
    if found["code"]:
        who = "nvcc that ran, or the ptxas of Triton,"
        own = "; Triton (PyTorch, vLLM): a newer one, or TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas of that CUDA"
    wanted = _capability(name)
    first, last, after = _compilers(scene, wanted)
    says, fix = (
        "it is older than that GPU, or its CUDA dropped it",
        f"{plan('cuda')} chooses a CUDA for this host's GPUs",
    )
    if first and after:
        says, fix = f"CUDA {first} to {last} do", f"{plan(f'cuda>={first},<{after}')} installs one that does"
    elif first:
        says, fix = f"it is older than CUDA {first}", f"{plan(f'cuda>={first}')} installs one that does"
    take = (
        f"take {name} out of the build's list of architectures (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST, "
        "-gencode)"
    )
    if scene.gpus and wanted not in {gpu.compute_capability for gpu in scene.gpus}:
        fix = f"{take}: no GPU here has it"
    else:
        fix = f"{fix}; or {take}"
    return Cause(says=f"the {who} does not compile for {name}: {says}", fix=f"{fix}{own}", sure=True)


def _capability(name: str) -> str:
    """The compute capability of compute_NN or sm_NN; "" of another word."""
    number = re.fullmatch(r"\w+_(\d+)(\d)[af]?", name)
    return f"{number[1]}.{number[2]}" if number else ""


def _compilers(scene: Scene, wanted: str) -> tuple[str, str, str]:
    """The first and the last CUDA that compile for a compute capability, and the next that does not; "" if none."""
    lines: dict[str, bool] = {}
    for row in sorted(scene.matrix.rows("cuda", "releases", Compiler), key=lambda one: version_key(one.version)):
        between = bool(row.cc_min and row.cc_max and wanted) and is_within(wanted, f">={row.cc_min},<={row.cc_max}")
        lines[row.minor] = lines.get(row.minor, False) or (wanted in row.cc_list if row.cc_list else between)
    known = list(lines)
    those = [minor for minor in known if lines[minor]]
    if not those:
        return "", "", ""
    return those[0], those[-1], next(iter(known[known.index(those[-1]) + 1 :]), "")


def _toolkit(scene: Scene, line: str) -> Cause | None:
    if not _NO_TOOLKIT.search(line):
        return None
    here = _where(scene)
    if here:
        return Cause(
            says=f"a build does not find the CUDA toolkit, which is in {here}",
            fix=f"`export PATH={here}/bin:$PATH CUDA_HOME={here} CUDACXX={here}/bin/nvcc`",
            sure=True,
        )
    if scene.evidence.excerpt:
        return Cause(
            says="a build does not find the CUDA toolkit (nvcc)",
            fix="where /usr/local/cuda/bin/nvcc exists "
            "`export PATH=/usr/local/cuda/bin:$PATH CUDA_HOME=/usr/local/cuda` and build in an empty folder; else "
            f"{plan('cuda')} installs one: the driver alone has no nvcc",
            sure=True,
        )
    return Cause(
        says="a build does not find the CUDA toolkit (nvcc), and none is here",
        fix=f"{plan('cuda')} installs one; the driver alone has no nvcc",
        sure=True,
    )


def _glibc(_: Scene, line: str) -> Cause | None:
    if not _GLIBC.search(line):
        return None
    return Cause(
        says="nvcc's headers and this system's glibc declare the same functions differently (glibc 2.41 or newer)",
        fix=f"{plan('cuda>=13.2')} where driver and GPUs allow it; or compile in a container of an older system",
        sure=True,
    )


def _trial(scene: Scene, line: str) -> Cause | None:
    """CMake's trial of nvcc, which hides what nvcc said."""
    if not _TRIAL.search(line):
        return None
    here = _where(scene)
    if not here:
        return Cause(
            says="CMake's trial of nvcc failed" + ("" if scene.evidence.excerpt else ", and no CUDA toolkit is here"),
            fix="`nvcc --version` must work, with a g++ that it accepts (`gpustack check cuda`); "
            f"{plan('cuda')} installs nvcc: the driver alone has none",
            sure=True,
        )
    return Cause(
        says="CMake's trial of nvcc failed: it found none, or one that did not compile with the C++ compiler that is "
        f"here; {here} has one",
        fix=f"-DCMAKE_CUDA_COMPILER={here}/bin/nvcc in an empty build folder, with a g++ that this nvcc accepts "
        "(`gpustack check cuda`); CMakeFiles/CMakeConfigureLog.yaml (older: CMakeError.log) has nvcc's words",
        sure=True,
    )


def _system(scene: Scene, line: str) -> Cause | None:
    """A header of the system that nvcc's front end does not understand."""
    found = _SYSTEM.search(line)
    if found is None:
        return None
    kit = next((f" of CUDA {kit.folder}" for kit in reversed(scene.toolkits)), "")
    if "/c++/" in found["file"] or "/lib/gcc/" in found["file"]:
        return Cause(
            says=f"the headers of the host's gcc are newer than nvcc{kit} understands",
            fix="install an older gcc and give it to nvcc (`export NVCC_PREPEND_FLAGS='-ccbin "
            f"{_older_gcc(line, '')[1]}'`), or use a newer CUDA: `gpustack check cuda` judges gcc",
            sure=True,
        )
    return Cause(
        says=f"the headers of this system's glibc are newer than nvcc{kit} understands ({found['file']})",
        fix=f"{plan('cuda')} chooses a newer CUDA, where driver and GPUs allow it; or compile in a container of an "
        "older system",
        sure=True,
    )


def _reference(_: Scene, line: str) -> Cause | None:
    found = _UNDEFINED.search(line)
    if found is None:
        return None
    name = found["name"]
    for start, lacks, fix in _LINKS_OF_OTHERS:
        if re.match(start, name):
            return Cause(says=f"a program is linked without {lacks}: {name} is undefined", fix=fix, sure=True)
    library, owner = next(((lib, component) for text, lib, component in _LINKS if re.match(text, name)), ("", ""))
    if not library:
        return None
    stub = "; the driver's library has a stub in lib64/stubs of the toolkit" if owner == "driver" else ""
    wants = "" if line[found.end() : found.end() + 1] == "@" else f"without {library} of {owner}, or "
    return Cause(
        says=f"a program is linked {wants}with a {library} of another release: {name} is not in what the linker got",
        fix=f"add -l{library.removeprefix('lib').partition(' ')[0]} after the objects, with -L to the folder of the "
        f"release whose headers were used (CUDA_HOME, copies in the Python environment){stub}",
        sure=True,
    )


_JUDGES = (
    _versions, _compiler, _architecture, _glibc, _system, _header, _library, _toolkit, _trial, _reference,
)  # fmt: skip
