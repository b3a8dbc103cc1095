"""What the video engines of a GPU support, and how many sessions it allows."""

from __future__ import annotations

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.versions import version

_ABILITIES = ("h264_444", "hevc_444", "hevc_10bit")
CODECS = ("h264", "hevc", "av1")


class ProductEngines(Struct, frozen=True, kw_only=True):
    """The columns of a GPU product about its video engines."""

    device: str
    name: str = ""
    subsystem: str = ""
    chip: str = ""
    nvenc: int | None = None
    encode: str = ""


class EncodeClass(Struct, frozen=True, kw_only=True):
    """What an encoder of one class supports."""

    id: str
    h264_420: bool = False
    hevc_420: bool = False
    av1_420: bool = False
    h264_444: bool = False
    hevc_444: bool = False
    hevc_10bit: bool = False


class BoardRow(Struct, frozen=True, kw_only=True):
    """A board of the support matrix: how many sessions it allows."""

    name: str
    sessions: str = ""
    nvenc: int | None = None
    devices: tuple[str, ...] = ()


class SessionLimit(Struct, frozen=True, kw_only=True):
    """A limit on encode sessions and the first drivers with it."""

    limit: int
    driver_linux: str = ""
    driver_windows: str = ""


class Chip(Struct, frozen=True, kw_only=True):
    """The video engines of one GPU. ``codecs`` are those that its encoder supports, None if unknown.

    ``abilities`` are the formats beyond 8 bits and 4:2:0 that it encodes ("hevc_10bit"), None if unknown.

    ``sessions`` is "unrestricted", a number, or "" if the board is not in the tables.
    """

    name: str
    nvenc: int | None = None
    nvdec: int | None = None
    codecs: tuple[str, ...] | None = None
    sessions: str = ""
    abilities: frozenset[str] | None = None

    @property
    def why_no_nvenc(self) -> str:
        """Why nothing can be encoded, as a sentence; "" where the GPU has an encoder or may have one."""
        return f"{self.name} has no NVENC (no hardware encoder)" if self.nvenc == 0 else ""


def chip_of(matrix: Matrix, gpu: Gpu) -> Chip:
    """What the tables know of the video engines of ``gpu``."""
    device = (gpu.pci_id or "").partition(":")[2].lower()
    row = _product(matrix, device, gpu)
    board = next((one for one in matrix.rows("nvenc", "gpus", BoardRow) if _is_board(one, device, gpu)), None)
    kind = row.encode if row else ""
    own = next((one for one in matrix.rows("nvenc", "encode_classes", EncodeClass) if one.id == kind), None)
    nvenc = gpu.nvenc if gpu.nvenc is not None else (row.nvenc if row else None)
    codecs = None if own is None else tuple(name for name in CODECS if getattr(own, f"{name}_420"))
    return Chip(
        name=gpu.called,
        nvenc=nvenc,
        nvdec=gpu.nvdec,
        codecs=() if nvenc == 0 else codecs,
        sessions=board.sessions if board else "",
        abilities=None if own is None else frozenset(name for name in _ABILITIES if getattr(own, name)),
    )


def _product(matrix: Matrix, device: str, gpu: Gpu) -> ProductEngines | None:
    rows = [one for one in matrix.rows("gpus", "products", ProductEngines) if _digits(one.device) == device]
    exact = [one for one in rows if one.subsystem and one.subsystem == gpu.subsystem_id]
    named = [one for one in rows if one.name == gpu.name]
    return next(iter(exact or named or rows), None)


def _is_board(row: BoardRow, device: str, gpu: Gpu) -> bool:
    for one in row.devices:
        digits, slash, subsystem = one.partition("/")
        if device and _digits(digits) == device and (not slash or subsystem == gpu.subsystem_id):
            return True
    return False


def _digits(device: str) -> str:
    return device.lower().removeprefix("0x")


def session_limit(matrix: Matrix, chip: Chip, driver: str | None, system: str = "linux") -> int | None:
    """How many encode sessions this system allows with ``driver``; None: no limit, or none is known."""
    if not chip.sessions.isdigit():
        return None
    limits = [
        row.limit
        for row in matrix.rows("nvenc", "session_limits", SessionLimit)
        if (first := row.driver_windows if system == "windows" else row.driver_linux)
        and driver is not None
        and version(driver) >= version(first)
    ]
    return max(limits, default=None)
