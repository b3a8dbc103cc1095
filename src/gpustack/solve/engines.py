"""What the tables say about the video engines of a GPU, and about the versions that a question names."""

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.solve.question import Question


class EngineRow(Struct, frozen=True, kw_only=True):
    """What a product (of one device), a Jetson's module, or the vendor's support matrix says about video engines."""

    name: str
    device: str = ""
    subsystem: str = ""
    devices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    encode: str = ""
    decode: str = ""
    sessions: str = ""
    src: tuple[str, ...] = ()


def rows_of(matrix: Matrix, gpu: Gpu) -> list[EngineRow]:
    """The rows for this GPU in the tables of products and of the support matrix."""
    products = matrix.rows("gpus", "products", EngineRow)
    device = (gpu.pci_id or "").replace("10de:", "0x")
    if device:
        same = [row for row in products if row.device == device]
        found = [row for row in same if (row.subsystem or None) == gpu.subsystem_id] or same
    else:
        name = (gpu.name or "").lower().removeprefix("nvidia ")
        everything = (*products, *matrix.rows("gpus", "integrated", EngineRow))
        found = [row for row in everything if name in {row.name.lower(), *map(str.lower, row.aliases)}]
    ids = {device, f"{device}/{gpu.subsystem_id}"} - {""}
    boards = matrix.rows("nvenc", "gpus", EngineRow)
    return [*found, *(row for row in boards if ids.intersection(row.devices) or row.name == gpu.name)]


def versions_of(question: Question, component: str) -> tuple[str, ...]:
    """The requested versions of a component, or the installed one."""
    if component not in question.asked and component not in question.host.installed:
        return ()
    return tuple(candidate.version for candidate in question.candidates(component))


def names_of(gpus: tuple[Gpu, ...] | list[Gpu]) -> str:
    """The names of GPUs, each once."""
    return ", ".join(dict.fromkeys(gpu.called for gpu in gpus))
