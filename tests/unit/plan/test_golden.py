"""Whole plans as files under tests/golden: a difference is reviewed like code. ``--update-golden`` writes them anew."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from gpustack.detect.describe import describe
from gpustack.errors import GpustackError
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.plan.build import build
from gpustack.plan.document import digest_of
from gpustack.render.api import render
from gpustack.solve.requirements import merge, parse_methods, parse_requirement
from gpustack.solve.resolve import resolve

GOLDEN = Path(__file__).parents[2] / "golden"
FORMATS = ("json", "table", "shell")


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
CASES = (
    Case("ubuntu26.04", "network", "driver cuda tensorrt container-toolkit"),
    Case("ubuntu26.04", "network-cudnn", BASIC),
    Case("ubuntu24.04", "network", FULL),
    Case("ubuntu24.04", "network-sbsa", FULL, arch="aarch64", gpus=("GH200 480GB",)),
    Case("ubuntu24.04", "network-hgx", "driver fabric-manager cuda cudnn nccl", gpus=("H100 80GB HBM3",) * 8),
    Case("ubuntu24.04", "network-pascal", BASIC, gpus=("GeForce GTX 1080 Ti",)),
    Case("ubuntu24.04", "network-blackwell", BASIC, gpus=("GeForce RTX 5090",)),
    Case("ubuntu24.04", "network-h200-ffmpeg", "driver cuda ffmpeg", gpus=("H200",)),
    Case("ubuntu24.04", "source", "driver cuda nv-codec-headers ffmpeg", gpus=("GeForce RTX 4090",)),
    Case("ubuntu24.04", "tar", "driver cuda cudnn tensorrt", methods=("cudnn=tar", "tensorrt=tar")),
    Case("ubuntu24.04", "local", "driver cuda cudnn==9.14.*", methods=("cudnn=local",)),
    Case("ubuntu24.04", "triton", "driver container-toolkit triton", methods=()),
    Case("ubuntu22.04", "network", FULL),
    Case("ubuntu22.04", "network-cudnn8.9.6", "driver cuda==12.2.* cudnn==8.9.6.*", gpus=("Tesla T4",)),
    Case("ubuntu22.04", "tar-cudnn8.9.6", "cuda==12.2.* cudnn==8.9.6.*", gpus=("Tesla T4",), methods=("cudnn=tar",)),
    Case("ubuntu20.04", "network-cudnn8.0.5", "cuda==11.1.* cudnn==8.0.5.*", gpus=("Tesla T4",)),
    Case("ubuntu20.04", "tar-cudnn8.0.5", "cuda==11.1.* cudnn==8.0.5.*", gpus=("Tesla T4",), methods=("cudnn=tar",)),
    Case("ubuntu20.04", "local-cudnn8.0.5", "cuda==11.1.* cudnn==8.0.5.*", gpus=("Tesla T4",), methods=("cudnn=local",)),
    Case("ubuntu16.04", "network", "driver cuda", gpus=("Tesla T4",)),
    Case("debian12", "network", FULL),
    Case("debian12", "distro", "driver cuda", methods=("distro",)),
    Case("debian13", "distro", "driver cuda ffmpeg", methods=("distro",)),
    Case("debian13", "network", "driver cuda"),
    Case("rhel7", "network", "driver cuda", gpus=("Tesla T4",)),
    Case("rhel8", "network", BASIC),
    Case("rhel9", "network", FULL),
    Case("rhel10", "network", BASIC),
    Case("rocky9", "network", FULL),
    Case("ol9", "network", "driver cuda"),
    Case("fedora44", "network", "driver cuda"),
    Case("amzn2023", "network", "driver cuda"),
    Case("azurelinux3.0", "network", "driver cuda"),
    Case("kylin11", "network", "driver cuda"),
    Case("sles15.7", "network", "driver cuda"),
    Case("sles16", "network", "driver cuda"),
    Case("opensuse-leap15.6", "network", "driver cuda"),
    Case("linuxmint22", "network", BASIC),
    Case("wsl-ubuntu24.04", "network", "cuda", gpus=("GeForce RTX 4070",)),
    Case("l4t36", "network", "cuda", gpus=("Jetson AGX Orin",), arch="aarch64"),
    Case("alpine3.20", "network", "driver cuda"),
    Case("ubuntu25.10", "network", "driver cuda"),
    Case("wsl-ubuntu24.04", "network-driver", "driver==580.*", gpus=("GeForce RTX 4070",)),
)


@cache
def matrix() -> Matrix:
    return load_matrix()


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
    there = {path.suffix[1:]: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.stem == case.name}
    assert found == there


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*.shell")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_scripts_are_shell(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "plan.sh"
    script.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    parsed = subprocess.run(["sh", "-n", str(script)], capture_output=True, check=False)
    assert parsed.returncode == 0, parsed.stderr
    shown = subprocess.run(["sh", str(script), "--dry-run"], capture_output=True, check=False, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert list(tmp_path.iterdir()) == [script]
