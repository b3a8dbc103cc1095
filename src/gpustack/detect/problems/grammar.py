"""What a line of a log says by its own words, held against this host: for lines that no fact describes."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from msgspec import Struct

from gpustack.detect.problems.capabilities import outside
from gpustack.detect.problems.compiling import compiled
from gpustack.detect.problems.cures import plan, programs, source_of
from gpustack.detect.problems.demands import plan_for
from gpustack.detect.problems.faults import fault
from gpustack.detect.problems.memory import exhausted
from gpustack.detect.problems.phrases import Cause, graphical, plain, stated, system, transaction
from gpustack.detect.problems.places import denied, library, missing
from gpustack.detect.problems.resolvers import refused
from gpustack.detect.scene import Scene
from gpustack.patterns import later

_SONAME = later(r"\b(lib[\w+-]+\.so(?:\.\d+)*)")
_LOADED = later(r"\b(lib[\w+-]+\.so(?:\.\d+)*)\S*: cannot open shared object")
"""What the loader did not find, where a plugin or program that needs it is named before."""
_IN_CONTAINER = "in a container start it with its GPUs (--gpus all, --device nvidia.com/gpu=all); on the host "
_NO_LIBRARY = later(
    r"(?i)cannot open shared object|could not load (?:dynamic )?library|(?:unable|failed|cannot|"
    r"could not) to? ?(?:d?load|dlopen|find|open)"
    r"|error while loading shared|not found|no such file|dlopen"
)
_SYMBOL = later(
    r"undefined symbol:? `?([\w@.]+)|symbol lookup error(?!.*undefined symbol)|version `([\w.]+)' not found"
)
_PROGRAM = later(
    r"exec: \\?\"?(?P<exec>[\w./-]+)\\?\"?: executable file not found|(?:^|"
    r"[\s:])(?P<shell>[\w./-]+): (?:command )?not found"
    r"|fork/exec (?P<fork>[\w./-]+): no such file|No such file or directory: '(?P<py>[\w.-]+)'"
    r"|failed to run command \W(?P<chroot>[\w./-]+)\W: No such file"
    r"|executable file `(?P<crun>[\w./-]+)` not found"
    r"|Failed to (?:locate|find) executable (?P<unit>[\w./-]+)|Command not found: (?P<hook>[\w.-]+)"
)
_ENGINE = later(r"OCI runtime|\bcrun\b|\brunc\b|containerd task|starting container process")
"""What starts programs in containers."""

_MODULE = later(
    r"Module (?P<name>[\w-]+) not found(?: in directory /lib/modules/(?P<kernel>[\w.+-]+)|\.?\s*$)"
    r"|could not insert '(?P<insert>[\w-]+)': (?P<why>[^\"\\]+)|[Ff]ailed to (?:insert|find|"
    r"load) module '(?P<systemd>[\w-]+)'"
    r"(?:: (?P<reason>[^\"\\]+))?"
)
_PACKAGE = later(
    r"(?i)unable to locate package (?P<apt>[\w.+-]+)|package '?(?P<none>[\w.+-]+)'? has no installation candidate"
    r"|nothing provides (?P<needs>[^\s,]+)|(?:no match for argument|unable to find a match): (?P<dnf>[\w.+-]+)"
    r"|no (?:matching distribution|solution) found for (?P<pip>[\w.+=<>-]+)|target not found: (?P<pacman>[\w.+-]+)"
    r"|depends: (?P<dep>[\w.+-]+)[^.]*but (?:it is not|[\w.:~+-]+ is to be)"
)
_CODE = later(
    r"(?i)cuda(?:(?:_?error| failure| runtime error| driver error)[ :=(]{1,3}|[:=(] ?)(?:code )?(\d{1,3})\b(?!\.\d)|"
    r"\[(\d{1,3})\] Call to cu\w|(?<!vram )init failure: (\d{1,3})\b|"
    r"cu(?:da)?\w{2,30}\(?[^()]{0,40}\)? (?:returned|failed with(?: error)?(?: code)?) (\d{1,3})\b"
)
_NAME = later(r"\b[A-Za-z]\w{7,}\b")

_PTX = later(r"Unsupported \.version (?P<here>\d+\.\d+); current version is '(?P<known>\d+\.\d+)'")
_OF_CUDA = (
    r"\bCUDA|\bcuda|\bCuda |ggml_cuda|\bcu(?:Init|Ctx|Device|Mem|Module|Launch|Stream)[A-Z]?\w*|GPUassert|"
    r"Gpu API call"
)
"""What CUDA's texts follow; those of other libraries have an expression of their own."""

LIBRARIES = {
    "libnvidia-container": "container-toolkit", "libnvidia-": "driver", "libcuda.": "driver", "libnvcuvid": "driver",
    "libcudadebugger": "driver", "libGLX_nvidia": "driver", "libEGL_nvidia": "driver", "libvdpau_nvidia": "driver",
    "libnvoptix": "driver", "libcudnn": "cudnn", "libnccl": "nccl", "libnvinfer": "tensorrt",
    "libnvonnxparser": "tensorrt", "libnvparsers": "tensorrt", "libdcgm": "dcgm", "libgdrapi": "gdrcopy",
    "libcudart": "cuda", "libcublas": "cuda", "libcufft": "cuda", "libcurand": "cuda", "libcusolver": "cuda",
    "libcusparse": "cuda", "libnvrtc": "cuda", "libnvJitLink": "cuda", "libcupti": "cuda", "libnpp": "cuda",
    "libnvjpeg": "cuda", "libcufile": "cuda", "libnvToolsExt": "cuda", "libnvvm": "cuda",
}  # fmt: skip
"""Which component has a library, by the start of the library's name; the first one counts."""

_CUDA_NUMBERS = ("libcudart", "libcublas", "libnvrtc", "libnvJitLink", "libcupti", "libnpp", "libnvjpeg")
"""Their soname has the number of CUDA's line."""

PROGRAMS = {
    "nvidia-smi": "driver", "nvidia-modprobe": "driver", "nvidia-persistenced": "driver", "nvidia-cuda-mps-*": "driver",
    "nvidia-container-*": "container-toolkit", "nvidia-ctk": "container-toolkit",
    "nvidia-cdi-hook": "container-toolkit",
    "nv-fabricmanager": "fabric-manager", "nvidia-imex*": "imex", "dcgm*": "dcgm", "nv-hostengine": "dcgm",
    "nvcc": "cuda", "ptxas": "cuda", "trtexec": "tensorrt", "ffmpeg": "ffmpeg", "tritonserver": "triton",
}  # fmt: skip
"""Which component has a program."""


_SYMBOLS = (
    (r"cudnn", "cudnn"), (r"nccl", "nccl"), (r"(?:create|get)?Infer|nvinfer|_ZN\d*nvinfer", "tensorrt"),
    (r"_*(?:nvJitLink|nvrtc|cublas|cusparse|cusolver|cufft|curand|npp|nvjpeg|cuda[A-Z])|__cuda", "cuda"),
    (r"cu[A-Z]|nvml[A-Z]|NvEnc|cuvid", "driver"),
)  # fmt: skip
"""Which component has a function, by the start of its name."""


class Status(Struct, frozen=True, kw_only=True):
    """A row of the names of errors."""

    id: str
    library: str
    names: tuple[str, ...]
    codes: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    about: str = ""
    severity: str = "warn"
    same: int = 0
    cause: str = ""
    fix: str = ""
    src: tuple[str, ...] = ()


class Language(Struct, frozen=True, kw_only=True):
    """A release of PTX, and the CUDA that it came with."""

    ptx: str
    cuda: str
    src: tuple[str, ...] = ()


class Code(Struct, frozen=True, kw_only=True):
    """What a number of CUDA's means, of the table that ``verify`` uses too."""

    code: int
    cause: str
    fix: str


def cause(scene: Scene, line: str, *, inside: bool = False) -> Cause | None:
    """The first judge's answer, the most specific judge first; ``inside``: the line was written in a container."""
    judges = (_not_added, *JUDGES) if inside else JUDGES
    return next((found for judge in judges if (found := judge(scene, line)) is not None), None)


def _status(scene: Scene, line: str) -> Cause | None:
    names = set(_NAME.findall(line))
    numbers = {int(number) for found in _CODE.findall(line) for number in found if number}
    if not names and not numbers:
        return None
    for row in scene.matrix.rows("log-lines", "statuses", Status):
        if names.intersection(row.names) or numbers.intersection(row.codes):
            name = next(iter(names.intersection(row.names)), f"error {next(iter(numbers), '')}")
            return _meaning(scene, row, name)
    return None


def _meaning(scene: Scene, row: Status, name: str) -> Cause:
    codes = scene.matrix.rows("driver-errors", "cuda", Code) if row.same else ()
    told = next((code for code in codes if code.code == row.same), row)
    says = f"{row.library} {name}: {told.cause}"
    return Cause(says=says, fix=told.fix, sure=row.severity == "warn", general=True, src=row.src)


def _text(scene: Scene, line: str) -> Cause | None:
    """What a library prints of an error, after words that say that it is about that library."""
    found: list[tuple[str, Status]] = []
    for row in scene.matrix.rows("log-lines", "statuses", Status):
        about = re.search(row.about or _OF_CUDA, line) if row.texts else None
        if about is not None:
            rest = line if row.about else line[about.start() : about.start() + 200]
            found += [(text, row) for text in row.texts if text in rest]
    if not found:
        return None
    text, row = max(found, key=lambda one: len(one[0]))
    return _meaning(scene, row, f"({text})")


def _ptx(scene: Scene, line: str) -> Cause | None:
    """PTX that is newer than the driver's compiler, or than ptxas, knows."""
    found = _PTX.search(line)
    if found is None:
        return None
    rows = {row.ptx: row for row in scene.matrix.rows("log-lines", "ptx", Language)}
    here, known = (rows.get(found[name]) for name in ("here", "known"))
    cudas = [f"PTX {found[name]}" + (f" (CUDA {row.cuda})" if row else "") for name, row in
             (("here", here), ("known", known))]  # fmt: skip
    if "application ptx input" not in line:
        return Cause(
            says=f"ptxas knows {cudas[1]} and got {cudas[0]}: parts of two releases of the compiler are mixed",
            fix="nvcc, cicc (the wheel nvidia-nvvm) and ptxas must be of one release: install the toolkit as a whole "
            f"({plan('cuda')}), or pin all of its wheels to one release",
            sure=True,
            src=here.src if here else (),
        )
    least = plan_for(scene, f"cuda>={here.cuda}") if here else ""
    return Cause(
        says=f"a program gave the driver {cudas[0]}, and the driver compiles up to {cudas[1]}",
        fix=f"{least or plan('driver')} installs a newer driver; or use a build of the program for the driver's CUDA",
        sure=True,
        src=here.src if here else (),
    )


def _library(scene: Scene, line: str) -> Cause | None:
    found = _LOADED.search(line) or _SONAME.search(line)
    if found is None or not _NO_LIBRARY.search(line):
        return None
    name = found[1]
    here = [
        copy.path for copy in scene.copies if copy.path.rpartition("/")[2].startswith(name.partition(".so")[0] + ".so")
    ]
    owner = next((component for start, component in LIBRARIES.items() if name.startswith(start)), "")
    place = library(scene, name)
    if place is not None:
        return Cause(says=f"the library {name} is not found: {place.what}", fix=place.fix, sure=True, src=place.src)
    if not owner:
        return Cause(
            says=f"the library {name} is not found by a program",
            fix=f"install the package that has {name} (`apt-file search {name}`, `dnf provides '*/{name}'`), or add its"
            " folder to /etc/ld.so.conf.d and run `sudo ldconfig`",
        )
    number = name.partition(".so.")[2].partition(".")[0]
    version = f"{owner}=={number}.*" if owner in {"cudnn", "tensorrt"} and number else owner
    if owner == "cuda" and number and name.startswith(_CUDA_NUMBERS):
        version = f"cuda=={number}.*"
    fix = f"{plan(version)} installs it; inside a Python environment install the program's own NVIDIA wheels"
    if owner == "driver":
        outside = _IN_CONTAINER if scene.evidence.excerpt and not scene.driver_is_loaded else ""
        fix = _start(scene, line) or f"{outside}{plan('driver')} installs all of the driver's libraries"
    if here:
        says = f"a program does not find the library {name} of {owner}; here is {', '.join(here[:3])}"
        inside = _IN_CONTAINER if owner == "driver" and scene.environment != "container" else ""
        fix = f"{inside}put the folder of the right release into /etc/ld.so.conf.d and `sudo ldconfig`; {fix}"
    else:
        says = f"the library {name} of {owner} is missing"
    return Cause(says=says, fix=fix, sure=not here)


def _start(scene: Scene, line: str) -> str:
    """How the container of the line gets the driver's programs and libraries; "" outside of containers."""
    if "/.singularity.d/" in line or scene.evidence.has("/.singularity.d"):
        return (
            "start the container with --nv (apptainer exec --nv), which adds what nvliblist.conf names of the host, and"
            " keep /.singularity.d/libs in LD_LIBRARY_PATH"
        )
    if scene.environment == "container":
        return "start the container with its GPUs (--gpus all) and NVIDIA_DRIVER_CAPABILITIES=all: the host has it"
    return ""


def _symbol(scene: Scene, line: str) -> Cause | None:
    found = _SYMBOL.search(line)
    if found is None:
        return None
    if found[2] and found[2].startswith(("GLIBC", "CXXABI")):
        return Cause(
            says=f"a library or program needs {found[2]}, which this system's C or C++ library is too old for",
            fix="use a build for this system's release, an image of a newer system, or upgrade the system",
            sure=True,
        )
    owner = next((component for text, component in _SYMBOLS if found[1] and re.match(text, found[1])), "")
    if owner:
        here = dict.fromkeys(copy.path for copy in scene.copies if copy.component == owner)
        places = f" (here: {', '.join(list(here)[:3])})" if here else ""
        return Cause(
            says=f"two libraries of different releases are loaded together: the function {found[1]} is missing: a copy "
            f"of {owner} is loaded{places} that is older than the program",
            fix="take the other copy out of LD_LIBRARY_PATH and /etc/ld.so.conf.d (a Python environment has its own); "
            f"{plan(owner)} installs a newer one; `ldd` of the file shows which copy is loaded",
            sure=True,
        )
    libraries = [name for name in _SONAME.findall(line) if name]
    about = f" ({', '.join(dict.fromkeys(libraries))})" if libraries else ""
    return Cause(
        says=f"two libraries of different releases are loaded together{about}: a symbol of one is missing in the other",
        fix="take the other release out of LD_LIBRARY_PATH, /etc/ld.so.conf.d or the environment, and reinstall both"
        " from one release; `ldd` of the file shows which copies are loaded",
        sure=True,
    )


def _owner(program: str) -> str:
    """Which component has the program; "" for another's."""
    return next((component for like, component in PROGRAMS.items() if fnmatchcase(program, like)), "")


def _not_added(scene: Scene, line: str) -> Cause | None:
    """A program of the driver that a container lacks, where its host has the driver."""
    found = _PROGRAM.search(line)
    name = next(one for one in found.groups() if one).rpartition("/")[2] if found else ""
    has_driver = scene.driver_is_loaded or (scene.evidence.excerpt and _ENGINE.search(line))  # a text seldom tells
    if _owner(name) != "driver" or not has_driver or scene.environment == "container":
        return None
    return Cause(
        says=f"the container has no {name}: the driver of this host was not added to it, as where an engine starts "
        "it without NVIDIA's runtime or CDI",
        fix="docker: --gpus all; podman: --device nvidia.com/gpu=all; a pod: a request of "
        "nvidia.com/gpu and runtimeClassName: nvidia, or NVIDIA's runtime as the default one (`sudo nvidia-ctk runtime "
        "configure --runtime=containerd --set-as-default`, "
        "then `sudo systemctl restart containerd`); NVIDIA_DRIVER_CAPABILITIES must have "
        f"{'compute' if 'mps' in name else 'utility'}",
        sure=True,
    )


def _program(scene: Scene, line: str) -> Cause | None:
    found = _PROGRAM.search(line)
    if found is None:
        return None
    path = next(one for one in found.groups() if one)
    name = path.rpartition("/")[2]
    owner = _owner(name)
    if not owner and not any(found[name] for name in ("exec", "crun", "fork", "chroot", "unit")):
        return None
    if owner == "driver" and _ENGINE.search(line) and (lacking := _not_added(scene, line)) is not None:
        return lacking
    there = scene.evidence.has(f"/usr/bin/{name}") or scene.evidence.marks.get(f"named {path}") == "there"
    fix = source_of(scene, owner) if owner else f"install the package that has {name}, or correct the path"
    if owner == "driver" and scene.environment == "jetson":
        return Cause(
            says=f"a Jetson has no {name} before JetPack 6: its driver is a part of Jetson Linux (L4T)",
            fix="`tegrastats` shows load and memory, `cat /etc/nv_tegra_release` the release; `sudo apt-get install "
            "nvidia-jetpack` installs CUDA, never a driver for boards",
            sure=True,
        )
    if owner == "driver" and scene.environment == "wsl":
        return Cause(
            says=f"{name} of WSL is Windows' own, in /usr/lib/wsl/lib, which is not on PATH, or Windows has no driver",
            fix="`export PATH=/usr/lib/wsl/lib:$PATH`; where the folder lacks it, install NVIDIA's driver on Windows, "
            "then `wsl --shutdown`: never a driver inside WSL",
            sure=True,
        )
    if owner == "driver":
        has = programs(scene) if name == "nvidia-smi" else ""
        fix = _start(scene, line) or (f"{has}: the package of it that no other one pulls in" if has else fix)
        if scene.evidence.excerpt and (lacking := _not_added(scene, line)) is not None:
            fix = f"in a container: {lacking.fix}; on the host itself {fix}"
    elif owner == "cuda" and scene.evidence.excerpt:
        fix = f"where /usr/local/cuda/bin/{name} exists `export PATH=/usr/local/cuda/bin:$PATH`; else {fix}"
    if there:
        fix = f"{name} is here: give the service its folder in PATH, or the whole path"
    return Cause(
        says=f"the program {path} is not found" + (f" (it is part of {owner})" if owner else ""),
        fix=fix,
        sure=not there,
    )


def _module(scene: Scene, line: str) -> Cause | None:
    found = _MODULE.search(line)
    if found is None:
        return None
    name = found["name"] or found["insert"] or found["systemd"]
    why = (found["why"] or found["reason"] or "").strip().lower()
    if "operation not permitted" in why or "permission denied" in why:
        return Cause(
            says=f"the kernel module {name} may not be loaded here ({why})",
            fix="load it on the host, as root; a container does not load modules",
        )
    if "key was rejected" in why or "required key" in why:
        return Cause(
            says=f"Secure Boot refuses the kernel module {name}: its key is not enrolled",
            fix="`gpustack plan driver` names how to enroll the key",
            sure=True,
        )
    if "no such device" in why:
        return Cause(
            says=f"the kernel module {name} found no device that it supports",
            fix="`lspci -nnk -d 10de:` shows GPU and bound driver; `gpustack check driver --gpu NAME` which driver "
            "supports it",
        )
    if "exec format" in why or "invalid argument" in why or "unknown symbol" in why:
        return Cause(
            says=f"the kernel module {name} is not built for this kernel ({why})",
            fix=f"rebuild it: reinstall the driver with the headers of kernel {scene.kernel or '(`uname -r`)'}; "
            f"{plan('driver')}",
            sure=True,
        )
    kernel = found["kernel"] or scene.kernel or ""
    other = f", while {scene.kernel} runs" if kernel and scene.kernel and kernel != scene.kernel else ""
    return Cause(
        says=f"the kernel module {name} is not installed for {'kernel ' + kernel if kernel else 'this kernel'}{other}",
        fix=f"{plan('driver')} installs it for this kernel; where it is built by dkms, install the headers of "
        f"{kernel or 'the kernel'} first",
        sure=name in scene.modules or not other,
    )


def _package(_: Scene, line: str) -> Cause | None:
    found = _PACKAGE.search(line)
    if found is None:
        return None
    name = next(one for one in found.groups() if one).rstrip(".,")
    return Cause(
        says=f"the package {name} is not in the configured repositories, or conflicts with what is installed",
        fix="`gpustack plan` names the repository and the packages for this system: packages of two sources do not mix",
    )


JUDGES: tuple[Callable[[Scene, str], Cause | None], ...] = (
    _ptx, exhausted, outside, refused, compiled, graphical, fault, stated, _symbol, _library, _module, _program,
    _status, transaction, _package, denied, missing, _text, system, plain,
)  # fmt: skip
