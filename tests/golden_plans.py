"""Which plans lie under tests/golden: every system x method x era of the matrix, and some machines of interest.

``plans.txt`` of a system has them as texts for review (tests/plan_text.py): whole for one system of each family, as
differences from that one for the others.

The cases come from the rows of matrices/systems.yaml, so that a new system has golden plans without a word here. A
system with a repository folder of its own has every method, era and architecture; one that only borrows its base's has
the repository's plans; one without has what it is told instead. ``refused.txt`` of a system holds all that cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace
from tests.plan_text import differences, plan_lines, without_repeats
from tests.shared import made_once

from gpustack import resources
from gpustack.detect.describe import describe
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Gpu, Host
from gpustack.model.places import System
from gpustack.model.plan import Plan
from gpustack.model.request import Request, Target
from gpustack.model.resolution import Resolution
from gpustack.plan.build import build
from gpustack.plan.document import digest_of
from gpustack.plan.targets import demand_host
from gpustack.render.api import render
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve

GOLDEN = Path(__file__).parent / "golden"
PLANS = "plans.txt"
REFUSED = "refused.txt"

BASES = {
    "apt": ("ubuntu24.04", "ubuntu20.04", "ubuntu18.04"),
    "dnf": ("rhel9", "rhel8"),
    "yum": ("rhel7",),
    "tdnf": ("azurelinux3.0",),
    "zypper": ("sles15.7", "sles15.4"),
    "windows": ("windows11", "windows-server2022"),
}
"""The systems of each family whose plans are kept whole; those of the others are kept as differences from these."""

SCRIPTED = {
    *((system, "network") for system in ("ubuntu24.04", "debian12", "rhel9", "sles15.7", "azurelinux3.0")),
    ("ubuntu24.04", "tar"),
    ("ubuntu24.04", "source"),
    ("windows11", "zip"),
}
"""Plans that are kept as scripts as well."""

GUIDES = ("", "-cudnn-8.0.5", "-cudnn-8.9.6")
"""The newest stack, and the eras of both guides of cuDNN, as names of files end."""

NOW = GUIDES[:1]

CUDA_805, CUDA_896 = "cuda==11.1.*", "cuda==12.2.*"
STACK_805, STACK_896 = f"{CUDA_805} cudnn==8.0.5.*", f"{CUDA_896} cudnn==8.9.6.*"

NEWEST = {
    "network": ("driver cuda cudnn tensorrt container-toolkit", "driver cuda cudnn", "driver cuda"),
    "local": ("driver cuda cudnn", "driver cuda"),
    "tar": ("cuda cudnn tensorrt nccl", "cuda cudnn"),
    "runfile": ("driver cuda",),
    "distro": ("driver cuda ffmpeg", "driver cuda", "driver"),
    "pip": ("cuda cudnn nccl tensorrt", "cuda cudnn"),
    "source": ("driver cuda nv-codec-headers ffmpeg", "nv-codec-headers ffmpeg"),
    "container": ("driver container-toolkit triton", "container-toolkit triton"),
    "zip": ("cuda cudnn tensorrt",),
}
"""The newest stack of each method: what is asked, and what is asked where the system has no such offer."""

ERAS = {
    "network": (STACK_805, STACK_896),
    "local": (STACK_805, STACK_896),
    "tar": (STACK_805, STACK_896),
    "runfile": (STACK_805, STACK_896),
    "distro": (STACK_805, STACK_896),
    "pip": (STACK_805, STACK_896),
    "source": (f"{CUDA_805} nv-codec-headers==10.0.* ffmpeg==4.3.*", f"{CUDA_896} nv-codec-headers==12.1.* ffmpeg==6.1.*"),
    "container": ("driver container-toolkit triton==20.12", "driver container-toolkit triton==23.10"),
    "zip": ("cuda==11.0.* cudnn==8.0.5.*", STACK_896),
}  # fmt: skip
"""The stack of each guide's time; Windows had no cuDNN 8.0.5 for CUDA 11.1."""

MIXED = {
    "tar": ("cudnn=tar", "tensorrt=tar", "nccl=tar"),
    "local-cudnn-8.0.5": ("cudnn=local",),
    "local-cudnn-8.9.6": ("cudnn=local",),
    "tar-cudnn-8.0.5": ("cudnn=tar",),
    "tar-cudnn-8.9.6": ("cudnn=tar",),
    "runfile-cudnn-8.0.5": ("cuda=runfile", "cudnn=tar"),
    "runfile-cudnn-8.9.6": ("cuda=runfile", "cudnn=tar"),
}
"""Where the guides take one component by the method, and the toolkit as it comes."""

NAMED = ("ubuntu", "debian", "rhel")
"""Systems of both guides of cuDNN: every method and era, also where their support has ended."""

SAME_EVERYWHERE = ("zip", "runfile", "pip", "container")
"""Methods that hardly know the system: kept for supported ones, and their eras for the systems of the guides."""

DRIVERLESS = ("wsl-ubuntu", "l4t", "windows", "windows-server")
"""Systems whose driver is not the plan's to install: their goldens ask for none."""

BOARDS = {"x86_64": "L4", "aarch64": "GH200 480GB", "ppc64le": "V100-SXM2-16GB"}
ERA_BOARDS = {"x86_64": "Tesla T4", "aarch64": "A100-PCIE-40GB", "ppc64le": "V100-SXM2-16GB"}
POWER_DRIVER = "535.104.05"
"""On POWER the driver is there: no fact says what its packages are called in the folders for ppc64le."""

SERVER_ARCHITECTURES = {"sbsa": "aarch64", "ppc64le": "ppc64le", "ppc64el": "ppc64le"}


class Case(NamedTuple):
    """One golden plan: the first of the ``asked`` requirements that can be planned; the others are refused."""

    os: str
    name: str
    asked: tuple[str, ...]
    methods: tuple[str, ...]
    gpus: tuple[str, ...]
    arch: str = "x86_64"
    target: Target = ""
    driver: str | None = None

    @property
    def form(self) -> Literal["shell", "powershell"]:
        """The form of script that its system runs."""
        return "powershell" if self.os.startswith("windows") else "shell"

    def __str__(self) -> str:
        return f"{self.os}-{self.name}"


def extra(os: str, name: str, asked: str, *gpus: str, methods: tuple[str, ...] = (), target: Target = "") -> Case:
    """A machine of interest."""
    arch = "aarch64" if os.startswith("l4t") else "x86_64"
    return Case(os, name, (asked,), methods, gpus or ("L4",), arch, target)


BASIC = "driver cuda cudnn"
EXTRA = (
    extra("ubuntu24.04", "network-hgx", "driver fabric-manager cuda cudnn nccl", *("H100 80GB HBM3",) * 8),
    extra("ubuntu24.04", "network-b200", "driver fabric-manager", "B200"),
    extra("ubuntu24.04", "network-pascal", BASIC, "GeForce GTX 1080 Ti"),
    extra("ubuntu24.04", "network-blackwell", BASIC, "GeForce RTX 5090"),
    extra("ubuntu24.04", "network-h200-ffmpeg", "driver cuda ffmpeg", "H200"),
    extra("ubuntu24.04", "network-580", "driver==580.* cuda==12.* cudnn tensorrt==10.*", "A10"),
    extra("ubuntu24.04", "network-dcgm", "driver==570.* dcgm", "H100 80GB HBM3"),
    extra("rhel9", "network-dcgm", "dcgm==4.2.*", "L4"),
    extra("sles15.7", "network-dcgm", "driver dcgm", "L4"),
    extra("ubuntu24.04", "network-gds", "driver==580.* cuda==13.0.* gds", "H100 80GB HBM3"),
    extra("ubuntu24.04", "tar-cuda", "cuda", methods=("tar",)),
    extra("ubuntu24.04", "pip-tensorrt-rtx", "cuda tensorrt-rtx", "GeForce RTX 5090", methods=("pip",)),
    extra("rhel9", "network-tensorrt-rtx", "driver tensorrt-rtx", "GeForce RTX 4090"),
    extra("rhel9", "tar-cuda", "cuda cudnn", methods=("tar",)),
    extra("ubuntu24.04", "local-cudnn", "driver cuda cudnn==9.14.*", methods=("cudnn=local",)),
    extra("ubuntu24.04", "local-cuda", "cuda==13.0.*", methods=("local",)),
    extra("rocky9", "local-cudnn", BASIC, methods=("cudnn=local",)),
    extra("rhel9", "network-hgx", "driver fabric-manager cuda cudnn nccl", *("H100 80GB HBM3",) * 8),
    extra("ubuntu24.04", "target-sbsa", "cuda cudnn", target="sbsa"),
    extra("ubuntu22.04", "target-sbsa-cudnn-8.9.6", STACK_896, "Tesla T4", target="sbsa"),
    extra("ubuntu18.04", "target-drive-os-cudnn-8.0.5", "cuda==11.0.3", "Tesla T4", target="drive-os"),
    extra("ubuntu18.04", "target-qnx-cudnn-8.0.5", "cuda==11.0.3", "Tesla T4", target="qnx"),
    extra("ubuntu18.04", "network-cudnn-8.9.6-cuda-11.8", "cuda==11.8.* cudnn==8.9.6.*", "Tesla T4"),
    extra("openeuler24.03", "runfile", "driver cuda", methods=("runfile",)),
    extra("kali", "runfile", "driver cuda", methods=("runfile",)),
    extra("amzn2", "runfile", "driver cuda", methods=("runfile",)),
    extra("amzn2", "tar", "cudnn", methods=("cudnn=tar",)),
    extra("wsl-ubuntu24.04", "network-driver", "driver==580.*", "GeForce RTX 4070"),
    extra("l4t36", "network-driver", "driver", "Jetson AGX Orin"),
    extra("windows11", "zip-driver", "driver cuda", "GeForce RTX 3060", methods=("zip",)),
    extra("windows11", "zip-cudnn-8.0.5-cuda-11.1", STACK_805, "GeForce RTX 3060", methods=("zip",)),
    extra("windows-server2022", "source-cuda-12.9", "cuda==12.9.* nv-codec-headers==12.1.* ffmpeg==7.1.5", "Tesla T4"),
    extra("windows-server2022", "zip-cudnn-8.9.7-cuda-11.8", "cuda==11.8.* cudnn==8.9.7.*", "Tesla T4", methods=("zip",)),
)  # fmt: skip


@cache
def matrix() -> Matrix:
    return load_matrix()


def name_of(row: System) -> str:
    return f"{row.id}{row.version}"


@cache
def cases() -> dict[str, tuple[Case, ...]]:
    """The cases of every system, in the order of the matrix."""
    found = {
        name_of(row): (*_of_system(row), *(case for case in EXTRA if case.os == name_of(row)))
        for row in matrix().systems
    }
    assert {case.os for case in EXTRA} <= found.keys()
    return found


def _of_system(row: System) -> Iterator[Case]:
    is_supported = row.id in NAMED or _support_of(row) in {"yes", "preview"}
    if row.family == "windows":
        # The archives are the same for all releases of Windows: the eras are kept for one desktop and one server.
        eras = GUIDES if row.version in {"11", "2022"} else NOW
        for method in NEWEST:
            yield from _of_method(row, method, "x86_64", eras if method == "zip" else NOW)
    elif row.id == "l4t":
        for method in ("network", "tar"):
            yield from _of_method(row, method, "aarch64", NOW)
    elif row.base or not row.repo:
        yield from _of_method(row, "network", "x86_64", GUIDES if is_supported else NOW)
    else:
        yield from _of_folder(row, GUIDES if is_supported else NOW, is_supported=is_supported)


def _of_folder(row: System, eras: tuple[str, ...], *, is_supported: bool) -> Iterator[Case]:
    for method in NEWEST:
        if method not in SAME_EVERYWHERE:
            yield from _of_method(row, method, "x86_64", eras)
        elif is_supported:
            yield from _of_method(row, method, "x86_64", eras if row.id in NAMED and method != "zip" else NOW)
    for arch in dict.fromkeys(SERVER_ARCHITECTURES[word] for word in row.arch if word in SERVER_ARCHITECTURES):
        for method in ("network", "tar"):
            yield from _of_method(row, method, arch, eras)


@cache
def _supports() -> dict[tuple[str, str], str]:
    return {(raw["id"], raw.get("version", "")): raw["support"] for raw in matrix().rows("systems", "systems", dict)}


def _support_of(row: System) -> str:
    return _supports()[row.id, row.version]


def _of_method(row: System, method: str, arch: str, eras: tuple[str, ...]) -> Iterator[Case]:
    asked = dict(zip(GUIDES, (NEWEST[method], *((text,) for text in ERAS[method])), strict=True))
    folder = "" if arch == "x86_64" or row.id == "l4t" else f"-{'sbsa' if arch == 'aarch64' else arch}"
    for era in eras:
        kind = f"{method}{era}"
        yield Case(
            os=name_of(row),
            name=f"{method}{folder}{era}",
            asked=_without_driver(asked[era]) if row.id in DRIVERLESS else asked[era],
            methods=MIXED.get(kind, (method,)),
            gpus=(_board(row, arch, is_old=bool(era) or "" < row.eol < "2026"),),
            arch=arch,
            driver=POWER_DRIVER if arch == "ppc64le" else None,
        )


def _board(row: System, arch: str, *, is_old: bool) -> str:
    """A board that the system and the stack of its time know."""
    module = {"32": "Jetson Nano", "37": "Jetson AGX Thor", "38": "Jetson AGX Thor"}.get(row.version, "Jetson AGX Orin")
    own = {"l4t": module, "wsl-ubuntu": "GeForce RTX 4070", "windows": "GeForce RTX 3060"}.get(row.id)
    if own and (not is_old or row.id == "l4t"):
        return own
    return (ERA_BOARDS if is_old else BOARDS)[arch]


def _without_driver(asked: tuple[str, ...]) -> tuple[str, ...]:
    left = (" ".join(word for word in text.split() if word != "driver") for text in asked)
    return tuple(dict.fromkeys(text for text in left if text))


@cache
def _gpus(name: str) -> tuple[Gpu, ...]:
    return describe(matrix(), os="ubuntu24.04", arch=None, gpus=(name,)).gpus


@cache
def _host(os: str, arch: str, driver: str | None) -> Host:
    return describe(matrix(), os=os, arch=arch, driver=driver)


def host_of(case: Case) -> Host:
    """The machine; a board is looked up once for all of them."""
    return replace(_host(case.os, case.arch, case.driver), gpus=tuple(gpu for name in case.gpus for gpu in _gpus(name)))


def request_of(case: Case, asked: str) -> Request:
    return Request(
        requirements=merge(tuple(parse_requirement(text) for text in asked.split())),
        methods=parse_methods(case.methods),
        target=case.target,
    )


class Outcome(NamedTuple):
    """What became of a case: the stack and the plan, if there is one, and what was said of all that was asked before."""

    case: Case
    plan: Plan | None
    refusals: tuple[str, ...]
    resolution: Resolution | None = None


@cache
def outcome(case: Case) -> Outcome:
    """Plan the case, once for all tests of a run, with digest and date of the facts blanked out: they change with every row, and golden files must not."""
    return made_once(f"golden-{case}", lambda: _planned(case))


def _planned(case: Case) -> Outcome:
    refusals = []
    for asked in case.asked:
        try:
            host, request = host_of(case), request_of(case, asked)
            demand_host(matrix(), host, request)
            resolution = resolve(matrix(), host, request)
            made = build(host, request, resolution, matrix())
            plan = replace(made, facts="0" * 64, facts_date=UNSET)
        except GpustackError as exc:
            refusals.append(_refusal(case, asked, exc))
            continue
        return Outcome(case, replace(plan, digest=digest_of(plan)), tuple(refusals), resolution)
    return Outcome(case, None, tuple(refusals))


def _refusal(case: Case, asked: str, exc: GpustackError) -> str:
    options = [
        *(f"--method {method}" for method in case.methods),
        *([f"--target {case.target}"] if case.target else []),
    ]
    where = f" ({exc.where})" if exc.where else ""
    lines = [" ".join((f"{case.name}:", asked, *options)), f"exit {exc.exit_code}: {exc.code}{where}", exc.message]
    return "\n".join((*lines, f"hint: {exc.hint}", ""))


def golden_files(outcomes: tuple[Outcome, ...]) -> dict[str, str]:
    """Every file of one system: its name and its content."""
    planned = [one for one in outcomes if one.plan is not None]
    refusals = [text for one in outcomes for text in one.refusals]
    found = {f"{one.case.name}.{one.case.form}": kept_script(one) for one in planned if _is_kept_as_script(one.case)}
    if planned:
        found[PLANS] = without_repeats([_reviewed(one) for one in planned])
    return {**found, REFUSED: "\n".join(refusals)} if refusals else found


def script_of(one: Outcome) -> str:
    """The plan as a script for its system."""
    assert one.plan is not None
    return render(one.plan, one.case.form)


def _is_kept_as_script(case: Case) -> bool:
    return (case.os, case.name) in SCRIPTED


def kept_script(one: Outcome) -> str:
    """The script without the functions that all scripts of its form share, and without digests."""
    script = script_of(one)
    for function in _functions(one.case.form):
        script = script.replace(f"{function}\n", "")
    script = script.replace(f"/script-{one.plan.digest[:12]}", "/script-PLAN") if one.plan else script
    return re.sub(r"\b[0-9a-f]{64}\b", "SHA256", re.sub(r"\n{3,}", "\n\n", script))


@cache
def _functions(form: str) -> tuple[str, ...]:
    """The functions of the form's template, each as it stands in the scripts that call it."""
    paths, begin = {
        "shell": (("shell/helpers.sh",), r"#|[a-z_]+\(\)"),
        "powershell": (tuple(f"powershell/{name}.ps1" for name in ("functions", "host", "checks")), r"#|function "),
    }[form]
    texts = [(resources.folder("templates") / path).read_text(encoding="utf-8") for path in paths]
    return tuple(one for text in texts for one in re.split(rf"\n\n(?={begin})", text.rstrip("\n")))


def _reviewed(one: Outcome) -> list[str]:
    """The plan whole where its system is the first of its family that has this case, else how it differs from that."""
    assert one.plan is not None
    title = f"== {one.case.name}: {' '.join(map(str, one.plan.request.requirements))}"
    own = plan_lines(one.plan)
    base = _base(one.case, one.plan.host.os.family or "")
    if base is not None and base.plan is not None:
        changed = differences(plan_lines(base.plan), own)
        if len(changed) < len(own):
            return [f"{title}; as {base.case.os} but for", *changed]
    return [title, *own]


def _base(case: Case, family: str) -> Outcome | None:
    """The plan of this name that the case is compared with, None where it is the first itself."""
    for system in BASES.get(family, ()):
        if system == case.os:
            return None
        for other in cases()[system]:
            if other.name == case.name and (found := outcome(other)).plan is not None:
                return found
    return None
