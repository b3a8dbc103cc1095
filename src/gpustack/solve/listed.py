"""Whether NVIDIA lists a GPU in a driver release, and where: tables of the open modules, the driver's list.

A list that names a device is proof. Its absence is a doubt only if the list names all GPUs that the
release supports: for GPUs that require the open modules, for architectures whose lists are known to be complete,
and for requests for the open modules. Elsewhere the proprietary modules may support what the list omits.
"""

from collections.abc import Mapping

from msgspec import Struct

from gpustack.model.host import Gpu
from gpustack.model.resolution import Unknown
from gpustack.solve.gpu_lists import EvidenceKind, list_book
from gpustack.solve.question import Candidate, Question
from gpustack.versions import version


class ArchitectureRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the GPU facts say about an architecture's lists: ``lists_whole`` if they name every supported GPU."""

    id: str
    lists_whole: bool = False
    src: tuple[str, ...] = ()


class Evidence(Struct, frozen=True, kw_only=True):
    """The evidence on a GPU and a driver release. ``first`` are the releases from which NVIDIA lists the GPU.

    ``is_decisive`` is true if only what the lists name is supported.
    """

    kind: EvidenceKind
    gpu: Gpu
    driver: str
    is_decisive: bool = False
    first: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def doubt(self) -> str:
        """Why nothing is known about this pair, "" if something is."""
        if self.kind == "older":
            return (
                f"driver=={self.driver}: it is older than {self.first[0]}, and no list of a driver for Windows was read"
            )
        if self.kind != "unlisted":
            return ""
        return (
            f"driver=={self.driver}: NVIDIA lists {self.gpu.called} from {_name_first_release(self.first, self.driver)}"
        )

    @property
    def remark(self) -> str:
        """A remark on a pair that is judged by its architecture; "" without one."""
        name = self.gpu.called
        if self.kind == "open-list-only":
            first = _name_first_release(self.first, self.driver)
            known = (
                f"NVIDIA's changelog names it from {first}, which proves nothing: it omits drivers for data centres"
                if self.gpu.open_module == "impossible"
                else f"NVIDIA lists it for the open kernel modules from {first}, which proves nothing for the"
                " proprietary ones"
            )
            return f"no list that was read names {name} for driver {self.driver}; {known}"
        if self.kind == "no-list" and self.is_decisive and self.gpu.pci_id:
            return f"none of NVIDIA's lists of GPUs that were read names {name} for any driver"
        return ""


def evidence(question: Question, gpu: Gpu, candidate: Candidate) -> Evidence:
    """The evidence on this GPU and this driver release for Linux, besides the window of the architecture."""
    book = list_book(question.matrix)
    driver = candidate.version
    if candidate.is_installed and gpu.bound == "nvidia":
        return Evidence(kind="runs-here", gpu=gpu, driver=driver)
    kind, first, src = book.lookup(gpu, driver)
    is_decisive = _is_decisive(question, gpu)
    if kind == "unlisted" and not is_decisive:
        kind = "open-list-only"
    return Evidence(kind=kind, gpu=gpu, driver=driver, is_decisive=is_decisive, first=first, sources=src)


def unlisted_gpus(question: Question, picks: Mapping[str, Candidate]) -> list[Unknown]:
    """GPUs that NVIDIA lists from a later driver release on."""
    return [
        Unknown(reason=one.doubt, sources=question.matrix.addresses(one.sources))
        for candidate in picks.values()
        for one in doubts(question, candidate)
    ]


def doubts(question: Question, candidate: Candidate) -> tuple[Evidence, ...]:
    """The host's GPUs that are missing in NVIDIA's lists for this driver release although these name all."""
    return tuple(one for one in _of_host(question, candidate) if one.doubt)


def remarks(question: Question, candidate: Candidate) -> tuple[str, ...]:
    """What the lists leave open for GPUs that the proprietary modules support as well."""
    return tuple(dict.fromkeys(one.remark for one in _of_host(question, candidate) if one.remark))


def _of_host(question: Question, candidate: Candidate) -> list[Evidence]:
    if candidate.component != "driver" or question.host.environment == "jetson" or not candidate.is_known:
        return []
    if question.view.system("driver") != "linux":
        found = [_on_windows(question, gpu, candidate.version) for gpu in question.host.gpus]
        return [one for one in found if one is not None]
    return [evidence(question, gpu, candidate) for gpu in question.host.gpus]


def _on_windows(question: Question, gpu: Gpu, driver: str) -> Evidence | None:
    """That a release for Windows is older than the GPU; None if it is not, or nobody can tell."""
    book = list_book(question.matrix)
    first, begin, src = book.before_launch(gpu)
    day = book.windows_day(driver) if begin else ""
    if not day or day >= begin:
        return None
    return Evidence(kind="older", gpu=gpu, driver=driver, first=(first,), sources=src)


def _is_decisive(question: Question, gpu: Gpu) -> bool:
    """Whether a GPU that is missing in the list is unsupported."""
    if gpu.open_module == "required" or question.request.kernel_module == "open":
        return True
    rows = question.matrix.rows("gpus", "architectures", ArchitectureRow)
    return any(row.lists_whole and row.id == (gpu.architecture or "").lower() for row in rows)


def _name_first_release(first: tuple[str, ...], driver: str) -> str:
    """The first release that lists a GPU, in words: of the driver's branch, else of the next one that has any."""
    branch = driver.partition(".")[0]
    own = next((text for text in first if text.partition(".")[0] == branch), "")
    later = next((text for text in first if version(text) > version(driver)), "")
    if own or later:
        return f"{own or later} on"
    return f"{first[-1]} on, and not in branch {branch} as far as its lists were read"
