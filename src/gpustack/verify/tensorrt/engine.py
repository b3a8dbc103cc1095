"""What an engine file tells without being run: which TensorRT wrote it, for which GPUs, and whether it is whole."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from gpustack.versions import version

HEADER = 40
_RTX_TARGETS = {1: "7.5", 2: "8.0", 4: "8.6", 8: "8.9", 16: "12.0", 32: "12.1", 64: "newer than 12.1"}
"""The bits by which TensorRT-RTX 1.7 marks the compute capabilities that an engine is for (seen in its own builds)."""


_NEXT = {(8, 10), (9, 10), (10, 11)}
"""Major releases that load version-compatible engines of the one before; 9 was for a few products only."""


class Engine(Struct, frozen=True, kw_only=True):
    """An engine file. ``kind`` is "tensorrt" or "tensorrt-rtx"; ``fault`` says what is wrong with the file itself.

    ``targets`` are the compute capabilities that it was built for; () where the file does not tell.
    """

    kind: str = ""
    version: str = ""
    size: int = 0
    targets: tuple[str, ...] = ()
    fault: str = ""

    @property
    def called(self) -> str:
        name = {"tensorrt": "TensorRT", "tensorrt-rtx": "TensorRT-RTX"}.get(self.kind, "unknown")
        return f"engine of {name} {self.version or 'of unknown version'}"


def read_engine(path: Path) -> Engine:
    """Read the head of the engine file at ``path``. Raises OSError where it cannot be read."""
    with path.open("rb") as stream:
        head = stream.read(HEADER)
    return engine_of(head, path.stat().st_size)


def engine_of(head: bytes, size: int) -> Engine:
    """What the first bytes of an engine file tell; ``size`` is the whole file's.

    Laid out as the file's tag, the form of the serialization, the length of the whole, and TensorRT's version in four
    bytes at 24 (as trtexec --getPlanVersionOnly reads it); TensorRT-RTX's tag differs and its targets follow at 32.
    """
    kind = {b"ftrt": "tensorrt", b"vtrt": "tensorrt-rtx"}.get(head[:4], "")
    if size == 0:
        return Engine(size=size, fault="the file is empty")
    if not kind:
        return Engine(size=size, fault=f"this is no TensorRT engine{_likely(head)}")
    if len(head) < HEADER:
        return Engine(kind=kind, size=size, fault=f"the file ends inside its header, after {size} bytes")
    number = ".".join(str(one) for one in head[24:28])
    length = int.from_bytes(head[16:24], "little")
    bits = int.from_bytes(head[32:40], "little") if kind == "tensorrt-rtx" else 0
    targets = tuple(name for bit, name in _RTX_TARGETS.items() if bits & bit)
    fault = ""
    if HEADER < length < 1 << 48 and length > size:
        fault = f"the file is cut off: it holds {size} of {length} bytes"
    return Engine(kind=kind, version=number, size=size, targets=targets, fault=fault)


def _likely(head: bytes) -> str:
    if head[:2] == b"PK":
        return ", it is a zip archive"
    if head[:1] == b"\x08" and b"\x12" in head[:4]:
        return ", it looks like an ONNX file: build an engine from it first"
    if head[:20].startswith(b"version https://git-"):
        return ", it is a pointer of Git LFS: fetch the file itself (`git lfs pull`)"
    return ""


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether an engine goes with a TensorRT and a GPU: ``reason`` says why not, or on what it depends."""

    fits: bool
    reason: str = ""
    cure: str = ""


def judge_engine(engine: Engine, library: str, capability: str | None, place: str) -> Verdict:
    """Whether ``engine`` loads with the TensorRT ``library`` at ``place`` on a GPU of ``capability`` (None: unknown).

    An engine runs on the exact release that built it; across one major release only where it was built
    version-compatible, which the header does not tell; across two never.
    """
    if engine.fault:
        return Verdict(fits=False, reason=engine.fault, cure="build the engine again, or copy the file anew")
    rebuild = f"build it again with TensorRT {library} on {place}"
    if engine.kind == "tensorrt-rtx":
        return _rtx(engine, capability)
    if capability and engine.targets and capability not in engine.targets:
        own = ", ".join(engine.targets)
        return Verdict(
            fits=False,
            reason=f"it was built for compute capability {own}; the GPU of {place} has {capability}",
            cure=rebuild,
        )
    if not engine.version:
        return Verdict(fits=False, reason="it does not tell its TensorRT version", cure=rebuild)
    mine, theirs = version(engine.version), version(library)
    if mine.numbers[:3] == theirs.numbers[:3]:
        return Verdict(fits=True)
    has = f"it was built by TensorRT {engine.version}, and {place} has {library}"
    majors = (mine.numbers[0], theirs.numbers[0])
    if majors[0] == majors[1] or (majors in _NEXT and mine >= version("8.6")):
        return Verdict(
            fits=False,
            reason=f"{has}: it loads only if it was built version-compatible (--versionCompatible)",
            cure=rebuild,
        )
    return Verdict(fits=False, reason=f"{has}: no engine is carried over that far", cure=rebuild)


def _rtx(engine: Engine, capability: str | None) -> Verdict:
    if capability is None:
        return Verdict(fits=True, reason="an engine of TensorRT-RTX is compiled anew on the GPU that runs it")
    able = [one for one in engine.targets if one[0].isdigit()]
    newer = any(one.startswith("newer") for one in engine.targets)
    if capability in able or (newer and version(capability) > version("12.1")):
        return Verdict(fits=True)
    return Verdict(
        fits=False,
        reason=f"it is for compute capability {', '.join(engine.targets) or 'unknown'}; this GPU has {capability}",
        cure="build it for this GPU, or use TensorRT itself where TensorRT-RTX does not know the GPU",
    )
