"""The frameworks that are installed in an image, judged by the rules of frameworks: GPU code, pins, libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpustack.model.facts import normalized
from gpustack.model.frameworks import DISTRIBUTIONS, FRAMEWORKS, LIBRARIES, pins
from gpustack.model.image import ImageContent
from gpustack.model.request import Requirement
from gpustack.model.resolution import Conflict, Findings, Unknown
from gpustack.solve.frameworks.catalog import Catalog, platform_of
from gpustack.solve.frameworks.check import Frameworks
from gpustack.solve.images.names import PYTORCH, framework_in, parsed
from gpustack.solve.images.tags import Image
from gpustack.solve.question import Question
from gpustack.versions import is_within

_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[([\w,.-]+)\])?(.*)")
_OWN_PYTHON = re.compile(r"(\d+\.\d+)(?:\.\d+)?(?:-|$)")
_CUDNN = re.compile(r"-cudnn(\d*)-")
_SYSTEMS = {"python", "ubuntu", "debian", "rockylinux", "almalinux", "fedora", "redhat/ubi8", "redhat/ubi9", "alpine"}
"""Images of systems and of Python, which have nothing of CUDA."""

_ADDING = re.compile(r"cuda|ctk")
"""Extras by which a framework has NVIDIA's wheels next to it."""


_OF_CUDA = re.compile(r"nvidia-.+|.+-cu(?:da)?1\d\d?x?")
"""Names of distributions that have, or load, code for GPUs."""

_FOR_CPUS = {"onnxruntime", "av"}
"""What programs that use the GPU by another framework have for the CPU as well."""


class _Wanted(Struct, frozen=True, kw_only=True):
    """A distribution that an installer takes: its range, its extras, and the text that asks for it."""

    name: str
    versions: str
    text: str
    extras: str = ""


def wheel_findings(question: Question, content: ImageContent, image: Image | None) -> Findings:
    """What refuses the frameworks that are installed in an image, on the host and with each other."""
    found = _judged(question, content, image, content.wheels) + _uncovered(content)
    for place in dict.fromkeys(one.place for one in content.installed):
        found += _judged(question, content, image, tuple(_of_environment(question, content, place)))
    return replace(found, conflicts=tuple(dict.fromkeys(found.conflicts)), hints=tuple(dict.fromkeys(found.hints)))


def _uncovered(content: ImageContent) -> Findings:
    """Distributions with code for GPUs that no fact covers."""
    matches = ((text, _REQUIREMENT.fullmatch(text)) for text in content.wheels)
    named = {text: normalized(match[1]) for text, match in matches if match is not None}
    texts = [text for text, name in named.items() if name not in DISTRIBUTIONS and _OF_CUDA.fullmatch(name)]
    reason = f"image {content.name}: no fact covers {', '.join(texts)}, which it installs"
    return Findings(unknown=(Unknown(reason=reason),)) if texts else Findings()


def _judged(question: Question, content: ImageContent, image: Image | None, texts: tuple[str, ...]) -> Findings:
    """The findings on what is installed together."""
    wanted = {one.name: one for one in _wanted(texts)}
    if not wanted.keys() <= _FOR_CPUS:
        wanted = {name: one for name, one in wanted.items() if name not in _FOR_CPUS}
    if not wanted:
        return Findings()
    here = _inside(question, content)
    free = tuple(one for one in wanted.values() if not _is_exact(one.versions))
    properties = (*(("python",) if _python(content) else ()), *(("driver",) if free else ()))
    taken = Frameworks(here, (), properties=properties)
    for one in free:
        builds = () if one.name in LIBRARIES else taken.candidates(one.name, one.versions)
        if builds:
            wanted[one.name] = replace(one, versions=f"=={builds[0].version}")
    wanted |= _of_base(taken, content, wanted)
    asked = tuple(Requirement(component=one.name, versions=one.versions) for one in wanted.values())
    beside = _libraries(here, content, image, tuple(wanted))
    frameworks = Frameworks(_with(here, beside), asked, properties=properties)
    found = frameworks.findings() + _absent(frameworks, content, image, wanted) + _musl(content, wanted)
    return _of_image(content, found, free)


def _of_base(frameworks: Frameworks, content: ImageContent, wanted: dict[str, _Wanted]) -> dict[str, _Wanted]:
    """The framework that the name of the base says is in it, unless pip replaces it by what it installs."""
    base = parsed(content.base)
    one = framework_in(base) if base is not None and not content.layers else None
    if one is None or one.name in wanted or not frameworks.candidates(one.name, f"=={one.version}"):
        return {}
    for name, other in wanted.items():
        for build in frameworks.candidates(name, other.versions)[:1]:
            pin = pins(build.requires).get(one.name, "")
            if pin and not is_within(one.version.partition("+")[0], pin.partition("+")[0]):
                return {}
    return {one.name: _Wanted(name=one.name, versions=f"=={one.version}", text=content.base)}


def _of_environment(question: Question, content: ImageContent, place: str) -> Iterator[str]:
    """The builds of the facts that are installed in an environment, as requirements."""
    catalog = Catalog(question.matrix, platform_of(question.host))
    for one in content.installed:
        if one.place == place and one.name in FRAMEWORKS:
            version, _, local = one.version.partition("+")
            same = (row for row in catalog.builds(one.name) if (row.version, row.local) == (version, local))
            if next((row.code for row in same), "cpu") != "cpu":  # of those without CUDA a warning speaks
                yield f"{one.name}=={one.version}"


def _is_exact(versions: str) -> bool:
    return versions.startswith("==") and "*" not in versions


def _wanted(texts: tuple[str, ...]) -> Iterator[_Wanted]:
    for text in texts:
        match = _REQUIREMENT.fullmatch(text)
        name = normalized(match[1]) if match is not None else ""
        if match is None or name not in DISTRIBUTIONS:
            continue
        yield _Wanted(name=name, versions=match[3].replace("===", "=="), text=text, extras=match[2] or "")
        for major in re.findall(r"cuda(12|13)", match[2] or "") if name == "jax" else ():
            yield _Wanted(name=f"jax-cuda{major}-plugin", versions=match[3].replace("===", "=="), text=text)


def _inside(question: Question, content: ImageContent) -> Question:
    """The question about the inside of the image: the Python is that of its base, and nothing of the host is asked."""
    driver = question.asked.get("driver")
    request = replace(question.request, requirements=(driver,) if driver is not None else ())
    python = _python(content)
    host = replace(question.host, python=python) if python else question.host
    return Question(question.matrix, host, request, mode="check")


def _python(content: ImageContent) -> str:
    """The Python of an image that is built from python:3.12; "" for others."""
    base = parsed(content.base)
    match = _OWN_PYTHON.match(base.tag) if base is not None and base.repository == "python" else None
    return match[1] if match is not None else ""


def _libraries(
    question: Question, content: ImageContent, image: Image | None, names: tuple[str, ...]
) -> tuple[Requirement, ...]:
    """CUDA and cuDNN of the image's system, where nothing that is installed into it has others."""
    if content.adds_libraries or image is None or image.repository not in {"cuda", PYTORCH}:
        return ()
    is_theirs = image.repository == "cuda" and not image.basis
    has_own = any(name in LIBRARIES or name == "torch" for name in names)
    found = [Requirement(component="cuda", versions=f"=={image.cuda}")] if is_theirs and not has_own else []
    kind = _CUDNN.search(f"{image.tag}-")
    number = content.environment.get("NV_CUDNN_VERSION", "")
    has_own = has_own if is_theirs else any(name in LIBRARIES for name in names)
    if kind is not None and (number or kind[1]) and not has_own:
        rows = question.matrix.releases("cudnn")
        newest = next((row.version for row in rows if row.version.startswith(f"{kind[1]}.")), "")
        found.append(Requirement(component="cudnn", versions=f"=={number or newest}"))
    return tuple(found)


def _with(question: Question, more: tuple[Requirement, ...]) -> Question:
    request = replace(question.request, requirements=(*question.request.requirements, *more))
    return Question(question.matrix, question.host, request, mode="check")


def _absent(frameworks: Frameworks, content: ImageContent, image: Image | None, wanted: dict[str, _Wanted]) -> Findings:
    """Libraries that a framework loads from the system, and that the base does not have."""
    base = parsed(content.base)
    is_theirs = image is not None and image.repository == "cuda" and not image.basis
    is_bare = base is not None and base.repository.removeprefix("library/") in _SYSTEMS
    has_own = any(name in LIBRARIES or name == "torch" for name in wanted)
    if base is None or has_own or content.adds_libraries or not (is_theirs or is_bare):
        return Findings()
    found = Findings()
    for build in (frameworks.chosen() or {}).values():
        one = wanted.get(build.component)
        if (
            one is None
            or _ADDING.search(one.extras)
            or any(name.startswith("nvidia-") for name in pins(build.requires))
        ):
            continue
        row, is_cupy = frameworks.catalog.cudnn_of(build), build.component.startswith("cupy-")
        if build.code == "jit" and not is_cupy:
            continue
        has_runtime = is_theirs and "-base-" not in base.tag
        lacks = ["CUDA's libraries"] if (row is not None or is_cupy) and not has_runtime else []
        lacks += [f"cuDNN {row.cudnn}"] if row is not None and not (is_theirs and _CUDNN.search(base.tag)) else []
        if lacks:
            reason = (
                f"{build.named} loads {' and '.join(lacks)} from the system, and {content.base} has none: take a tag of"
                " nvidia/cuda with runtime and cudnn, or install the wheels of these libraries"
            )
            src = (*(row.src if row is not None else ()), *build.src)
            sources = frameworks.question.matrix.addresses(src)
            conflict = Conflict(kind="framework", between=(build.named, content.base), reason=reason, sources=sources)
            found += Findings(conflicts=(conflict,))
    return found


def _musl(content: ImageContent, wanted: dict[str, _Wanted]) -> Findings:
    """That an image of Alpine has another C library than the wheels of the facts."""
    base = parsed(content.base)
    if base is None or "alpine" not in f"{base.repository} {base.tag}":
        return Findings()
    reason = f"the facts cover wheels for glibc only, and {content.base} has musl: {', '.join(wanted)}"
    return Findings(unknown=(Unknown(reason=reason, needs="glibc"),))


def _of_image(content: ImageContent, found: Findings, free: tuple[_Wanted, ...]) -> Findings:
    """The findings as those of the image. What an installer chooses later is no conflict, but unknown."""
    floating = [one for one in free if any(f"{one.name}==" in conflict.reason for conflict in found.conflicts)]
    left_out = ("requires driver", "of its wheels (")
    warnings = tuple(text for text in found.warnings if not any(words in text for words in left_out))
    if floating:
        reason = found.conflicts[0].reason
        names = ", ".join(one.text for one in floating)
        text = f"image {content.name}: {names} means another release every month; today: {reason}"
        more = Findings(unknown=(Unknown(reason=text, sources=found.conflicts[0].sources),))
        return more + Findings(unknown=found.unknown, warnings=warnings, hints=found.hints)
    conflicts = tuple(
        replace(one, kind="image", between=(f"image: {content.name}", one.between[-1])) for one in found.conflicts
    )
    unknown = tuple(replace(one, reason=f"image {content.name}: {one.reason}") for one in found.unknown)
    return Findings(conflicts=conflicts, unknown=unknown, warnings=warnings, hints=found.hints)
