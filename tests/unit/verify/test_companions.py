"""IMEX, GDRCopy and GPUDirect Storage: their versions by the real facts, and what their own programs answer.

The programs are stand-ins that print recorded answers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.failures.conftest import Scripted

from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host, Installed
from gpustack.model.results import CheckResult
from gpustack.system.run import Finished, LocalRunner
from gpustack.verify.declare import Context
from gpustack.verify.frame.runner import run_checks
from gpustack.verify.gds.smoke import read_gdscheck

Ask = Callable[..., dict[str, CheckResult]]


@pytest.fixture
def ask(healthy: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The checks of a component in this version, with programs that answer so; ``modules`` are loaded."""

    def run(
        component: str, number: str | None, *, modules: tuple[tuple[str, str], ...] = (), **programs: tuple[str, int]
    ) -> dict[str, CheckResult]:
        said = {name.replace("_", "-") if "imex" in name else name: answer for name, answer in programs.items()}
        for name, (text, code) in said.items():
            (tmp_path / f"{name}.answer").write_text(text)
            write(tmp_path / name, f"/bin/cat {tmp_path}/{name}.answer\nexit {code}\n")
        cases = "".join(f"/sys/module/{name}/version) echo {version};;\n" for name, version in modules)
        write(tmp_path / "cat", f'case "$1" in\n{cases}*) exit 1;;\nesac\n')
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        mine = {component: Installed(version=number)} if number != "" else {}
        own = {**healthy.installed, **mine, "cuda": Installed(version="12.4.1", path=str(tmp_path / "none"))}
        context = Context(
            host=msgspec.structs.replace(healthy, installed=own), matrix=load_matrix(), runner=LocalRunner()
        )
        return {one.id: one for one in run_checks((component,), "smoke", context)}

    return run


def write(place: Path, script: str) -> None:
    place.write_text(f"#!/bin/sh\n{script}")
    place.chmod(0o755)


def gdscheck(
    *, nvme: str = "Supported", gpu: str = "supports GDS", iommu: str = "disabled", end: str = "succeeded"
) -> str:
    return f""" GDS release version: 1.9.1.3
 nvidia_fs version:  2.19 libcufile version: 2.12
 Platform: x86_64
 =====================
 DRIVER CONFIGURATION:
 =====================
 NVMe               : {nvme}
 NVMeOF             : Unsupported
 IBM Spectrum Scale : Unsupported
 --Mellanox PeerDirect : Disabled
 --rdma library        : Not Loaded (libcufile_rdma.so)
 =====================
 CUFILE CONFIGURATION:
 =====================
 properties.use_compat_mode : true
 =========
 GPU INFO:
 =========
 GPU index 0 NVIDIA L4 bar:1 bar size (MiB):32768 {gpu}, IOMMU State: Disabled
 ==============
 PLATFORM INFO:
 ==============
 IOMMU: {iommu}
 Nvidia Driver Info Status: Supported(Nvidia Open Driver Installed)
 Platform verification {end}
"""


FS = (("nvidia_fs", "2.19.7"),)
SANITY = "Total: 28, Passed: {}, Failed: {}, Waived: {}\n\nList of passed tests:\n    basic_cumemalloc\n"
DRV = (("gdrdrv", "2.4"),)
NODES = "Nodes:\nNode #0   - 10.0.0.1   - READY\nNode #1   - 10.0.0.2   - {}\n\n Nodes From\\To  0  1\n       0        C  C\nDomain State: {}\n"


def test_storage_that_reaches_the_gpus(ask: Ask) -> None:
    found = ask("gds", "12.4.1", modules=FS, gdscheck=(gdscheck(), 0))
    assert [(name, one.status) for name, one in found.items()] == [
        ("gds.found", "pass"),
        ("gds.fit", "pass"),
        ("gds.gdscheck", "pass"),
    ]
    assert found["gds.fit"].detail.startswith("GPUDirect Storage 12.4.1 is compatible with driver 550.54.15, L4 ")
    assert found["gds.gdscheck"].detail == "NVMe Supported; 1 GPU; nvidia_fs 2.19.7"


@pytest.mark.parametrize(
    ("said", "modules", "reason"),
    [
        (gdscheck(), (), "the kernel module nvidia_fs is not loaded"),
        (gdscheck(nvme="compat"), FS, "no storage reaches GPUs directly: NVMe compat, NVMeOF Unsupported, IBM"),
        (gdscheck(nvme="Unsupported"), FS, "no storage reaches GPUs directly: NVMe Unsupported, NVMeOF Unsupported"),
        (
            gdscheck(gpu="does not support GPUDirect"),
            FS,
            "gdscheck finds a GPU without GPUDirect Storage: GPU index 0 ",
        ),
        (gdscheck(end="error"), FS, "gdscheck did not verify the platform: Platform verification error"),
        ("no CUDA-capable device is detected\n", FS, "gdscheck did not verify the platform: no CUDA-capable device"),
    ],
)
def test_storage_that_does_not(ask: Ask, said: str, modules: tuple[tuple[str, str], ...], reason: str) -> None:
    one = ask("gds", "12.4.1", modules=modules, gdscheck=(said, 0))["gds.gdscheck"]
    assert one.status == "fail"
    assert one.reason.startswith(reason)


def test_storage_by_the_kernel_alone_needs_no_module_of_nvidia(ask: Ask) -> None:
    one = ask("gds", "12.4.1", gdscheck=(gdscheck(nvme="p2pdma, compat", iommu="enabled"), 0))["gds.gdscheck"]
    assert (one.status, one.detail) == (
        "pass",
        "NVMe p2pdma, compat; 1 GPU; no nvidia_fs; the IOMMU is on, which slows direct transfers or stops them",
    )


def test_a_name_of_storage_that_only_looks_like_a_way() -> None:
    said = read_gdscheck(
        " NVMe : nvfs, compat\n properties.use_compat_mode : true\n WekaFS: Unsupported\n IOMMU : disabled\n"
    )
    assert said.storage == {"NVMe": "nvfs, compat", "WekaFS": "Unsupported"}
    assert list(said.direct) == ["NVMe"]
    assert not said.has_iommu


def test_no_gdscheck_is_an_error(ask: Ask) -> None:
    one = ask("gds", "12.4.1", modules=FS)["gds.gdscheck"]
    assert one.status == "error"
    assert one.reason.startswith("gdscheck: ")


def test_gdrcopy_that_copies(ask: Ask) -> None:
    found = ask("gdrcopy", "2.4.3", modules=DRV, gdrcopy_sanity=(SANITY.format(28, 0, 0), 0))
    assert [one.status for one in found.values()] == ["pass", "pass", "pass"]
    assert found["gdrcopy.sanity"].detail == "28 tests of gdrcopy_sanity pass; gdrdrv 2.4"
    waived = ask("gdrcopy", "2.6", gdrcopy_sanity=(SANITY.format(20, 0, 8), 0))["gdrcopy.sanity"]
    assert waived.detail == "20 tests of gdrcopy_sanity pass, 8 waived; no gdrdrv: by DMA-BUF"
    older = ask("gdrcopy", "2.3", modules=DRV, gdrcopy_sanity=("100%: Checks: 11, Failures: 0, Errors: 0\n", 0))
    assert older["gdrcopy.sanity"].detail == "11 tests of gdrcopy_sanity pass; gdrdrv 2.4"


@pytest.mark.parametrize(
    ("modules", "answer", "reason"),
    [
        (DRV, (SANITY.format(20, 8, 0), 1), "gdrcopy_sanity: 8 of 28 tests failed"),
        (DRV, ("97%: Checks: 11, Failures: 1, Errors: 1\n", 1), "gdrcopy_sanity: 2 of 11 tests failed"),
        (DRV, (SANITY.format(0, 0, 28), 0), "gdrcopy_sanity: ended with exit code 0: Total: 28"),
        ((), ("gdr_open error: Is gdrdrv driver installed and loaded?\n", 1), "the kernel module gdrdrv is not loaded"),
        (DRV, ("no CUDA device\n", 1), "gdrcopy_sanity ended with exit code 1: no CUDA device"),
    ],
)
def test_gdrcopy_that_does_not(
    ask: Ask, modules: tuple[tuple[str, str], ...], answer: tuple[str, int], reason: str
) -> None:
    one = ask("gdrcopy", "2.5.2", modules=modules, gdrcopy_sanity=answer)["gdrcopy.sanity"]
    assert one.status == "fail"
    assert one.reason.startswith(reason)


def test_gdrcopy_without_its_tests_proves_nothing(ask: Ask) -> None:
    loaded, gone = ask("gdrcopy", "2.5.2", modules=DRV), ask("gdrcopy", "2.5.2")
    assert (loaded["gdrcopy.sanity"].status, gone["gdrcopy.sanity"].status) == ("skip", "fail")
    assert (
        "gdrdrv 2.4 is loaded; gdrcopy_sanity is not installed, so nothing was copied"
        in loaded["gdrcopy.sanity"].reason
    )
    assert gone["gdrcopy.sanity"].reason == "the kernel module gdrdrv is not loaded"


def test_a_gdrcopy_that_is_named_and_missing(ask: Ask) -> None:
    assert ask("gdrcopy", None)["gdrcopy.found"].reason == "the version of GDRCopy is unknown"
    one = ask("gdrcopy", "")["gdrcopy.found"]
    assert (one.status, one.reason) == ("fail", "required, but no GDRCopy was found")
    assert one.fix == "install its packages from https://developer.download.nvidia.com/compute/redist/gdrcopy/"


def test_nvidia_peermem(ask: Ask) -> None:
    adapters = ("mlx5_0\nmlx5_1\n", 0)
    ready = ask("nvidia-peermem", None, modules=(("nvidia_peermem", "550.54.15"),), ls=adapters)
    assert ready["nvidia-peermem.driver"].detail == "550.54.15"
    assert ready["nvidia-peermem.loaded"].detail == "nvidia_peermem 550.54.15; mlx5_0, mlx5_1; no transfer was made"
    one = ask("nvidia-peermem", None, ls=adapters)["nvidia-peermem.loaded"]
    assert (one.status, one.reason) == (
        "fail",
        "nvidia_peermem is not loaded, and the host has mlx5_0, mlx5_1; with open kernel modules NCCL uses DMA-BUF"
        " instead, which this check does not prove",
    )
    assert one.fix == (
        "`sudo modprobe nvidia_peermem`, and its name in a file of /etc/modules-load.d; where it names unknown symbols"
        " or an invalid argument, the driver was built before MLNX_OFED or DOCA: install the driver again after them"
    )
    none = ask("nvidia-peermem", None, ls=("", 2))["nvidia-peermem.loaded"]
    assert (none.status, none.reason) == (
        "skip",
        "/sys/class/infiniband has no RDMA adapter, so nothing uses the module",
    )


def test_proprietary_modules_have_no_other_way_than_nvidia_peermem(healthy: Host) -> None:
    assert healthy.module is not None
    host = msgspec.structs.replace(healthy, module=msgspec.structs.replace(healthy.module, flavour="proprietary"))
    lists = Scripted({"ls": Finished(argv=("ls",), code=0, out="mlx5_0\n")})
    found = {
        one.id: one
        for one in run_checks(("nvidia-peermem",), "smoke", Context(host=host, matrix=load_matrix(), runner=lists))
    }
    assert found["nvidia-peermem.loaded"].reason == "nvidia_peermem is not loaded, and the host has mlx5_0"
    bare = {
        one.id: one
        for one in run_checks(("nvidia-peermem",), "smoke", Context(host=host, matrix=load_matrix(), runner=Scripted()))
    }
    assert bare["nvidia-peermem.loaded"].reason == "ls: ls is not installed"


def test_a_driver_before_470_has_no_nvidia_peermem(healthy: Host) -> None:
    assert healthy.module is not None
    host = msgspec.structs.replace(healthy, module=msgspec.structs.replace(healthy.module, version="460.106.00"))
    found = run_checks(("nvidia-peermem",), "quick", Context(host=host, matrix=load_matrix()))
    assert [(one.status, one.reason, one.fix) for one in found] == [
        ("fail", "driver 460.106.00 has no nvidia_peermem, which begins with branch 470", "`gpustack install driver`")
    ]


def test_a_domain_that_is_up(ask: Ask) -> None:
    found = ask("imex", "550.54.15", nvidia_imex_ctl=(NODES.format("READY", "UP"), 0), ls=("channel0\n", 0))
    assert [(name, one.status) for name, one in found.items()] == [
        ("imex.found", "pass"),
        ("imex.fit", "pass"),
        ("imex.channel", "pass"),
        ("imex.domain", "pass"),
    ]
    assert found["imex.domain"].detail == "2 machines ready, the domain is UP"
    assert found["imex.channel"].detail == "channel0"


def test_a_domain_that_is_not(ask: Ask) -> None:
    found = ask("imex", "550.54.14", nvidia_imex_ctl=(NODES.format("UNAVAILABLE", "DEGRADED"), 0), ls=("", 2))
    assert {name: one.status for name, one in found.items()} == {
        "imex.found": "pass",
        "imex.fit": "fail",
        "imex.channel": "fail",
        "imex.domain": "fail",
    }
    assert found["imex.domain"].reason == "the domain is DEGRADED: 10.0.0.2 UNAVAILABLE"
    assert found["imex.domain"].fix == (
        "start nvidia-imex on these machines; each lists all of them in /etc/nvidia-imex/nodes_config.cfg"
    )
    assert "IMEX 550.54.14 is not compatible with driver 550.54.15" in found["imex.fit"].reason
    silent = ask("imex", "550.54.15", nvidia_imex_ctl=("Error: could not connect\n", 1), ls=("channel0\n", 0))
    assert silent["imex.domain"].reason == "nvidia-imex-ctl names no state of the domain: Error: could not connect"


LOAD = "`sudo modprobe {}`; if the module does not exist, `dkms status` says why"


def test_what_to_do_next_is_said(ask: Ask) -> None:
    assert ask("gds", "12.4.1", gdscheck=(gdscheck(), 0))["gds.gdscheck"].fix == LOAD.format("nvidia_fs")
    assert ask("gds", "12.4.1", modules=FS, gdscheck=(gdscheck(nvme="compat"), 0))["gds.gdscheck"].fix == (
        "NVMe needs MLNX_OFED or DOCA with GPUDirect Storage, or PCI P2PDMA of the kernel:"
        " https://docs.nvidia.com/gpudirect-storage/troubleshooting-guide/"
    )
    bare = "Platform verification succeeded\n"
    assert ask("gds", "12.4.1", modules=FS, gdscheck=(bare, 0))["gds.gdscheck"].reason == (
        "gdscheck finds a GPU without GPUDirect Storage: it lists no GPU"
    )
    bare = f" GPU index 0 NVIDIA L4 bar:1 supports GDS\n{bare}"
    assert ask("gds", "12.4.1", modules=FS, gdscheck=(bare, 0))["gds.gdscheck"].reason == (
        "no storage reaches GPUs directly: gdscheck lists none"
    )
    assert ask("gdrcopy", "2.5.2")["gdrcopy.sanity"].fix == LOAD.format("gdrdrv")
    assert ask("gdrcopy", "2.5.2", modules=DRV)["gdrcopy.sanity"].fix == (
        "install gdrcopy-tests (Debian, Ubuntu) or gdrcopy (others) from where GDRCopy came"
    )
    imex = ask("imex", "550.54.15", ls=("", 2))
    assert imex["imex.domain"].status == "error"
    assert imex["imex.domain"].reason == "nvidia-imex-ctl: nvidia-imex-ctl is not installed"
    assert imex["imex.channel"].reason == (
        "/dev/nvidia-caps-imex-channels has no channel: programs get CUDA_ERROR_NOT_PERMITTED"
    )
    silent = ask("imex", "550.54.15", nvidia_imex_ctl=("", 1), ls=("channel0\n", 0))["imex.domain"]
    assert silent.fix == "`sudo systemctl start nvidia-imex`; its log: /var/log/nvidia-imex.log"
