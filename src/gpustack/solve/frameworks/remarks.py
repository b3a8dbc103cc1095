"""What is worth knowing of builds that run here: drivers, libraries next to them, and withdrawn ones."""

from __future__ import annotations

from collections.abc import Mapping

from gpustack.model.frameworks import Build, pins
from gpustack.model.resolution import Conflict, Findings, Unknown
from gpustack.solve.frameworks.judge import Judge
from gpustack.solve.frameworks.neighbours import both_in_words, doubt
from gpustack.solve.words import in_words, title
from gpustack.versions import is_within

_LIBRARIES = {"cuda": "cuda-runtime", "cudnn": "cudnn", "nccl": "nccl"}
"""Components, and the word for them in the names of NVIDIA's wheels."""


def remarks(judge: Judge, chosen: Mapping[str, Build]) -> Findings:
    """The warnings on a set of builds, and conflicts with the libraries of the system that they load."""
    found = Findings()
    is_alone = all(one.code == "library" for one in chosen.values())
    for build in chosen.values():
        found += _driver(judge, build) + _libraries(judge, build, is_alone=is_alone) + _toolkit(judge, build)
        for other in chosen.values():
            if other.code == "library" and build.code != "library":
                found += _next_to(judge, build, other)
            found += _of_pair(judge, build, other)
        found += _in_one_environment(judge, build, chosen)
        if build.status == "yanked":
            text = f"{build.named} was withdrawn (yanked): pip installs it only if it is named exactly"
            found += Findings(warnings=(text,))
    return found


def _of_pair(judge: Judge, build: Build, other: Build) -> Findings:
    """What is unknown of two frameworks in one environment, or what pip says to both."""
    if "library" in {build.code, other.code} or build is other:
        return Findings()
    found = Findings()
    if reason := doubt(judge.catalog, build, other):
        sources = judge.question.matrix.addresses((*build.src, *other.src))
        found += Findings(unknown=(Unknown(reason=reason, sources=sources),))
    if build.component < other.component and (text := both_in_words(build, other)):
        found += Findings(warnings=(text,))
    return found


def _next_to(judge: Judge, build: Build, other: Build) -> Findings:
    """What a wheel with a library of NVIDIA means for a build: the one that it loads, or another one."""
    from gpustack.solve.frameworks.libraries import library_remarks  # noqa: PLC0415 (few ask about them)
    from gpustack.solve.frameworks.library_facts import library  # noqa: PLC0415

    is_cudnn = library(other.component).component == "cudnn" and build.code in {"cuda", "jit"}
    loads = _cudnn(judge, build, other.version, other.named) if is_cudnn else Findings()
    return loads + library_remarks(judge, build, other)


def _in_one_environment(judge: Judge, build: Build, chosen: Mapping[str, Build]) -> Findings:
    """A build without libraries of its own, next to a PyTorch with those of other major releases.

    Those of the system, or wheels, that are asked about are what it loads.
    """
    torch, catalog, asked = chosen.get("torch"), judge.catalog, judge.question.asked
    row = catalog.cudnn_of(build)
    if torch is None or torch.code != "cuda" or row is None or build.code == "jit":
        return Findings()
    named = {one.component for one in chosen.values() if one.code == "library"}
    mine, its = catalog.cuda_of(build).partition(".")[0], catalog.cuda_of(torch).partition(".")[0]
    pin = next((text for key, text in pins(torch.requires).items() if key.startswith("nvidia-cudnn-")), "")
    theirs = pin.removeprefix("==")
    major = theirs.partition(".")[0]
    reasons = []
    if mine and its and mine != its and "cuda" not in asked and not named:
        reasons.append(f"the libraries of CUDA {mine}, and the wheels of {torch.named} are of CUDA {its}")
    is_free = major and "cudnn" not in asked and not any("cudnn" in one for one in named)
    if is_free and major != row.cudnn:
        reasons.append(f"cuDNN {row.cudnn}, and the wheels of {torch.named} have cuDNN {major}")
    elif is_free and row.least and not is_within(theirs, f">={row.least}"):
        reasons.append(f"cuDNN {row.least} or newer, and the wheels of {torch.named} have cuDNN {theirs}")
    found = Findings()
    for text in reasons:
        reason = f"{build.named} loads {text}: it finds none in this environment, unless the system has it."
        found += _conflict(judge, build, torch.named, reason, (*row.src, *torch.src))
    return found


def _driver(judge: Judge, build: Build) -> Findings:
    """The driver that a build requires, where none is asked about or installed."""
    wanted = judge.driver_range(build)
    if judge.drivers or not wanted or build.code not in {"cuda", "jit", "library"}:
        return Findings()
    return Findings(warnings=(f"{build.named} requires driver {in_words(wanted)} (CUDA {judge.cuda_named(build)})",))


def _beside_system(judge: Judge, build: Build, *, is_alone: bool) -> Findings:
    """What the toolkit, or the same library, of the system means for a wheel of a library."""
    from gpustack.solve.frameworks.library_facts import library  # noqa: PLC0415 (few ask about them)

    mine, asked = library(build.component), judge.question.asked
    toolkit = next((one.version for one in judge.question.candidates("cuda")), "") if "cuda" in asked else ""
    if is_alone and toolkit and mine.major and toolkit.partition(".")[0] != mine.major:
        reason = f"{build.named} is for programs of CUDA {mine.major}; this is CUDA {toolkit}."
        return _conflict(judge, build, f"cuda=={toolkit}", reason, build.src)
    own = mine.component if mine.component in asked and mine.component != "cuda" else ""
    there = next((one.version for one in judge.question.candidates(own)), "") if own else ""
    if there and there != build.version:
        text = f"{title(own)} {there} of the system is another one than {build.named}: the search path decides"
        return Findings(warnings=(f"{text} which a program loads",))
    return Findings()


def _tensorrt(judge: Judge, build: Build) -> Findings:
    """Whether a TensorRT that is asked about is one that a build requires."""
    asked = "tensorrt" in judge.question.asked
    wanted = pins(build.requires).get("tensorrt", "")
    if asked and build.component == "tensorrt-llm" and not wanted:
        reason = f"{build.named} with TensorRT of the system: which release it requires is unknown"
        return Findings(unknown=(Unknown(reason=reason, sources=judge.question.matrix.addresses(build.src)),))
    there = next((one.version for one in judge.question.candidates("tensorrt")), "") if asked else ""
    if not there or not wanted or is_within(there, wanted):
        return Findings()
    reason = f"{build.named} requires tensorrt{wanted}; this is TensorRT {there}."
    return _conflict(judge, build, f"tensorrt=={there}", reason, build.src)


def _libraries(judge: Judge, build: Build, *, is_alone: bool) -> Findings:
    """What a toolkit or library of the system means for a build: nothing, if the build has its own."""
    if build.code == "library":
        return _beside_system(judge, build, is_alone=is_alone)
    question, found = judge.question, _tensorrt(judge, build)
    mine = judge.catalog.cuda_of(build)
    own = pins(build.requires)
    for name, word in _LIBRARIES.items():
        asked = question.asked.get(name)
        version = next((one.version for one in question.candidates(name)), "") if asked else ""
        if not version or build.code not in {"cuda", "jit"} or (build.code == "jit" and not mine):
            continue  # without a CUDA of its own it compiles with the toolkit of the system
        if not mine:
            reason = f"{build.named} with {name}=={version}: the CUDA that it is built for is unknown"
            found += Findings(unknown=(Unknown(reason=reason, sources=question.matrix.addresses(build.src)),))
            continue
        pin = next((text for key, text in own.items() if f"nvidia-{word}-" in key), "")
        if pin or "cuda-toolkit" in own:
            loaded = (pin or (own["cuda-toolkit"] if name == "cuda" else "")).removeprefix("==") or "its own"
            if loaded != version:
                text = f"{build.named} loads the {title(name)} of its wheels ({loaded}), not {title(name)} {version}"
                found += Findings(warnings=(text,))
        elif name == "cuda" and version.partition(".")[0] != mine.partition(".")[0]:
            reason = f"{build.named} loads the libraries of CUDA {mine.partition('.')[0]}; this is CUDA {version}."
            found += _conflict(judge, build, f"cuda=={version}", reason, build.src)
        elif name == "cudnn":
            found += _cudnn(judge, build, version, f"cudnn=={version}")
    return found


def _toolkit(judge: Judge, build: Build) -> Findings:
    """That the makers of a build without a CUDA of its own do not name the toolkit that it would compile with."""
    row, asked = judge.catalog.toolkits_of(build), judge.question.asked
    version = next((one.version for one in judge.question.candidates("cuda")), "") if "cuda" in asked else ""
    if row is None or not version or is_within(version, row.cuda):
        return Findings()
    reason = f"{build.named} with cuda=={version}: its makers name CUDA {in_words(row.cuda)}"
    return Findings(unknown=(Unknown(reason=reason, sources=judge.question.matrix.addresses(row.src)),))


def _cudnn(judge: Judge, build: Build, version: str, other: str) -> Findings:
    """Whether the cuDNN of the system is of the major release that a build without its own was linked with."""
    row = judge.catalog.cudnn_of(build)
    if row is None:
        return Findings()
    if version.partition(".")[0] == row.cudnn:
        if not row.least or is_within(version, f">={row.least}"):
            return Findings()
        reason = f"{build.named} was compiled with cuDNN {row.least} and refuses an older one; this is cuDNN {version}."
        return _conflict(judge, build, other, reason, (*row.src, *build.src))
    reason = f"{build.named} loads the system's cuDNN {row.cudnn} (libcudnn.so.{row.cudnn}); this is cuDNN {version}."
    return _conflict(judge, build, other, reason, (*row.src, *build.src))


def _conflict(judge: Judge, build: Build, other: str, reason: str, src: tuple[str, ...]) -> Findings:
    sources = judge.question.matrix.addresses(tuple(dict.fromkeys(src)))
    one = Conflict(kind="framework", between=(build.named, other), reason=reason, sources=sources)
    return Findings(conflicts=(one,))
