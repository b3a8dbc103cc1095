"""The questions that a row of the facts should bear on, made from the row itself; a table's own first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fact_answers import HOSTS as TREES
from fact_answers import Asked
from gpustack.matrix.index import Matrix
from gpustack.model.facts import COMPONENTS, MIRRORED
from gpustack.model.own_file import OwnFile, OwnPackage
from gpustack.model.places import System
from gpustack.solve.codecs import DECODED, ENCODED
from gpustack.solve.rows import INSTALLERS, OWN_REPOSITORY
from gpustack.versions import is_within, version_key

Row = dict[str, Any]
ARCHES = {"x86_64": "x86_64", "amd64": "x86_64", "sbsa": "aarch64", "aarch64": "aarch64", "arm64": "aarch64"}
ARCHES |= {"ppc64le": "ppc64le", "ppc64el": "ppc64le"}
TARGETS = {"cross-linux-sbsa": "sbsa", "cross-linux-aarch64": "drive-os"}
BASEBOARDS = (("H100 80GB HBM3",) * 8, ("A100-SXM4-80GB",) * 8, ("B200",) * 8, ("V100-SXM3-32GB",) * 16)
ERAS = ((), ("L4",), ("Tesla T4",), ("Tesla K80",), ("GeForce RTX 5090",), ("B200",), ("GeForce GTX 1080 Ti",))
"""GPUs of every era; none leaves them out of the question."""

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
    "linux-x86_64": (("ubuntu22.04", "x86_64"), ("ubuntu18.04", "x86_64"), ("rhel7", "x86_64"), ("rhel10", "x86_64")),
    "linux-sbsa": (("ubuntu22.04", "aarch64"), ("ubuntu24.04", "aarch64"), ("rhel8", "aarch64")),
    "linux-aarch64": (("l4t36", "aarch64"), ("l4t35", "aarch64"), ("l4t32", "aarch64"), ("l4t38", "aarch64")),
    "linux-ppc64le": (("rhel8", "ppc64le"), ("rhel7", "ppc64le")),
    "windows-x86_64": (("windows11", "x86_64"), ("windows10", "x86_64")),
    "windows-arm64": (("windows11", "aarch64"),),
}
BOARDS = {"l4t36": "Jetson AGX Orin", "l4t35": "Jetson AGX Orin", "l4t32": "Jetson AGX Xavier", "l4t38": "Jetson Thor"}
METHODS = {"exe": "zip", "wheel": "pip"}
_OWN = ("cudnn", "nccl", "tensorrt")
"""Components of which people download packages by hand."""

_CROSS = {"cross-sbsa": "cross-linux-sbsa", "cross-aarch64": "cross-linux-aarch64"}
"""The folder in which packages for another architecture lie."""


def questions(facts: Matrix, subject: str, table: str, row: Row) -> Iterator[Asked]:
    """The questions on a row, the most likely first."""
    own = _OF_TABLES.get(f"{subject}.{table}") or _OF_TABLES.get(table)
    if own is not None:
        yield from own(facts, {"component": subject, **row})
        return
    yield from _on_place(facts, row)


def _systems(facts: Matrix, *, family: str = "", repos: Iterable[str] = ()) -> list[System]:
    """Systems of a family or with one of these folders: the last, the first and some between."""
    wanted = set(repos)
    found = [row for row in facts.systems if (not wanted or row.repo in wanted) and family in {"", "any", row.family}]
    found = [row for row in found if row.repo and not row.base] or found
    return _some(found)


def _some(found: list[Any]) -> list[Any]:
    """The ends of a list and two between."""
    places = (0, len(found) - 1, len(found) // 2, len(found) // 4)
    return [found[place] for place in dict.fromkeys(places)] if found else []


def _within(facts: Matrix, component: str, text: str) -> list[str]:
    """The newest, the oldest and two releases between in a range."""
    return _some([row.version for row in facts.releases(component) if is_within(row.version, text)])


def _carried(facts: Matrix, row: Row) -> list[tuple[str, str, str]]:
    """Which versions of a package set are offered where: version, folder, and a word for the architecture."""
    component, own, method = row["component"], MIRRORED.get(row["component"], row["component"]), row["method"]
    versions = [one.version for one in facts.releases(own) if is_within(one.version, row["versions"])]
    cross = _CROSS.get(row.get("role", ""), "")
    if method == "local":
        files = facts.archives(INSTALLERS[component]) if component in INSTALLERS else ()
        there = [(f"=={one.version}", one.distro, one.platform[6:]) for one in files if one.method == "local"]
    else:
        rows = [one for one in facts.availability(own) if one.method == method or (cross and one.method == "network")]
        there = [(one.versions, one.repo, word) for one in rows for word in one.arch]
    repos, words = set(row.get("repos", ())), {cross} - {""} or set(row.get("arch", ()))
    return [
        (version, repo, word)
        for text, repo, word in there
        if (not repos or repo in repos) and (not words or word in words)
        for version in versions
        if is_within(version, text)
    ]


def _serving(facts: Matrix, row: Row) -> list[tuple[str, System, str]]:
    """Versions with systems that have the folder, and a word for the architecture: some of all that there are."""
    by_repo: dict[str, list[System]] = {}
    for system in facts.systems:
        if row["family"] in {"any", system.family}:
            by_repo.setdefault(system.repo, []).append(system)
    if row["component"] in OWN_REPOSITORY or row["method"] == "pip":
        systems = _systems(facts, family="apt" if row["family"] == "any" else row["family"])
        return [
            (one, system, "x86_64") for one in _within(facts, row["component"], row["versions"]) for system in systems
        ]
    found = [(version, by_repo[repo][0], word) for version, repo, word in _carried(facts, row) if repo in by_repo]
    found += [(version, by_repo[repo][-1], word) for version, repo, word in _carried(facts, row) if repo in by_repo]
    return list(dict.fromkeys((*_some(found), *_some([one for one in found if ARCHES.get(one[2]) == "aarch64"]))))


def _boards(component: str, arch: str) -> tuple[tuple[str, ...], ...]:
    if component == "fabric-manager":
        return BASEBOARDS
    if component == "imex":
        return (("GB200",) * 4, ("GB300",) * 4)
    if arch == "aarch64":
        return (("GH200 480GB",), (), ("GB200",) * 4)
    return (*ERAS, BASEBOARDS[0], BASEBOARDS[2]) if component == "driver" else ERAS[:3]


def _on_packages(facts: Matrix, row: Row) -> Iterator[Asked]:
    component, method = row["component"], row["method"]
    cudas = _within(facts, "cuda", row["with_cuda"])[:3] if row.get("with_cuda") else [""]
    ways = ((method,), (f"{component}={method}",)) if method == "local" else ((f"{component}={method}",), (method,))
    flavour = row.get("flavour") or "auto"
    stage = "runtime" if row.get("role") == "runtime" else ""
    if row.get("role") in {"main", "runtime", "samples"} and component in _OWN:
        yield from _on_own_file(facts, row)
    for version, system, word in _serving(facts, row):
        os, arch = f"{system.id}{system.version}", ARCHES.get(word, "x86_64")
        target = TARGETS.get(word, "")
        for cuda in cudas:
            asked = (f"{component}=={version}", *((f"cuda=={cuda}",) if cuda else ()))
            if component in {"fabric-manager", "imex"}:
                asked = (f"{component}=={version}", f"driver=={version}")
            for gpus in _boards(component, arch)[: 1 if target else None]:
                common = {"os": os, "arch": arch, "gpus": gpus, "asked": asked, "target": target}
                for methods in ways:
                    yield Asked(kind="plan", **common, methods=methods, flavour=flavour, stage=stage)
                if row.get("role") == "samples":
                    yield Asked(kind="plan", os=os, asked=(*asked, "cuda"), gpus=("L4",), target="sbsa")
                if component == "cuda-compat":
                    drivers = ("450.51.06", "470.57.02", "535.54.03", "570.86.15", "580.65.06")
                    yield from (Asked(kind="plan", **common, driver=driver) for driver in drivers)
            held = tuple(row["packages"])
            yield Asked(kind="plan", os=os, arch=arch, gpus=(), asked=asked, methods=ways[0], held=held)


def _on_own_file(facts: Matrix, row: Row) -> Iterator[Asked]:
    """A repository in a package that the user has, which holds these packages."""
    systems = _systems(facts, family=row["family"], repos=row.get("repos", ()))[-1:]
    versions = _within(facts, row["component"], row["versions"])[:1]
    cudas = _within(facts, "cuda", row["with_cuda"])[:2] if row.get("with_cuda") else []
    for version, system in ((one, system) for one in versions for system in systems):
        pin = row.get("pin", "{version}-1").replace("{version}", version)
        for cuda in cudas:
            own = OwnFile(
                path="/media/file",
                component=row["component"],
                form="repository",
                file="file",
                version=version,
                arch="x86_64",
                sha256="0" * 64,
                size=1,
                family=system.family,
                cuda=cuda.partition(".")[0],
                distro=system.repo,
                packages=tuple(OwnPackage(name=name, version=pin) for name in _with_main(facts, row, version)),
            )
            asked = (row["component"], f"cuda=={cuda}")
            stage = "runtime" if row.get("role") == "runtime" else ""
            gpus = ("Tesla T4",) if row.get("role") == "samples" else ()
            yield Asked(kind="plan", os=f"{system.id}{system.version}", gpus=gpus, asked=asked, own=own, stage=stage)
            yield Asked(
                kind="plan", os=f"{system.id}{system.version}", gpus=gpus, asked=asked[:1], own=own, stage=stage
            )


def _with_main(facts: Matrix, row: Row, version: str) -> list[str]:
    """The packages of a set, and those that bring the component itself."""
    sets = [one for one in facts.packages(row["component"]) if one.family == row["family"] and one.role == "main"]
    main = [one.packages for one in sets if is_within(version, one.versions) and one.with_cuda == row.get("with_cuda")]
    return list(dict.fromkeys((*row["packages"], *(name for names in main[:1] for name in names))))


def _on_archive(facts: Matrix, row: Row) -> Iterator[Asked]:
    component = row["component"]
    method = METHODS.get(row.get("method", ""), row.get("method", ""))
    places = list(PLATFORMS.get(row["platform"], PLATFORMS["linux-x86_64"]))
    if row.get("distro"):
        arch = ARCHES.get(row["platform"].removeprefix("linux-"), "x86_64")
        places = [(f"{one.id}{one.version}", arch) for one in _systems(facts, repos=[row["distro"]])]
    cudas = [row["cuda"]] if row.get("cuda") and component != "cuda" else [""]

    for os, arch in places:
        boards = (BOARDS[os],) if os in BOARDS else ()
        for cuda in cudas:
            asked = (f"{component}=={row['version']}", *((f"cuda=={cuda}.*",) if cuda else ()))
            if component == "fabric-manager":
                asked = (*asked, f"driver=={row['version']}")
            choices = [boards] if os in BOARDS else [(), *_boards(component, arch)][:5]
            for gpus in choices:
                for methods in ((f"{component}={method}",), (method,)):
                    yield Asked(kind="plan", os=os, arch=arch, gpus=gpus, asked=asked, methods=methods)
        if row.get("driver"):
            asked = (f"driver=={row['driver']}", f"cuda=={row['version']}")
            for gpus in (("L4",), ("Tesla T4",)):
                yield Asked(kind="plan", os=os, arch=arch, gpus=gpus, asked=asked, methods=("local",))
                yield Asked(kind="plan", os=os, arch=arch, gpus=gpus, asked=asked[:1], methods=("local",))


def _on_rule(facts: Matrix, row: Row) -> Iterator[Asked]:
    component = next(name for name in sorted(COMPONENTS, key=len, reverse=True) if row["of"].startswith(name))
    needs = row.get("needs") or next(iter(row.get("equal", [])), "")
    boards = {gpu for names in (row.get("when", {}).get("gpu", ()),) for gpu in names}
    hosts = [*(("ubuntu24.04", "x86_64", gpu) for gpu in sorted(boards)), *HOSTS, *_capable(facts, row)]
    others = [""]
    if needs in COMPONENTS:
        spans = [*row.get("any", ()), *row.get("none", ())]
        found = [one for span in spans for one in (*_within(facts, needs, span), *_outside(facts, needs, span))]
        others = [*(found or [""]), *_within(facts, needs, "")]
    for version in _within(facts, component, row["of"][len(component) :]):
        for other in dict.fromkeys(others):
            asked = (f"{component}=={version}", *((f"{needs}=={other}",) if other else ()))
            for os, arch, gpu in hosts:
                yield Asked(kind="check", os=os, arch=arch, gpus=(gpu,), asked=asked)
        for os, arch, gpu in hosts[:5]:
            yield Asked(kind="plan", os=os, arch=arch, gpus=(gpu,), asked=(f"{component}=={version}",))


def _capable(facts: Matrix, row: Row) -> Iterator[tuple[str, str, str]]:
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


def _on_release(_: Matrix, row: Row) -> Iterator[Asked]:
    subject, version = row["component"], row["version"]
    wanted = f"{subject}=={version}"
    for os, arch, gpu in HOSTS:
        for gpus in ((gpu,), ()):
            yield Asked(kind="check", os=os, arch=arch, gpus=gpus, asked=(wanted,))
            yield Asked(kind="plan", os=os, arch=arch, gpus=gpus, asked=(f"{subject}<={version}",))
    for method in ("runfile", "tar", "source", "zip", "local", "network"):
        for os, arch, gpu in (HOSTS[0], HOSTS[4]):
            yield Asked(kind="plan", os=os, arch=arch, gpus=(gpu,), asked=(wanted,), methods=(f"{subject}={method}",))
    if subject == "cuda":
        asked, gpus = (wanted, "nv-codec-headers", "ffmpeg"), ("GeForce RTX 3060",)
        yield Asked(kind="plan", os="windows11", gpus=gpus, asked=asked, methods=("source",))
        yield Asked(kind="plan", os="ubuntu22.04", gpus=("Tesla T4",), asked=(wanted, "cudnn"))
    if subject == "nv-codec-headers":
        drivers = (row.get("driver_linux") or "450.51", row.get("driver_windows") or "450.51")
        yield from (Asked(kind="api", asked=(row.get("api") or "12.0", driver)) for driver in drivers)
    if subject == "triton":
        yield Asked(kind="server", asked=(version,))
        yield Asked(kind="image", gpus=("L4",), asked=(f"nvcr.io/nvidia/tritonserver:{version}-py3",))
    for series in range(1, 4):
        cut = ".".join(version.split(".")[:series])
        yield Asked(kind="plan", gpus=("L4",), asked=(f"{subject}=={cut}.*",))


def _on_availability(facts: Matrix, row: Row) -> Iterator[Asked]:
    component = row["component"]
    for system in _systems(facts, repos=[row["repo"]]) or list(facts.systems[:1]):
        for word in row["arch"]:
            arch, target = ARCHES.get(word, "x86_64"), TARGETS.get(word, "")
            common = {"os": f"{system.id}{system.version}", "arch": arch, "methods": (row["method"],), "target": target}
            for version in _within(facts, MIRRORED.get(component, component), row["versions"]):
                for gpus in ERAS[:3]:
                    yield Asked(kind="plan", gpus=gpus, asked=(f"{component}=={version}",), **common)
            yield Asked(kind="plan", gpus=("L4",), asked=(component,), **common)


def _on_product(_: Matrix, row: Row) -> Iterator[Asked]:
    device, subsystem = row.get("device", "0x").removeprefix("0x"), row.get("subsystem", "")
    if device:
        yield Asked(kind="board", asked=(f"{device}/{subsystem}" if subsystem else device,))
    for name in dict.fromkeys((row["name"], f"10de:{device}", *row.get("aliases", ()))):
        yield Asked(kind="machine", gpus=(name,))
        for asked, methods in ((("driver", "cuda"), ()), (("driver", "cuda", "ffmpeg"), ("ffmpeg=source",))):
            yield Asked(kind="plan", gpus=(name,), asked=asked, methods=methods)
        yield from (Asked(kind="check", gpus=(name,), asked=(f"driver=={one}",)) for one in ("470.82.01", "580.65.06"))
        yield from (Asked(kind="codec", gpus=(name,), asked=(f"{word}",)) for word in ("nvenc-av1", "nvdec-av1"))


def _on_listed(facts: Matrix, row: Row) -> Iterator[Asked]:
    """Drivers on the device: each release that a list begins with, and the one before it."""
    device = row["device"].removeprefix("0x")
    ends = [row.get("open", ())[:1], row.get("own", ())[:1], row.get("open", ())[-1:], row.get("own", ())[-1:]]
    for release in dict.fromkeys(one for end in ends for one in end):
        for version in (release, *_outside(facts, "driver", f"=={release}")):
            yield Asked(kind="check", gpus=(f"10de:{device}",), asked=(f"driver=={version}",))
            yield Asked(kind="check", gpus=(f"10de:{device}",), asked=(f"driver=={version}",), flavour="open")
    yield Asked(kind="plan", gpus=(f"10de:{device}",), asked=("driver", "cuda"))


def _on_branch(facts: Matrix, row: Row) -> Iterator[Asked]:
    for version in _within(facts, "driver", f"=={row['branch']}.*"):
        for gpu in ("B200", "GeForce RTX 5090", "L4", "GH200 480GB", "RTX A2000", "Tesla T4", "H100 PCIe"):
            yield Asked(kind="check", gpus=(gpu,), asked=(f"driver=={version}",))


def _on_fixed(facts: Matrix, row: Row) -> Iterator[Asked]:
    """Releases just below the fixed one, and of the branch before, for each class of products."""
    component, os = row["component"], "windows11" if row["os"] == "windows" else "ubuntu24.04"
    below = [one.version for one in facts.releases(component) if is_within(one.version, f"<{row['fixed']}")]
    branch = [one for one in below if is_within(one, f"=={row.get('branch') or '*'}.*")] if row.get("branch") else []
    for version in dict.fromkeys((*_some(branch), *below[:2], row["fixed"])):
        for gpu in ("L4", "GeForce RTX 3060", "RTX A4000", "Tesla T4"):
            yield Asked(kind="check", os=os, gpus=(gpu,), asked=(f"{component}=={version}",))


def _on_bulletin(facts: Matrix, row: Row) -> Iterator[Asked]:
    for one in facts.rows("security", "fixed", dict):
        if one["bulletin"] == row["bulletin"]:
            yield from _on_fixed(facts, one)


def _on_bridge(_: Matrix, row: Row) -> Iterator[Asked]:
    yield Asked(kind="bridge", asked=(f"{row['cuda']}.0", f"{row['branch']}.10"))


def _on_image_tag(_: Matrix, row: Row) -> Iterator[Asked]:
    names = [row["image"]] if row.get("image") else ["pytorch", "tensorflow", "triton", "tensorrt"]
    for name in names:
        tag = row.get("tag") or f"{row['month']}-py3"
        repository = {"triton": "tritonserver"}.get(name, name) if "month" in row else "cuda"
        for gpu in ("L4", "Tesla K80", "GeForce GTX 1080 Ti", "B200", "V100"):
            yield Asked(kind="image", gpus=(gpu,), asked=(f"nvcr.io/nvidia/{repository}:{tag}",))


def _on_hub_tag(_: Matrix, row: Row) -> Iterator[Asked]:
    for gpu in ("L4", "GeForce GTX 1080 Ti"):
        yield Asked(kind="image", gpus=(gpu,), asked=(f"{row['repository']}:{row['tag']}",))


def _on_cuda_tag(_: Matrix, row: Row) -> Iterator[Asked]:
    for kind in row["kinds"]:
        yield Asked(kind="image", gpus=("L4",), asked=(f"nvidia/cuda:{row['cuda']}-{kind}-{row['system']}",))


def _on_server_image(_: Matrix, row: Row) -> Iterator[Asked]:
    for arch, gpu in (("x86_64", "L4"), ("aarch64", "GH200 480GB"), ("x86_64", "V100"), ("x86_64", "Tesla K80")):
        asked = (f"triton=={row['release']}", "container-toolkit", "driver")
        yield Asked(kind="plan", arch=arch, gpus=(gpu,), asked=asked)
        yield Asked(kind="plan", arch=arch, gpus=(gpu,), asked=asked[:1], driver="580.65.06")


def _on_encoder(facts: Matrix, row: Row) -> Iterator[Asked]:
    words = [f"{engine}-{one}" for engine, known in (("nvenc", ENCODED), ("nvdec", DECODED)) for one in known]
    names = [row["name"]] if "name" in row else []
    names += [f"10de:{one.partition('/')[0][2:]}" for one in row.get("devices", ())]
    if "id" in row:
        products = facts.rows("gpus", "products", dict)
        names += [one["name"] for one in products if row["id"] in {one.get("encode"), one.get("decode")}][:3]
    yield from (Asked(kind="board", asked=(one.removeprefix("0x"),)) for one in row.get("devices", ()))
    for name in dict.fromkeys(names or ("L4", "GeForce RTX 3060", "GeForce GTX 1080 Ti")):
        yield from (Asked(kind="codec", gpus=(name,), asked=(word,)) for word in words)
        yield Asked(kind="plan", gpus=(name,), asked=("driver", "ffmpeg"))


def _on_model(_: Matrix, row: Row) -> Iterator[Asked]:
    group, name = row.get("group", ""), row.get("name", "")
    kind = (
        f'backend: "{row["backend"]}"'
        if row.get("backend")
        else f'platform: "{row.get("platform", "onnxruntime_onnx")}"'
    )
    tensor = '[{ name: "t" data_type: %s dims: [ 1 ] }]' % (name if group == "data-type" else "TYPE_FP32")
    text = f"{kind}\ninput {tensor}\noutput {tensor}\n"
    text += {"model": f"{name} {{ }}\n", "instance-kind": f"instance_group [{{ kind: {name} }}]\n"}.get(group, "")
    yield from (Asked(kind="model", asked=(text, month)) for month in ("19.05", "20.07", "23.01", "25.03"))


def _on_xid(facts: Matrix, row: Row) -> Iterator[Asked]:
    for one in facts.rows("driver-errors", "xids", dict):
        if row.get("number", one["number"]) == one["number"] and row["action"] == one["action"]:
            yield Asked(kind="kernel-log", asked=(f"NVRM: Xid (PCI:0000:01:00): {one['number']}, pid=1, name=a",))


def _on_known_bad(facts: Matrix, row: Row) -> Iterator[Asked]:
    """The releases at both ends of a fault, on its GPUs, its kernel and its systems."""
    places = [f"{one.id}{one.version}" for one in _some(_systems(facts, repos=row.get("repo", ())))] or [SERVER]
    kernel = re.search(r"\d+\.\d+(?:\.\d+)?", row.get("kernel", ""))
    gpus = [(name,) for name in row.get("gpus", ())] or list(ERAS[1:])
    versions = _within(facts, "driver", row["driver"])
    for place in places[:2]:
        for gpu in gpus:
            for version in {versions[0], versions[-1]} if versions else ():
                common: dict[str, Any] = {"os": place, "gpus": gpu, "kernel": kernel[0] if kernel else ""}
                for flavour in ("open", "proprietary"):
                    yield Asked(kind="check", **common, asked=(f"driver=={version}",), flavour=flavour)
                yield Asked(kind="plan", **common, asked=(f"driver=={version}",), flavour=row.get("flavour", "auto"))


_VALUES = {"hides": "7", "holds": "/usr/lib/x86_64-linux-gnu", "matches": "1"}


def _on_variable(_: Matrix, row: Row) -> Iterator[Asked]:
    values = {_VALUES.get(row["test"], "/nowhere/x"), "", "PCI_BUS_ID", "50", "LOC", "Socket", "wan7", "mlx9"}
    yield from (Asked(kind="environment", asked=(row["name"], value)) for value in sorted(values))


def _on_guest(_: Matrix, row: Row) -> Iterator[Asked]:
    os = "windows11" if row["os"] == "windows" else SERVER
    yield Asked(kind="check", os=os, gpus=("A100D-10C",), asked=(f"driver=={row['version']}",))
    yield Asked(kind="check", os=os, gpus=("T4-16Q",), asked=(f"driver=={row['version']}",))


SERVER = "ubuntu22.04"


def _on_platform(facts: Matrix, row: Row) -> Iterator[Asked]:
    """A component on each platform and architecture that a row names, in some of its versions."""
    systems = {"jetson": "l4t36", "windows": "windows11", "wsl": "wsl-ubuntu24.04"}
    for platform in row.get("platforms", (row.get("platform", ""),)):
        for arch in row.get("arch", ("x86_64", "aarch64")):
            os = "rhel8" if arch == "ppc64le" else systems.get(platform, SERVER)
            for version in _within(facts, MIRRORED.get(row["component"], row["component"]), row.get("versions", "")):
                yield Asked(kind="check", os=os, arch=arch, asked=(f"{row['component']}=={version}",))


def _on_unlisted(facts: Matrix, row: Row) -> Iterator[Asked]:
    """The versions of a component on a release of a system that the guides do not name."""
    for version in _within(facts, row["component"], row["versions"]):
        for system in row["systems"]:
            yield Asked(kind="check", os=system, arch="x86_64", asked=(f"{row['component']}=={version}",))


def _on_kernel(_: Matrix, row: Row) -> Iterator[Asked]:
    """Drivers of every era on the system that offers the kernel: some do not build on it."""
    for driver in ("390.77", "418.113", "450.51.06", "470.57.02", "515.43.04", "535.54.03", "550.54.14", "570.86.15"):
        for method in ("runfile", "network"):
            common = {"os": f"{row['id']}{row['version']}", "gpus": ("Tesla T4",), "asked": (f"driver=={driver}",)}
            yield Asked(kind="plan", **common, methods=(f"driver={method}",))


def _on_jetpack(_: Matrix, row: Row) -> Iterator[Asked]:
    for name in (f"jetpack{row['jetpack']}", f"l4t{row['l4t']}"):
        for gpu in ("Jetson AGX Orin", "Jetson AGX Xavier", "Jetson Nano", "Jetson TX2", "Jetson Thor"):
            yield Asked(kind="machine", os=name, arch=None, gpus=(gpu,))
            yield Asked(kind="check", os=name, arch="aarch64", gpus=(gpu,), asked=("cuda",))


def _on_switch(_: Matrix, row: Row) -> Iterator[Asked]:
    yield Asked(kind="switch", asked=(row["device"],))


def _on_trees(_: Matrix, row: Row) -> Iterator[Asked]:
    del row
    yield from (Asked(kind="tree", asked=(path.name,)) for path in sorted(TREES.iterdir()) if (path / "root").is_dir())


def _on_place(facts: Matrix, row: Row) -> Iterator[Asked]:
    """Systems, folders, keys and the like: the plans of the systems that the row names."""
    named = row.get("id", "") + row.get("version", "") if "id" in row else ""
    repo = row.get("repo", "")
    systems = [one for one in facts.systems if f"{one.id}{one.version}" == named]
    systems = systems or [one for one in facts.systems if repo and one.repo == repo]
    if not systems:
        wanted = set(row.get("systems", ()))
        systems = [one for one in facts.systems if wanted & {one.id, f"{one.id}{one.version}", one.family}]
    if not systems:
        by_name = {f"{one.id}{one.version}": one for one in facts.systems}
        systems = [by_name[os] for os, _, _ in HOSTS if os in by_name]
    stacks = (("driver", "cuda", "cudnn"), ("cuda",), ("cuda", "nv-codec-headers", "ffmpeg"), ("container-toolkit",))
    for system in _some(systems):
        name = f"{system.id}{system.version}"
        yield from (Asked(kind="machine", os=name, arch=arch) for arch in (None, "aarch64"))
        yield Asked(kind="check", os=name, gpus=("L4",), asked=("cuda",))
        for asked in stacks:
            for methods in ((), ("network",), ("runfile",), ("tar",), ("source",), ("distro",)):
                yield Asked(kind="plan", os=name, gpus=("L4",), asked=asked, methods=methods)
        yield Asked(kind="plan", os=name, arch="aarch64", gpus=("GH200 480GB",), asked=("driver", "cuda"))


def _of(kind: str, *texts: Callable[[Row], str]) -> Callable[[Matrix, Row], Iterator[Asked]]:
    """One question of a kind, with texts made from the row."""
    return lambda _, row: iter((Asked(kind=kind, asked=tuple(text(row) for text in texts)),))


def _adapter(codes: str) -> str:
    return f"NVRM: GPU 0000:01:00.0: RmInitAdapter failed! ({codes}:1234)"


def _named(words: Callable[[Row], str]) -> Callable[[Matrix, Row], Iterator[Asked]]:
    """The host that a name of GPUs means."""
    return lambda _, row: iter((Asked(kind="machine", arch=None, gpus=(words(row),)),))


def _on_framework(_facts: Matrix, row: Row) -> Iterator[Asked]:
    """A plan of a build by its version, for a Python that it has, on the newest and on an old system and GPU."""
    system, _, arch = row["platform"].partition("-")
    name = f"{row['component']}=={row['version']}"
    for python, os in ((row.get("python", "3.12"), "ubuntu24.04"), ("3.10", "ubuntu22.04")):
        place = {"os": "windows11" if system == "windows" else os, "arch": arch or "x86_64"}
        number = (re.findall(r"3\.\d+", python) or ["3.12"])[0]
        for gpu in ("L4", "Tesla V100-SXM2-32GB", "GeForce RTX 5090"):
            yield Asked(kind="check", asked=(name,), gpus=(gpu,), python=number, **place)
        for gpus in (("L4",), ()):  # builds for the CPU are for hosts without a GPU
            yield Asked(kind="plan", asked=(name,), gpus=gpus, python=number, **place)


def _on_variant(facts: Matrix, row: Row) -> Iterator[Asked]:
    """A build of PyTorch in its own index, on GPUs of every era."""
    for platform in row["platforms"]:
        system, _, arch = platform.partition("-")
        for build in facts.builds("torch"):
            if build.platform == platform and is_within(build.version, row["versions"]):
                asked = (f"torch=={build.version}+{row['local']}",)
                for gpus in ERAS[1:]:
                    os = "windows11" if system == "windows" else "ubuntu22.04"
                    yield Asked(kind="check", os=os, arch=arch, asked=asked, gpus=gpus, python="3.10")
                break


def _on_library(_facts: Matrix, row: Row) -> Iterator[Asked]:
    """The newest release of a row of NVIDIA's libraries as wheels, on systems of two C libraries."""
    for os in ("ubuntu24.04", "centos7"):
        for gpus in (("L4",), ("GeForce RTX 5090",)):
            arch = row["platforms"][-1].partition("-")[2]
            name = f"{row['component']}=={row['versions'][0]}"
            yield Asked(kind="check", os=os, arch=arch, asked=(name,), gpus=gpus, python="3.12")


def _on_capability(facts: Matrix, row: Row) -> Iterator[Asked]:
    """The newest release of a framework that compiles at run time, on GPUs of every era."""
    newest = max((one.version for one in facts.builds(row["component"])), key=version_key)
    for gpus in ERAS[1:]:
        yield Asked(kind="check", asked=(f"{row['component']}=={newest}",), gpus=gpus, python="3.12")


_OF_TABLES: dict[str, Callable[[Matrix, Row], Iterator[Asked]]] = {
    "packages": _on_packages,
    "framework_builds": _on_framework,
    "framework_files": _on_framework,
    "framework-indexes.variants": _on_variant,
    "framework-indexes.capabilities": _on_capability,
    "framework-indexes.library_wheels": _on_library,
    "archives": _on_archive,
    "rules": _on_rule,
    "releases": _on_release,
    "availability": _on_availability,
    "gpus.products": _on_product,
    "gpus.integrated": _on_product,
    "gpu-lists.devices": _on_listed,
    "gpu-lists.branches": _on_branch,
    "security.fixed": _on_fixed,
    "security.bulletins": _on_bulletin,
    "cuda.forward_compat": _on_bridge,
    "triton.images": _on_server_image,
    "ngc.image_rows": _on_image_tag,
    "ngc.older_rows": _on_image_tag,
    "ngc.months": _on_image_tag,
    "ngc.cuda_image_tags": _on_image_tag,
    "ngc.hub_tags": _on_hub_tag,
    "cuda-image-tags.tags": _on_cuda_tag,
    "nvenc.gpus": _on_encoder,
    "nvenc.encode_classes": _on_encoder,
    "nvenc.decode_classes": _on_encoder,
    "nvenc.session_limits": _on_encoder,
    "nvenc.codec_needs": _of("codec", lambda row: row["ability"]),
    "gpu-names.machines": _named(lambda row: row["name"]),
    "gpu-names.instances": _named(lambda row: row["name"]),
    "gpu-names.vgpu_boards": _named(lambda row: f"{row['board']}-4C"),
    "gpu-names.processors": _named(lambda row: f"10de:{row['devices'][0][2:]}"),
    "gpu-names.vgpu_guests": _on_guest,
    "gpu-figures.figures": lambda _, row: (
        Asked(kind="board", asked=(one.removeprefix("0x"),)) for one in row.get("devices", ())
    ),
    "driver.flavour_rules": lambda _, row: iter(
        Asked(kind="plan", gpus=(gpu,), asked=(f"driver=={one}",), flavour=row["flavour"])
        for gpu in ("L4", "V100", "B200", "GH200 480GB")
        for one in ("515.65.01", "580.65.06")
    ),
    "driver-errors.xids": _on_xid,
    "driver-errors.xid_actions": _on_xid,
    "driver-errors.kernel_log": _of("kernel-log", lambda row: "\n".join(f"NVRM: {text}" for text in row["wants"])),
    "driver-errors.service_log": _of("service-log", lambda row: " ".join((*row["wants"], *row.get("any", ())[:1]))),
    "driver-errors.rm_stages": _of("kernel-log", lambda row: _adapter(f"0x{int(row['code']):x}:0xffff")),
    "driver-errors.rm_statuses": _of("kernel-log", lambda row: _adapter(f"0x31:0x{int(row['code']):x}")),
    "known-bad.pairs": _on_known_bad,
    "environment.variables": _on_variable,
    "driver-errors.cuda": _of("error", lambda row: str(row["code"])),
    "driver-errors.nvml": _of("error", lambda row: str(row["code"])),
    "driver-errors.fabric_states": _of("error", lambda row: str(row["state"])),
    "ffmpeg-diagnosis.classify": _of("ffmpeg", lambda row: row["contains"], lambda _: "1"),
    "ffmpeg-diagnosis.exit_codes": _of("ffmpeg", lambda _: "", lambda row: str(row["code"])),
    "ffmpeg-diagnosis.guide_commands": _of("guide"),
    "tensorrt-tools.serializations": _of("engine", lambda row: str(row["number"])),
    "triton-server.config_names": _on_model,
    "triton-server.model_files": _on_model,
    "conflicts.conflicts": _on_trees,
    "conflicts.branch_ends": _on_trees,
    "gpus.nvswitches": _on_switch,
    "systems.kernels": _on_kernel,
    "jetpack.jetpacks": _on_jetpack,
    "applies.applies": _on_platform,
    "applies.elsewhere": _on_platform,
    "applies.unlisted": _on_unlisted,
}
