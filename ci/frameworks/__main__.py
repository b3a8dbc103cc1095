"""Write matrices/generated/frameworks.yaml again: the wheels of frameworks in the default package index.

    .venv/bin/python ci/frameworks CACHE [--cached] [NAME...]

CACHE is a folder for what was read from inside wheels, one JSON file a wheel; wheels that are there are not read
again (all of them anew: about 12 GB), and with ``--cached`` no further libraries are. NAME limits which
frameworks are read; rows of the others stay. "nvidia" are the files of NVIDIA's wheels that a framework is pinned to.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests
from gpu_code import common, counted, stated_flags
from index import WheelFile, metadata, opened, wheels
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from recipes import RECIPES, TRACKED, Recipe, is_unfinished

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from facts_form import ROOT, canonical, flow
from gpustack.matrix.load import parse_yaml

TABLE = ROOT / "matrices" / "generated" / "frameworks.yaml"
_MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64"}
_HASHED_SINCE = "2024-11-01"
"""The day of the oldest release whose checksums are kept."""

READ = "2026-11-23"
"""The day of this reading."""

Row = dict[str, Any]


def inside(session: requests.Session, wheel: WheelFile, recipe: Recipe, cache: Path) -> Row:
    """What the files of a wheel say of its GPU code; {} if nothing in it is to be read."""
    if not (recipe.library or recipe.text):
        return {}
    kept = cache / f"{wheel.project}-{wheel.version}-{wheel.platform}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text(encoding="utf-8")))
    archive = opened(session, wheel.url)
    found: Row = {"file": wheel.file, "members": {}, "texts": {}, "libs": []}
    for info in archive.infolist():
        name = info.filename
        found["libs"] += [name.rpartition("/")[2]] if re.search(r"\.(so|dll|pyd)\b", name) else []
        if recipe.text and re.search(recipe.text, name):
            found["texts"][name] = archive.read(info).decode()
        if recipe.library and "--cached" not in sys.argv and re.search(recipe.library, name):
            found["members"][name] = _code(archive, info.filename)
    if "--cached" not in sys.argv:
        kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def _code(archive: Any, name: str) -> Row:  # noqa: ANN401 (a ZipFile)
    if "torch_python" in name:
        kinds = zip(("sm", "compute"), stated_flags(archive.read(name)), strict=True)
        return {"flags": [" ".join(f"{kind}_{text.replace('.', '')}" for kind, found in kinds for text in found)]}
    with archive.open(name) as stream:
        containers, found = counted(stream)
    return {"containers": containers, "n": {f"{kind}_{arch}": times for (kind, arch), times in found.items()}}


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
        elif "extra" in str(one.marker) and re.search(r"cuda", str(one.marker)):
            optional[text] = None
    return list(needed), [text for text in optional if text not in needed]


def rows_of(session: requests.Session, name: str, cache: Path) -> Iterator[tuple[Row, list[Row]]]:
    """The builds of a framework with their files, newest first."""
    recipe = RECIPES[name]
    sets: dict[tuple[str, str], list[WheelFile]] = {}
    for one in wheels(session, name):
        if one.platform and not is_unfinished(one.version) and one.date >= recipe.since:
            sets.setdefault((one.version, one.platform), []).append(one)
    newest = sorted({version for version, _ in sets}, key=Version, reverse=True)[: recipe.at_most]
    for (version, platform), files in sorted(sets.items(), key=lambda item: (Version(item[0][0]), item[0][1])):
        if version not in newest:
            continue
        wheel = max(files, key=lambda one: Version(one.interpreter or "3"))
        needed, optional = _requirements(metadata(session, wheel), wheel)
        row: Row = {"component": name, "version": version, "platform": platform, "date": wheel.date}
        row["python"] = _range_of_pythons(files)
        row["glibc"] = wheel.glibc
        row.update(_gpu_code(inside(session, wheel, recipe, cache), recipe))
        row["requires"], row["optional"] = needed, optional
        if recipe.gpu_since and Version(version) < Version(recipe.gpu_since):
            row["code"] = "cpu"
        if all(one.is_yanked for one in files):
            row["status"] = "yanked"
        row["src"] = [_source(name)]
        sums = [_file_row(one) for one in files if _is_hashed(one)]
        yield {key: value for key, value in row.items() if value}, sums


def pinned_files(session: requests.Session, builds: list[Row]) -> Iterator[Row]:
    """The files of the wheels that builds of today are pinned to exactly and that are no frameworks themselves."""
    wanted: dict[str, set[str]] = {}
    for row in builds:
        for text in row.get("requires", []) if row["date"] >= _HASHED_SINCE else []:
            name, pin, version = text.partition("==")
            if pin and name.startswith("nvidia-") and not re.search(r"[*,\[]", text):
                wanted.setdefault(name, set()).add(version)
    for name, versions in sorted(wanted.items()):
        for one in wheels(session, name):
            if one.version in versions and one.platform and not one.platform.startswith("windows"):
                yield _file_row(one)


def _is_hashed(one: WheelFile) -> bool:
    """Whether plans need the checksum of a file: they make environments on Linux, with current Pythons."""
    is_new = one.date >= _HASHED_SINCE and (one.interpreter or "3.14") >= "3.10"
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
    return {
        "component": one.project,
        "version": one.version,
        "file": one.file,
        "platform": one.platform,
        "python": one.interpreter,
        "sha256": one.sha256,
        "size": one.size,
        "src": [_source(one.project)],
    }


def _source(name: str) -> str:
    return name.replace("-", "_")


def main(cache: Path, names: list[str]) -> None:
    session = requests.Session()
    cache.mkdir(parents=True, exist_ok=True)
    old = parse_yaml(TABLE.read_text(encoding="utf-8"))
    builds: list[Row] = [
        row for row in (old["tables"]["framework_builds"]["rows"] or []) if row["component"] not in names
    ]
    files: list[Row] = [
        row for row in (old["tables"]["framework_files"]["rows"] or []) if row["component"] not in names
    ]
    if "nvidia" in names:
        names.remove("nvidia")
        files = [row for row in files if row["component"] in RECIPES] + list(pinned_files(session, builds))
        _write(builds, files)
    for name in names:
        for build, sums in rows_of(session, name, cache):
            builds.append(build)
            files += sums
        print(name, sum(row["component"] == name for row in builds), "builds", flush=True)
    _write(builds, files)


def _write(builds: list[Row], files: list[Row]) -> None:
    front, _, rest = TABLE.read_text(encoding="utf-8").partition("sources:\n")
    names = sorted({row["component"] for row in (*builds, *files)})
    sources = "".join(f"  {_source(name)}: {flow(_origin(name))}\n" for name in names)
    first = rest.partition("tables:\n")[2].partition("    rows:")[0]
    head = f"{front}sources:\n{sources}tables:\n{first}"
    middle = TABLE.read_text(encoding="utf-8").partition("  framework_files:\n")[2].partition("    rows:\n")[0]
    lines = [head + "    rows:\n", *(f"      - {flow(row)}\n" for row in builds)]
    lines += ["  framework_files:\n" + middle + "    rows:\n", *(f"      - {flow(_trimmed(row))}\n" for row in files)]
    TABLE.write_text(canonical("".join(lines)), encoding="utf-8")


def _origin(name: str) -> Row:
    note = "metadata of its wheels, and the libraries in them, as ci/frameworks reads them"
    return {"address": f"pkg:pypi/{name}", "known": "tested", "read": READ, "note": note}


def _trimmed(row: Row) -> Row:
    return {key: value for key, value in row.items() if value}


if __name__ == "__main__":
    main(Path(sys.argv[1]), [name for name in sys.argv[2:] if name != "--cached"] or [*RECIPES, "nvidia"])
