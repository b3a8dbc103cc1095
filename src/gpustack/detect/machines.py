"""Names that stand for more or less than a GPU: systems (DGX H100), cloud shapes (p5.48xlarge), MIG, vGPUs."""

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpustack.detect.gpu_names import merged, resolve_gpu, words_of
from gpustack.detect.products import Products, gpu_of
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.patterns import later

_MIG = later(r"(?i)(.+?)[ -]+MIG[ -]+((?:\d+c\.)?(\d+)g\.\d+gb(?:[+.][\w.+]+)?)")
_VGPU = later(r"(?i)(?:(?:NVIDIA|GRID|Tesla)[ -]+)*(.+?)-((?:\d+-)?\d+[ABCQ](?:ME\w*)?)")
_SEVERAL = later(r"(?P<first>[1-9]\d?)[ ]?[xX][ ]+(?P<before>.+)|(?P<after>.+)[ ]+[xX][ ]?(?P<last>[1-9]\d?)")
_LSPCI_ID = later(r"(?i)\[(10de:[0-9a-f]{4})\]|\bNVIDIA Corporation Device ([0-9a-f]{4})\b")
_LISTED = later(r"(?i).*\b\w+ \[(?P<name>[^\[\]]+)\](?: \(rev \w+\))?|GPU \d+: (?P<smi>[^()]+?) \(UUID: [\w-]+\)")
_AZURE = "standard_"
_SUBJECT = "gpu-names"
MAX_SLICES = 7
"""The most MIG slices of any GPU."""


class Machine(Struct, frozen=True, kw_only=True):
    """A system or cloud shape: ``count`` GPUs, of one of ``devices``. ``share`` vgpu: it gets parts of them."""

    name: str
    devices: tuple[str, ...]
    count: int
    arch: str
    share: str = ""


class _Board(Struct, frozen=True, kw_only=True):
    """The board in the name of a vGPU type, if that is not the name of a GPU."""

    board: str
    device: str


class _Processors(Struct, frozen=True, kw_only=True):
    """GPUs that are combined with processors of one architecture only, and why."""

    arch: str
    devices: tuple[str, ...]
    text: str


class Named(Struct, frozen=True):
    """What a name stands for: its GPUs, and the machine if it names one."""

    gpus: tuple[Gpu, ...]
    machine: Machine | None = None


def resolve(text: str, matrix: Matrix, products: Products) -> Named:
    """The GPUs that ``--gpu`` names: of a machine, a MIG instance, a vGPU, or whole ones ("8x H100 SXM").

    Raises UsageError.
    """
    text = _as_listed(text.strip())
    several = _SEVERAL.fullmatch(text)
    if several is not None:
        one = resolve(several["before"] or several["after"], matrix, products)
        return Named(one.gpus * int(several["first"] or several["last"]), one.machine)
    machine = _machine(text, matrix)
    if machine is not None:
        gpu = merged([gpu_of(row) for one in machine.devices if (row := products.find(one[2:], None))], machine.name)
        return Named(
            (_part(gpu, f"vGPU of {machine.name}") if machine.share == "vgpu" else gpu,) * machine.count, machine
        )
    part_of = _mig(text, products) or _vgpu(text, matrix, products)
    return Named((part_of or resolve_gpu(text, products),))


def _as_listed(text: str) -> str:
    """The name or the PCI id in a line of ``lspci`` or ``nvidia-smi -L``; any other text as it is."""
    if (device := _LSPCI_ID.search(text)) is not None:
        return device[1] or f"10de:{device[2]}"
    listed = _LISTED.fullmatch(text)
    return text if listed is None else listed["name"] or listed["smi"]


def _machine(text: str, matrix: Matrix) -> Machine | None:
    """The machine of this name, in any case; cloud shapes are spelled as the cloud spells them."""
    shape = text.lower().removeprefix(_AZURE)
    words = tuple(word for word in words_of(text) if word != "nvidia")
    for row in matrix.rows(_SUBJECT, "machines", Machine):
        if words_of(row.name) == words:
            return row
    rows = matrix.rows(_SUBJECT, "instances", Machine)
    return next((row for row in rows if row.name.lower().removeprefix(_AZURE) == shape), None)


def _mig(text: str, products: Products) -> Gpu | None:
    """The GPU behind a MIG instance, in the spelling of ``nvidia-smi``; None for other names."""
    match = _MIG.fullmatch(text)
    if match is None:
        return None
    gpu = resolve_gpu(match[1], products)
    row = products.find((gpu.pci_id or "").removeprefix("10de:"), None)
    most = MAX_SLICES if row is None or row.mig_max is None else row.mig_max
    if int(match[3]) > most:
        msg = f"{match[1]!r} has no MIG instance {match[2]!r}"
        fix = f"its profiles have 1 to {most} slices" if most else "this GPU cannot be partitioned by MIG"
        raise UsageError(msg, code="unknown-gpu", where="--gpu", hint=fix)
    least = _least_memory(gpu, int(match[3]), most)
    size = re.search(r"(\d+)gb", match[2])
    if size and int(size[1]) < least:
        msg = f"{match[1]!r} has no MIG instance {match[2]!r}"
        fix = f"an instance with {match[3]} of its slices has {least} GB or more"
        raise UsageError(msg, code="unknown-gpu", where="--gpu", hint=fix)
    return _part(gpu, f"MIG {match[2]}")


def _least_memory(gpu: Gpu, slices: int, most: int) -> int:
    """The least memory, in GB, of a MIG instance with so many slices; 0 if the memory of the GPU is unknown.

    GPUs with seven slices have eight parts of memory. A part loses up to a seventh to what the GPU keeps for itself.
    """
    parts = most + 1 if most == MAX_SLICES else most
    return int((gpu.memory_mib or 0) / 1024 / parts * slices * 6 / 7) if parts else 0


def _vgpu(text: str, matrix: Matrix, products: Products) -> Gpu | None:
    """The GPU behind a vGPU, in the spelling of ``nvidia-smi``; None for other names."""
    match = _VGPU.fullmatch(text)
    if match is None:
        return None
    boards = matrix.rows(_SUBJECT, "vgpu_boards", _Board)
    device = next((row.device for row in boards if row.board.lower() == match[1].lower()), None)
    gpu = resolve_gpu(f"10de:{device[2:]}" if device else match[1], products)
    return _part(gpu, f"vGPU {match[1]}-{match[2]}")


def _part(gpu: Gpu, part: str) -> Gpu:
    """A part of a GPU: its engines and memory are not those of the whole, except that none stay none."""
    nvenc, nvdec = (0 if count == 0 else None for count in (gpu.nvenc, gpu.nvdec))
    return replace(gpu, part=part, memory_mib=None, nvenc=nvenc, nvdec=nvdec)


def processor_of(gpu: Gpu, matrix: Matrix) -> tuple[str, str]:
    """The only architecture of hosts with this GPU, and why; "" if there are several."""
    if gpu.kind == "soc":
        return "aarch64", "is one chip with an Arm processor"
    device = f"0x{(gpu.pci_id or '').removeprefix('10de:')}"
    rows = matrix.rows(_SUBJECT, "processors", _Processors)
    return next(((row.arch, row.text) for row in rows if device in row.devices), ("", ""))


def demand_possible(arch: str | None, gpus: Iterable[Gpu], matrix: Matrix) -> None:
    """Refuse a host that cannot exist. Raises UsageError naming the possible architecture."""
    for gpu in gpus:
        needed, why = processor_of(gpu, matrix)
        if arch is not None and needed and needed != arch:
            msg = f"{gpu.called} {why}: no {arch} host has one"
            raise UsageError(msg, code="impossible-host", where="--gpu", hint=f"--arch {needed}")


def architecture_of(machines: Iterable[Machine]) -> str | None:
    """The common architecture of these machines; None without any. Raises UsageError if they differ."""
    found = {machine.arch: machine.name for machine in machines}
    if len(found) > 1:
        msg = f"{' and '.join(found.values())} are machines of different architectures ({', '.join(found)})"
        raise UsageError(msg, code="conflicting-options", where="--gpu", hint="name one machine")
    return next(iter(found), None)
