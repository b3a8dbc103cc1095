"""Wheels: exact sets by sum, an environment of their own, never a stub, only where they load."""

from __future__ import annotations

import re

import pytest
from tests.unit.plan.making import commands, contents, host, matrix, pick, plan, refusal, words

from gpustack.errors import GpustackError
from gpustack.model.host import Host
from gpustack.model.offer import Wheel
from gpustack.model.plan import Plan
from gpustack.model.request import Request, Requirement
from gpustack.solve.resolve import resolve
from gpustack.solve.rows import WHEELS, wheels

CUDA = pick("cuda", "13.2.2", "pip")
CUDNN = pick("cudnn", "9.28.0.42", "pip")

STUBS = {"tensorrt": "<=8.6.0", "tensorrt-cu11": "", "tensorrt-cu12": "", "tensorrt-cu13": ""}
"""Projects whose later (or all) releases fetch from a second index while they install, and the range that is real."""


def requirement_files(made: Plan) -> str:
    return "".join(text for path, text in contents(made).items() if path.endswith(".txt"))


def test_every_requirement_has_a_sum_and_pip_is_told_to_ask_for_it() -> None:
    made = plan(host("debian12"), CUDA, CUDNN)
    text = requirement_files(made)
    blocks = [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]
    assert blocks
    for line in blocks:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.a-z]+( ; python_version .+)?(\s+--hash=sha256:[0-9a-f]{64})+", line), (
            line
        )
    installs = [argv for argv in commands(made) if argv[1:4] == ("-m", "pip", "install")]
    assert len(installs) == 3
    for argv in installs:
        assert {"--require-hashes", "--only-binary=:all:", "--no-deps", "-r"} <= set(argv)
        assert argv[0] == "/opt/gpustack/venv-cuda13/bin/python3"


def test_the_systems_python_is_left_alone() -> None:
    """PEP 668: the system's Python belongs to its package manager."""
    made = plan(host("debian12"), CUDA, CUDNN)
    assert ("python3", "-m", "venv", "/opt/gpustack/venv-cuda13") in commands(made)
    assert "--break-system-packages" not in words(made)
    assert "python3-venv" in words(made)
    assert "python3-venv" not in words(plan(host("rhel9"), CUDA))


def test_a_release_of_cuda_is_an_exact_set_with_the_names_of_its_era() -> None:
    new = requirement_files(plan(host(), CUDA))
    for name, version in {
        "nvidia-cuda-nvcc": "13.2.86",
        "nvidia-cuda-crt": "13.2.86",
        "nvidia-nvvm": "13.2.86",
        "nvidia-cuda-runtime": "13.2.86",
        "nvidia-cuda-nvrtc": "13.2.86",
    }.items():
        assert f"\n{name}=={version} " in new
    assert "\nnvidia-cublas==" in new
    assert "-cu12" not in new
    old = requirement_files(plan(host("ubuntu22.04"), pick("cuda", "12.9.1", "pip")))
    assert "\nnvidia-cuda-nvcc-cu12==12.9.86 " in old
    assert "\nnvidia-cublas-cu12==12.9.1.4 " in old
    assert "nvidia-cuda-nvcc==" not in old


def test_the_newest_toolkit_that_only_wheels_bring_is_planned_by_name() -> None:
    """13.5.0 has wheels and no packages."""
    assert "nvidia-cuda-nvcc==13.5.37" in requirement_files(plan(host(), pick("cuda", "13.5.0", "pip")))


def test_libraries_of_one_cuda_major_share_an_environment() -> None:
    """cuDNN's libraries look for cuBLAS in the folder beside their own."""
    made = plan(host("ubuntu22.04"), pick("cuda", "12.9.1", "pip"), pick("cudnn", "8.9.7.29", "pip"))
    text = words(made)
    assert "venv-cuda12" in text
    assert "venv-cuda13" not in text
    assert "nvidia-cudnn-cu12==8.9.7.29" in requirement_files(made)
    order = [step.packages for step in made.steps if step.kind == "pip-install" and step.component]
    assert any("nvidia-cuda-runtime-cu12" in word for word in order[0])


def test_libraries_without_cudas_wheels_say_where_theirs_come_from() -> None:
    made = plan(host(), pick("cuda", "13.0.2"), CUDNN)
    step = next(one for one in made.steps if one.kind == "pip-install" and one.component == "cudnn")
    assert "nvidia-cublas are those of the CUDA toolkit" in step.why
    alone = plan(host(), CUDNN)
    assert any("no CUDA is in the stack" in text for text in alone.warnings)


@pytest.mark.parametrize(
    ("component", "version"), [("tensorrt", "10.13.3.9"), ("tensorrt", "11.4.0.106"), ("tensorrt", "8.6.1.6")]
)
def test_t8_stub_distributions_are_never_planned(component: str, version: str) -> None:
    """T8 and T11: those projects run pip against a second index from their set-up script."""
    error = refusal(host("ubuntu22.04"), f"{component}=={version}", method="pip")
    assert "the projects there are stubs" in error.message
    assert version == "8.6.1.6" or "tensorrt=network" in error.hint


def test_t8_no_wheel_of_the_facts_is_a_stub() -> None:
    for platform in ("linux-x86_64", "linux-sbsa"):
        for component in ("cuda", "cudnn", "nccl", "tensorrt"):
            for row in wheels(matrix(), component, platform):
                assert row.file.endswith(".whl")
                assert row.part not in STUBS or row.wheel_version.startswith(("8.4", "8.5", "8.6.0"))


def test_t9_windows_has_no_wheels_to_plan_and_another_method_is_named() -> None:
    request = Request(requirements=(Requirement(component="tensorrt"),), methods={"tensorrt": "pip"})
    with pytest.raises(GpustackError, match="no wheels of TensorRT are known for Windows 11") as caught:
        resolve(matrix(), host("windows11"), request)
    assert caught.value.hint == "--method tensorrt=zip offers TensorRT 11.1.0.106 here"


def test_tensorrt_8_6_is_real_and_one_requirement_for_every_python() -> None:
    made = plan(host("ubuntu22.04"), pick("cuda", "12.1.1"), pick("tensorrt", "8.6.0.12", "pip"))
    text = requirement_files(made)
    assert "\ntensorrt==8.6.0 " in text
    assert text.partition("tensorrt==8.6.0")[2].count("--hash=sha256:") == 5
    assert any("for Python 3.6, 3.7, 3.8, 3.9, 3.10 only" in one for one in made.warnings)


def test_a_wheel_that_the_c_library_cannot_load_is_refused() -> None:
    error = refusal(host("rhel7"), "cuda==12.4.1", "cudnn==9.10.2.21", method="pip")
    assert "need glibc 2.27" in error.message
    assert "This host has glibc 2.17" in error.message
    request = Request(requirements=(Requirement(component="cudnn"),), methods={"cudnn": "pip", "cuda": "pip"})
    chosen = resolve(matrix(), host("rhel7"), request).pick("cudnn")
    assert chosen is not None
    assert all(
        row.loads_with("2.17") for row in wheels(matrix(), "cudnn", "linux-x86_64") if row.version == chosen.version
    )


def test_an_old_pip_is_replaced_by_one_that_reads_the_tags() -> None:
    text = requirement_files(
        plan(host("ubuntu20.04"), pick("cuda", "12.9.1", "pip"), pick("cudnn", "9.10.2.21", "pip"))
    )
    assert 'pip==21.3.1 ; python_version >= "3.6" and python_version < "3.8" --hash=sha256:' in text
    assert "pip==21.3.1" not in requirement_files(plan(host("ubuntu20.04"), pick("cuda", "12.1.1", "pip")))


def test_jetson_gets_no_server_wheels() -> None:
    error = refusal(host("l4t36", arch="aarch64", gpus=()), "cudnn", method="pip")
    assert "no wheels of cuDNN" in error.message


def test_every_release_of_cuda_has_the_same_projects_on_a_platform() -> None:
    by_release: dict[tuple[str, str], set[str]] = {}
    for row in matrix().rows(WHEELS, "archives", Wheel):
        if row.component == "cuda":
            by_release.setdefault((row.version, row.platform), set()).add(row.part)
    for (version, _), parts in by_release.items():
        assert len(parts) == {"11": 13, "12": 14, "13": 16}[version[:2]], version
    known = {row.version for row in matrix().releases("cuda")}
    assert {version for version, _ in by_release} <= known


def test_the_newest_wheels_fit_a_card_that_is_newer_than_them_or_are_refused() -> None:
    """V7 and V9: a wheel's window of architectures has two ends, as that of the release it belongs to."""
    request = Request(requirements=(Requirement(component="cuda", versions="==12.4.*"),), methods={"cuda": "pip"})
    with pytest.raises(GpustackError, match=r"12\.4|12\.0"):
        resolve(matrix(), host("ubuntu22.04", gpus=("RTX 5090",)), request)
    old = Request(requirements=(Requirement(component="cuda", versions=">=13"),), methods={"cuda": "pip"})
    with pytest.raises(GpustackError, match="7"):
        resolve(matrix(), host("ubuntu22.04", gpus=("GTX 1080",)), old)


@pytest.mark.parametrize(
    ("asked", "version", "projects"),
    [
        ("", "11.3.0.99", ("nvidia-cublas==", "nvidia-cudnn-cu13==", "\ntensorrt-cu13-libs==11.3.0.99")),
        ("<9", "8.5.3.1", ("nvidia-cublas-cu11==", "nvidia-cudnn-cu11==", "\ntensorrt==8.5.3.1")),
    ],
)
def test_the_newest_real_tensorrt_wheel_comes_with_wheels_of_its_cuda_and_cudnn(
    asked: str, version: str, projects: tuple[str, ...]
) -> None:
    """Of the releases before 10 the last one is 8.5.3, with CUDA 11.8: the wheels after it are stubs or previews."""
    names = ("cuda", "cudnn", "tensorrt")
    wanted = [Requirement(component=name, versions=asked if name == "tensorrt" else "") for name in names]
    request = Request(requirements=tuple(wanted), methods={"": "pip"})
    machine = host("ubuntu22.04", gpus=("A10",))
    found = resolve(matrix(), machine, request)
    picks = {name: found.pick(name) for name in names}
    assert {name: pick.method for name, pick in picks.items() if pick} == dict.fromkeys(names, "pip")
    assert picks["tensorrt"] is not None
    assert picks["tensorrt"].version == version
    text = requirement_files(plan(machine, *found.picks))
    for project in projects:
        assert project in text


RTX = pick("tensorrt-rtx", "1.7.1.116", "pip")


@pytest.mark.parametrize(("cuda", "major"), [("13.0.2", "cu13"), ("12.9.1", "cu12")])
def test_tensorrt_rtx_is_its_library_and_the_bindings_for_every_python(cuda: str, major: str) -> None:
    """The project tensorrt-rtx is a source distribution that only names others: it is never asked for."""
    made = plan(host(gpus=("RTX 4090",)), pick("cuda", cuda), RTX)
    text = contents(made)["/opt/gpustack/requirements/tensorrt-rtx-1.7.1.116.txt"]
    lines = [line.split(" ")[0] for line in text.splitlines() if line.startswith("tensorrt")]
    assert lines == [f"tensorrt-rtx-{major}-{part}==1.7.1.116" for part in ("bindings", "libs")]
    assert text.count("--hash=sha256:") == 1 + 7
    assert f"/opt/gpustack/venv-{major.replace('cu', 'cuda')}/bin/python3" in words(made)
    assert commands(made)[-1] == ("gpustack", "verify", "cuda", "tensorrt")


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (host(gpus=("H100",)), "compute capability 7.5, 8.0, 8.6, 8.9, 12.0, or 12.1"),
        (host("rhel9", arch="aarch64", glibc="2.34"), "no wheels of TensorRT-RTX are known for Red Hat"),
        (host("windows11", gpus=("RTX 4090",)), "no wheels of TensorRT-RTX are known"),
    ],
)
def test_tensorrt_rtx_is_refused_where_no_fact_speaks_for_it(machine: Host, said: str) -> None:
    with pytest.raises(GpustackError) as raised:
        resolve(matrix(), machine, Request(requirements=(Requirement(component="tensorrt-rtx"),)))
    assert said in raised.value.message


@pytest.mark.parametrize(
    ("version", "cuda", "arch", "project"),
    [
        ("10.9.0.34", "12.8.1", "x86_64", "tensorrt-cu12"),
        ("10.16.1.11", "12.9.1", "x86_64", "tensorrt-cu12"),
        ("10.16.1.11", "13.0.2", "x86_64", "tensorrt-cu13"),
        ("11.3.0.99", "13.2.2", "x86_64", "tensorrt-cu13"),
        ("11.2.1.2", "13.2.2", "aarch64", "tensorrt-cu13"),
    ],
)
def test_tensorrt_is_its_library_and_the_bindings_for_each_python(
    version: str, cuda: str, arch: str, project: str
) -> None:
    machine = host("ubuntu24.04", arch=arch, gpus=("H100 80GB HBM3",) if arch == "x86_64" else ("GH200 480GB",))
    made = plan(machine, pick("cuda", cuda, "pip"), pick("tensorrt", version, "pip"))
    text = next(text for path, text in contents(made).items() if path.endswith(f"tensorrt-{version}.txt"))
    sums = {block.split()[0]: block.count("--hash=sha256:") for block in text.replace("\\\n", "").splitlines()[1:]}
    assert set(sums) == {f"{project}-bindings=={version}", f"{project}-libs=={version}"}
    assert sums[f"{project}-libs=={version}"] == 1
    assert sums[f"{project}-bindings=={version}"] >= 5
    install = next(argv for argv in commands(made) if argv[-1].endswith(f"tensorrt-{version}.txt"))
    assert install[install.index("--extra-index-url") + 1] == "https://pypi.nvidia.com"
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps"} <= set(install)
    others = [argv for argv in commands(made) if "pip" in argv and argv is not install]
    assert not any("--extra-index-url" in argv for argv in others)


def test_every_release_of_tensorrt_by_pip_has_its_library_and_its_bindings() -> None:
    found: dict[tuple[str, str, str], set[str]] = {}
    for platform in ("linux-x86_64", "linux-sbsa", "windows-x86_64"):
        for row in wheels(matrix(), "tensorrt", platform):
            if row.index or "bindings" in row.part:
                found.setdefault((row.version, row.cuda, platform), set()).add(row.part.rpartition("-")[2])
    assert found
    assert all(parts == {"libs", "bindings"} for parts in found.values())
