"""An image read from a file, judged on a host: its demands, its CUDA, its architecture, its wheels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpustack.model.architectures import architecture
from gpustack.model.facts import normalized
from gpustack.model.image import ImageContent
from gpustack.model.resolution import Conflict, Findings, ImageAnswer, Unknown
from gpustack.solve.cuda_runs import drivers_of, release_of, runs_on
from gpustack.solve.images.demands import Demands, demand_findings, known_demands, unknown_demands
from gpustack.solve.images.guesses import foreign_findings
from gpustack.solve.images.judge import judge_image, nearest_tag
from gpustack.solve.images.names import PYTORCH, parsed
from gpustack.solve.images.tags import Image, find_image
from gpustack.solve.question import Question
from gpustack.versions import version_key

_VARIABLES = ("CUDA_VERSION", "NV_CUDA_LIB_VERSION")
"""Where images of NVIDIA say their CUDA."""

_BUILD = re.compile(r"(?:\+|/)cu(\d{2,3})(?![\w.])")
"""The CUDA in the local part of a wheel's version, or in the address of an index: cu128 is 12.8."""


class _Cuda(Struct, frozen=True):
    """A CUDA that something in the image is built with, and what says so."""

    version: str
    why: str


def content_findings(question: Question, content: ImageContent) -> tuple[Findings, ImageAnswer]:
    """What refuses the image on the host of ``question``, and how it runs there."""
    base = parsed(content.base)
    if base is not None and content.form == "Dockerfile" and not content.wheels:
        foreign = foreign_findings(question, content.name, base)
        if foreign is not None:
            return foreign
    image = _base(question, content)
    found, answer = _system_findings(question, content, image)
    if content.unread:
        text = f"image {content.name}: what it installs from other files, or by other programs than pip, is not judged"
        found += Findings(warnings=(text,))
    if not content.wheels and not content.installed:
        return found, answer
    from gpustack.solve.images.wheels import wheel_findings  # noqa: PLC0415 (tags and configurations have no wheels)

    more = wheel_findings(question, content, image)
    conflicts = tuple(one for one in more.conflicts if one not in found.conflicts)
    if more.conflicts:
        answer = replace(answer, runs="does not run")
    elif more.unknown and answer.runs != "does not run":
        answer = replace(answer, runs="unknown")
    return found + replace(more, conflicts=conflicts), answer


def _system_findings(question: Question, content: ImageContent, image: Image | None) -> tuple[Findings, ImageAnswer]:
    """The same by the CUDA, the demands and the architecture of the image."""
    name = content.name
    cudas = (*_cudas(content, image), *_of_wheels(question, content), *_of_layers(question, content))
    newest = max(cudas, key=lambda one: version_key(one.version), default=None)
    release = release_of(question, newest.version) if newest is not None else None
    foreign = _foreign(question, content)
    demands = Demands(environment=content.environment)
    known_ones = known_demands(question, image.repository, image.cuda) if image is not None else None
    if known_ones is not None:
        demands = replace(known_ones, environment=known_ones.environment | content.environment)
    elif image is not None and not image.basis and "NVIDIA_REQUIRE_CUDA" not in content.environment:
        foreign += unknown_demands(question, name, image.repository, image.cuda)
    if content.layers:
        from gpustack.solve.images.layers import layer_findings  # noqa: PLC0415 (tags and Dockerfiles have no layers)

        foreign += layer_findings(question, content)
    more = foreign + demand_findings(question, name, demands, release, drivers_of(question))
    if newest is None or release is None:
        why = f"its CUDA {newest.version} is unknown" if newest else _silent(content)
        unknown = Unknown(reason=f"image {name}: {why}")
        answer = ImageAnswer(name=name, runs="does not run" if more.conflicts else "unknown")
        return more + Findings(unknown=(unknown,)), answer
    own = Image(tag="", cuda=newest.version)
    if image is not None:
        own = replace(image, cuda=newest.version)
    found, answer = judge_image(question, name, own, release)
    if answer.runs == "needs forward compatibility":
        more += _forward(question, content, image, newest)
    if more.conflicts:
        nearest = answer.nearest or (nearest_tag(question, image) if image is not None else "")
        if nearest and not answer.nearest:
            more += Findings(hints=(f"the nearest tag that runs here is {nearest}",))
        answer = replace(answer, runs="does not run", nearest=nearest)
    return more + found + Findings(hints=(f"image {name}: {newest.why}",)), answer


def _forward(question: Question, content: ImageContent, image: Image | None, newest: _Cuda) -> Findings:
    """Whether the image has the forward compatibility that the driver requires, for the CUDA that it holds."""
    driver = drivers_of(question)[0]
    release = release_of(question, newest.version)
    if content.compat and release is not None:
        if runs_on(question, release, content.compat) in {"runs", "runs by minor-version compatibility"}:
            return Findings()
        reason = (
            f"{newest.why}; the cuda-compat in the image is that of driver {content.compat}, which does not run it."
        )
        return Findings(conflicts=(_conflict(content, f"driver=={driver}", reason),))
    # NVIDIA's images of CUDA have it; where the layers were read, the files decide.
    is_nvidias = (image is not None and image.repository != PYTORCH) or any(
        name in content.environment for name in _VARIABLES
    )
    if content.layers != "read" and is_nvidias:
        return Findings()
    reason = (
        f"{newest.why}; driver {driver} runs CUDA {newest.version} only with the package cuda-compat, which the image"
        " does not have."
    )
    package = f"cuda-compat-{'-'.join(newest.version.split('.')[:2])}"
    hint = f"build it from an image of nvidia/cuda, which has cuda-compat, or install {package} in it"
    return Findings(conflicts=(_conflict(content, f"driver=={driver}", reason),), hints=(hint,))


def _base(question: Question, content: ImageContent) -> Image | None:
    parts = parsed(content.base)
    return find_image(question, parts) if parts is not None else None


def _silent(content: ImageContent) -> str:
    if content.unresolved:
        return f"{content.unresolved[0]} has no value: give it a default"
    base = f"; its base {content.base} is unknown" if content.base else ""
    return f"nothing in it states its CUDA{base}"


def _cudas(content: ImageContent, image: Image | None) -> tuple[_Cuda, ...]:
    """Every CUDA that something in the image needs."""
    found = [
        _Cuda(value, f"{name} is {value}")
        for name in _VARIABLES
        if re.fullmatch(r"\d+\.\d+(?:\.\d+)*", value := content.environment.get(name, ""))
    ]
    if image is not None and image.cuda and not found:
        guess = f" ({image.basis})" if image.basis else ""
        found.append(_Cuda(image.cuda, f"its base {content.base} holds CUDA {image.cuda}{guess}"))
    if content.toolkit and not found:
        found.append(_Cuda(content.toolkit, f"the toolkit in it is CUDA {content.toolkit}"))
    for text in (*content.wheels, *content.indexes):
        match = _BUILD.search(text)
        if match:
            found.append(_Cuda(f"{match[1][:-1]}.{match[1][-1]}", f"{text} is built with CUDA"))
    return tuple(found)


_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[\w,.-]+\])?==(\d[\w.]*)")
"""A wheel of the default index by its exact version; one with a local part says its CUDA itself."""


def _of_wheels(question: Question, content: ImageContent) -> Iterator[_Cuda]:
    """The CUDA of frameworks that pip installs from the default index, by the facts."""
    if content.indexes:
        return
    from gpustack.solve.frameworks.catalog import Catalog, platform_of  # noqa: PLC0415 (few images install one)

    catalog, here = Catalog(question.matrix), platform_of(question.host)
    for match in filter(None, map(_PINNED.fullmatch, content.wheels)):
        builds = catalog.builds(normalized(match[1]))
        rows = (one for one in builds if (one.version, one.platform, one.local) == (match[2], here, ""))
        build = next(rows, None)
        cuda = catalog.cuda_of(build) if build is not None else ""
        if cuda:
            yield _Cuda(cuda, f"{match[0]} is built with CUDA {cuda}")


def _of_layers(question: Question, content: ImageContent) -> Iterator[_Cuda]:
    """The CUDA of the frameworks in the layers: as their files say it, else by the facts."""
    if not content.installed:
        return
    from gpustack.solve.images.layers import known_build  # noqa: PLC0415 (tags and Dockerfiles have no layers)

    for one in content.installed:
        told = one.cuda or ""
        if one.cuda is None or re.fullmatch(r"\d+", told):
            catalog, build = known_build(question, one)
            told = (catalog.cuda_of(build) if build is not None else "") or told
        if told:
            yield _Cuda(told, f"{one.name} {one.version} in {one.place} is built with CUDA {told}")


def _foreign(question: Question, content: ImageContent) -> Findings:
    """An image for another operating system or processor architecture."""
    if content.os not in {"", "linux"} and not question.view.is_windows:
        reason = f"The image is for {content.os}; this host runs Linux."
        return Findings(conflicts=(_conflict(content, f"os: {question.host.os.spelled}", reason),))
    mine = architecture(content.arch.lower()) if content.arch else None
    here = question.host.arch
    if mine is None or not here or mine.name == here:
        return Findings()
    reason = f"The image is for {mine.name}; the host is {here}."
    return Findings(conflicts=(_conflict(content, f"os: {question.host.os.spelled} {here}", reason),))


def _conflict(content: ImageContent, other: str, reason: str, sources: tuple[str, ...] = ()) -> Conflict:
    return Conflict(kind="image", between=(f"image: {content.name}", other), reason=reason, sources=sources)
