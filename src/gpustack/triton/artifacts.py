"""Files that verify built and kept: engines and the ONNX file, each with a description, for model repositories."""

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
_VERIFY = "create such a folder: `gpustack verify tensorrt --level smoke --artifacts DIR`"


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


def keep_file(  # noqa: PLR0913 (the source, and its description)
    folder: Path, source: Path, kind: str, network: str, *, version: str = "", capability: str = ""
) -> Path:
    """Copy ``source`` into ``folder`` under a descriptive name, with its description. Raises OSError.

    One folder can hold files of several machines: each has its own name and description.
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


def read_kept(folder: Path) -> tuple[Artifact, ...]:
    """Every file kept in ``folder``, unchanged.

    Raises DocumentError (exit 2) without one, a description cannot be read, or a file was changed.
    """
    found: list[Artifact] = []
    for place in sorted(folder.glob(f"*{_NOTE}")):
        try:
            one = msgspec.json.decode(place.read_bytes(), type=Artifact)
        except (msgspec.DecodeError, OSError) as exc:
            msg = f"the description cannot be read: {exc}"
            raise DocumentError(msg, code="unreadable-note", where=str(place), hint=_VERIFY) from exc
        path = folder / one.file
        if Path(one.file).name != one.file or not path.is_file() or sha256_of_file(path) != one.sha256:
            msg = f"{one.file} is missing or was changed (expected sha256 {one.sha256})"
            raise DocumentError(msg, code="unreadable-note", where=str(folder), hint=_VERIFY)
        found.append(one)
    if not found:
        msg = "the folder has no artifacts of gpustack verify"
        raise DocumentError(msg, code="unreadable-note", where=str(folder), hint=_VERIFY)
    return tuple(found)


class Chosen(Struct, frozen=True, kw_only=True):
    """The files for a server: ``files`` by compute capability ("" for any), and why others were skipped."""

    platform: str
    files: dict[str, Path]
    skipped: tuple[str, ...] = ()


def choose_files(folder: Path, release: str, tensorrt: str) -> Chosen:
    """The kept files in ``folder`` that a server of ``release`` with that ``tensorrt`` ("" unknown) loads.

    Engines of its own TensorRT come first, one for each compute capability; else the ONNX file, which every server
    runs. Raises UsageError (exit 2) where no file is compatible, with the reason for each.
    """
    kept = read_kept(folder)
    engines: dict[str, Path] = {}
    skipped: list[str] = []
    for one in kept:
        if one.kind == "tensorrt-rtx":
            skipped.append(f"{one.file}: Triton does not support engines of TensorRT-RTX")
        elif one.kind == "tensorrt" and (not tensorrt or same_release(one.version, tensorrt) is False):
            has = f"Triton {release} has {tensorrt}" if tensorrt else f"the TensorRT of Triton {release} is unknown"
            skipped.append(f"{one.file}: built by TensorRT {one.version}, but {has}")
        elif one.kind == "tensorrt":
            engines[one.compute_capability] = folder / one.file
    if engines:
        return Chosen(platform="tensorrt_plan", files=engines, skipped=tuple(skipped))
    onnx = next((folder / one.file for one in kept if one.kind == "onnx"), None)
    if onnx is None:
        msg = f"no file is compatible with Triton {release}: {'; '.join(skipped)}"
        raise UsageError(
            msg,
            code="nothing-for-release",
            where=str(folder),
            hint="build with the TensorRT of that release, or add the ONNX file",
        )
    return Chosen(platform="onnxruntime_onnx", files={"": onnx}, skipped=tuple(skipped))
