"""What is read inside a wheel: its requirements, and what a recipe looks at to tell its GPU code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import requests

from frameworks.gpu_code import counted, stated_flags
from frameworks.recipes import RECIPES, TRACKED
from frameworks.remote import metadata, opened
from update.record import Body, Row
from update.sources.index import WheelFile

_LIBRARY = re.compile(r"\.(so|dll|pyd)\b")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_RUNTIME = re.compile(rb"libcudart\.so\.\d+")


def digest(session: requests.Session, wheel: WheelFile, cache: Path, *, libraries: bool) -> Body:
    """The digest of a wheel, as a body below its project's page; without ``libraries`` only what is kept of them."""
    kept = cache / f"{wheel.file}.json"
    if kept.exists():
        return Body(address_of(wheel), wheel.day, kept.read_bytes())
    found = json.dumps(_read(session, wheel, libraries=libraries), sort_keys=True)
    if libraries:
        kept.write_text(found, encoding="utf-8")
    return Body(address_of(wheel), wheel.day, found.encode())


def address_of(wheel: WheelFile) -> str:
    """Where the digest of a wheel lies: below the page of its project."""
    return f"/simple/{wheel.project}/{wheel.file}"


def _read(session: requests.Session, wheel: WheelFile, *, libraries: bool) -> Row:
    found: Row = {"requires": [line for line in metadata(session, wheel) if _is_tracked(line)]}
    recipe = RECIPES.get(wheel.project)
    if recipe is None or not (recipe.library or recipe.text):
        return found
    archive = opened(session, wheel.url)
    found |= {"members": {}, "texts": {}, "libs": []}
    for info in archive.infolist():
        name = info.filename
        found["libs"] += [name.rpartition("/")[2]] if _is_telling(name, recipe.marker) else []
        if recipe.text and re.search(recipe.text, name):
            found["texts"][name] = archive.read(info).decode()
        if recipe.library and libraries and re.search(recipe.library, name):
            found["members"][name] = _code(archive, name, recipe.enough)
            if recipe.linked:
                found["libs"] += runtimes(archive, name)
    return found


def _is_tracked(line: str) -> bool:
    known = _NAME.match(line)
    name = known[0].lower().replace("_", "-") if known else ""
    return name in RECIPES or TRACKED.match(name) is not None


def _is_telling(name: str, marker: str) -> bool:
    """Whether the name of a library tells something: the CUDA that is next to it, or that this is a build for GPUs."""
    is_marker = bool(marker) and re.search(marker, name) is not None
    return _LIBRARY.search(name) is not None and ("libcudart" in name or is_marker)


def runtimes(archive: Any, name: str) -> list[str]:  # noqa: ANN401 (a ZipFile)
    """The CUDA runtimes that a library names: those that it loads."""
    found: set[bytes] = set()
    with archive.open(name) as stream:
        rest = b""
        while chunk := stream.read(1 << 22):
            found.update(_RUNTIME.findall(rest + chunk))
            rest = chunk[-64:]
    return sorted(one.decode() for one in found)


def _code(archive: Any, name: str, enough: int) -> Row:  # noqa: ANN401 (a ZipFile)
    if "torch_python" in name:
        kinds = zip(("sm", "compute"), stated_flags(archive.read(name)), strict=True)
        return {"flags": [" ".join(f"{kind}_{text.replace('.', '')}" for kind, found in kinds for text in found)]}
    with archive.open(name) as stream:
        containers, found = counted(stream, enough)
    return {"containers": containers, "n": {f"{kind}_{arch}": times for (kind, arch), times in found.items()}}
