"""What the header of an engine file contains: the TensorRT that wrote it, its GPUs, and whether the file is intact."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from gpustack.versions import version

HEADER = 40
_HEAD = 512
_PARTS = range(1, 9)
_RTX_TARGETS = {1: "7.5", 2: "8.0", 4: "8.6", 8: "8.9", 16: "12.0", 32: "12.1", 64: "newer than 12.1"}
"""The bits by which TensorRT-RTX 1.7 marks the compute capabilities that an engine is for (seen in its own builds)."""


_NEXT = {(8, 10), (9, 10), (10, 11)}
"""Major releases that load version-compatible engines of the previous one; 9 was for a few products only."""


class Engine(Struct, frozen=True, kw_only=True):
    """An engine file. ``kind`` is "tensorrt" or "tensorrt-rtx"; ``fault`` says what is wrong with the file itself.

    ``targets`` are the compute capabilities that it was built for; () where the header has none. ``serialization``
    is the version of the engine's own format, 0 where the header does not contain it.
    """

    kind: str = ""
    version: str = ""
    serialization: int = 0
    size: int = 0
    targets: tuple[str, ...] = ()
    fault: str = ""

    @property
    def called(self) -> str:
        name = {"tensorrt": "TensorRT", "tensorrt-rtx": "TensorRT-RTX"}.get(self.kind, "unknown")
        return f"engine of {name} {self.version or '(unknown version)'}"


def read_engine(path: Path) -> Engine:
    """Read the header of the engine file at ``path``. Raises OSError where it cannot be read."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    return engine_of(head, path.stat().st_size)


def engine_of(head: bytes, size: int) -> Engine:
    """What the first bytes of an engine file contain; ``size`` is the whole file's.

    From 8.6 on: the file's tag, the form of the header, how many parts there are, the length of the whole, and
    TensorRT's version in four bytes at 24, where trtexec --getPlanVersionOnly reads it as long as the form is 0. At 32
    follows a table of the parts: a name, where the part begins, its length. Before 8.6, and inside such a part, the
    engine is an archive: a tag, and the serialization's number at 8. TensorRT-RTX has a tag of its own, targets at 32.
    """
    kind = {b"ftrt": "tensorrt", _ARCHIVE: "tensorrt", b"vtrt": "tensorrt-rtx"}.get(head[:4], "")
    if size == 0:
        return Engine(size=size, fault="the file is empty")
    if not kind:
        return Engine(size=size, fault=f"the file is not a TensorRT engine{_likely(head)}")
    if len(head) < HEADER:
        return Engine(kind=kind, size=size, fault=f"the file is truncated: it ends in its header, after {size} bytes")
    if head[:4] == _ARCHIVE:
        return Engine(kind=kind, size=size, serialization=_archive(head))
    number = ".".join(str(one) for one in head[24:28]) if _word(head, 4, 4) == 0 else ""
    length = _word(head, 16, 8)
    bits = _word(head, 32, 8) if kind == "tensorrt-rtx" else 0
    targets = tuple(name for bit, name in _RTX_TARGETS.items() if bits & bit)
    fault = ""
    if HEADER < length < 1 << 48 and length > size:
        fault = f"the file is truncated: it has {size} of {length} bytes"
    elif HEADER < length < size and kind == "tensorrt":
        fault = f"the file has {size - length} extra bytes after the engine, which TensorRT rejects"
    form = _serialization(head) if kind == "tensorrt" else 0
    return Engine(kind=kind, version=number, serialization=form, size=size, targets=targets, fault=fault)


_ARCHIVE = b"ptrt"
_PART = 24


def _word(head: bytes, place: int, length: int) -> int:
    return int.from_bytes(head[place : place + length], "little")


def _archive(data: bytes) -> int:
    return _word(data, 8, 8) if data[:4] == _ARCHIVE and _word(data, 8, 8) < 1 << 16 else 0


def _serialization(head: bytes) -> int:
    """The number of the serialization of the first part that is an archive; 0 where none begins within the head."""
    count = _word(head, 8, 8)
    for place in range(count if count in _PARTS else 0):
        found = _archive(head[_word(head, 32 + _PART * place + 8, 8) :])
        if found:
            return found
    return 0


def _likely(head: bytes) -> str:
    if head[:2] == b"PK":
        return "; it is a zip archive"
    if head[:1] == b"\x08" and b"\x12" in head[:4]:
        return "; it looks like an ONNX file: build an engine from it first"
    if head[:20].startswith(b"version https://git-"):
        return "; it is a Git LFS pointer: fetch the file itself (`git lfs pull`)"
    return ""


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether an engine is compatible with a TensorRT and a GPU, None where that is unknown.

    ``reason`` says why not, or what it depends on.
    """

    fits: bool | None
    reason: str = ""
    fix: str = ""


def judge_engine(engine: Engine, library: str, capability: str | None, place: str) -> Verdict:
    """Whether ``engine`` loads with the TensorRT ``library`` at ``place`` on a GPU of ``capability`` (None: unknown).

    An engine runs on the exact release that built it, down to the patch; across one major release only where it was
    built version-compatible, which the header does not contain; across two never. The version in the header is from
    the builder: loaders compare it, or its serialization version.
    """
    if engine.fault:
        return Verdict(fits=False, reason=engine.fault, fix="rebuild the engine, or copy the file again")
    rebuild = f"rebuild it with TensorRT {library} on {place}"
    if engine.kind == "tensorrt-rtx":
        return _rtx(engine, capability)
    if capability and engine.targets and capability not in engine.targets:
        own = ", ".join(engine.targets)
        return Verdict(
            fits=False,
            reason=f"it was built for compute capability {own}, but the GPU of {place} has {capability}",
            fix=rebuild,
        )
    if not engine.version:
        return Verdict(fits=None, reason="its header does not contain the TensorRT version that built it", fix=rebuild)
    same = same_release(engine.version, library)
    if same:
        return Verdict(fits=True)
    if same is None:
        known = f"it was built by TensorRT {engine.version}, and {place} has {library}"
        return Verdict(fits=None, reason=f"{known}: it loads only if the full versions are equal", fix=rebuild)
    mine, theirs = version(engine.version), version(library)
    has = f"it was built by TensorRT {engine.version}, but {place} has {library}"
    majors = (mine.numbers[0], theirs.numbers[0])
    if majors[0] == majors[1] or (majors in _NEXT and mine >= version("8.6")):
        return Verdict(
            fits=False,
            reason=f"{has}: it loads only if it was built version-compatible (--versionCompatible)",
            fix=rebuild,
        )
    return Verdict(fits=False, reason=f"{has}, which cannot load it", fix=rebuild)


_RELEASE = 3
"""Numbers of a release that must be equal: an engine of 10.0.0 does not load in 10.0.1."""


def same_release(one: str, other: str) -> bool | None:
    """Whether two versions are of one release of TensorRT; None where one has too few numbers to decide."""
    mine, theirs = version(one).numbers[:_RELEASE], version(other).numbers[:_RELEASE]
    known = min(len(mine), len(theirs))
    if mine[:known] != theirs[:known]:
        return False
    return True if known == _RELEASE else None


def _rtx(engine: Engine, capability: str | None) -> Verdict:
    if capability is None:
        return Verdict(fits=True, reason="an engine of TensorRT-RTX is compiled on the GPU that runs it")
    able = [one for one in engine.targets if one[0].isdigit()]
    newer = any(one.startswith("newer") for one in engine.targets)
    if capability in able or (newer and version(capability) > version("12.1")):
        return Verdict(fits=True)
    return Verdict(
        fits=False,
        reason=f"it was built for compute capability {', '.join(engine.targets) or 'unknown'}, but this GPU has"
        f" {capability}",
        fix="build it for this GPU, or use TensorRT if TensorRT-RTX does not support the GPU",
    )
