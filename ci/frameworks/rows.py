"""What rows the wheels of a framework give: its builds with their requirements and GPU code, and its files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from frameworks.gpu_code import common, stated_flags
from frameworks.recipes import RECIPES, TRACKED, Recipe, is_unfinished
from update.sources.index import WheelFile

_HASHED_SINCE = "2024-11-01"
"""The day of the oldest release whose checksums are kept."""

TOOLKIT = "cuda-toolkit"
"""The distribution that has no files: its extras name the parts of one release of CUDA."""

_LOADED = ("nvidia-cufile",)
"""Libraries among the extras of a toolkit that frameworks load and no component consists of."""

Row = dict[str, Any]
Digests = Mapping[str, Row]
"""What was read inside wheels, by their file names (digest.py)."""


def sets(name: str, wheels: Iterable[WheelFile]) -> dict[tuple[str, str], list[WheelFile]]:
    """The wheels of a framework by release and platform, as far back as its recipe goes."""
    recipe = RECIPES[name]
    found: dict[tuple[str, str], list[WheelFile]] = {}
    for one in wheels:
        if one.platform and not is_unfinished(one.version) and one.day >= recipe.since:
            found.setdefault((one.version, one.platform), []).append(one)
    newest = sorted({version for version, _ in found}, key=Version, reverse=True)[: recipe.at_most]
    in_order = sorted(found, key=lambda place: (Version(place[0]), place[1]))
    return {place: found[place] for place in in_order if place[0] in newest}


def read_inside(files: Iterable[WheelFile]) -> WheelFile:
    """The one of the wheels of a release and platform of which the inside is read."""
    return max(files, key=lambda one: Version(one.interpreter or "3"))


def builds(name: str, wheels: Sequence[WheelFile], digests: Digests) -> Iterator[Row]:
    """The builds of a framework, of which one wheel was read each."""
    recipe = RECIPES[name]
    for (version, platform), files in sets(name, wheels).items():
        wheel = read_inside(files)
        if wheel.file not in digests:
            continue
        read = digests[wheel.file]
        row: Row = {"component": name, "version": version, "platform": platform, "date": wheel.day}
        row["python"], row["glibc"] = _range_of_pythons(files), wheel.glibc
        row.update(_gpu_code(read if recipe.library or recipe.text else {}, recipe))
        row["requires"], row["optional"] = _requirements(read["requires"], wheel)
        if recipe.gpu_since and Version(version) < Version(recipe.gpu_since):
            row["code"] = "cpu"
        if all(one.is_yanked for one in files):
            row["status"] = "yanked"
        row["src"] = [source_of(name)]
        yield {key: value for key, value in row.items() if value}


def files(name: str, wheels: Sequence[WheelFile]) -> Iterator[Row]:
    """The files of a framework whose checksums plans need."""
    for found in sets(name, wheels).values():
        yield from (_file_row(one) for one in found if _is_hashed(one))


def toolkit_releases(rows: Iterable[Row]) -> set[str]:
    """The releases of cuda-toolkit that builds are pinned to."""
    texts = (text for row in rows for text in row.get("requires", []) if text.startswith(TOOLKIT))
    return {text.partition("==")[2] for text in texts}


def release(wheel: WheelFile) -> str:
    """The release of a wheel of cuda-toolkit: 13.0.3.0 is 13.0.3."""
    return ".".join(wheel.version.split(".")[:3])


def toolkit(wheel: WheelFile, lines: list[str]) -> Row:
    """The row of a release of cuda-toolkit: ``optional`` are the wheels of its extras."""
    found = dict.fromkeys(f"{one.name}{str(one.specifier).removesuffix('.*')}" for one in map(Requirement, lines))
    row: Row = {"component": TOOLKIT, "version": release(wheel), "platform": wheel.platform, "date": wheel.day}
    line = ".".join(wheel.version.split(".")[:2])
    return {**row, "code": "library", "cuda": line, "optional": sorted(found), "src": [source_of(TOOLKIT)]}


def pinned(rows: Sequence[Row]) -> dict[str, set[str]]:
    """The wheels that builds of today are pinned to exactly and that are no frameworks themselves: names, versions.

    The parts of a toolkit have their checksums in wheels.yaml, but for those that no component consists of.
    """
    wanted: dict[str, set[str]] = {}
    new = [row for row in rows if row["date"] >= _HASHED_SINCE]
    pins = [text for row in new for text in row.get("requires", []) if not re.search(r"[*,\[]", text)]
    pins += [f"{TOOLKIT}=={version}" for version in toolkit_releases(new)]
    toolkits = [row for row in rows if row["component"] == TOOLKIT and row["version"] in toolkit_releases(new)]
    pins += [text for row in toolkits for text in row["optional"] if text.partition("==")[0] in _LOADED]
    for name, pin, version in (text.partition("==") for text in pins):
        if pin and (name == TOOLKIT or name.startswith("nvidia-")):
            wanted.setdefault(name, set()).add(version)
    return dict(sorted(wanted.items()))


def pinned_files(wheels: Iterable[WheelFile], versions: set[str]) -> Iterator[Row]:
    """The files of a pinned project, of the versions that something is pinned to."""
    for one in wheels:
        number = release(one) if one.project == TOOLKIT else one.version
        if number in versions and one.platform and not one.platform.startswith("windows"):
            yield {**_file_row(one), "version": number}


def code_of(read: Row) -> tuple[list[str], list[str]]:
    """The machine code and the PTX that a wheel holds, by what was read in it."""
    texts = "\n".join(read.get("texts", {}).values())
    listed = re.search(r"'cuda_compute_capabilities'[:,] \[([^\]]*)\]", texts)
    if listed is not None:
        return stated_flags(" ".join(re.findall(r"(?:sm|compute)_\d+", listed[1])).encode())
    members = list(read.get("members", {}).values())
    flags = " ".join(text for one in members for text in one.get("flags", []))
    if flags:
        return stated_flags(flags.encode())
    containers = sum(one.get("containers", 0) for one in members)
    found: Counter[tuple[str, int]] = Counter()
    for one in members:
        for word, times in one.get("n", {}).items():
            kind, _, number = word.partition("_")
            found[kind, int(number)] += times
    return (common(containers, found, "sass"), common(containers, found, "ptx")) if containers else ([], [])


def _range_of_pythons(files: list[WheelFile]) -> str:
    """The versions of Python that a set of wheels installs on, as a range."""
    numbers = sorted({int(one.interpreter.partition(".")[2]) for one in files if one.interpreter})
    if numbers:
        joined = set(range(numbers[0], numbers[-1] + 1)) == set(numbers)
        if joined:
            return f">=3.{numbers[0]},<3.{numbers[-1] + 1}"
        return " | ".join(f"==3.{number}.*" for number in numbers)
    stated = [one.requires_python for one in files if one.requires_python]
    stated += [f">={one.floor}" for one in files if one.floor]
    return _plain(stated[0]) if stated else ""


def _plain(specifier: str) -> str:
    """A range of Pythons without the exclusions of patch releases."""
    clauses = [f"{one.operator}{one.version}" for one in SpecifierSet(specifier) if one.operator != "!="]
    return ",".join(sorted(clauses, reverse=True))


def _requirements(lines: list[str], wheel: WheelFile) -> tuple[list[str], list[str]]:
    """The pins among a wheel's requirements on this platform, and those of its extras."""
    system, _, machine = wheel.platform.partition("-")
    python = wheel.interpreter or "3.12"
    place = {
        "platform_system": system.capitalize(),
        "sys_platform": {"linux": "linux", "windows": "win32"}.get(system, ""),
        "platform_machine": machine if system == "linux" else {"x86_64": "AMD64", "aarch64": "ARM64"}.get(machine, ""),
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    if wheel.platform == "any":
        place.update(platform_system="Linux", sys_platform="linux", platform_machine="x86_64")
    needed, optional = {}, {}
    for line in lines:
        one = Requirement(line)
        name = one.name.lower().replace("_", "-")
        if name not in RECIPES and not TRACKED.match(name):
            continue
        extras = f"[{','.join(sorted(one.extras))}]" if one.extras and name == "cuda-toolkit" else ""
        text = f"{name}{extras}{','.join(sorted(map(str, one.specifier), reverse=True))}"
        if one.marker is None or one.marker.evaluate({**place, "extra": ""}):
            needed[text] = None
        elif "extra" in str(one.marker) and re.search(r"cuda|cu\d\d", str(one.marker)):
            optional[text] = None
    return list(needed), [text for text in optional if text not in needed]


def _is_hashed(one: WheelFile) -> bool:
    """Whether plans need the checksum of a file: they make environments on Linux, with current Pythons."""
    is_new = one.day >= _HASHED_SINCE and (one.interpreter or "3.14") >= "3.10"
    return is_new and not one.platform.startswith("windows")


def _gpu_code(read: Row, recipe: Recipe) -> Row:
    found: Row = {"code": recipe.code}
    texts = "\n".join(read.get("texts", {}).values())
    if recipe.cuda and (match := re.search(recipe.cuda, texts)):
        found["cuda"] = ".".join(match[1].split(".")[:2])
    elif match := re.search(r"\blibcudart\S*\.so\.(\d+)", " ".join(read.get("libs", []))):
        found["cuda"] = match[1]
    if recipe.marker and read and not re.search(recipe.marker, f"{texts}\n{' '.join(read.get('libs', []))}"):
        return {"code": "cpu"}
    if recipe.code == "cuda":
        found["sass"], found["ptx"] = code_of(read)
    return found


def _file_row(one: WheelFile) -> Row:
    row = {"component": one.project, "version": one.version, "file": one.file, "platform": one.platform}
    python = {"python": one.interpreter} if one.interpreter else {}
    return {**row, **python, "sha256": one.sha256, "size": one.size, "src": [source_of(one.project)]}


def source_of(name: str) -> str:
    """The key of a project's source."""
    return name.replace("-", "_")
