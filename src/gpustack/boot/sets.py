"""Prepared sets: packages in a folder of the image, with their checksums, and the GPUs that each is for."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from gpustack.boot.fast import FOLDER, FORM, NONE
from gpustack.boot.packages import Manager, PackageFile
from gpustack.detect.products import gpu_of
from gpustack.errors import DocumentError, UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.host import Host
from gpustack.model.places import GpuProduct
from gpustack.model.request import Request, Requirement
from gpustack.solve.flavour import flavours
from gpustack.solve.listed import evidence
from gpustack.solve.question import Candidate, Question
from gpustack.solve.refusals import Refusals
from gpustack.solve.rows import HostRows
from gpustack.solve.unjudged import unknown_rules
from gpustack.system.files import write_atomically
from gpustack.system.hashed import sha256_of_file
from gpustack.versions import version_key

Flavour = Literal["open", "proprietary"]
_NAME = re.compile(r"[a-z0-9][a-z0-9.+_-]{0,63}")
_PROVEN = frozenset({"open-list", "own-list", "changelog", "open-list-only", "no-list"})
"""The kinds of evidence by which `check` calls a driver and a GPU compatible."""


class BootSet(Struct, frozen=True, kw_only=True):
    """The document ``gpustack/boot-set/v1``; ``gpus`` are device ids."""

    schema: Literal["gpustack/boot-set/v1"] = "gpustack/boot-set/v1"
    name: str
    driver: str
    flavour: Flavour
    packages: tuple[PackageFile, ...]
    gpus: tuple[str, ...]

    @property
    def by_name(self) -> dict[str, str]:
        """The versions of its packages."""
        return {one.name: one.version for one in self.packages}


def folder_of(root: str, name: str) -> Path:
    """Where a set lies."""
    return Path(f"{root}{FOLDER}", "sets") / name


def load_sets(root: str) -> dict[str, BootSet]:
    """All sets, the preferred first: newest driver, open modules. Raises DocumentError if one cannot be read."""
    found = [_load(path) for path in sorted((Path(f"{root}{FOLDER}", "sets")).glob("*/set.json"))]
    found.sort(key=lambda one: (version_key(one.driver), one.flavour == "open", one.name), reverse=True)
    return {one.name: one for one in found}


def _load(path: Path) -> BootSet:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=BootSet)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        msg = f"the prepared set cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise DocumentError(
            msg, code="boot-set-damaged", where=str(path), hint="prepare it again: `gpustack boot-select prepare`"
        ) from exc
    if found.name != path.parent.name:
        msg = f"the set names itself {found.name!r}"
        raise DocumentError(msg, code="boot-set-damaged", where=str(path), hint="prepare it again under one name")
    return found


Wanted = tuple[str, str, Flavour]
"""Name, driver and flavour of a set."""


def devices_of(matrix: Matrix, host: Host, wanted: Wanted) -> tuple[str, ...]:
    """The ids of the devices that the set is for on such a host. Raises UsageError where the facts know none."""
    _, driver, flavour = wanted
    gpus = tuple(sorted(set(_devices(matrix, host, driver, flavour))))
    if not gpus:
        msg = f"no GPU is known to be compatible with the {flavour} modules of driver {driver}"
        raise UsageError(
            msg, code="unknown-version", where="--driver", hint="`gpustack matrix list driver` lists the releases"
        )
    return gpus


def prepare(root: str, manager: Manager, wanted: Wanted, files: list[Path], gpus: tuple[str, ...]) -> BootSet:
    """Copy the packages of a set into the image, and compile the table again. Raises UsageError.

    A set of that name is replaced.
    """
    name, driver, flavour = wanted
    if not _NAME.fullmatch(name) or name == NONE:
        msg = f"{name!r} cannot be the name of a set"
        raise UsageError(msg, code="invalid-value", where="NAME", hint="use lower-case letters, digits, and - . _ +")
    target = folder_of(root, name)
    new = target.with_name(f".{name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    packages = []
    for path in files:
        package = manager.read(path)
        shutil.copyfile(path, new / package.file)
        packages.append(msgspec.structs.replace(package, sha256=sha256_of_file(new / package.file)))
    made = BootSet(name=name, driver=driver, flavour=flavour, packages=tuple(packages), gpus=gpus)
    (new / "set.json").write_bytes(msgspec.json.format(msgspec.json.encode(made)))
    shutil.rmtree(target, ignore_errors=True)
    new.rename(target)
    os.sync()
    _write_table(root)
    return made


def _write_table(root: str) -> None:
    rows: dict[str, list[str]] = {}
    for one in load_sets(root).values():
        for device in one.gpus:
            rows.setdefault(device, []).append(one.name)
    lines = [FORM, *(f"{device} {' '.join(names)}" for device, names in sorted(rows.items())), ""]
    folder = Path(f"{root}{FOLDER}")
    # What is active was judged by the former sets.
    (folder / "active").unlink(missing_ok=True)
    write_atomically(folder / "table", "\n".join(lines))


def _devices(matrix: Matrix, host: Host, driver: str, flavour: Flavour) -> Iterator[str]:
    """The ids of all devices of which every product is compatible with the driver, in this flavour of modules."""
    row = next((one for one in matrix.releases("driver") if one.version == driver and "linux" in one.os), None)
    if row is None:
        return
    candidate = Candidate(component="driver", version=driver, release=row)
    answers: dict[str, list[bool]] = {}
    rows: HostRows | None = None
    for product in matrix.products:
        question = _question(matrix, host, product, rows)
        rows = question.offers.rows
        answers.setdefault((gpu_of(product).pci_id or "").lower(), []).append(_is_for(question, candidate, flavour))
    yield from (device for device, fits in answers.items() if all(fits))


def _question(matrix: Matrix, host: Host, product: GpuProduct, rows: HostRows | None) -> Question:
    here = msgspec.structs.replace(host, gpus=(gpu_of(product),), installed={}, module=None, described=True)
    request = Request(requirements=(Requirement(component="driver"),))
    return Question(matrix, here, request, mode="check", rows=rows)


def _is_for(question: Question, candidate: Candidate, flavour: Flavour) -> bool:
    return (
        Refusals(question).first_by_host(candidate) is None
        and flavour in flavours(question, candidate.version)
        and next(unknown_rules(question, candidate, {}), None) is None
        and evidence(question, question.host.gpus[0], candidate).kind in _PROVEN
    )
