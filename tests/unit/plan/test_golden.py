"""Whole plans as files under tests/golden: a difference is reviewed like code. ``--update-golden`` writes them anew."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from msgspec.structs import replace

from gpustack.detect.describe import describe
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.facts import COMPONENTS
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.plan.document import digest_of
from gpustack.plan.managers import NAMES, manager
from gpustack.plan.managers.base import Package
from gpustack.render.api import render
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve

GOLDEN = Path(__file__).parents[2] / "golden"
TABLES = [Path(__file__).parents[3] / "matrices" / f"{name}.yaml" for name in ("preparation", "driver-installers")]
ARCHIVES = ("cuda-installers", "cudnn-archives", "tensorrt-archives", "nccl", "driver-installers")
SCRIPTS = sorted(GOLDEN.glob("*/*.shell"))
FORMATS = ("json", "shell")


def script_id(path: Path) -> str:
    return f"{path.parent.name}-{path.name.removesuffix('.shell')}"


class Case(NamedTuple):
    os: str
    name: str
    requirements: str
    gpus: tuple[str, ...] = ("L4",)
    arch: str = "x86_64"
    methods: tuple[str, ...] = ("network",)

    def __str__(self) -> str:
        return f"{self.os}-{self.name}"


FULL = "driver cuda cudnn tensorrt container-toolkit"
BASIC = "driver cuda cudnn"
BARE = "driver cuda"
SEED_805 = "cuda==11.1.* cudnn==8.0.5.*"
SEED_896 = "cuda==12.2.* cudnn==8.9.6.*"
T4 = ("Tesla T4",)
GRACE = ("GH200 480GB",)
JETSON = ("Jetson AGX Orin",)
TAR = ("cudnn=tar",)
LOCAL = ("cudnn=local",)
RUNFILE = ("cuda=runfile", "cudnn=tar")


def era_805(system: str, name: str, methods: tuple[str, ...]) -> Case:
    """The stack of the guide of cuDNN 8.0.5."""
    return Case(system, f"{name}-cudnn8.0.5", SEED_805, gpus=T4, methods=methods)


def era_896(system: str, name: str, methods: tuple[str, ...]) -> Case:
    """The stack of the guide of cuDNN 8.9.6."""
    return Case(system, f"{name}-cudnn8.9.6", SEED_896, gpus=T4, methods=methods)


NETWORK = ("network",)
NEWEST = (
    Case("ubuntu26.04", "network", "driver cuda tensorrt container-toolkit"),
    Case("ubuntu26.04", "network-cudnn", BASIC),
    Case("ubuntu26.04", "distro", BARE, methods=("distro",)),
    Case("ubuntu25.10", "network", BARE),
    Case("ubuntu24.04", "network", FULL),
    Case("ubuntu24.04", "network-sbsa", FULL, arch="aarch64", gpus=GRACE),
    Case("ubuntu24.04", "network-hgx", "driver fabric-manager cuda cudnn nccl", gpus=("H100 80GB HBM3",) * 8),
    Case("ubuntu24.04", "network-b200", "driver fabric-manager", gpus=("B200",)),
    Case("ubuntu24.04", "network-pascal", BASIC, gpus=("GeForce GTX 1080 Ti",)),
    Case("ubuntu24.04", "network-blackwell", BASIC, gpus=("GeForce RTX 5090",)),
    Case("ubuntu24.04", "network-h200-ffmpeg", "driver cuda ffmpeg", gpus=("H200",)),
    Case("ubuntu24.04", "source", "driver cuda nv-codec-headers ffmpeg", gpus=("GeForce RTX 4090",)),
    Case("ubuntu24.04", "tar", "driver cuda cudnn tensorrt", methods=("cudnn=tar", "tensorrt=tar")),
    Case("ubuntu24.04", "tar-cuda", "cuda", methods=("cuda=tar",)),
    Case("ubuntu24.04", "local", "driver cuda cudnn==9.14.*", methods=LOCAL),
    Case("ubuntu24.04", "local-cuda", "cuda==13.0.*", methods=("local",)),
    Case("ubuntu24.04", "runfile", "driver==580.95.05 cuda==13.0.2", methods=("runfile",)),
    Case("ubuntu24.04", "pip", "cudnn==9.14.*", methods=("cudnn=pip",)),
    Case("ubuntu24.04", "triton", "driver container-toolkit triton", methods=()),
    Case("ubuntu22.04", "network", FULL),
    Case("ubuntu20.04", "network", BASIC, gpus=T4),
    Case("ubuntu18.04", "network", BASIC, gpus=T4),
    Case("ubuntu16.04", "network", BARE, gpus=T4),
    Case("debian10", "network", BARE, gpus=T4),
    Case("debian11", "network", BASIC, gpus=T4),
    Case("debian12", "network", FULL),
    Case("debian12", "distro", BARE, methods=("distro",)),
    Case("debian13", "network", BASIC),
    Case("debian13", "distro", "driver cuda ffmpeg", methods=("distro",)),
    Case("linuxmint22", "network", BASIC),
    Case("linuxmint6", "network", BARE),
    Case("mx23", "distro", BARE, methods=("distro",)),
    Case("pop22.04", "network", BARE),
    Case("zorin17", "network", BARE),
    Case("kali2025.1", "network", BARE),
    Case("rhel7", "network", BARE, gpus=T4),
    Case("rhel8", "network", BASIC),
    Case("rhel8", "network-ppc64le", "cuda==12.2.* cudnn==8.9.6.*", arch="ppc64le", gpus=("V100-SXM2-16GB",)),
    Case("rhel9", "network", FULL),
    Case("rhel9", "network-sbsa", BARE, arch="aarch64", gpus=GRACE),
    Case("rhel10", "network", BASIC),
    Case("rocky8", "network", BARE),
    Case("rocky9", "network", FULL),
    Case("rocky9", "local", "driver cuda cudnn", methods=LOCAL),
    Case("almalinux9", "network", BARE),
    Case("almalinux10", "network", BARE),
    Case("ol9", "network", BARE),
    Case("centos9", "network", BARE),
    Case("fedora42", "network", BARE),
    Case("fedora44", "network", BARE),
    Case("amzn2", "network", BARE),
    Case("amzn2", "runfile", BARE, methods=("runfile",)),
    Case("amzn2023", "network", BARE),
    Case("azurelinux3.0", "network", BARE),
    Case("azurelinux4.0", "network", BARE),
    Case("kylin11", "network", BARE),
    Case("openEuler24.03", "network", BARE),
    Case("sles15.7", "network", BARE),
    Case("sles16", "network", BARE),
    Case("opensuse-leap15.6", "network", BASIC),
    Case("opensuse-leap16.0", "network", BARE),
    Case("opensuse-tumbleweed", "network", BARE),
    Case("wsl-ubuntu24.04", "network", "cuda", gpus=("GeForce RTX 4070",)),
    Case("wsl-ubuntu24.04", "network-driver", "driver==580.*", gpus=("GeForce RTX 4070",)),
    Case("l4t36", "network", "cuda", gpus=JETSON, arch="aarch64"),
    Case("l4t36", "network-driver", "driver", gpus=JETSON, arch="aarch64"),
    Case("alpine3.20", "network", BARE),
)
ERAS = (
    era_805("ubuntu16.04", "network", NETWORK),
    era_805("ubuntu18.04", "local", LOCAL),
    *(era_805("ubuntu20.04", name, how) for name, how in (("network", NETWORK), ("tar", TAR), ("local", LOCAL))),
    era_805("ubuntu22.04", "runfile", RUNFILE),
    era_805("ubuntu22.04", "network", NETWORK),
    era_805("ubuntu24.04", "network", NETWORK),
    *(era_805("rhel7", name, how) for name, how in (("network", NETWORK), ("tar", TAR), ("local", LOCAL))),
    era_805("rhel8", "network", NETWORK),
    era_896("ubuntu18.04", "network", NETWORK),
    era_896("ubuntu20.04", "network", NETWORK),
    *(era_896("ubuntu22.04", name, how) for name, how in (("network", NETWORK), ("tar", TAR), ("local", LOCAL))),
    era_896("ubuntu24.04", "network", NETWORK),
    era_896("debian11", "network", NETWORK),
    era_896("rhel7", "network", NETWORK),
    era_896("rhel8", "network", NETWORK),
    era_896("rhel9", "network", NETWORK),
    era_896("rhel9", "tar", TAR),
    era_896("sles15.7", "tar", TAR),
    Case("ubuntu22.04", "tar-sbsa-cudnn8.9.6", SEED_896, arch="aarch64", gpus=GRACE, methods=TAR),
)
CASES = (*NEWEST, *ERAS)


@cache
def matrix() -> Matrix:
    return load_matrix()


@cache
def plan_of(case: Case) -> Plan:
    """The plan with the digest of the facts blanked out: it changes with every row, and the golden files must not."""
    host = describe(matrix(), os=case.os, arch=case.arch, gpus=case.gpus)
    request = Request(
        requirements=merge(tuple(parse_requirement(text) for text in case.requirements.split())),
        methods=parse_methods(case.methods),
    )
    plan = replace(build(host, request, resolve(matrix(), host, request), matrix()), facts="0" * 64)
    return replace(plan, digest=digest_of(plan))


def outcome(case: Case) -> dict[str, str]:
    """The files that a case leads to: one a format, or one refusal."""
    try:
        plan = plan_of(case)
    except GpustackError as exc:
        return {"refused": f"exit {exc.exit_code}: {exc.code}\n{exc.message}\nhint: {exc.hint}\n"}
    return {name: render(plan, name) for name in FORMATS}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan_is_the_golden_one(case: Case, update_golden: bool) -> None:
    folder = GOLDEN / case.os
    found = outcome(case)
    if update_golden:
        folder.mkdir(parents=True, exist_ok=True)
        for old in [folder / f"{case.name}.{name}" for name in (*FORMATS, "refused")]:
            old.unlink(missing_ok=True)
        for name, text in found.items():
            (folder / f"{case.name}.{name}").write_text(text, encoding="utf-8")
    files = {name: folder / f"{case.name}.{name}" for name in (*FORMATS, "refused")}
    assert found == {name: path.read_text(encoding="utf-8") for name, path in files.items() if path.is_file()}


def test_every_golden_file_belongs_to_a_case() -> None:
    wanted = {(case.os, case.name) for case in CASES}
    found = [path for name in (*FORMATS, "refused") for path in GOLDEN.glob(f"*/*.{name}")]
    files = [path for path in found if not path.parent.name.startswith("windows")]
    assert {(path.parent.name, path.name.rpartition(".")[0]) for path in files} == wanted


FORBIDDEN = (
    r"7fa2af80\.pub",
    r"apt-key\s+(adv|add)",
    r"http://(?!localhost:)",
    r"trusted=yes|--allow-unauthenticated|--force-yes|--nogpgcheck|--no-gpg-checks|gpgcheck=0|--no-check-certificate",
    r"(?i)sslverify=(0|false)|curl[^\n]*\s(-k|--insecure)\b",
    r"<(distro|arch|version|packagepath|installpath|cudaPath|cuda_path)>|\bx\.x\.x\b|\bX\.Y\b",
    r"\$\{(OS|cudnn_version|cuda_version)\}|\$\(ARCH\)|\{(version|kernel|arch|branch|triplet)\}",
    r"--enable-cuda-sdk|[\u2013\u2014\u201c\u201d]",
)
"""What no plan may hold: withdrawn keys, unchecked packages, placeholders of a guide, dashes that no shell knows."""


@pytest.mark.parametrize("path", SCRIPTS, ids=script_id)
def test_no_golden_script_holds_what_none_may_hold(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [rule for rule in FORBIDDEN if re.search(rule, text)] == []


def test_golden_scripts_pass_shellcheck() -> None:
    command = ["shellcheck", "--shell=sh", "--format=gcc", *map(str, SCRIPTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


def known_words(plan: Plan) -> set[str]:
    """Every package name and pinned package that the tables hold for this stack, as any package manager spells it."""
    words: set[str] = set()
    versions = {name: entry.version for name, entry in plan.stack.items()}
    tools = [manager(family) for family in NAMES]
    for tool in tools:
        words.update((*tool.tools, *tool.hold_tools()))
    for component in COMPONENTS:
        for row in matrix().packages(component):
            version = versions.get(row.component, versions.get("driver", ""))
            pin = row.pin.replace("{version}", version)
            words.update(row.packages)
            words.update(tool.word(Package(name=name, pin=pin)) for tool in tools for name in row.packages)
            words.update(name.replace(f"*{version.partition('.')[0]}*", f"*{version}*") for name in row.packages)
    return words | other_words()


@cache
def other_words() -> frozenset[str]:
    """Every text of the tables of what a system needs first."""
    return frozenset(strings([yaml.safe_load(path.read_text(encoding="utf-8"))["tables"] for path in TABLES]))


def strings(value: object) -> set[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        return {text for item in value.values() for text in strings(item)}
    if isinstance(value, list):
        return {text for item in value for text in strings(item)}
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_package_and_version_of_a_plan_stands_in_the_tables(case: Case) -> None:
    try:
        plan = plan_of(case)
    except GpustackError:
        return
    known = known_words(plan)
    files = " ".join(row.file for subject in ARCHIVES for row in matrix().archives(subject))
    for step in plan.steps:
        if step.kind not in {"install-packages", "hold-packages"} or step.component == "":
            continue
        unknown = [word for word in step.packages if word not in known and not is_of_a_file(word, files)]
        assert unknown == [], step.title


def is_of_a_file(name: str, files: str) -> bool:
    """Whether a package is one that a downloaded file holds."""
    return f" {name}_" in f" {files}" or f" {name}-" in f" {files}"


@pytest.mark.parametrize("path", SCRIPTS, ids=script_id)
def test_golden_scripts_are_shell(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "plan.sh"
    script.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    for shell in (["dash"], ["busybox", "sh"]):
        parsed = subprocess.run([*shell, "-n", str(script)], capture_output=True, check=False)
        assert parsed.returncode == 0, parsed.stderr
        shown = subprocess.run([*shell, str(script), "--dry-run"], capture_output=True, check=False, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert list(tmp_path.iterdir()) == [script]
