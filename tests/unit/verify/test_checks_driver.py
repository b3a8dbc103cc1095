"""Every quick check of the driver, seen to pass, to fail with its whole text, and to be skipped."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpustack.model.host import Copy, Gpu, Host, Installed, KernelModule, OperatingSystem, Problem
from gpustack.system.run import Finished

LOADED = KernelModule(version="550.54.15", flavour="open", loaded=True)
LIST = "nvidia-smi -L"
OWNER = " (find its package with `dpkg -S` or `rpm -qf`; remove a runfile installation with `sudo nvidia-uninstall`)"
MODES = "nvidia-smi --query-gpu=index,persistence_mode --format=csv,noheader"


def libcuda(version: str, path: str = "/usr/lib/x86_64-linux-gnu/libcuda.so.1") -> Copy:
    return Copy(component="driver", path=path, version=version, soname="libcuda.so.1", wins=True)


def packaged(version: str) -> dict[str, Installed]:
    return {"driver": Installed(version="550.54.15", method="network", packages=("nvidia-open",), packaged=version)}


def finished(code: int | None, out: str = "", err: str = "", error: str = "") -> Finished:
    return Finished(argv=("nvidia-smi",), code=code, out=out, err=err, error=error)


def smi(command: str, answer: Finished) -> dict[str, Finished]:
    return {command: answer}


PASSES: list[tuple[str, dict[str, Any], str]] = [
    ("driver.module", {}, "nvidia 550.54.15 is loaded, open flavour"),
    ("driver.version", {}, "550.54.15 throughout"),
    ("driver.version", {"installed": packaged("550.54.15-0ubuntu1")}, "550.54.15 throughout"),
    ("driver.version", {"installed": {}}, "550.54.15 throughout"),
    ("driver.nvml", {}, "NVML lists 1 GPU"),
    ("driver.gpus", {}, "L4 (0000:01:00.0)"),
    ("driver.flavour", {}, "open module"),
    (
        "driver.flavour",
        {"module": KernelModule(version="520.56.06", flavour="open", loaded=True)},
        "open module; L4 (0000:01:00.0): These open modules did not support it well.",
    ),
    ("driver.supports-gpu", {}, "driver 550.54.15 supports L4 (0000:01:00.0)"),
    (
        "driver.fabric-manager",
        {
            "nvswitches": 4,
            "gpu": {"fabric": "nvswitch"},
            "installed": {"fabric-manager": Installed(version="550.54.15-1")},
        },
        "Fabric Manager 550.54.15 matches the driver",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "detail"), PASSES)
def test_pass(answer: Any, identity: str, changes: dict[str, Any], detail: str) -> None:
    result = answer(identity, **changes)
    assert (result.status, result.reason, result.fix, result.detail) == ("pass", "", "", detail)


FAILS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "driver.module",
        {"gpu": {"bound": "nouveau"}},
        "nouveau holds L4 (0000:01:00.0), so NVIDIA's module cannot drive it",
        "blacklist nouveau, run `sudo update-initramfs -u` and reboot",
    ),
    (
        "driver.module",
        {"gpu": {"bound": "nova_core"}, "os": OperatingSystem(id="fedora", family="dnf")},
        "nova_core holds L4 (0000:01:00.0), so NVIDIA's module cannot drive it",
        "blacklist nova_core, run `sudo dracut --force` and reboot",
    ),
    (
        "driver.module",
        {"module": None, "without": ("driver",)},
        "no NVIDIA driver is installed for L4 (0000:01:00.0)",
        "`gpustack install driver`",
    ),
    (
        "driver.module",
        {"module": None},
        "driver 550.54.15 is installed but its kernel module is not loaded",
        "`sudo modprobe nvidia`; if the module does not exist, it was not built for this kernel: see `dkms status`",
    ),
    (
        "driver.module",
        {
            "module": None,
            "problems": (Problem(id="secure_boot_unsigned", message="its key is not enrolled", fix="do"),),
        },
        "driver 550.54.15 is installed but its kernel module is not loaded: its key is not enrolled",
        "do",
    ),
    (
        "driver.module",
        {"module": None, "environment": "container"},
        "NVIDIA's kernel module is not loaded on the container's host",
        "install the driver on the host, not in the container",
    ),
    (
        "driver.version",
        {"copies": (libcuda("550.90.07"),), "installed": {}},
        (
            "the loaded kernel module is 550.54.15, but the installed driver is 550.90.07: the driver was upgraded without a reboot"
        ),
        "reboot: `sudo reboot`",
    ),
    (
        "driver.version",
        {"copies": (), "installed": packaged("550.90.07-0ubuntu1")},
        (
            "the loaded kernel module is 550.54.15, but the installed driver is 550.90.07: the driver was upgraded without a reboot"
        ),
        "reboot: `sudo reboot`",
    ),
    (
        "driver.version",
        {"copies": (libcuda("535.104.05", "/usr/lib64/libcuda.so.1"),)},
        (
            "programs load /usr/lib64/libcuda.so.1 (535.104.05), but the driver packages are 550.54.15 and the module"
            " 550.54.15"
        ),
        "a reboot does not fix this: remove the other installation, which /usr/lib64/libcuda.so.1 belongs to" + OWNER,
    ),
    (
        "driver.version",
        {"copies": (libcuda("550.90.07"),), "installed": packaged("550.90.07")},
        (
            "the loaded kernel module is 550.54.15, but the installed driver is 550.90.07: the driver was upgraded without a reboot"
        ),
        "reboot: `sudo reboot`",
    ),
    (
        "driver.version",
        {"copies": (libcuda("535.104.05", "/opt/lib/libcuda.so.1"),), "installed": {}},
        (
            "the loaded kernel module is 550.54.15, but programs load an older library: /opt/lib/libcuda.so.1"
            " (535.104.05)"
        ),
        ("after a downgrade, reboot; otherwise remove the installation that /opt/lib/libcuda.so.1 belongs to" + OWNER),
    ),
    (
        "driver.version",
        {"installed": packaged("535.104.05"), "copies": (libcuda("550.54.15", "/usr/lib/libcuda.so.1"),)},
        (
            "programs load /usr/lib/libcuda.so.1 (550.54.15), but the driver packages are 535.104.05 and"
            " the module 550.54.15"
        ),
        "a reboot does not fix this: remove the other installation, which /usr/lib/libcuda.so.1 belongs to" + OWNER,
    ),
    (
        "driver.version",
        {"environment": "container", "copies": (libcuda("550.90.07"),)},
        "the host's kernel module is 550.54.15, but the container has driver libraries 550.90.07",
        "remove driver packages from the image and restart the container; the libraries come from the host",
    ),
    (
        "driver.gpus",
        {
            "gpus": (
                Gpu(name="L4", bus_id="0000:01:00.0", bound="nvidia", uuid="GPU-0"),
                Gpu(name="L4", bus_id="0000:02:00.0", bound="nvidia"),
            )
        },
        "1 of 2 GPUs are usable; the driver does not list L4 (0000:02:00.0)",
        (
            "check `sudo dmesg` for RmInitAdapter and Xid messages at that address; a GPU that fell off the bus requires a power cycle; if it never started, check Above 4G Decoding in the firmware settings"
        ),
    ),
    (
        "driver.flavour",
        {"gpu": {"open_module": "impossible", "compute_capability": "7.0", "name": "V100"}},
        "the open module is loaded, but V100 (0000:01:00.0) has no GSP, which the open module requires",
        "`gpustack install driver --kernel-module proprietary`",
    ),
    (
        "driver.flavour",
        {
            "module": KernelModule(version="570.124.06", flavour="proprietary", loaded=True),
            "gpu": {"open_module": "required", "compute_capability": "10.0", "name": "B200"},
        },
        "the proprietary module is loaded, but B200 (0000:01:00.0) requires the open module",
        "`gpustack install driver --kernel-module open`",
    ),
    (
        "driver.flavour",
        {"gpu": {"open_module": None, "compute_capability": "6.1"}},
        "the open module does not support L4 (0000:01:00.0): The open modules need Turing or newer.",
        "`gpustack install driver`",
    ),
    (
        "driver.supports-gpu",
        {"gpu": {"name": "Tesla K80", "driver_last": "470", "driver_first": "337"}},
        "driver 550.54.15 does not support Tesla K80 (0000:01:00.0): 470 is its last branch",
        "`gpustack install 'driver<471'`",
    ),
    (
        "driver.supports-gpu",
        {"gpu": {"name": "B200", "driver_first": "570"}},
        "driver 550.54.15 is too old for B200 (0000:01:00.0), which requires 570 or newer",
        "`gpustack install 'driver>=570'`",
    ),
    (
        "driver.supports-gpu",
        {"gpu": {"name": "B200", "driver_first": None, "compute_capability": "10.0"}},
        "driver 550.54.15 is not compatible with B200 (0000:01:00.0, compute capability 10.0): driver 550.54.15 requires a GPU of compute capability 5.0 to 9.0",
        "`gpustack install driver`",
    ),
    (
        "driver.fabric-manager",
        {"nvswitches": 4, "gpu": {"fabric": "nvswitch"}},
        "4 NVSwitches found, but Fabric Manager is not installed: CUDA fails with error 802 (system not yet initialized)",
        "`gpustack install 'fabric-manager==550.54.15'`, then `sudo systemctl enable --now nvidia-fabricmanager`",
    ),
    (
        "driver.fabric-manager",
        {"nvswitches": 4, "installed": {"fabric-manager": Installed(version="550.54.14")}},
        (
            "Fabric Manager 550.54.14 does not match driver 550.54.15: it does not start, and CUDA fails with error 802 (system not yet initialized)"
        ),
        "`gpustack install 'fabric-manager==550.54.15'`, from the driver's repository",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "reason", "fix"), FAILS)
def test_fail(answer: Any, identity: str, changes: dict[str, Any], reason: str, fix: str) -> None:
    result = answer(identity, **changes)
    assert (result.status, result.reason, result.fix) == ("fail", reason, fix)
    assert result.expected


WSL = "WSL uses the Windows driver; do not install a Linux driver in WSL"
JETSON = "on Jetson the driver is part of Jetson Linux"
NO_GPU = "no NVIDIA GPU was found"
SKIPS: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"environment": "wsl"}, WSL) for name in ("driver.module", "driver.version", "driver.flavour")),
    *((name, {"environment": "wsl"}, WSL) for name in ("driver.fabric-manager", "driver.persistence")),
    *((name, {"environment": "jetson"}, JETSON) for name in ("driver.module", "driver.version", "driver.flavour")),
    *(
        (f"driver.{name}", {"gpus": ()}, NO_GPU)
        for name in ("module", "version", "nvml", "gpus", "flavour", "supports-gpu", "fabric-manager", "persistence")
    ),
    ("driver.module", {"environment": "chroot"}, "this is a directory tree, not a running system"),
    ("driver.module", {"os": OperatingSystem(family="windows")}, "Windows does not use NVIDIA's Linux kernel module"),
    (
        "driver.module",
        {"gpu": {"bound": "vfio-pci"}},
        "every GPU is passed through to virtual machines (bound to vfio-pci)",
    ),
    (
        "driver.version",
        {"copies": (), "installed": {}},
        "fewer than two of the module, library and package versions are known",
    ),
    (
        "driver.version",
        {"module": None},
        "requires driver.module, which failed",
    ),
    (
        "driver.nvml",
        {"gpu": {"uuid": None}},
        "the saved host has no data from NVML, and NVML cannot run on another machine",
    ),
    (
        "driver.nvml",
        {"environment": "jetson"},
        "Jetson boards before JetPack 6 have no NVML; use tegrastats instead",
    ),
    (
        "driver.gpus",
        {"gpu": {"uuid": None}},
        "the host's snapshot has no list of GPUs from the driver to compare with the PCI bus",
    ),
    ("driver.gpus", {"environment": "wsl"}, "in WSL the GPUs are not on the PCI bus"),
    (
        "driver.gpus",
        {"environment": "container", "gpus": (Gpu(uuid="GPU-0"), Gpu(bus_id="0000:02:00.0"))},
        "the container has 1 of its host's 2 GPUs",
    ),
    (
        "driver.flavour",
        {"module": KernelModule(version="550.54.15", loaded=True)},
        "whether the loaded module is open or proprietary is unknown",
    ),
    ("driver.flavour", {"gpu": {"open_module": None}}, "which flavour of the kernel module a GPU requires is unknown"),
    (
        "driver.supports-gpu",
        {"environment": "wsl"},
        "Windows drivers have version numbers of their own; the GPU tables list Linux drivers",
    ),
    (
        "driver.supports-gpu",
        {"environment": "jetson"},
        "Jetson Linux has driver versions of its own",
    ),
    ("driver.supports-gpu", {"module": None, "without": ("driver",)}, "no driver was found"),
    (
        "driver.supports-gpu",
        {"gpu": {"driver_first": None, "compute_capability": None}},
        "compatibility of driver 550.54.15 with L4 (0000:01:00.0) is unknown",
    ),
    ("driver.fabric-manager", {}, "no GPU requires Fabric Manager"),
    (
        "driver.fabric-manager",
        {"gpu": {"fabric": "nvswitch"}, "environment": "container"},
        "Fabric Manager runs on the container's host",
    ),
    (
        "driver.fabric-manager",
        {"gpu": {"fabric": "nvswitch"}, "nvswitches": 0},
        "no NVSwitch is visible, and L4 (0000:01:00.0) is the only GPU",
    ),
    (
        "driver.fabric-manager",
        {"gpu": {"fabric": "nvswitch", "name": "B200"}},
        (
            "cannot tell whether B200 (0000:01:00.0) is attached to NVSwitches (some baseboards do not expose them as PCI devices), and Fabric Manager is not installed"
        ),
    ),
    (
        "driver.fabric-manager",
        {"nvswitches": 2, "module": None, "without": ("driver",)},
        "no driver was found",
    ),
    ("driver.persistence", {}, "persistence mode can only be read on the running machine"),
    ("driver.persistence", {"environment": "container"}, "this is configured on the container's host"),
]


@pytest.mark.parametrize(("identity", "changes", "reason"), SKIPS)
def test_skip(answer: Any, identity: str, changes: dict[str, Any], reason: str) -> None:
    result = answer(identity, **changes)
    # The component is named, so that the first check fails where all of them are skipped.
    assert (result.status, result.reason) in {("skip", reason), ("fail", f"required, but {reason}")}


@pytest.mark.parametrize(
    ("finished_smi", "environment", "status", "reason", "fix"),
    [
        (finished(0, "GPU 0: NVIDIA L4 (UUID: GPU-0)\n"), "bare-metal", "pass", "nvidia-smi lists 1 GPU", ""),
        (
            finished(0, "GPU 0: NVIDIA L4 (UUID: GPU-0)\nGPU 1: NVIDIA L4 (UUID: GPU-1)\n"),
            "bare-metal",
            "pass",
            "nvidia-smi lists 2 GPUs",
            "",
        ),
        (
            finished(15, "GPU 0: NVIDIA L4 (UUID: GPU-0)\n", "Unable to determine the device handle: GPU is lost\n"),
            "bare-metal",
            "fail",
            "nvidia-smi fails: Unable to determine the device handle: GPU is lost: a GPU fell off the bus",
            "check `sudo dmesg` for Xid 79; only a power cycle restores it",
        ),
        (
            finished(18, "", "Failed to initialize NVML: Driver/library version mismatch\n"),
            "bare-metal",
            "fail",
            "nvidia-smi fails: Failed to initialize NVML: Driver/library version mismatch: the kernel module and the"
            " driver libraries have different versions: the driver was upgraded without a reboot",
            "reboot: `sudo reboot`",
        ),
        (
            finished(-7),
            "bare-metal",
            "fail",
            "nvidia-smi crashed (signal 7, SIGBUS): the driver's libraries are damaged",
            "`df -h` shows whether a disk is full; reinstall the driver, in a container on its host",
        ),
        (
            finished(0, "No devices found\n"),
            "bare-metal",
            "fail",
            "nvidia-smi fails: No devices found",
            "check `sudo dmesg` for NVRM and Xid messages",
        ),
        (
            finished(None, error="no answer within 8 s"),
            "bare-metal",
            "error",
            "nvidia-smi: no answer within 8 s",
            "check `sudo dmesg` for NVRM and Xid messages",
        ),
        (
            finished(None, error="nvidia-smi is not installed"),
            "bare-metal",
            "fail",
            "the kernel module is loaded, but neither NVML nor nvidia-smi is installed",
            "install the driver's libraries and tools: `gpustack install driver`",
        ),
        (
            finished(None, error="nvidia-smi is not installed"),
            "container",
            "fail",
            "the driver's management library (libnvidia-ml.so.1, nvidia-smi) is not available in this container",
            "start it with `--gpus all` and `utility` in NVIDIA_DRIVER_CAPABILITIES",
        ),
    ],
)
def test_nvml_by_nvidia_smi(
    answer: Any, recorded: Any, finished_smi: Finished, environment: str, status: str, reason: str, fix: str
) -> None:
    runner = recorded(smi(LIST, finished_smi))
    result = answer("driver.nvml", gpu={"uuid": None}, runner=runner, environment=environment)
    assert (result.status, result.reason or result.detail, result.fix) == (status, reason, fix)
    assert runner.asked[0][0] == ("nvidia-smi", "-L")
    assert runner.asked[0][1] <= 8


@pytest.mark.parametrize(
    ("modes", "status", "said", "fix"),
    [
        (finished(0, "0, Enabled\n1, Enabled\n"), "pass", "on for 2 GPUs", ""),
        (
            finished(0, "0, Enabled\n1, Disabled\n"),
            "skip",
            "persistence mode is off on GPU 1: the first program after idle time waits for the GPU to start",
            "`sudo systemctl enable --now nvidia-persistenced`",
        ),
        (finished(0, "nothing of use"), "skip", "nvidia-smi listed no GPU", ""),
        (finished(9, "", "broken\nvery"), "skip", "nvidia-smi did not report persistence mode: broken", ""),
    ],
)
def test_persistence(answer: Any, recorded: Any, modes: Finished, status: str, said: str, fix: str) -> None:
    result = answer("driver.persistence", runner=recorded(smi(MODES, modes)))
    assert (result.status, result.reason or result.detail, result.fix) == (status, said, fix)


def test_a_module_that_does_not_build_on_this_kernel_is_explained(answer: Any) -> None:
    result = answer("driver.module", module=None, installed=packaged("570.153.02"), kernel="6.15.2-arch1", copies=())
    assert result.status == "fail"
    assert result.detail == "570.153.02 does not build on Linux 6.15; this is kernel 6.15.2."


def test_module_and_library_that_agree_against_the_packages(answer: Any, healthy: Host) -> None:
    """A runfile laid over packages: the packages' own copy cannot be told, so no library version is known."""
    nameless = (msgspec.structs.replace(healthy.copies[0], version=None),)
    result = answer("driver.version", copies=nameless, installed=packaged("535.104.05"))
    assert result.status == "fail"
    assert result.actual == "module 550.54.15, library unknown, packages 535.104.05"
