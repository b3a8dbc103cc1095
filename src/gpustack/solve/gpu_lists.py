"""The GPU lists of driver releases, arranged for look-up by device."""

from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Literal

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu
from gpustack.model.places import GpuProduct
from gpustack.patterns import later
from gpustack.versions import version

EvidenceKind = Literal[
    "runs-here", "open-list", "own-list", "changelog", "unlisted", "open-list-only", "no-list", "older"
]
"""The evidence on a GPU and a driver release."""

SUBJECT = "gpu-lists"
LISTS_BEGIN = "2022-08-01"
"""GPUs in the lists of this day are older than the lists that were read."""

LEAD_OF_WINDOWS = timedelta(days=60)
"""So much earlier than the first release for Linux one for Windows may support a GPU: RTX 5090 had six weeks."""

_MOBILE = later(r"(?i)laptop|mobile|max-?q")

Found = tuple[EvidenceKind, tuple[str, ...], tuple[str, ...]]
"""The kind of evidence, the releases from which the GPU is listed, and the sources."""


class DeviceLists(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first release of each branch whose list names a device: of the open modules, and the driver's own."""

    device: str
    open: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    src: tuple[str, ...] = ()


class BranchRead(Struct, frozen=True, kw_only=True):
    """A driver branch whose lists were read, from the release ``first`` to the release ``last``."""

    list: Literal["open", "own"]
    branch: str
    first: str
    last: str


class ListBook:
    """The lists of one matrix, arranged for look-up by device."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self.devices = {row.device.removeprefix("0x"): row for row in matrix.rows(SUBJECT, "devices", DeviceLists)}
        self.read: dict[str, dict[int, BranchRead]] = {"open": {}, "own": {}}
        for row in matrix.rows(SUBJECT, "branches", BranchRead):
            self.read[row.list][int(row.branch)] = row

    def lookup(self, gpu: Gpu, driver: str) -> Found:
        """The kind of evidence, the releases from which the GPU is listed, and the sources.

        Of several devices with its name the one that is listed first decides, unlisted ones do not.
        """
        found = [self._lookup(device, gpu.subsystem_id or "", driver) for device in self._devices_of(gpu)]
        some = [one for one in found if one[0] != "no-list"]
        listed = [one for one in some if one[0] != "unlisted"]
        if listed or not some:
            return next(iter(listed), ("no-list", (), ()))
        return min(some, key=lambda one: min(map(version, one[1])))

    def _devices_of(self, gpu: Gpu) -> tuple[str, ...]:
        """The device id of a GPU, or those of all products that its name stands for."""
        ids = (gpu.pci_id,) if gpu.pci_id else gpu.devices or ()
        return tuple(one.rpartition(":")[2].lower() for one in ids)

    def _lookup(self, device: str, subsystem: str, driver: str) -> Found:
        row = self.devices.get(device, DeviceLists(device=device))
        board = self.boards.get((device, subsystem)) if subsystem else None
        if board is not None and version(driver) < version(board.driver_listed):
            return "unlisted", (board.driver_listed,), board.src
        if self._names("open", row.open, driver):
            return "open-list", row.open, row.src
        if self._names("own", row.own, driver):
            return "own-list", row.own, row.src
        product = self.stated.get(device)
        if product is not None and version(driver) >= version(product.driver_listed):
            return "changelog", (product.driver_listed,), product.src
        if row.open:
            return "unlisted", row.open, row.src
        return ("unlisted", (product.driver_listed,), product.src) if product is not None else ("no-list", (), ())

    @cached_property
    def stated(self) -> dict[str, GpuProduct]:
        """Products that a changelog, a guide, a withdrawn list or a beta names before every list does, by device."""
        betas = {row.version for row in self._matrix.releases("driver") if row.status == "beta"}
        return {
            _device(row): row
            for row in self._matrix.products
            if row.driver_listed
            and (
                not row.open_listed
                or version(row.driver_listed) < version(row.open_listed)
                or _device(row) not in self.devices
                or (row.driver_listed in betas and self._is_first(row.driver_listed, self.devices[_device(row)]))
            )
        }

    @staticmethod
    def _is_first(driver: str, row: DeviceLists) -> bool:
        """Whether a release is older than all that the lists, which were read of final releases, name."""
        return all(version(driver) < version(first) for first in (*row.open, *row.own))

    @cached_property
    def boards(self) -> dict[tuple[str, str], GpuProduct]:
        """Boards that are listed later than another one with the same device id."""
        return {
            (_device(row), row.subsystem): row
            for row in self._matrix.products
            if row.subsystem and row.open_listed and version(row.open_listed) < version(row.driver_listed or "0")
        }

    def before_launch(self, gpu: Gpu) -> tuple[str, str, tuple[str, ...]]:
        """What a GPU is younger than, in words, a day before which no release for Windows knew it, and the sources.

        The later of the day on which NVIDIA presented the GPU, and of the first release for Linux that lists it less
        :data:`LEAD_OF_WINDOWS`. Laptops come with drivers of their makers, which are ahead of those lists, and lists
        that began after the GPU prove nothing. ("", "", ()) if neither is known.
        """
        found = [self._before(device, gpu) for device in self._devices_of(gpu)]
        begin, what, src = min((one for one in found if one[0]), default=("", "", ()))
        return what, begin, src

    def _before(self, device: str, gpu: Gpu) -> tuple[str, str, tuple[str, ...]]:
        row, product = self.devices.get(device, DeviceLists(device=device)), self.stated.get(device)
        firsts = [*row.open, *row.own, *([product.driver_listed or ""] if product is not None else [])]
        days = sorted((day, text) for text in firsts if (day := self._dates.get(text, "")))
        found: list[tuple[str, str, tuple[str, ...]]] = []
        if days and days[0][0] >= LISTS_BEGIN and not _MOBILE.search(gpu.name or ""):
            day, first = days[0]
            begin = (date.fromisoformat(day) - LEAD_OF_WINDOWS).isoformat()
            src = row.src or (product.src if product is not None else ())
            found.append((begin, f"driver {first}, the first one for Linux that lists {gpu.called}", src))
        shown = self.announced.get((device, gpu.subsystem_id or "")) or self.announced.get((device, ""))
        if shown is not None:
            found.append((shown.announced, f"{gpu.called}, which NVIDIA presented on {shown.announced}", shown.src))
        return max(found, default=("", "", ()))

    @cached_property
    def announced(self) -> dict[tuple[str, str], GpuProduct]:
        """The products whose day of presentation is known, by device and subsystem."""
        return {(_device(row), row.subsystem): row for row in self._matrix.products if row.announced}

    def windows_day(self, driver: str) -> str:
        """A day on which a release for Windows was there: that of the first dated one of its branch, from it on."""
        branch = driver.partition(".")[0]
        return min(
            (
                row.date
                for row in self._matrix.releases("driver")
                if row.date and "windows" in row.os and row.version.partition(".")[0] == branch
                if version(row.version) >= version(driver)
            ),
            default="",
        )

    @cached_property
    def _dates(self) -> dict[str, str]:
        return {row.version: row.date for row in self._matrix.releases("driver")}

    def _names(self, kind: str, firsts: tuple[str, ...], driver: str) -> bool:
        """Whether a list names the device for this release: that of its branch, or of an earlier one."""
        if not firsts:
            return False
        first = {int(text.partition(".")[0]): text for text in firsts}
        branch, read = int(driver.partition(".")[0]), self.read[kind]
        own = read.get(branch)
        if own is not None and version(driver) >= version(own.first):
            if branch in first:
                return version(driver) >= version(first[branch])
            # Newer than all known lists of its branch: it supports what was listed elsewhere since then.
            return version(driver) > version(own.last) and self._is_after(firsts, branch, own.last)
        nearest = max((number for number in read if number < branch), default=None)
        return nearest is not None and (nearest in first or self._is_after(firsts, branch, read[nearest].last))

    def _is_after(self, firsts: tuple[str, ...], branch: int, last: str) -> bool:
        """Whether a release of an earlier branch, not older than ``last``, is one of these."""
        dates = self._dates
        day = dates.get(last, "")
        return bool(day) and any(dates.get(text, "") >= day for text in firsts if int(text.partition(".")[0]) < branch)


def _device(row: GpuProduct) -> str:
    return row.device.lower().removeprefix("0x")


@lru_cache(maxsize=4)
def list_book(matrix: Matrix) -> ListBook:
    """The list book of a matrix, built once."""
    return ListBook(matrix)
