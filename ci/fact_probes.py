"""The questions that a row of the facts should bear on: plans, verdicts and GPUs, made from the row itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from gpustack.detect.describe import describe
from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS, MIRRORED, subject_of
from gpustack.model.host import Host, Installed
from gpustack.model.places import System
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.plan.targets import demand_host
from gpustack.solve.check import check
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve
from gpustack.versions import is_within, version_key

ARCHES = {"x86_64": "x86_64", "amd64": "x86_64", "sbsa": "aarch64", "aarch64": "aarch64", "arm64": "aarch64"}
ARCHES |= {"ppc64le": "ppc64le", "ppc64el": "ppc64le"}
TARGETS = {"cross-linux-sbsa": "sbsa", "cross-linux-aarch64": "drive-os"}
HGX = ("H100 80GB HBM3",) * 8
HOSTS = (
    ("ubuntu24.04", "x86_64", "L4"),
    ("ubuntu16.04", "x86_64", "Tesla T4"),
    ("rhel7", "x86_64", "GeForce GTX 1080 Ti"),
    ("ubuntu24.04", "aarch64", "GH200 480GB"),
    ("windows11", "x86_64", "GeForce RTX 3060"),
    ("wsl-ubuntu24.04", "x86_64", "GeForce RTX 4070"),
    ("l4t36", "aarch64", "Jetson AGX Orin"),
    ("ubuntu24.04", "x86_64", "GeForce RTX 5090"),
    ("fedora44", "x86_64", "B200"),
    ("ubuntu18.04", "x86_64", "Tesla K80"),
)
PLATFORMS = {
    "linux-x86_64": (("ubuntu22.04", "x86_64"), ("rhel7", "x86_64"), ("ubuntu24.04", "x86_64")),
    "linux-sbsa": (("ubuntu22.04", "aarch64"), ("ubuntu24.04", "aarch64")),
    "linux-aarch64": (("l4t36", "aarch64"), ("l4t35", "aarch64"), ("ubuntu22.04", "aarch64")),
    "linux-ppc64le": (("rhel8", "ppc64le"),),
    "windows-x86_64": (("windows11", "x86_64"), ("windows10", "x86_64")),
    "windows-arm64": (("windows11", "aarch64"),),
}
METHODS = {"exe": "zip", "wheel": "pip"}


class Question(NamedTuple):
    """One question; equal ones have equal answers."""

    kind: str
    os: str = ""
    arch: str = "x86_64"
    gpus: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    target: str = ""
    flavour: str = "auto"
    driver: str | None = None
    held: tuple[str, ...] = ()

    def ask(self, matrix: Matrix) -> str:
        """The answer with these facts, as JSON without their digest."""
        if self.kind == "gpu":
            return msgspec.json.encode(describe(matrix, os="ubuntu24.04", arch=None, gpus=self.gpus)).decode()
        host, request = self._host(matrix), self._request()
        if self.kind == "check":
            return msgspec.json.encode(check(matrix, host, request)).decode()
        demand_host(matrix, host, request)
        plan = build(host, request, resolve(matrix, host, request), matrix)
        return msgspec.json.encode(replace(plan, facts="", digest="")).decode()

    def _host(self, matrix: Matrix) -> Host:
        host = describe(matrix, os=self.os, arch=self.arch, gpus=self.gpus, driver=self.driver)
        if not self.held:
            return host
        component = subject_of(self.asked[0])
        there = Installed(version="0.1", method="network", packages=self.held)
        return replace(host, holds=self.held, installed={**host.installed, component: there})

    def _request(self) -> Request:
        return Request(
            requirements=merge(tuple(parse_requirement(text) for text in self.asked)),
            methods=parse_methods(self.methods),
            kernel_module=self.flavour,  # type: ignore[arg-type]
            target=self.target,  # type: ignore[arg-type]
        )


def questions(facts: Matrix, subject: str, table: str, row: dict[str, Any]) -> Iterator[Question]:
    """The questions on a row, the most likely first."""
    match table:
        case "packages":
            yield from _on_packages(facts, row)
        case "archives":
            yield from _on_archive(facts, {"component": subject, **row})
        case "rules":
            yield from _on_rule(facts, row)
        case "releases":
            yield from _on_release(subject, row)
        case "availability":
            yield from _on_availability(facts, row)
        case "products" | "integrated":
            yield from (
                Question("gpu", gpus=(name,)) for name in (row["name"], row.get("device", ""), *row.get("aliases", ()))
            )
            yield Question("plan", "ubuntu24.04", gpus=(row["name"],), asked=("driver", "cuda"))
            yield Question(
                "plan",
                "ubuntu24.04",
                gpus=(row["name"],),
                asked=("driver", "cuda", "ffmpeg"),
                methods=("ffmpeg=source",),
            )
        case "images":
            yield Question(
                "plan", "ubuntu24.04", gpus=("L4",), asked=(f"triton=={row['release']}", "container-toolkit", "driver")
            )
        case _:
            yield from _on_place(facts, row)


def _systems(facts: Matrix, *, family: str = "", repos: Iterable[str] = (), repo: str = "") -> list[System]:
    wanted = {repo} if repo else set(repos)
    found = [row for row in facts.systems if (not wanted or row.repo in wanted) and family in {"", "any", row.family}]
    found = [row for row in found if row.repo and not row.base] or found
    return [*found[-1:], *found[:1], *found[len(found) // 2 : len(found) // 2 + 1]]


def _within(facts: Matrix, component: str, text: str) -> list[str]:
    """The newest, the oldest and a middle release in a range."""
    found = [row.version for row in facts.releases(component) if is_within(row.version, text)]
    return list(dict.fromkeys([*found[:1], *found[-1:], *found[len(found) // 2 : len(found) // 2 + 1]]))


def _gpus(component: str, version: str = "") -> tuple[str, ...]:
    if component == "fabric-manager":
        return HGX
    old = (
        component in {"driver", "cuda"}
        and version
        and version_key(version) < version_key("13" if component == "cuda" else "450")
    )
    return ("Tesla T4",) if old else ("L4",)


def _on_packages(facts: Matrix, row: dict[str, Any]) -> Iterator[Question]:
    component, method = row["component"], row["method"]
    cudas = _within(facts, "cuda", row["with_cuda"]) if row.get("with_cuda") else [""]
    arches = [word for word in row.get("arch", []) if word in ARCHES or word in TARGETS] or ["x86_64", "sbsa"]
    extra = ("driver",) if component == "fabric-manager" else ()
    for version in _within(facts, component, row["versions"]):
        for cuda in cudas:
            asked = (f"{component}=={version}", *((f"cuda=={cuda}",) if cuda else ()), *extra)
            if component == "fabric-manager":
                asked = (f"fabric-manager=={version}", f"driver=={version}")
            for system in _systems(facts, family=row["family"], repos=row.get("repos", ())):
                for arch in arches:
                    name, host = f"{system.id}{system.version}", ARCHES.get(arch, "x86_64")
                    common = {"os": name, "arch": host, "gpus": _gpus(component, version), "asked": asked}
                    ways = ((method,),) if method != "local" else ((f"{component}=local",), ("local",))
                    for methods in ways:
                        yield Question(
                            "plan",
                            **common,
                            methods=methods,
                            target=TARGETS.get(arch, ""),
                            flavour=row.get("flavour") or "auto",
                        )
                    target = {"cross-sbsa": "sbsa", "cross-aarch64": "drive-os"}.get(row.get("role", ""), "")
                    if target:
                        yield Question("plan", **common, target=target)
                    yield Question("plan", **common, methods=(f"{component}={method}",), held=tuple(row["packages"]))
                    if component == "driver":
                        for board in ("Tesla K80", "GeForce GTX 1080 Ti", "GeForce RTX 5090", "B200"):
                            yield Question("plan", **{**common, "gpus": (board,)}, flavour=row.get("flavour") or "auto")


def _on_archive(facts: Matrix, row: dict[str, Any]) -> Iterator[Question]:
    component = row["component"]
    method = METHODS.get(row.get("method", ""), row.get("method", ""))
    places = list(PLATFORMS.get(row["platform"], PLATFORMS["linux-x86_64"]))
    if row.get("distro"):
        arch = ARCHES.get(row["platform"].removeprefix("linux-"), "x86_64")
        places = [(f"{one.id}{one.version}", arch) for one in _systems(facts, repo=row["distro"])]
    cudas = [row["cuda"]] if row.get("cuda") and component != "cuda" else [""]
    for os, arch in places:
        for cuda in cudas:
            asked = (f"{component}=={row['version']}", *((f"cuda=={cuda}.*",) if cuda else ()))
            if component == "fabric-manager":
                asked = (*asked, f"driver=={row['version']}")
            boards = _gpus(component, row["version"]) if arch != "ppc64le" else ("V100-SXM2-16GB",)
            driver = "535.104.05" if arch == "ppc64le" else None
            for methods in ((f"{component}={method}",), (method,)):
                yield Question("plan", os, arch, boards, asked, methods, driver=driver)
        if row.get("driver"):
            yield Question(
                "plan", os, arch, ("L4",), (f"driver=={row['driver']}", f"cuda=={row['version']}"), ("local",)
            )


def _on_rule(facts: Matrix, row: dict[str, Any]) -> Iterator[Question]:
    component = next(name for name in sorted(COMPONENTS, key=len, reverse=True) if row["of"].startswith(name))
    needs = row.get("needs") or next(iter(row.get("equal", [])), "")
    boards = {gpu for names in (row.get("when", {}).get("gpu", ()),) for gpu in names}
    hosts = [*(("ubuntu24.04", "x86_64", gpu) for gpu in sorted(boards)), *HOSTS, *_boards(facts, row)]
    others = [""]
    if needs in COMPONENTS:
        spans = [*row.get("any", ()), *row.get("none", ())]
        others = [one for span in spans for one in (*_within(facts, needs, span), *_outside(facts, needs, span))] or [
            ""
        ]
        others += _within(facts, needs, "")
    for version in _within(facts, component, row["of"][len(component) :]):
        for other in dict.fromkeys(others):
            asked = (f"{component}=={version}", *((f"{needs}=={other}",) if other else ()))
            for os, arch, gpu in hosts:
                yield Question("check", os, arch, (gpu,), asked)
        for os, arch, gpu in hosts[:5]:
            yield Question("plan", os, arch, (gpu,), (f"{component}=={version}",))


def _boards(facts: Matrix, row: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if row.get("needs") == "compute-capability":
        by_capability = {one.compute_capability: one.name for one in facts.products if one.compute_capability}
        yield from (("ubuntu24.04", "x86_64", name) for name in by_capability.values())


def _outside(facts: Matrix, component: str, text: str) -> list[str]:
    """The releases next to a range on either side."""
    versions = [row.version for row in facts.releases(component)]
    inside = [place for place, one in enumerate(versions) if is_within(one, text)]
    if not inside:
        return []
    return [versions[place] for place in (inside[0] - 1, inside[-1] + 1) if 0 <= place < len(versions)]


def _on_release(subject: str, row: dict[str, Any]) -> Iterator[Question]:
    wanted = f"{subject}=={row['version']}"
    for os, arch, gpu in HOSTS:
        yield Question("check", os, arch, (gpu,), (wanted,))
        yield Question("plan", os, arch, (gpu,), (wanted,))
        yield Question("plan", os, arch, (gpu,), (f"{subject}<={row['version']}",))
    for method in ("runfile", "tar", "source", "zip"):
        for os, arch, gpu in (HOSTS[0], HOSTS[4]):
            yield Question("plan", os, arch, (gpu,), (wanted,), (f"{subject}={method}",))
    if subject == "cuda":
        yield Question(
            "plan",
            "windows11",
            asked=(wanted, "nv-codec-headers", "ffmpeg"),
            gpus=("GeForce RTX 3060",),
            methods=("source",),
        )
        yield Question("plan", "ubuntu22.04", asked=(wanted, "cudnn"), gpus=("Tesla T4",))
    for series in range(1, 4):
        cut = ".".join(row["version"].split(".")[:series])
        yield Question("plan", "ubuntu24.04", gpus=("L4",), asked=(f"{subject}=={cut}.*",))


def _on_availability(facts: Matrix, row: dict[str, Any]) -> Iterator[Question]:
    component = row["component"]
    for system in _systems(facts, repo=row["repo"]) or list(facts.systems[:1]):
        for word in row["arch"]:
            arch, target = ARCHES.get(word, "x86_64"), TARGETS.get(word, "")
            for version in _within(facts, MIRRORED.get(component, component), row["versions"]):
                asked, name = (f"{component}=={version}",), f"{system.id}{system.version}"
                yield Question("plan", name, arch, _gpus(component, version), asked, (row["method"],), target)
            yield Question(
                "plan", f"{system.id}{system.version}", arch, ("L4",), (component,), (row["method"],), target
            )


def _on_place(facts: Matrix, row: dict[str, Any]) -> Iterator[Question]:
    """Systems, folders, keys and the like: the plans of the systems that the row names."""
    named = row.get("id", "") + row.get("version", "") if "id" in row else ""
    repo = row.get("repo", "")
    systems = [one for one in facts.systems if f"{one.id}{one.version}" == named or (repo and one.repo == repo)]
    if not systems:
        wanted = set(row.get("systems", ()))
        systems = [one for one in facts.systems if wanted & {one.id, f"{one.id}{one.version}", one.family}]
    if not systems:
        by_name = {f"{one.id}{one.version}": one for one in facts.systems}
        systems = [by_name[os] for os, _, _ in HOSTS if os in by_name]
    for system in systems[:12]:
        name = f"{system.id}{system.version}"
        for asked in (
            ("driver", "cuda", "cudnn"),
            ("cuda",),
            ("driver",),
            ("cuda", "nv-codec-headers", "ffmpeg"),
            ("container-toolkit",),
        ):
            for methods in ((), ("network",), ("runfile",), ("tar",), ("source",), ("local",)):
                yield Question("plan", name, "x86_64", ("L4",), asked, methods)
        yield Question("plan", name, "aarch64", ("GH200 480GB",), ("driver", "cuda"))
        yield Question("check", name, "x86_64", ("L4",), ("cuda",))
