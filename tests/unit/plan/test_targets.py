"""Building for another machine: chapter 4 of both cuDNN guides, step by step, on today's packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.unit.plan.making import commands, contents, host, matrix, words
from tests.unit.plan.test_build import demand_sound

from gpustack.cli.asking import host_and_request
from gpustack.cli.stack_options import StackOptions
from gpustack.detect.api import detect
from gpustack.errors import GpustackError, UnsupportedError, UsageError
from gpustack.model.host import Host
from gpustack.model.plan import Plan
from gpustack.model.request import Request, Requirement
from gpustack.model.steps import Step
from gpustack.plan.build import build
from gpustack.solve.requirements import parse_requirement
from gpustack.solve.resolve import resolve


def made(*requirements: str, **options: str) -> Plan:
    asked = StackOptions(requirements=requirements, arch=options.pop("arch", "x86_64"), **options)  # type: ignore[arg-type]
    machine, request = host_and_request(matrix(), asked)
    plan = build(machine, request, resolve(matrix(), machine, request), matrix())
    demand_sound(plan)
    return plan


def place(plan: Plan, text: str) -> int:
    return next(number for number, step in enumerate(plan.steps) if text in step.title)


def by_hand(plan: Plan) -> list[Step]:
    return [step for step in plan.steps if step.kind == "manual"]


def test_8_9_6_section_4_1_1_the_toolkit_and_its_cross_packages_for_sbsa() -> None:
    """Toolkit of the host, then cuda-cross-sbsa; the guide's local files are the network's folders here."""
    plan = made("cuda==12.2.2", "cudnn==8.9.6.50", target="sbsa", os="ubuntu22.04")
    assert "cuda-toolkit-12-2=12.2.2-1" in words(plan)
    assert "cuda-cross-sbsa-12-2" in words(plan)
    assert "cuda-cross-sbsa*" not in words(plan)
    assert place(plan, "install cuda 12.2.2") < place(plan, "install cuda-cross-sbsa-12-2")
    sources = contents(plan)["/etc/apt/sources.list.d/cuda-ubuntu2204-cross-linux-sbsa.sources"]
    assert "Signed-By: /usr/share/keyrings/cuda-cross-archive-keyring.gpg" in sources
    assert "/ubuntu2204/cross-linux-sbsa/" in sources


def test_8_9_6_section_4_1_2_cudnn_for_sbsa_and_the_compiler() -> None:
    """libcudnn8, -dev and -samples (which the guide misprints), the cross package by hand, g++ for Arm."""
    plan = made("cuda==12.2.2", "cudnn==8.9.6.50", target="sbsa", os="ubuntu22.04")
    for name in ("libcudnn8=8.9.6.50-1+cuda12.2", "libcudnn8-dev=8.9.6.50-1+cuda12.2", "libcudnn8-samples="):
        assert name in words(plan)
    assert "libcudnn-samples" not in words(plan)
    assert "g++-aarch64-linux-gnu" in words(plan)
    (manual,) = by_hand(plan)
    assert manual.title.startswith("install libcudnn8-cross-sbsa=8.9.6.50-1+cuda12.2")
    assert "login" in manual.why


def test_8_9_6_section_4_1_3_a_sample_is_built_from_a_copy() -> None:
    """cp of the samples, then make TARGET_ARCH=aarch64 SBSA=1; not with sudo in a home folder."""
    plan = made("cuda==12.2.2", "cudnn==8.9.6.50", target="sbsa", os="ubuntu22.04")
    step = plan.steps[place(plan, "build the samples")]
    assert step.commands[2][:5] == ("cp", "-R", "-P", "--", "/usr/src/cudnn_samples_v8")
    assert step.commands[3][-2:] == ("TARGET_ARCH=aarch64", "SBSA=1")
    assert "CUDA_PATH=/usr/local/cuda-12.2" in step.commands[3]
    assert place(plan, "libcudnn8-cross-sbsa") < place(plan, "build the samples")


def test_each_sample_is_built_and_one_that_fails_is_named(tmp_path: Path) -> None:
    """The plan's own command with a make of the tests: mnistCUDNN lacks FreeImage, and RNN fails here."""
    plan = made("cuda==12.2.2", "cudnn==8.9.6.50", target="sbsa", os="ubuntu22.04")
    step = plan.steps[place(plan, "build the samples")]
    copy, log, make = tmp_path / "it's samples", tmp_path / "log", tmp_path / "make"
    for name in ("conv_sample", "mnistCUDNN", "RNN", "multiHeadAttention"):
        (copy / name).mkdir(parents=True)
        (copy / name / "Makefile").touch()
    make.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$2" != RNN ]\n')
    make.chmod(0o755)
    *front, path, place_of_copy = step.commands[4][:6]
    assert front == ["sh", "-c", step.commands[4][2], "sh"]
    assert path.startswith("/usr/local/cuda-12.2/bin:")
    assert place_of_copy.endswith("/cudnn_samples_v8")
    argv = (*front, f"{tmp_path}:/usr/bin:/bin", str(copy), *step.commands[4][6:])
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    rest = "CUDA_PATH=/usr/local/cuda-12.2 TARGET_ARCH=aarch64 SBSA=1"
    assert sorted(log.read_text().splitlines()) == [f"-C RNN {rest}", f"-C multiHeadAttention {rest}"]
    assert ended.stderr == "RNN was not built\n"


def test_today_sbsa_needs_nothing_by_hand() -> None:
    plan = made(target="sbsa", os="ubuntu24.04")
    assert not by_hand(plan)
    cudnn = plan.stack["cudnn"].version
    assert f"libcudnn9-cross-sbsa-cuda-13={cudnn}-1" in words(plan)
    assert "cudnn_samples_v9" in words(plan)


def test_8_0_5_section_4_1_drive_os_linux() -> None:
    """4.1.1 toolkit and cuda-cross-aarch64, 4.1.2 libcudnn7-cross-aarch64 and -dev, 4.1.3 make TARGET_ARCH=aarch64."""
    plan = made("cuda==11.0.3", target="drive-os", os="ubuntu18.04")
    text = words(plan)
    assert "cuda-toolkit-11-0=11.0.3-1" in text
    assert "cuda-cross-aarch64-11-0" in text
    assert "/ubuntu1804/cross-linux-aarch64/" in "".join(contents(plan).values())
    (manual,) = by_hand(plan)
    assert "libcudnn7-cross-aarch64 and libcudnn7-dev-cross-aarch64" in manual.title
    assert "DRIVE OS SDK, behind a login" in manual.why
    build_step = plan.steps[place(plan, "build the samples")]
    assert build_step.commands[3][-1] == "TARGET_ARCH=aarch64"
    assert "/usr/src/cudnn_samples_v7" in build_step.commands[2]
    assert manual.id in build_step.depends_on
    assert any("the one CUDA release" in warning for warning in plan.warnings)


def test_8_0_5_section_4_2_drive_os_qnx() -> None:
    """4.2.1 toolkit here and cuda-cross-qnx by hand, 4.2.2 cuDNN, 4.2.3 the variables, 4.2.4 the sample."""
    plan = made("cuda==11.0.3", target="qnx", os="ubuntu18.04")
    assert "cuda-toolkit-11-0=11.0.3-1" in words(plan)
    titles = [step.title for step in by_hand(plan)]
    assert titles[0] == "install cuda-cross-qnx from the DRIVE SDK"
    assert "libcudnn7-cross-aarch64" in titles[1]
    assert titles[2] == "build a sample for QNX"
    variables = contents(plan)["/opt/gpustack/targets/qnx.sh"]
    assert "export CUDA_PATH=/usr/local/cuda-11.0" in variables
    assert 'export QNX_HOST="${QNX_SDP}/host/linux/x86_64"' in variables
    assert 'export QNX_TARGET="${QNX_SDP}/target/qnx7"' in variables
    assert "TARGET_OS=QNX TARGET_ARCH=aarch64 HOST_COMPILER=" in by_hand(plan)[2].why


@pytest.mark.parametrize("target", ["drive-os", "qnx"])
def test_a_drive_target_gets_another_cudnn_than_the_host(target: str) -> None:
    plan = made("cuda==11.1.1", "cudnn==8.0.5.39", target=target, os="ubuntu18.04")
    words = "cuDNN 8.0.5.39 is for this host only: the target gets the cuDNN 7 of the DRIVE SDK"
    assert any(words in text for text in plan.warnings), plan.warnings


@pytest.mark.parametrize("target", ["sbsa", "drive-os", "qnx"])
def test_no_driver_comes_with_a_target(target: str) -> None:
    plan = made(target=target, os="ubuntu22.04", gpus=("L4",))  # type: ignore[arg-type]
    assert "driver" not in plan.stack
    assert not any(argv[0] == "reboot" or "nvidia-driver" in " ".join(argv) for argv in commands(plan))
    assert "./mnistCUDNN" not in words(plan)
    with pytest.raises(UnsupportedError, match="not driver"):
        made("driver", target=target, os="ubuntu22.04")


@pytest.mark.parametrize(
    ("target", "system", "arch", "match"),
    [
        ("sbsa", "rhel9", "x86_64", "planned on Ubuntu"),
        ("drive-os", "ubuntu24.04", "x86_64", "planned on Ubuntu"),
        ("qnx", "debian12", "x86_64", "planned on Ubuntu"),
        ("sbsa", "ubuntu22.04", "aarch64", "x86_64 hosts"),
        ("sbsa", "windows11", "x86_64", "planned on Ubuntu"),
    ],
)
def test_other_hosts_are_refused_with_what_would_do(target: str, system: str, arch: str, match: str) -> None:
    with pytest.raises(UnsupportedError, match=match) as refusal:
        made(target=target, os=system, arch=arch)
    assert refusal.value.hint


def test_an_era_without_cross_packages_is_no_stack() -> None:
    with pytest.raises(GpustackError, match="CUDA 13"):
        made("cuda>=13", target="drive-os", os="ubuntu22.04")


def test_an_unknown_target_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="moon"):
        made(target="moon", os="ubuntu22.04")


def test_a_toolkit_that_is_there_gets_its_cross_packages() -> None:
    from msgspec.structs import replace

    from gpustack.model.host import Installed

    there = {"cuda": Installed(version="12.2.2", method="network", packages=("cuda-toolkit-12-2",))}
    machine = replace(host("ubuntu22.04"), installed=there)
    request = Request(requirements=(Requirement(component="cuda", versions="==12.2.2"),), target="sbsa")
    plan = build(machine, request, resolve(matrix(), machine, request), matrix())
    assert plan.stack["cuda"].state == "keep"
    assert "cuda-cross-sbsa-12-2" in words(plan)
    assert "cuda-toolkit-12-2" not in words(plan)


INSTALLED = {
    "cuda-toolkit-11-0": "11.0.3-1", "cuda-nvcc-11-0": "11.0.221-1", "cuda-cross-aarch64-11-0": "11.0.3-1",
    "libcudnn7-cross-aarch64": "7.6.6.96-1", "libcudnn7-dev-cross-aarch64": "7.6.6.96-1",
    "g++-aarch64-linux-gnu": "4:7.4.0-1ubuntu2.3",
}  # fmt: skip


def found_host(root: Path, without: str = "") -> Host:
    """A host by the package database of a tree that has the set-up, but for one package."""
    entries = {
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: amd64\n"
        for name, version in INSTALLED.items()
        if name != without
    }
    files = {
        "etc/os-release": 'ID=ubuntu\nVERSION_ID="18.04"\nNAME="Ubuntu"\n',
        "proc/sys/kernel/arch": "x86_64\n",
        "var/lib/dpkg/status": "\n".join(sorted(entries)),
        "usr/local/cuda-11.0/version.txt": "CUDA Version 11.0.3\n",
        "usr/local/cuda-11.0/bin/nvcc": "",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/local/cuda").symlink_to("cuda-11.0")
    return detect(root, matrix())


@pytest.mark.parametrize(
    ("without", "first"),
    [
        ("", ""),
        ("g++-aarch64-linux-gnu", "install g++-aarch64-linux-gnu and make"),
        (
            "libcudnn7-dev-cross-aarch64",
            "install libcudnn7-cross-aarch64 and libcudnn7-dev-cross-aarch64 from the DRIVE SDK",
        ),
    ],
)
def test_what_a_target_has_already_is_not_planned_again(without: str, first: str, tmp_path: Path) -> None:
    machine = found_host(tmp_path, without)
    request = Request(requirements=(parse_requirement("cuda==11.0.3"),), target="drive-os")
    made = build(machine, request, resolve(matrix(), machine, request), matrix())
    assert made.stack["cuda"].state == "keep"
    titles = [step.title for step in made.steps]
    assert titles == ([first, "build the samples for the target"] if first else [])
