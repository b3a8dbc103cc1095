"""Cases that users met, judged with the real matrices. Each names the public thread that it comes from."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Copy, Gpu, Host, Installed, KernelModule, OperatingSystem
from gpustack.verify.api import exit_code, verify

LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


def gpu(facts: Matrix, device: str, **fields: Any) -> Gpu:
    """The GPU of that device id as the matrix describes it, in use by the driver."""
    row = next(row for row in facts.products if row.device == device and not row.subsystem)
    known = Gpu(
        name=row.name,
        pci_id=f"10de:{device.removeprefix('0x')}",
        bus_id="0000:01:00.0",
        architecture=row.architecture,
        compute_capability=row.compute_capability or None,
        kind=row.kind or None,
        open_module=row.open_module or None,
        fabric=row.fabric or None,
        driver_first=row.driver_first or None,
        driver_last=row.driver_last or None,
        bound="nvidia",
        uuid="GPU-0",
    )
    return msgspec.structs.replace(known, **fields)


def libcuda(version: str, *, component: str = "driver", path: str = LIBCUDA) -> Copy:
    return Copy(component=component, path=path, version=version, soname="libcuda.so.1", wins=True)


def host(card: Gpu, driver: str, flavour: Any = "open", **fields: Any) -> Host:
    found = Host(
        os=OperatingSystem(id="ubuntu", version_id="24.04", family="apt"),
        arch="x86_64",
        kernel="6.8.0-45-generic",
        environment="bare-metal",
        gpus=(card,),
        module=KernelModule(version=driver, flavour=flavour, loaded=True),
        copies=(libcuda(driver),),
    )
    return msgspec.structs.replace(found, **fields)


def verdicts(facts: Matrix, subject: Host) -> dict[str, tuple[str, str, str]]:
    report = verify(("driver", "cuda", "cudnn"), "quick", subject, facts, None)
    assert all(one.status != "error" for one in report.checks)
    return {one.id: (one.status, one.reason or one.detail, one.fix) for one in report.checks}


def test_a_healthy_h200(facts: Matrix) -> None:
    """Observed on 2026-11-21: a virtual machine with one H200, driver 580.159.04, CUDA 13.0.2, cuDNN 9.14.0.64."""
    subject = host(
        gpu(facts, "0x2335"),
        "580.159.04",
        environment="vm",
        nvswitches=0,
        gcc="13.3.0",
        installed={
            "driver": Installed(version="580.159.04"),
            "cuda": Installed(version="13.0.2", method="network"),
            "cudnn": Installed(version="9.14.0.64", method="network"),
        },
        copies=(
            libcuda("580.159.04", path="/usr/local/nvidia/lib64/libcuda.so.1"),
            Copy(component="cudnn", path="/usr/lib/libcudnn.so.9", version="9.14.0", soname="libcudnn.so.9", wins=True),
        ),
    )
    assert exit_code(verify((), "quick", subject, facts, None)) == 0
    found = verdicts(facts, subject)
    assert {name for name, (status, _, _) in found.items() if status == "skip"} == {
        "driver.fabric-manager",
        "driver.kernel-log",
        "driver.persistence",
    }


def test_a_host_without_gpu_or_stack_only_skips(facts: Matrix) -> None:
    report = verify((), "quick", Host(environment="bare-metal"), facts, None)
    assert {one.status for one in report.checks} == {"skip"}
    assert all(one.reason for one in report.checks)
    assert exit_code(report) == 0


def test_libraries_replaced_under_the_module(facts: Matrix) -> None:
    """github.com/lyulyul/shine-cluster issue 30: unattended-upgrades took 460.56 to 460.73.01."""
    subject = host(
        gpu(facts, "0x1e04"),
        "460.56",
        "proprietary",
        copies=(libcuda("460.73.01"),),
        installed={
            "driver": Installed(
                version="460.56", method="distro", packages=("libnvidia-compute-460",), packaged="460.73.01"
            )
        },
    )
    status, reason, fix = verdicts(facts, subject)["driver.version"]
    assert status == "fail"
    assert reason == (
        "the loaded kernel module is 460.56, but the installed driver is 460.73.01: the driver was upgraded without a reboot"
    )
    assert fix == "reboot: `sudo reboot`"


def test_a_driver_past_the_last_branch_of_the_gpu(facts: Matrix) -> None:
    """github.com/NixOS/nixos-hardware issue 1880: a GTX 1050 under 595.71.05."""
    status, reason, fix = verdicts(facts, host(gpu(facts, "0x1c81"), "595.71.05"))["driver.supports-gpu"]
    assert status == "fail"
    assert "580 is its last branch" in reason
    assert fix == "`gpustack install 'driver<581'`"


def test_blackwell_under_the_proprietary_module(facts: Matrix) -> None:
    """github.com/NVIDIA/open-gpu-kernel-modules issue 872: no devices were found."""
    status, reason, fix = verdicts(facts, host(gpu(facts, "0x2b85"), "575.51.03", "proprietary"))["driver.flavour"]
    assert status == "fail"
    assert "requires the open module" in reason
    assert fix == "`gpustack install driver --kernel-module open`"


def test_a_fabric_manager_of_another_version(facts: Matrix) -> None:
    """github.com/NVIDIA/gpu-operator issue 544: 530.30.02 beside driver 530.41.03."""
    installed = {"fabric-manager": Installed(version="530.30.02")}
    subject = host(gpu(facts, "0x20b2"), "530.41.03", nvswitches=6, installed=installed)
    status, reason, fix = verdicts(facts, subject)["driver.fabric-manager"]
    assert status == "fail"
    assert "Fabric Manager 530.30.02 does not match driver 530.41.03" in reason
    assert "'fabric-manager==530.41.03'" in fix


def test_a_gcc_newer_than_nvcc_knows(facts: Matrix) -> None:
    """github.com/NVlabs/instant-ngp issue 1562: CUDA 12.1 with the gcc 13.2 of Ubuntu 24.04."""
    subject = host(gpu(facts, "0x2684"), "550.54.15", gcc="13.2.0", installed={"cuda": Installed(version="12.1.1")})
    status, reason, _ = verdicts(facts, subject)["cuda.host-compiler"]
    assert status == "fail"
    assert "GCC 13.2.0" in reason


def test_forward_compatibility_on_a_consumer_gpu(facts: Matrix) -> None:
    """github.com/oobabooga/textgen issue 4407: error 804."""
    compat = libcuda("580.65.06", component="cuda-compat", path="/usr/local/cuda/compat/libcuda.so.1")
    subject = host(
        gpu(facts, "0x2684"),
        "535.129.03",
        environment="container",
        copies=(compat,),
        installed={"cuda": Installed(version="13.0.2")},
    )
    status, reason, _ = verdicts(facts, subject)["cuda.driver"]
    assert status == "fail"
    assert "error 804" in reason


def test_minor_version_compatibility_is_not_a_failure(facts: Matrix) -> None:
    subject = host(gpu(facts, "0x2684"), "535.104.05", installed={"cuda": Installed(version="12.4.1")})
    status, detail, _ = verdicts(facts, subject)["cuda.driver"]
    assert status == "pass"
    assert "by minor-version compatibility" in detail


def test_an_older_cudnn_before_the_installed_one(facts: Matrix) -> None:
    """github.com/m-bain/whisperX issue 1297: compiled against 9.10.2, found 9.1.0."""
    first = Copy(component="cudnn", path="/opt/lib/libcudnn.so.9", version="9.1.0", soname="libcudnn.so.9", wins=True)
    installed = {"cudnn": Installed(version="9.10.2.21", method="network", packages=("libcudnn9-cuda-12",))}
    subject = host(gpu(facts, "0x2684"), "570.124.06", copies=(first,), installed=installed)
    status, reason, _ = verdicts(facts, subject)["cudnn.versions"]
    assert (status, reason) == (
        "fail",
        "cuDNN 9.10.2.21 is installed, but programs load /opt/lib/libcudnn.so.9 (9.1.0)",
    )


def test_which_cudnn_is_loaded_and_whose_each_copy_is(facts: Matrix) -> None:
    """github.com/facebookresearch/Detectron issue 433: the user cannot tell which cuDNN is loaded."""
    copies = (
        Copy(component="cudnn", path="/usr/lib/libcudnn.so.9", version="9.14.0", soname="libcudnn.so.9", wins=True),
        Copy(
            component="cudnn",
            path="/venv/nvidia/cudnn/lib/libcudnn.so.9",
            version="9.10.2.21",
            soname="libcudnn.so.9",
            owner="wheel nvidia-cudnn-cu12 9.10.2.21",
        ),
    )
    installed = {"cudnn": Installed(version="9.14.0.64", method="network")}
    found = verdicts(facts, host(gpu(facts, "0x2335"), "580.159.04", copies=copies, installed=installed))
    assert found["cudnn.found"][1].startswith("/usr/lib/libcudnn.so.9 (9.14.0)")
    assert found["cudnn.versions"][1] == (
        "programs load /usr/lib/libcudnn.so.9 (9.14.0); also found: /venv/nvidia/cudnn/lib/libcudnn.so.9 (9.10.2.21, from"
        " wheel nvidia-cudnn-cu12 9.10.2.21)"
    )


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys\n"
        "from gpustack.model.host import Host\n"
        "from gpustack.matrix.index import load_matrix\n"
        "from gpustack.verify.api import verify, write\n"
        "load_matrix()\n"
        "before = set(sys.modules)\n"
        "write(verify(('driver',), 'quick', Host(), load_matrix(), None), 'text')\n"
        "print(*(set(sys.modules) - before))\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added, everything = (set(line.split()) for line in done.stdout.splitlines())
    assert "gpustack.verify.driver.quick" in added
    assert not {name for name in everything if name.startswith("gpustack.verify.cu")}
    assert not everything & {"rich", "requests", "jinja2", "pynvml", "pydantic", "typer", "asyncio"}
