"""What is wrong with the distributions of a Python environment by themselves: pins, files, broken installations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpustack.detect.environments.parse import Found
from gpustack.detect.environments.rows import SUBJECT, Binary, SameFiles, WithoutCuda
from gpustack.detect.scene import Scene
from gpustack.model.facts import normalized
from gpustack.model.frameworks import FRAMEWORKS, INDEXES, PartnerTorch, pins
from gpustack.model.host import Problem
from gpustack.solve.words import in_words
from gpustack.versions import is_within

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def about_contents(found: Found, scene: Scene, *, has_gpu: bool) -> Iterator[Problem]:
    """Everything that is wrong without regard to the driver; remarks about GPUs only with one."""
    yield from _broken(found)
    yield from _pins(found, scene)
    yield from _same_files(found, scene)
    yield from _binary(found, scene)
    yield from _partners(found, scene)
    yield from _majors(found)
    if has_gpu:
        yield from _without_cuda(found, scene)
        yield from _codecs(found)


def _pip(found: Found) -> str:
    return f"`{found.path}/bin/python -m pip"


def _broken(found: Found) -> Iterator[Problem]:
    """Distributions without readable METADATA, with another version inside, twice, or half removed."""
    for name, version, folder in found.folders:
        path = f"{found.site}/{folder}/METADATA"
        fault = found.evidence.marks.get(path, "")
        told = re.search(r"^Version: (.*)$", found.evidence.files.get(path, ""), re.MULTILINE)
        named = re.search(r"^Name: (.*)$", found.evidence.files.get(path, ""), re.MULTILINE)
        why = f"{path} {fault}" if fault else ""
        if path in found.evidence.files and not (told and named):
            why = f"{path} names no distribution"
        elif told and told[1] != version and told[1].replace("-", "_") != version:
            why = f"its folder says {version}, its METADATA {told[1]}"
        elif named and normalized(named[1]) != name:
            why = f"its folder says {name}, its METADATA {named[1]}"
        if why:
            yield _broken_problem(found, f"{name} {version} in {found.path} is broken: {why}", name)
    names = [name for name, _, _ in found.folders]
    for name in dict.fromkeys(one for one in names if names.count(one) > 1):
        versions = " and ".join(version for one, version, _ in found.folders if one == name)
        yield _broken_problem(found, f"{name} is installed twice in {found.path}: {versions}", name)
    for folder in found.evidence.listings.get(found.site, ()):
        if folder.startswith("~"):
            yield _broken_problem(found, f"{found.site}/{folder} is what a broken removal left", "")


def _broken_problem(found: Found, message: str, name: str) -> Problem:
    again = f"install it again: {_pip(found)} install --force-reinstall {name}`" if name else ""
    return Problem(
        id="environment-broken",
        message=message,
        fix=again or "delete this folder and the one of the same name without version",
        severity="warn",
        reboot=False,
    )


def _pins(found: Found, scene: Scene) -> Iterator[Problem]:
    """Requirements of one distribution that another does not meet, by their own METADATA; in a text by the facts."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 (hosts without frameworks)

    for name in found.packages:
        for text in found.requires(name) or (_known_pins(found, scene, name) if scene.evidence.excerpt else ()):
            try:
                wanted = Requirement(text)
            except InvalidRequirement:
                continue
            other = normalized(wanted.name)
            if _applies(found, wanted) and (problem := _pin(found, name, other, wanted)) is not None:
                yield problem


def _known_pins(found: Found, scene: Scene, name: str) -> tuple[str, ...]:
    """What the wheel of this release requires of the distributions that the text names, by the facts."""
    from gpustack.solve.frameworks.catalog import Catalog  # noqa: PLC0415 (texts only)

    plain, _, local = found.packages[name].partition("+")
    places = ("linux-aarch64",) if scene.arch == "aarch64" else ("linux-x86_64", "any")
    builds = (one for one in Catalog(scene.matrix).builds(name) if name in FRAMEWORKS and one.platform in places)
    mine = next((one for one in builds if (one.version, one.local) == (plain, local)), None)
    wanted = pins(mine.requires) if mine is not None else {}
    return tuple(f"{other}{limits}" for other, limits in wanted.items() if other in found.packages)


def _applies(found: Found, wanted: Requirement) -> bool:
    """Whether a requirement counts in this environment: on Linux, for its Python, without extras."""
    if wanted.marker is None:
        return True
    python = ".".join((found.python or "3.12").split(".")[:2])
    here = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux", "extra": ""}
    machine = found.evidence.files.get("/proc/sys/kernel/arch", "").strip()
    if machine:
        here["platform_machine"] = machine
    return wanted.marker.evaluate({**here, "platform_system": "Linux", "os_name": "posix"})


def _pin(found: Found, name: str, other: str, wanted: Requirement) -> Problem | None:
    version = found.packages.get(other)
    if version is None:
        return _missing(found, name, other, wanted)
    build = found.builds.get(other)
    try:
        if wanted.specifier.contains(build.version if build is not None else version, prereleases=True):
            return None
    except ValueError:  # a version that is none
        return None
    newer = re.match(r"==\s*(\d[\d.]*)$", str(wanted.specifier))
    # NVIDIA's libraries of one major version replace each other upwards.
    kept = bool(
        newer
        and other.startswith("nvidia-")
        and is_within(version, f">{newer[1]}")
        and version.split(".")[0] == newer[1].split(".")[0]
    )
    return Problem(
        id="environment-pins",
        message=f"{name} {found.packages[name]} in {found.path} requires {other}{wanted.specifier}, but {version} is"
        " installed",
        fix=f'install what it requires: {_pip(found)} install "{other}{wanted.specifier}"`',
        severity="info" if kept else "warn",
        reboot=False,
    )


def _missing(found: Found, name: str, other: str, wanted: Requirement) -> Problem | None:
    """A library that a framework requires and that is not in its environment; conda has other names for them."""
    if not other.startswith("nvidia-") or found.conda:
        return None
    return Problem(
        id="environment-pins",
        message=f"{name} {found.packages[name]} in {found.path} requires {other}{wanted.specifier}, which is not"
        " installed there",
        fix=f'install it: {_pip(found)} install "{other}{wanted.specifier}"`',
        severity="warn",
        reboot=False,
    )


def _same_files(found: Found, scene: Scene) -> Iterator[Problem]:
    for row in scene.matrix.rows(SUBJECT, "same_files", SameFiles):
        names = [name for name in found.packages if re.fullmatch(row.names, name)]
        if len(names) > 1:
            yield Problem(
                id="environment-same-files",
                message=f"{' and '.join(names)} in {found.path} install the same files ({row.folder}/): the last one"
                " installed is used",
                fix=f"uninstall all of them, then install one again ({row.keep}): {_pip(found)} uninstall"
                f" {' '.join(names)}`",
                severity="warn",
                reboot=False,
                sources=scene.matrix.addresses(row.src),
            )


def _binary(found: Found, scene: Scene) -> Iterator[Problem]:
    for row in scene.matrix.rows(SUBJECT, "binary", Binary):
        mine, other = found.packages.get(row.of), found.packages.get(row.other)
        if mine and other and _is_in(mine, row.versions) and _is_in(other, row.refused):
            yield Problem(
                id="environment-binary",
                message=f"{row.of} {mine} in {found.path} does not load with {row.other} {other}: {row.says}",
                fix=f'install another {row.other}: {_pip(found)} install "{row.other}{_opposite(row.refused)}"`',
                severity="warn",
                reboot=False,
                sources=scene.matrix.addresses(row.src),
            )


def _partners(found: Found, scene: Scene) -> Iterator[Problem]:
    """Wheels with code for one PyTorch, which their METADATA does not name, next to another one."""
    torch = found.packages.get("torch", "").partition("+")[0]
    rows = [row for row in scene.matrix.rows(INDEXES, "partner_torch", PartnerTorch) if row.refused] if torch else []
    for row in rows:
        mine = found.packages.get(row.component, "").partition("+")[0]
        if not mine or not _is_in(mine, row.versions) or _is_in(torch, row.torch):
            continue
        fitting = (one.versions for one in rows if one.component == row.component and _is_in(torch, one.torch))
        wanted = f"{row.component}{next(fitting, '')}"
        yield Problem(
            id="environment-binary",
            message=f"{row.component} {mine} in {found.path} does not load with torch {torch}: it is for torch"
            f" {in_words(row.torch)}",
            fix=f'install another {row.component}: {_pip(found)} install "{wanted}"`',
            severity="warn",
            reboot=False,
            sources=scene.matrix.addresses(row.src),
        )


def _is_in(version: str, versions: str) -> bool:
    try:
        return is_within(version, versions)
    except ValueError:
        return False


def _opposite(versions: str) -> str:
    return versions.replace(">=", "<")


def _majors(found: Found) -> Iterator[Problem]:
    """One library of NVIDIA for two CUDA majors: their files have the same place."""
    by_stem: dict[str, list[str]] = {}
    for name in found.packages:
        match = re.fullmatch(r"nvidia-(cudnn|nccl|cusparselt|nvshmem)-cu\d+", name)
        if match:
            by_stem.setdefault(match[1], []).append(name)
    for stem, names in by_stem.items():
        if len(names) > 1:
            yield Problem(
                id="environment-two-cudas",
                message=f"{' and '.join(names)} in {found.path} are for two CUDA majors and install the same files"
                f" (nvidia/{stem}/): the one that was installed last is used",
                fix=f"uninstall the one that no framework here requires: {_pip(found)} uninstall {' '.join(names)}`,"
                " then install the other again",
                severity="warn",
                reboot=False,
            )


def _without_cuda(found: Found, scene: Scene) -> Iterator[Problem]:
    for row in scene.matrix.rows(SUBJECT, "without_cuda", WithoutCuda):
        name = next((name for name in found.packages if re.fullmatch(row.names, name)), None)
        if name is not None:
            yield Problem(
                id="environment-without-cuda",
                message=f"{name} {found.packages[name]} in {found.path}: {row.says}",
                severity="info",
                reboot=False,
                sources=scene.matrix.addresses(row.src),
            )


def _codecs(found: Found) -> Iterator[Problem]:
    for path, mark in sorted(found.evidence.marks.items()):
        if mark == "no cuvid" and path.startswith(f"{found.site}/"):
            yield Problem(
                id="environment-codecs",
                message=f"PyAV {found.packages.get('av', '')} in {found.path} decodes on the CPU only: {path} has no"
                " decoder of NVDEC",
                fix="install a release of av whose FFmpeg has NVDEC, or build it against the system's FFmpeg:"
                f" {_pip(found)} install --no-binary av av`",
                severity="info",
                reboot=False,
            )
