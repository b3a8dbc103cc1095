"""What verify built and kept: engines and the ONNX file, each with a note of what it is, for model repositories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from gpustack.errors import DocumentError, UsageError
from gpustack.system.files import write_atomically
from gpustack.system.hashed import sha256_of_file
from gpustack.triton.engine import same_release

_NOTE = ".about.json"
_VERIFY = "`gpustack verify tensorrt --level smoke --artifacts DIR` fills such a folder"


class Artifact(Struct, frozen=True, kw_only=True):
    """A kept file. ``kind`` is "onnx", "tensorrt" or "tensorrt-rtx"; ``version`` is that of what built it.

    ``compute_capability`` is that of the GPU that it was built for, "" where it runs on any. ``file`` is a plain name.
    """

    file: str
    kind: str
    sha256: str
    network: str
    version: str = ""
    compute_capability: str = ""


def keep(  # noqa: PLR0913 (the source, and what its note tells)
    folder: Path, source: Path, kind: str, network: str, *, version: str = "", capability: str = ""
) -> Path:
    """Copy ``source`` into ``folder`` under a name that tells what it is, and its note beside it. Raises OSError.

    Files of several machines go together in one folder: each has a name and a note of its own.
    """
    ending = ".onnx" if kind == "onnx" else ".engine"
    parts = [network, *(() if kind == "onnx" else (kind, version, f"cc{capability}" if capability else ""))]
    place = folder / f"{'-'.join(part for part in parts if part)}{ending}"
    folder.mkdir(parents=True, exist_ok=True)
    staged = folder / f".{place.name}.partial"
    shutil.copyfile(source, staged)
    note = Artifact(
        file=place.name,
        kind=kind,
        sha256=sha256_of_file(staged),
        network=network,
        version=version,
        compute_capability=capability,
    )
    staged.replace(place)
    write_atomically(folder / f"{place.name}{_NOTE}", json.dumps(msgspec.to_builtins(note), indent=1) + "\n")
    return place


def kept_in(folder: Path) -> tuple[Artifact, ...]:
    """Everything that was kept in ``folder``, each file as it was kept.

    Raises DocumentError (exit 2) where nothing was, a note cannot be read, or a file is not the one that was kept.
    """
    found: list[Artifact] = []
    for place in sorted(folder.glob(f"*{_NOTE}")):
        try:
            one = msgspec.json.decode(place.read_bytes(), type=Artifact)
        except (msgspec.DecodeError, OSError) as exc:
            msg = f"the note cannot be read: {exc}"
            raise DocumentError(msg, code="unreadable-note", where=str(place), hint=_VERIFY) from exc
        path = folder / one.file
        if Path(one.file).name != one.file or not path.is_file() or sha256_of_file(path) != one.sha256:
            msg = f"{one.file} is not there, or not the file that was kept (sha256 {one.sha256})"
            raise DocumentError(msg, code="unreadable-note", where=str(folder), hint=_VERIFY)
        found.append(one)
    if not found:
        msg = "nothing that verify kept is here"
        raise DocumentError(msg, code="unreadable-note", where=str(folder), hint=_VERIFY)
    return tuple(found)


class Chosen(Struct, frozen=True, kw_only=True):
    """What a server gets: ``files`` by compute capability ("" for any), and why others are left out."""

    platform: str
    files: dict[str, Path]
    left_out: tuple[str, ...] = ()


def choose(folder: Path, release: str, tensorrt: str) -> Chosen:
    """Of what was kept in ``folder``, that which the server of ``release`` with that ``tensorrt`` ("" unknown) loads.

    Engines of its own TensorRT come first, one for each compute capability; else the ONNX file, which any runs.
    Raises UsageError (exit 2) where nothing fits, with the reason of each.
    """
    kept = kept_in(folder)
    engines: dict[str, Path] = {}
    left_out: list[str] = []
    for one in kept:
        if one.kind == "tensorrt-rtx":
            left_out.append(f"{one.file}: no Triton serves engines of TensorRT-RTX")
        elif one.kind == "tensorrt" and (not tensorrt or same_release(one.version, tensorrt) is False):
            has = f"Triton {release} has {tensorrt}" if tensorrt else f"no fact tells which one Triton {release} has"
            left_out.append(f"{one.file}: built by TensorRT {one.version}, and {has}")
        elif one.kind == "tensorrt":
            engines[one.compute_capability] = folder / one.file
    if engines:
        return Chosen(platform="tensorrt_plan", files=engines, left_out=tuple(left_out))
    onnx = next((folder / one.file for one in kept if one.kind == "onnx"), None)
    if onnx is None:
        msg = f"nothing here is for Triton {release}: {'; '.join(left_out)}"
        raise UsageError(
            msg,
            code="nothing-for-release",
            where=str(folder),
            hint="build with the TensorRT of that release, or keep the ONNX file",
        )
    return Chosen(platform="onnxruntime_onnx", files={"": onnx}, left_out=tuple(left_out))
