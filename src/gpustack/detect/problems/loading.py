"""Libraries that programs asked for and did not get, and libraries that do not fit each other or the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse.libraries import loader_folders
from gpustack.detect.problems import cures
from gpustack.detect.problems.phrases import Cause, said
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.problems.signs import logs
from gpustack.detect.scene import Scene
from gpustack.patterns import later

MISSING = later(
    r"\b(lib(?P<stem>cudart|cublas(?:Lt)?|cufft|curand|cusolver|cusparse|nvrtc|nvJitLink|cudnn\w*|nvinfer(?!_plugin_tensorrt_llm|\w*_win\.)\w*|nccl))"
    r"\.so\.(?P<number>\d+)(?P<rest>(?:\.\d+)*)\.?(?=[:'/}\s])"
    r"(?:(?!Error: lib(?:nvrtc|cuda)\.so:).){0,160}(?:cannot open shared object file|No such file)"
    r"|Unable to load any of \{(?P<any>libcudnn\w*)\.so\.(?P<major>\d+)"
)
_NEEDED = later(r"'(?P<found>lib[\w.-]+)'; dlerror: (?P<stem>lib\w+)\.so\.(?P<number>\d+)(?P<rest>(?:\.\d+)*):")
"""A library that was found and needs another one, in TensorFlow's words."""

_OF_CUDA = {
    "cufft": {"10": "11", "11": "12", "12": "13"}, "cusolver": {"10": "11", "11": "11 or 12", "12": "13"},
    "curand": {"10": "10 to 13"}, "cusparse": {"12": "12 or 13"},
}  # fmt: skip
"""Of libraries with numbers of their own: the major CUDA releases that their number was part of."""

_BY_MINOR = {("10", "libcudart"), ("10", "libnvrtc"), ("9", "libcudart"), ("9", "libnvrtc")}
"""Libraries of releases whose sonames had the whole number: 10.1 does not stand in for 10.2."""


@detects("detect-missing-library")
def missing(scene: Scene) -> Iterator[Finding]:
    """A library of CUDA, cuDNN, TensorRT or NCCL that a program's log names as not found."""
    told: set[str] = set()
    for path, text in logs(scene):
        for match in MISSING.finditer(text):
            stem = match["any"] or match[1]
            number = match["major"] or match["number"]
            rest = match["rest"]
            needed = _NEEDED.search(text, match.start() - 1, match.end())
            user = needed["found"] if needed is not None and needed["stem"] != stem else ""
            if needed is not None and user:
                stem, number, rest = needed["stem"], needed["number"], needed["rest"]
            name = f"{stem}.so.{number}"
            rest = rest if (number, stem) in _BY_MINOR else ""
            name += rest
            if name in told:
                continue
            told.add(name)
            component, major = _release(stem, number)
            major += re.sub(r"^(\.\d).*", r"\1", rest)
            wanted = cures.plan(f"{component}=={major}.*" if major.replace(".", "").isdigit() else component)
            here = [copy for copy in scene.copies if copy.component == component]
            others = ", ".join(dict.fromkeys(copy.path for copy in here))
            if any(copy.soname == name and copy.wins for copy in here):
                continue
            says = f"a program did not find {name} ({path}): it was built for {component} {major}"
            says += f", and this host has {others}" if others else ", which is not on the loader's path"
            fix = f"{wanted} installs it; or install the program's build for the "
            fix += "release that is here; in a Python environment install the wheels that it asks for"
            if scene.environment == "jetson":
                fix = "on a Jetson it comes with JetPack: `sudo apt-get install nvidia-jetpack`; a container needs the "
                fix += "image of the host's own L4T release (`head -1 /etc/nv_tegra_release`) and `--runtime nvidia`"
            elif user:
                says = f"the {user} that a program found needs {name}, which is not found ({path}): it is of "
                says += f"{component} {major}, and the program may be built for an older one"
                fix = f"put the {user} of the program's own CUDA before it on the loader's path (LD_LIBRARY_PATH); "
                fix += f"{wanted} installs {name} for programs of {component} {major}"
            own = None if user or scene.environment == "jetson" else _asked_by(scene, name, text, match.start())
            if own is not None:
                says = f"a program did not find {name} ({path}): it was built for {component} {major}; {own.says}"
                fix = own.fix
            yield Finding(
                message=says,
                fix=fix,
                severity="info" if own is not None and not own.sure else "warn",
                reboot=False,
                sources=scene.matrix.addresses(own.src if own is not None else ()),
            )


def _asked_by(scene: Scene, name: str, text: str, start: int) -> Cause | None:
    """What the program that asks for the library is built for: by its line, else by what a pasted text names."""
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
    head = f"{name}: cannot open shared object file"
    found = said(scene, "library", f"{head}\n{line}")
    if found is not None or not scene.evidence.excerpt:
        return found
    packages = (path for path in scene.evidence.files if path.endswith("/METADATA"))
    return said(scene, "library", "\n".join((head, text, *packages)))


def _release(stem: str, number: str) -> tuple[str, str]:
    """The component that a library is part of, and that component's major release, or releases."""
    for start, component in (("libcudnn", "cudnn"), ("libnvinfer", "tensorrt"), ("libnccl", "nccl")):
        if stem.startswith(start):
            return component, number
    return "cuda", _OF_CUDA.get(stem.removeprefix("lib"), {}).get(number, number)


@detects("detect-management-library")
def management_library(scene: Scene) -> Iterator[Finding]:
    """A libnvidia-ml of another release than the libcuda next to it."""
    for folder, names in scene.evidence.listings.items():
        found = {}
        for stem in ("libcuda", "libnvidia-ml"):
            target = scene.evidence.links.get(f"{folder}/{stem}.so.1", "").rpartition("/")[2]
            match = re.fullmatch(rf"{stem}\.so\.(\d{{3}}\.[\d.]+)", target)
            if match and target in names:
                found[stem] = match[1]
        if len(set(found.values())) > 1:
            yield Finding(
                message=f"in {folder} libcuda.so.1 is of driver {found['libcuda']} and libnvidia-ml.so.1 of "
                f"{found['libnvidia-ml']}: nvidia-smi and programs see two drivers (Driver/library version mismatch)",
                fix=f"{cures.plan('driver')} installs all libraries of one release; remove the files of the other, "
                "then `sudo ldconfig`",
                severity="warn",
                reboot=False,
            )


@detects("detect-compat-path")
def compat_path(scene: Scene) -> Iterator[Finding]:
    """Forward-compatibility libraries that every program loads, where GPUs do not support them or need none."""
    folders = loader_folders(scene.evidence)
    for copy in scene.copies:
        folder = copy.path.rpartition("/")[0]
        if copy.component != "cuda-compat" or folder not in folders or scene.environment == "container":
            continue
        boards = [gpu for gpu in scene.gpus if gpu.kind == "consumer"]
        if boards and scene.environment != "jetson":
            yield Finding(
                message=f"programs load {copy.path} (forward compatibility), which {boards[0].called} does not "
                "support: CUDA fails with error 804 or 803",
                fix=f"take {folder} out of /etc/ld.so.conf.d (and LD_LIBRARY_PATH), then `sudo ldconfig`; a newer CUDA "
                f"needs a newer driver: {cures.plan('driver')}",
                severity="warn",
                reboot=False,
            )
            return
