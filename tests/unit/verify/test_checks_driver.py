"""Every quick check of the driver, seen to pass, to fail with its whole text, and to be skipped."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpustack.model.host import Copy, Gpu, Host, Installed, KernelModule, OperatingSystem
from gpustack.system.run import Finished

LOADED = KernelModule(version="550.54.15", flavour="open", loaded=True)
LIST = "nvidia-smi -L"
OWNER = " (`dpkg -S` or `rpm -qf` names its package; a runfile's goes with `sudo nvidia-uninstall`)"
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
    ("driver.nvml", {}, "it lists 1 GPU"),
    ("driver.gpus", {}, "L4 (0000:01:00.0)"),
    ("driver.flavour", {}, "open module"),
    (
        "driver.flavour",
        {"module": KernelModule(version="520.56.06", flavour="open", loaded=True)},
        "open module; L4 (0000:01:00.0): These open modules did not support it well.",
    ),
    ("driver.supports-gpu", {}, "driver 550.54.15 drives L4 (0000:01:00.0)"),
    (
        "driver.fabric-manager",
        {
            "nvswitches": 4,
            "gpu": {"fabric": "nvswitch"},
            "installed": {"fabric-manager": Installed(version="550.54.15-1")},
        },
        "fabric manager 550.54.15, the driver's own version",
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
        "keep nouveau from loading (a blacklist file), run `sudo update-initramfs -u` and reboot",
    ),
    (
        "driver.module",
        {"gpu": {"bound": "nova_core"}, "os": OperatingSystem(id="fedora", family="dnf")},
        "nova_core holds L4 (0000:01:00.0), so NVIDIA's module cannot drive it",
        "keep nova_core from loading (a blacklist file), run `sudo dracut --force` and reboot",
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
        "`sudo modprobe nvidia`; if there is no such module, it was not built for this kernel: `dkms status`",
    ),
    (
        "driver.module",
        {"module": None, "secure_boot": True},
        (
            "driver 550.54.15 is installed but its kernel module is not loaded; Secure Boot is on"
            " and the module carries no"
            " known signature"
        ),
        "install signed modules, or enrol the key that signs them (`sudo mokutil --import KEY`) and reboot",
    ),
    (
        "driver.module",
        {"module": None, "environment": "container"},
        "NVIDIA's kernel module is not loaded on the machine that runs this container",
        "install the driver on that machine, not in the container",
    ),
    (
        "driver.version",
        {"copies": (libcuda("550.90.07"),), "installed": {}},
        (
            "the loaded kernel module is 550.54.15, but the installed driver is 550.90.07: it was"
            " replaced under the module"
        ),
        "a reboot cures this: `sudo reboot`",
    ),
    (
        "driver.version",
        {"copies": (), "installed": packaged("550.90.07-0ubuntu1")},
        (
            "the loaded kernel module is 550.54.15, but the installed driver is 550.90.07: it was"
            " replaced under the module"
        ),
        "a reboot cures this: `sudo reboot`",
    ),
    (
        "driver.version",
        {"copies": (libcuda("535.104.05", "/usr/lib64/libcuda.so.1"),)},
        (
            "programs load /usr/lib64/libcuda.so.1 (535.104.05), but the driver packages are 550.54.15 and the module"
            " 550.54.15"
        ),
        "a reboot does not cure this: remove the other installation that /usr/lib64/libcuda.so.1 belongs to" + OWNER,
    ),
    (
        "driver.version",
        {"copies": (libcuda("550.90.07"),), "installed": packaged("550.90.07")},
        (
            "the loaded kernel module is 550.54.15, but the installed driver is 550.90.07:"
            " it was replaced under the module"
        ),
        "a reboot cures this: `sudo reboot`",
    ),
    (
        "driver.version",
        {"copies": (libcuda("535.104.05", "/opt/lib/libcuda.so.1"),), "installed": {}},
        (
            "the loaded kernel module is 550.54.15, but programs load an older library: /opt/lib/libcuda.so.1"
            " (535.104.05)"
        ),
        (
            "after a downgrade a reboot cures this; if there was none, remove the installation that"
            " /opt/lib/libcuda.so.1 belongs to" + OWNER
        ),
    ),
    (
        "driver.version",
        {"installed": packaged("535.104.05"), "copies": (libcuda("550.54.15", "/usr/lib/libcuda.so.1"),)},
        (
            "programs load /usr/lib/libcuda.so.1 (550.54.15), but the driver packages are 535.104.05 and"
            " the module 550.54.15"
        ),
        "a reboot does not cure this: remove the other installation that /usr/lib/libcuda.so.1 belongs to" + OWNER,
    ),
    (
        "driver.version",
        {"environment": "container", "copies": (libcuda("550.90.07"),)},
        "the host's kernel module is 550.54.15, but the container has driver libraries 550.90.07",
        "remove driver packages from the image and start the container anew; the libraries come from the host",
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
            "look for RmInitAdapter and Xid lines at that address in `sudo dmesg`; a GPU that fell off the bus needs a"
            " cold start, one that never came up a look at Above 4G Decoding in the firmware"
        ),
    ),
    (
        "driver.flavour",
        {"gpu": {"open_module": "impossible", "compute_capability": "7.0", "name": "V100"}},
        "the open module is loaded, but V100 (0000:01:00.0) has no GSP, which the open module needs",
        "`gpustack install driver --kernel-module proprietary`",
    ),
    (
        "driver.flavour",
        {
            "module": KernelModule(version="570.124.06", flavour="proprietary", loaded=True),
            "gpu": {"open_module": "required", "compute_capability": "10.0", "name": "B200"},
        },
        "the proprietary module is loaded, but B200 (0000:01:00.0) is driven by the open module only",
        "`gpustack install driver --kernel-module open`",
    ),
    (
        "driver.flavour",
        {"gpu": {"open_module": None, "compute_capability": "6.1"}},
        "the open module does not drive L4 (0000:01:00.0): The open modules need Turing or newer.",
        "`gpustack install driver`",
    ),
    (
        "driver.supports-gpu",
        {"gpu": {"name": "Tesla K80", "driver_last": "470", "driver_first": "337"}},
        "driver 550.54.15 does not drive Tesla K80 (0000:01:00.0): 470 is the last branch that does",
        "`gpustack install 'driver<471'`",
    ),
    (
        "driver.supports-gpu",
        {"gpu": {"name": "B200", "driver_first": "570"}},
        "driver 550.54.15 is too old for B200 (0000:01:00.0): 570 is the first that drives it",
        "`gpustack install 'driver>=570'`",
    ),
    (
        "driver.supports-gpu",
        {"gpu": {"name": "B200", "driver_first": None, "compute_capability": "10.0"}},
        (
            "driver 550.54.15 does not drive B200 (0000:01:00.0): driver 550.54.15 needs a GPU of compute capability"
            " 5.0 to 9.0"
        ),
        "`gpustack install driver`",
    ),
    (
        "driver.fabric-manager",
        {"nvswitches": 4, "gpu": {"fabric": "nvswitch"}},
        "4 NVSwitches and no fabric manager: CUDA will answer with error 802 (system not yet initialized)",
        "`gpustack install 'fabric-manager==550.54.15'`, then `sudo systemctl enable --now nvidia-fabricmanager`",
    ),
    (
        "driver.fabric-manager",
        {"nvswitches": 4, "installed": {"fabric-manager": Installed(version="550.54.14")}},
        (
            "the fabric manager is 550.54.14, the driver 550.54.15: it refuses to start unless they are equal, and CUDA"
            " answers with error 802 (system not yet initialized)"
        ),
        "`gpustack install 'fabric-manager==550.54.15'`, from the origin of the driver",
    ),
]


@pytest.mark.parametrize(("identity", "changes", "reason", "fix"), FAILS)
def test_fail(answer: Any, identity: str, changes: dict[str, Any], reason: str, fix: str) -> None:
    result = answer(identity, **changes)
    assert (result.status, result.reason, result.fix) == ("fail", reason, fix)
    assert result.expected


WSL = "inside WSL the driver is the one of Windows; a Linux driver must not be installed here"
JETSON = "on Jetson the driver is part of the board's own Linux"
NO_GPU = "no NVIDIA GPU was found here"
SKIPS: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"environment": "wsl"}, WSL) for name in ("driver.module", "driver.version", "driver.flavour")),
    *((name, {"environment": "wsl"}, WSL) for name in ("driver.fabric-manager", "driver.persistence")),
    *((name, {"environment": "jetson"}, JETSON) for name in ("driver.module", "driver.version", "driver.flavour")),
    *(
        (f"driver.{name}", {"gpus": ()}, NO_GPU)
        for name in ("module", "version", "nvml", "gpus", "flavour", "supports-gpu", "fabric-manager", "persistence")
    ),
    ("driver.module", {"environment": "chroot"}, "this is a file system tree, not a running system"),
    ("driver.module", {"os": OperatingSystem(family="windows")}, "Windows has no kernel module to look at"),
    (
        "driver.module",
        {"gpu": {"bound": "vfio-pci"}},
        "every GPU here is handed to virtual machines (bound to vfio-pci)",
    ),
    (
        "driver.version",
        {"copies": (), "installed": {}},
        "fewer than two of module, library and package versions are known",
    ),
    (
        "driver.version",
        {"module": None},
        "needs driver.module, which failed",
    ),
    (
        "driver.nvml",
        {"gpu": {"uuid": None}},
        "the saved host holds no answer of NVML, and this is not that machine",
    ),
    (
        "driver.nvml",
        {"environment": "jetson"},
        "Jetson boards of before JetPack 6 have no NVML; tegrastats takes its place",
    ),
    (
        "driver.gpus",
        {"gpu": {"uuid": None}},
        "the host's snapshot holds no list of the driver's own to compare the PCI bus with",
    ),
    ("driver.gpus", {"environment": "wsl"}, "inside WSL the GPUs are not on the PCI bus"),
    (
        "driver.gpus",
        {"environment": "container", "gpus": (Gpu(uuid="GPU-0"), Gpu(bus_id="0000:02:00.0"))},
        "the container was given 1 of the 2 GPUs of its host",
    ),
    (
        "driver.flavour",
        {"module": KernelModule(version="550.54.15", loaded=True)},
        "it is not known whether the loaded module is open or proprietary",
    ),
    ("driver.flavour", {"gpu": {"open_module": None}}, "for a GPU here it is not known which flavour it needs"),
    (
        "driver.supports-gpu",
        {"environment": "wsl"},
        "drivers of Windows are counted differently from those of Linux, which the GPU tables name",
    ),
    (
        "driver.supports-gpu",
        {"environment": "jetson"},
        "Jetson's driver comes with its own Linux and is not counted as other drivers are",
    ),
    ("driver.supports-gpu", {"module": None, "without": ("driver",)}, "no driver was found"),
    (
        "driver.supports-gpu",
        {"gpu": {"driver_first": None, "compute_capability": None}},
        "no fact tells whether driver 550.54.15 drives L4 (0000:01:00.0)",
    ),
    ("driver.fabric-manager", {}, "no GPU here needs a fabric manager"),
    (
        "driver.fabric-manager",
        {"gpu": {"fabric": "nvswitch"}, "environment": "container"},
        "the fabric manager runs on the machine below the container, not in it",
    ),
    (
        "driver.fabric-manager",
        {"gpu": {"fabric": "nvswitch"}, "nvswitches": 0},
        "L4 (0000:01:00.0) stands alone here: no NVSwitch is visible, nothing to manage",
    ),
    (
        "driver.fabric-manager",
        {"gpu": {"fabric": "nvswitch", "name": "B200"}},
        (
            "whether B200 (0000:01:00.0) sits on NVSwitches is not to be seen here (they are no PCI devices on some"
            " boards), and no fabric manager is installed"
        ),
    ),
    (
        "driver.fabric-manager",
        {"nvswitches": 2, "module": None, "without": ("driver",)},
        "no driver was found",
    ),
    ("driver.persistence", {}, "persistence can only be asked on the running machine"),
    ("driver.persistence", {"environment": "container"}, "that is set on the machine below the container"),
]


@pytest.mark.parametrize(("identity", "changes", "reason"), SKIPS)
def test_skip(answer: Any, identity: str, changes: dict[str, Any], reason: str) -> None:
    result = answer(identity, **changes)
    assert (result.status, result.reason) == ("skip", reason)


@pytest.mark.parametrize(
    ("finished_smi", "environment", "status", "reason", "fix"),
    [
        (finished(0, "GPU 0: NVIDIA L4 (UUID: GPU-0)\n"), "bare-metal", "pass", "", ""),
        (
            finished(18, "", "Failed to initialize NVML: Driver/library version mismatch\n"),
            "bare-metal",
            "fail",
            "nvidia-smi says: Failed to initialize NVML: Driver/library version mismatch",
            "look at `sudo dmesg` for NVRM and Xid lines",
        ),
        (
            finished(0, "No devices found\n"),
            "bare-metal",
            "fail",
            "nvidia-smi says: No devices found",
            "look at `sudo dmesg` for NVRM and Xid lines",
        ),
        (
            finished(None, error="no answer within 8 s"),
            "bare-metal",
            "error",
            "nvidia-smi: no answer within 8 s",
            "look at `sudo dmesg` for NVRM and Xid lines",
        ),
        (
            finished(None, error="nvidia-smi is not installed"),
            "bare-metal",
            "fail",
            "neither NVML nor nvidia-smi is installed, though the kernel module is loaded",
            "install the driver's libraries and tools: `gpustack install driver`",
        ),
        (
            finished(None, error="nvidia-smi is not installed"),
            "container",
            "fail",
            "the container was not given the driver's management library (libnvidia-ml.so.1, nvidia-smi)",
            "start it with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES holding `utility`",
        ),
    ],
)
def test_nvml_by_nvidia_smi(
    answer: Any, recorded: Any, finished_smi: Finished, environment: str, status: str, reason: str, fix: str
) -> None:
    runner = recorded(smi(LIST, finished_smi))
    result = answer("driver.nvml", gpu={"uuid": None}, runner=runner, environment=environment)
    assert (result.status, result.reason, result.fix) == (status, reason, fix)
    assert runner.asked[0][0] == ("nvidia-smi", "-L")
    assert runner.asked[0][1] <= 8


@pytest.mark.parametrize(
    ("modes", "status", "said", "fix"),
    [
        (finished(0, "0, Enabled\n1, Enabled\n"), "pass", "on for 2 GPUs", ""),
        (
            finished(0, "0, Enabled\n1, Disabled\n"),
            "skip",
            "persistence is off on GPU 1: the first program after a pause waits for the GPU to start",
            "`sudo systemctl enable --now nvidia-persistenced`",
        ),
        (finished(0, "nothing of use"), "skip", "nvidia-smi named no GPU", ""),
        (finished(9, "", "broken\nvery"), "skip", "nvidia-smi did not tell: broken", ""),
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
    assert result.actual == "module 550.54.15, library not known, packages 535.104.05"
