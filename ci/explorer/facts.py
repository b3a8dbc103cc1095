"""The facts that the compatibility explorer judges by, as one JSON document for a browser.

What depends on one row alone (the sentence of a rule, the addresses of sources, the CUDA of a wheel) is computed here
by the program itself. What depends on a choice is left to the scripts of this folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpustack.detect.describe import describe
from gpustack.detect.machines import processor_of, resolve
from gpustack.detect.products import Products
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix
from gpustack.model.facts import PROPERTIES, Release, When
from gpustack.model.frameworks import EXPLORED, INDEXES, Build, NotNewer
from gpustack.model.host import Gpu, Host
from gpustack.model.places import GpuProduct, System
from gpustack.model.request import Request
from gpustack.solve import applies, security
from gpustack.solve.flavour import FlavourRule
from gpustack.solve.frameworks.catalog import Catalog, pins
from gpustack.solve.frameworks.judge import Judge, pythons_in_words
from gpustack.solve.gpu_lists import list_book
from gpustack.solve.kernels import offered_kernels
from gpustack.solve.listed import ArchitectureRow
from gpustack.solve.pairs import SUBJECT as BAD
from gpustack.solve.pairs import Pair
from gpustack.solve.question import Candidate, Question, support_rank
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.rulebook import BoundRule
from gpustack.solve.sentences import rule_sentence
from gpustack.solve.unknown import COVERED_PAIRS, unknown_versions
from gpustack.solve.words import TITLES, in_words, ranges_in_words

CHOSEN = ("driver", "cuda", "cudnn", "nccl", "tensorrt", "nv-codec-headers", "ffmpeg")
"""The components that the page offers, in the order of installation."""

BOUND = (*CHOSEN, "fabric-manager", "imex")
"""Those whose rules take part: a driver has partners of its own version."""

ARCHITECTURES = ("x86_64", "aarch64")
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PLACES = (("linux", "x86_64"), ("linux", "aarch64"), ("windows", "x86_64"))
BARE = "ubuntu24.04"
"""A system by which GPUs are described."""


class Export:
    """One export: texts that many rows share are written once."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.addresses: dict[str, int] = {}
        self.plain = Question(matrix, describe(matrix, os=BARE, arch=None), Request(requirements=()), mode="check")

    def document(self) -> dict[str, Any]:
        """Everything, in plain types."""
        systems, gpus = self._systems(), self._gpus()
        return {
            "date": self.matrix.date,
            "components": list(CHOSEN),
            "properties": list(PROPERTIES),
            "pythons": list(PYTHONS),
            "titles": TITLES,
            "covered": [list(pair) for pair in COVERED_PAIRS if set(pair) <= set(CHOSEN)],
            "releases": {name: [self._release(name, row) for row in self.matrix.releases(name)] for name in CHOSEN},
            "rules": {name: [self._rule(bound) for bound in self.plain.book.of(name)] for name in BOUND},
            "binding": {name: self._binding(name) for name in BOUND},
            "systems": systems,
            "gpus": gpus,
            "lists": self._lists(),
            "applies": self._applies(),
            "flavours": [self._row(row) for row in self.matrix.rows("driver", "flavour_rules", FlavourRule)],
            "bad": [self._pair(row) for row in self.matrix.rows(BAD, "pairs", Pair)],
            "bridges": [
                [row["cuda"], row["branch"], row["package"], row["result"]]
                for row in self.matrix.rows("cuda", "forward_compat", dict)
            ],
            "security": self._security(),
            "frameworks": self._frameworks(),
            "sources": list(self.addresses),
        }

    def _src(self, keys: tuple[str, ...]) -> list[int]:
        """The addresses of sources, by their places in the list of all."""
        return [self.addresses.setdefault(one, len(self.addresses)) for one in self.matrix.addresses(keys)]

    def _row(self, row: msgspec.Struct, *without: str) -> dict[str, Any]:
        """A row of the facts with its addresses, without what is empty."""
        plain = {name: value for name, value in msgspec.structs.asdict(row).items() if value and name not in without}
        if "src" in plain:
            plain["src"] = self._src(plain["src"])
        return plain

    def _release(self, name: str, row: Release) -> dict[str, Any]:
        found: dict[str, Any] = {"v": row.version, "os": list(row.os), "arch": list(row.arch), "status": row.status}
        if name == "driver":
            found |= {"branch": row.branch, "rank": support_rank(row.kind)}
        if not row.is_judged:
            found["unread"] = {f"{system} {arch}": self._unread(name, row, system, arch) for system, arch in PLACES}
        return {key: value for key, value in found.items() if value not in ("", [], "released")}

    def _unread(self, name: str, row: Release, system: str, arch: str) -> str:
        """What is said of a release that nobody has judged."""
        host = describe(self.matrix, os="windows11" if system == "windows" else BARE, arch=arch)
        asked = parse_requirement(f"{name}=={row.version}")
        question = Question(self.matrix, host, Request(requirements=(asked,)), mode="check")
        return next((one.reason for one in unknown_versions(question)), "")

    def _rule(self, bound: BoundRule) -> dict[str, Any]:
        rule, sentence = bound.rule, rule_sentence(self.plain, bound)
        found = {
            "id": rule.id,
            "objects": list(bound.objects),
            "any": list(rule.any),
            "none": list(rule.none),
            "equal": bool(rule.equal),
            "when": self._when(rule.when),
            "advice": bound.is_advice,
            "compiling": bound.is_of_compiling,
            "pulls": bound.pulls,
            "text": sentence.text,
            "says": rule.says if rule.needs == "kernel" else "",
            "words": ranges_in_words(rule.any) if (bound.component, rule.needs) == ("cuda", "driver") else "",
            "src": [self.addresses.setdefault(one, len(self.addresses)) for one in sentence.sources],
        }
        return {key: value for key, value in found.items() if value}

    @staticmethod
    def _when(when: When) -> dict[str, Any]:
        plain = msgspec.structs.asdict(when)
        return {name: value for name, value in plain.items() if value or (name == "fabric" and value is False)}

    def _binding(self, name: str) -> dict[str, Any]:
        """For each version the rules that bind it; versions with the same rules share one list."""
        book, places = self.plain.book, {}
        of = {id(bound): place for place, bound in enumerate(book.of(name))}
        sets: dict[tuple[int, ...], int] = {}
        for row in self.matrix.releases(name):
            applying = book.applying(name, row.version)
            mine = tuple(sorted({of[id(bound)] for rules in applying.values() for bound in rules}))
            places[row.version] = sets.setdefault(mine, len(sets))
        return {"sets": [list(one) for one in sets], "of": places}

    def _systems(self) -> list[dict[str, Any]]:
        """Each system on each of its architectures, as ``--os`` and ``--arch`` describe it; boards have their own."""
        rows = [row for row in self.matrix.systems if row.id != "l4t"]
        return [self._system(row, arch) for row in rows for arch in _architectures(row)]

    def _system(self, row: System, arch: str) -> dict[str, Any]:
        host = describe(self.matrix, os=row.key, arch=arch)
        question = Question(self.matrix, host, Request(requirements=()), mode="check")
        view = question.view
        known = {name: list(view.values(name)) for name in PROPERTIES if name != "compute-capability"}
        own_row = question.system_row
        foreign = own_row is not None and own_row.binaries == "none"
        found = {
            "key": row.key,
            "arch": arch,
            "id": host.os.id,
            "name": host.os.name or host.os.spelled,
            "windows": view.is_windows,
            "environment": host.environment,
            "platform": applies.platform(host),
            "rows": [f"{one.id}{one.version}" for one in question.offers.rows.systems],
            "repo": host.os.repo or "",
            "values": {name: values for name, values in known.items() if values},
            "assumed": [name for name in known if view.is_assumed(name)],
            "offers": [one.kernel for one in offered_kernels(question)],
            "default": next((view.default(name)[1] for name in known if view.default(name)[1]), ""),
            "stated": [name for name in ("glibc", "python") if getattr(host, name)],
            "least": view.least("glibc"),
            "oldest_gcc": view.oldest_gcc,
            "gcc_of": view.default("gcc")[1],
            "methods": {name: question.offers.method(name) for name in CHOSEN},
            "own": [one.version for one in self.matrix.releases("cuda") if question.offers.is_own("cuda", one.version)],
            "foreign": f"NVIDIA's programs do not run on {own_row.name}: {own_row.no_repo}."
            if own_row is not None and foreign
            else "",
            "foreign_name": own_row.name if own_row is not None and foreign else "",
            "src": self._src(own_row.src) if own_row is not None and foreign else [],
            "builds_from_source": ["nv-codec-headers", "ffmpeg"] if foreign else [],
        }
        return {key: value for key, value in found.items() if value not in ("", [], {}, False)}

    def _gpus(self) -> list[dict[str, Any]]:
        """The GPUs by the names under which ``--gpu`` finds one product."""
        products, found = Products(self.matrix), []
        whole = {row.id for row in self.matrix.rows("gpus", "architectures", ArchitectureRow) if row.lists_whole}
        for name in dict.fromkeys(row.name for row in self.matrix.products):
            try:
                named = resolve(name, self.matrix, products)
            except GpustackError:
                continue  # several products of one name, of which --gpu asks for the device
            gpu = named.gpus[0]
            if named.machine is None and not gpu.part and gpu.kind != "soc":
                found.append(self._gpu(gpu, name, is_whole=(gpu.architecture or "").lower() in whole))
        return found

    def _gpu(self, gpu: Gpu, name: str, *, is_whole: bool) -> dict[str, Any]:
        first, begin, src = list_book(self.matrix).before_launch(gpu)
        found = {
            "name": name,
            "called": gpu.called if gpu.called != name else "",
            "own": gpu.name if gpu.name != name else "",
            "cc": gpu.compute_capability or "",
            "kind": gpu.kind or "",
            "open": gpu.open_module or "",
            "fabric": gpu.fabric or "",
            "nvenc": gpu.nvenc,
            "last": gpu.driver_last or "",
            "device": (gpu.pci_id or "").rpartition(":")[2].lower(),
            "devices": [one.rpartition(":")[2].lower() for one in gpu.devices or ()],
            "subsystem": gpu.subsystem_id or "",
            "decisive": gpu.open_module == "required" or is_whole,
            "arch": processor_of(gpu, self.matrix)[0],
            "launch": [first, begin, self._src(src)] if first else [],
        }
        return {key: value for key, value in found.items() if value or (value == 0 and key == "nvenc")}

    def _lists(self) -> dict[str, Any]:
        """NVIDIA's lists of GPUs by driver release."""
        book, releases = list_book(self.matrix), self.matrix.releases("driver")

        def stated(row: GpuProduct) -> list[Any]:
            return [row.driver_listed, self._src(row.src)]

        return {
            "devices": {
                device: {"open": list(row.open), "own": list(row.own), "src": self._src(row.src)}
                for device, row in book.devices.items()
            },
            "read": {
                kind: {str(branch): [row.first, row.last] for branch, row in rows.items()}
                for kind, rows in book.read.items()
            },
            "stated": {device: stated(row) for device, row in book.stated.items()},
            "boards": {f"{device} {board}": stated(row) for (device, board), row in book.boards.items()},
            "dates": {row.version: row.date for row in self.matrix.releases("driver")},
            "windows": {row.version: book.windows_day(row.version) for row in releases if "windows" in row.os},
        }

    def _applies(self) -> dict[str, Any]:
        def mine(table: str, kind: type[Any]) -> list[dict[str, Any]]:
            rows = self.matrix.rows(applies.SUBJECT, table, kind)
            return [self._row(row) for row in rows if row.component in CHOSEN]

        unlisted = self.matrix.rows(applies.SUBJECT, "unlisted", applies.Unlisted)
        unshown = self.matrix.rows(applies.SUBJECT, "unshown", applies.Unshown)
        gpus = self.matrix.rows(applies.SUBJECT, "unlisted_gpus", applies.UnlistedGpus)
        rows = mine("applies", applies.Applies)
        for row in rows:
            row["words"] = in_words(row["versions"]) if row.get("versions") else "any"
        return {
            "rows": rows,
            "elsewhere": mine("elsewhere", applies.Elsewhere),
            "unlisted": [self._row(row) for row in unlisted if set(row.components) & set(CHOSEN)],
            "unshown": [self._row(row) for row in unshown if set(row.components) & set(CHOSEN)],
            "unlisted_gpus": [self._row(row) for row in gpus if set(row.components) & set(CHOSEN)],
            "platforms": applies.PLATFORMS,
        }

    def _pair(self, row: Pair) -> dict[str, Any]:
        return {**self._row(row, "fix"), "helps": row.helps, "doubt": row.is_doubt}

    def _security(self) -> dict[str, Any]:
        """The bulletins against each driver, by system and class of GPU; the text after its version, once each."""
        texts: dict[str, int] = {}
        found: dict[str, dict[str, list[Any]]] = {}
        for system in (BARE, "windows11"):
            for kind in ("", *security.PRODUCTS):
                host = describe(self.matrix, os=system, arch="x86_64")
                host = msgspec.structs.replace(host, gpus=(Gpu(kind=kind),) if kind else ())
                found[f"{'windows' if system != BARE else 'linux'} {kind}"] = self._exposed(host, texts)
        return {"texts": list(texts), "of": found}

    def _exposed(self, host: Host, texts: dict[str, int]) -> dict[str, list[Any]]:
        question = Question(self.matrix, host, Request(requirements=()), mode="check")
        found = {}
        for row in question.released_here("driver"):
            exposed = security.exposure(question, Candidate(component="driver", version=row.version, release=row))
            if exposed is not None:
                rest = exposed.reason.removeprefix(f"Driver {row.version} ")
                pages = [self.addresses.setdefault(one, len(self.addresses)) for one in exposed.sources]
                found[row.version] = [texts.setdefault(rest, len(texts)), *pages]
        return found

    def _frameworks(self) -> dict[str, Any]:
        everywhere = Catalog(self.matrix)
        found = {name: [self._build(build) for build in everywhere.everywhere(name)] for name in EXPLORED}
        return {name: builds for name, builds in found.items() if builds}

    def _build(self, build: Build) -> dict[str, Any]:
        catalog = Catalog(self.matrix, build.platform if build.platform != "any" else "linux-x86_64")
        judge, row, cudnn = Judge(self.plain, catalog), catalog.capability_of(build), catalog.cudnn_of(build)
        newer = self.matrix.rows(INDEXES, "not_newer", NotNewer)
        found: dict[str, Any] = {
            "v": build.version,
            "local": build.local,
            "p": build.platform,
            "status": build.status,
            "python": build.python,
            "pythons": pythons_in_words(build.python) if build.python else "",
            "glibc": build.glibc,
            "code": build.code,
            "cuda": catalog.cuda_of(build),
            "release": judge.release(build),
            "newest": judge.newest(build) if build.ptx else "",
            "sass": list(build.sass),
            "ptx": list(build.ptx),
            "requires": _held(pins(build.requires)),
            "optional": _held(pins(build.optional)),
            "index": build.index,
            "cudnn": cudnn.cudnn if cudnn is not None else "",
            "cudnn_src": self._src(cudnn.src) if cudnn is not None else [],
            "cudnn_least": cudnn.least if cudnn is not None else "",
            "built_on": self._row(built, "component", "versions")
            if (built := catalog.built_on(build)) is not None
            else {},
            "partner": self._row(partner, "component", "versions", "platforms", "src")
            if (partner := catalog.partner_cuda(build)) is not None
            else {},
            "torch": torch.torch if (torch := catalog.partner_torch(build)) is not None else "",
            "not_newer": {one.than: one.says for one in newer if one.component == build.component},
            "only": only.says if (only := catalog.confined(build)) is not None else "",
            "only_src": self._src(only.src) if only is not None else [],
            "can": row.capability if row is not None else "",
            "can_words": in_words(row.capability) if row is not None else "",
            "can_says": row.says if row is not None else "",
            "can_refused": row is not None and row.refused,
            "can_src": self._src(row.src) if row is not None else [],
            "src": self._src(build.src),
        }
        return {key: value for key, value in found.items() if value}


def _held(pinned: Mapping[str, str]) -> dict[str, str]:
    """The pins that a verdict needs: on other frameworks, and on NVIDIA's libraries."""
    words = ("nvidia-cuda-runtime-", "nvidia-cudnn-", "nvidia-nccl-")
    return {
        name: text
        for name, text in pinned.items()
        if name in EXPLORED or name == "cuda-toolkit" or any(word in name for word in words)
    }


def _architectures(row: System) -> Iterable[str]:
    return [arch for arch in ARCHITECTURES if not row.arch or arch in row.arch] or ["x86_64"]


def export(matrix: Matrix) -> dict[str, Any]:
    """The facts of the explorer."""
    return Export(matrix).document()
