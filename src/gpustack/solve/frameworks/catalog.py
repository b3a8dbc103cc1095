"""The builds of frameworks for one platform: those of the default index, and those of PyTorch's own indexes."""

from __future__ import annotations

import re
from functools import cache

from msgspec.structs import replace

from gpustack.matrix.index import Matrix
from gpustack.model.frameworks import (
    INDEXES,
    LIBRARIES,
    Build,
    BuiltOn,
    Capability,
    Confined,
    NotNewer,
    PartnerCuda,
    PartnerTorch,
    PtxPart,
    SystemCudnn,
    Toolkit,
    Toolkits,
    Unjudged,
    Variant,
    pins,
)
from gpustack.model.host import Host
from gpustack.versions import is_within, version_key

_PAIRED = ("torchvision", "torchaudio")
_MAJOR = re.compile(r"cu(?:da)?(\d\d)(?:x|0)?\b")
"""cupy-cuda12x, nvidia-dali-cuda120, libcudf-cu12."""


def platform_of(host: Host) -> str:
    """The platform of a host in the words of wheels; "" if its architecture is unknown."""
    if host.arch not in {"x86_64", "aarch64"}:
        return host.arch or ""
    return f"{'windows' if host.os.family == 'windows' else 'linux'}-{host.arch}"


class Catalog:
    """The builds in the facts, newest first; those of one release with the default index's first."""

    def __init__(self, matrix: Matrix, platform: str = "") -> None:
        self.matrix = matrix
        self.platform = platform
        self._variants = cache(lambda: matrix.rows(INDEXES, "variants", Variant))
        self._found: dict[str, tuple[Build, ...]] = {}

    def builds(self, name: str) -> tuple[Build, ...]:
        """The builds of a framework for the platform, or for all without one."""
        if name not in self._found:
            mine = {self.platform, "any"}
            self._found[name] = self._sorted(name, mine) if self.platform else self.everywhere(name)
        return self._found[name]

    def everywhere(self, name: str) -> tuple[Build, ...]:
        """The builds of a framework for all platforms."""
        return self._sorted(name, {row.platform for row in self.rows(name)})

    def rows(self, name: str) -> tuple[Build, ...]:
        """The builds of the default index, in no order."""
        if name not in LIBRARIES:
            return tuple(one for row in self.matrix.builds(name) for one in self._where_it_runs(row))
        from gpustack.solve.frameworks.library_facts import library_builds  # noqa: PLC0415 (few ask about them)

        return library_builds(self.matrix, name)

    def _where_it_runs(self, row: Build) -> tuple[Build, ...]:
        """A wheel for any platform as one for each on which it runs, if the facts confine it."""
        only = self.confined(row) if row.platform == "any" else None
        return (row,) if only is None else tuple(replace(row, platform=one) for one in only.platforms)

    def confined(self, build: Build) -> Confined | None:
        """On which platforms alone a build runs, although its wheel may install elsewhere."""
        rows = self.matrix.rows(INDEXES, "confined", Confined)
        mine = (row for row in rows if row.component == build.component and is_within(build.version, row.versions))
        return next(mine, None)

    def _sorted(self, name: str, platforms: set[str]) -> tuple[Build, ...]:
        rows = [row for row in self.rows(name) if row.platform in platforms]
        more = [one for row in rows for one in self._of_other_indexes(row)] if name in ("torch", *_PAIRED) else []
        found = sorted((*rows, *more), key=lambda row: (not row.local, row.local), reverse=True)
        return tuple(sorted(found, key=lambda row: version_key(row.version), reverse=True))

    def _of_other_indexes(self, row: Build) -> list[Build]:
        """The same release in PyTorch's own indexes, for the Pythons of the default one."""
        if row.component in _PAIRED and row.platform == "linux-aarch64":
            return []  # whether these indexes have them for it differs from release to release, and no page says so
        torch = row.version if row.component == "torch" else exact(pins(row.requires).get("torch", ""))
        found = [one for one in self._variants() if torch and row.platform in one.platforms]
        is_torch = row.component == "torch"
        return [
            replace(
                row,
                local=one.local,
                index=one.index,
                code="cpu" if not one.cuda else "cuda" if is_torch else "python",
                cuda=one.cuda,
                sass=one.sass if is_torch else (),
                ptx=one.ptx if is_torch else (),
                glibc=one.glibc or row.glibc,
                requires=() if is_torch else (f"torch=={torch}",),
                src=(*one.src, *row.src),
            )
            for one in found
            if is_within(torch, one.versions)
        ]

    def cuda_of(self, build: Build) -> str:
        """The CUDA release that a build is for: its own, that of the PyTorch it is pinned to, else a major's number."""
        if build.cuda or build.code == "cpu":
            return build.cuda
        torch = exact(pins(build.requires).get("torch", ""))
        for one in self.builds("torch") if torch and build.component != "torch" else ():
            if (one.version, one.platform, one.local) == (torch, build.platform, build.local):
                return one.cuda
        for row in self.matrix.rows(INDEXES, "toolkits", Toolkit):
            if row.component == build.component and is_within(build.version, row.versions):
                return row.cuda
        named = map(_MAJOR.search, (build.component, *pins(build.requires)))
        return next((one[1] for one in named if one is not None), "")

    def cudnn_of(self, build: Build) -> SystemCudnn | None:
        """The major cuDNN that a build loads from the system: as stated, else by the pins of its extras."""
        rows = self.matrix.rows(INDEXES, "system_cudnn", SystemCudnn)
        for row in rows:
            if row.component == build.component and is_within(build.version, row.versions):
                return row
        pin = next((text for key, text in pins(build.optional).items() if key.startswith("nvidia-cudnn-")), "")
        least = re.search(r"(?:==|>=)((\d+)(?:\.\d+)?)", pin)
        if least is None:
            return None
        return SystemCudnn(component=build.component, versions="", cudnn=least[2], least=least[1])

    def toolkits_of(self, build: Build) -> Toolkits | None:
        """The toolkits that a build which compiles with that of the system is made for; None if nobody says so."""
        rows = self.matrix.rows(INDEXES, "made_for", Toolkits)
        mine = (row for row in rows if row.component == build.component and is_within(build.version, row.versions))
        return next(mine, None)

    def built_on(self, build: Build) -> BuiltOn | None:
        """The C library that a build requires although its tag promises an older one; None if nobody says so."""
        rows = self.matrix.rows(INDEXES, "built_on", BuiltOn) if build.glibc else ()
        mine = (row for row in rows if row.component == build.component and is_within(build.version, row.versions))
        return next(mine, None)

    def not_newer(self, build: Build, than: Build) -> NotNewer | None:
        """What a build breaks that is newer than another; None if it is not, or may be."""
        if version_key(build.version) <= version_key(than.version):
            return None
        rows = self.matrix.rows(INDEXES, "not_newer", NotNewer)
        return next((row for row in rows if (row.component, row.than) == (build.component, than.component)), None)

    def partner_cuda(self, build: Build) -> PartnerCuda | None:
        """The CUDA builds of PyTorch that a build has libraries for; None if that is not limited."""
        for row in self.matrix.rows(INDEXES, "partner_cuda", PartnerCuda):
            is_here = not row.platforms or build.platform in row.platforms
            if row.component == build.component and is_here and is_within(build.version, row.versions):
                return row
        return None

    def partner_torch(self, build: Build) -> PartnerTorch | None:
        """The releases of PyTorch that a build has code for, where its metadata does not say so."""
        rows = self.matrix.rows(INDEXES, "partner_torch", PartnerTorch)
        mine = (row for row in rows if row.component == build.component and is_within(build.version, row.versions))
        return next(mine, None)

    def unjudged(self, name: str) -> Unjudged | None:
        """Why nothing is judged of a distribution; None of one that the facts cover."""
        return next((row for row in self.matrix.rows(INDEXES, "unjudged", Unjudged) if row.component == name), None)

    def capability_of(self, build: Build) -> Capability | None:
        """The compute capabilities that a build supports which compiles at run time; None if unknown."""
        rows = self.matrix.rows(INDEXES, "capabilities", Capability)
        return next(
            (row for row in rows if row.component == build.component and is_within(build.version, row.versions)), None
        )

    def ptx_part_of(self, build: Build, capability: str) -> PtxPart | None:
        """The row of a build of which a part is PTX only for GPUs of this compute capability."""
        rows = self.matrix.rows(INDEXES, "ptx_parts", PtxPart)
        return next(
            (
                row
                for row in rows
                if row.component == build.component
                and is_within(build.version, row.versions)
                and is_within(capability, row.capability)
            ),
            None,
        )


def exact(range_text: str) -> str:
    """The version that a pin names, "" for any other range."""
    return range_text.removeprefix("==") if re.fullmatch(r"==\d+(?:\.\d+)*(?:\.post\d+)?", range_text) else ""
