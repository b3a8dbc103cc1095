"""Lines of real kernel logs, as people published them, and what is said of each. The facts are the real ones."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest

from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host
from gpustack.model.results import CheckResult
from gpustack.system.run import Finished
from gpustack.verify.declare import Context, checks_of
from gpustack.verify.driver.kernel_log import judge_log
from gpustack.verify.frame import runner

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
BOOT = "[    0.000000] Linux version 6.8.0-45-generic\n"
RESET = "stop all programs on that GPU and reset it (`sudo nvidia-smi --gpu-reset -i 0000:cb:00.0`), or reboot; if the error recurs, have the board inspected"
RESTART = "reboot, or power-cycle the machine if that does not help; check power, seating and cooling; if the error recurs, replace the board"
FIRMWARE = "enable Above 4G Decoding and Resizable BAR in the firmware settings; in a virtual machine configure 64-bit MMIO space"
REBUILD = "`sudo reboot`; if they still differ, the module was not built for this kernel: reinstall the driver"


@pytest.fixture(scope="module")
def facts() -> Matrix:
    return load_matrix()


def judged(facts: Matrix, text: str) -> tuple[str, str, str]:
    outcome = judge_log(facts, BOOT + text)
    return outcome.status, outcome.reason or outcome.detail, outcome.fix


ILL: list[tuple[str, str, str, str]] = [
    (
        "github.com/NVIDIA/open-gpu-kernel-modules/issues/1151",
        "May 18 19:02:39 host kernel: NVRM: GPU at PCI:0000:2b:00: GPU-0b11d014-1685-04bd-26ed-5fc0bc1c44ae\n"
        "May 18 19:02:39 host kernel: NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus.\n"
        "May 18 19:02:39 host kernel: NVRM: GPU 0000:2b:00.0: GPU has fallen off the bus.\n",
        "Xid 79 at 0000:2b:00: the GPU fell off the bus",
        RESTART,
    ),
    (
        "github.com/leptonai/gpud components/accelerator/nvidia/xid/README.md",
        "[Fri Aug 30 11:43:09 2024] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp"
        " Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter\n"
        "[Fri Aug 30 11:43:14 2024] NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008,"
        " errorString CTX SWITCH TIMEOUT, Info 0x58005\n",
        "Xid 109 at 0000:cb:00: a context switch timed out",
        RESET
        + "; in games and desktops mostly a fault of the driver's release: a newer one (`gpustack plan driver`), an older proton or vkd3d, no overclocking",
    ),
    (
        "github.com/NVIDIA/open-gpu-kernel-modules/issues/446",
        "kern: warning: [2026-04-22T21:30:51.526447914Z]: NVRM: nvAssertFailedNoLog: Assertion failed: Back to back GSP"
        " RPC timeout detected! GPU marked for reset @ kernel_gsp.c:2387\n"
        "kern: warning: [2026-04-22T21:30:51.870495804Z]: NVRM: Xid (PCI:0000:0b:00): 154, GPU recovery action changed"
        " from 0x0 (None) to 0x1 (GPU Reset Required)\n",
        "the GPU's system processor (GSP) no longer answers the driver at 0000:0b:00",
        "stop all programs on that GPU and reset it (`sudo nvidia-smi --gpu-reset -i 0000:0b:00.0`), or reboot; if it recurs, install another driver branch",
    ),
    (
        "github.com/leptonai/gpud/pull/1174",
        "NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001)\n"
        "NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000)\n",
        "Xid 145 at 0018:01:00: an NVLink error",
        "reset all GPUs of that fabric together, or reboot; if the error recurs, have the links (bridge, baseboard, switch) inspected",
    ),
    (
        "github.com/NVIDIA/open-gpu-kernel-modules/issues/862",
        "[   12.1] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)\n"
        "[   12.1] NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0\n",
        "the driver cannot initialize the GPU at 0000:01:00.0: RmInitAdapter failed (0x22:0x56:884) (while it was being attached: not supported)",
        f"{FIRMWARE}; check power cables and seating",
    ),
    (
        "github.com/NVIDIA/gpu-operator/issues/649: two GPUs of a virtual machine",
        "[ 1097.650222] NVRM: GPU 0000:04:01.0: RmInitAdapter failed! (0x11:0x45:2525)\n"
        "[ 1097.650377] NVRM: GPU 0000:04:01.0: rm_init_adapter failed, device minor number 0\n"
        "[ 1102.469870] NVRM: GPU 0000:04:02.0: RmInitAdapter failed! (0x11:0x45:2525)\n",
        "the driver receives no interrupts from the GPU, as in virtual machines without MSI for it at 0000:04:01.0 and 0000:04:02.0: RmInitAdapter failed (0x11:0x45:2525) (while the system environment was being checked: no interrupt arrives)",
        "in a virtual machine, pass the whole PCIe device through with MSI; on bare metal, check `pci=nomsi` on the kernel's command line",
    ),
    (
        "github.com/Bumblebee-Project/Bumblebee/issues/722: a driver of 2015, which names no GPU",
        "[87669.726564] NVRM: RmInitAdapter failed! (0x26:0xffff:1375)\n"
        "[87669.726572] NVRM: rm_init_adapter failed for device bearing minor number 0\n",
        "the driver cannot initialize the GPU: RmInitAdapter failed (0x26:0xffff:1375) (while its memory access was being set up: no reason given)",
        f"{FIRMWARE}; check power cables and seating",
    ),
    (
        "github.com/NVIDIA/open-gpu-kernel-modules/issues/789",
        "[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM\n"
        "[  903.610907] NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)\n",
        "the GPU's system processor (GSP) does not start at 0000:98:00.0: RmInitAdapter failed (0x62:0x65:1792) (while its firmware was being started: no answer in time)",
        f"power-cycle the machine; if that does not help, try another driver branch, and {FIRMWARE}",
    ),
    (
        "github.com/ublue-os/bazzite/issues/2668: libraries, module and firmware of two releases",
        "[   12.014918] NVRM: API mismatch: the client has the version 570.153.02, but\n"
        "               NVRM: this kernel module has the version 570.144.  Please\n"
        "[   23.991660] nvidia 0000:07:00.0: Direct firmware load for nvidia/570.144/gsp_ga10x.bin failed with error -2\n"
        "[   23.991667] NVRM: RmFetchGspRmImages: No firmware image found\n"
        "[   23.991672] NVRM: GPU 0000:07:00.0: RmInitAdapter failed! (0x61:0x56:1770)\n",
        "the kernel module and the driver libraries have different versions at 0000:07:00.0: RmInitAdapter failed (0x61:0x56:1770) (while its firmware was being loaded: not supported)",
        REBUILD,
    ),
    (
        "github.com/stackhpc/ansible-slurm-appliance/issues/287: one message as rsyslog folds it",
        "Jun 30 11:07:05 gpu-0 kernel: NVRM: API mismatch: the client has the version 535.54.03, but#012NVRM: this kernel"
        " module has the version 530.30.02.  Please#012NVRM: make sure that this kernel module and all NVIDIA driver\n",
        "the kernel module and the driver libraries have different versions",
        REBUILD,
    ),
    (
        "github.com/Frogging-Family/nvidia-all/issues/394: the message as drivers of 2026 write it",
        "[    9.424670] NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)\n"
        "               NVRM: has the version 595.84, but this kernel module has\n"
        "               NVRM: the version 595.80.  Please make sure that this\n",
        "the kernel module and the driver libraries have different versions",
        REBUILD,
    ),
    (
        "github.com/system76/firmware-open/issues/66",
        "[   28.109029] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR0 is 0M @ 0x0 (PCI:0000:06:00.0)\n"
        "[   28.109032] NVRM: The system BIOS may have misconfigured your GPU.\n"
        "[   28.109040] nvidia: probe of 0000:06:00.0 failed with error -1\n",
        "the machine assigned no address space to the GPU at 0000:06:00.0",
        FIRMWARE,
    ),
    (
        "github.com/NVIDIA/gpu-operator/issues/492: two of them",
        "[83260.063553] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:14:00.0)\n"
        "[83260.106423] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:1c:00.0)\n",
        "the machine assigned no address space to the GPU at 0000:14:00.0 and 0000:1c:00.0",
        FIRMWARE,
    ),
    (
        "github.com/NVIDIA/open-gpu-kernel-modules/issues/322: a V100 under the open module",
        "[ 1157.046099] NVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db5)\n"
        "               NVRM: installed in this system is not supported by open\n"
        "               NVRM: nvidia.ko because it does not include the required GPU\n"
        "               NVRM: System Processor (GSP).\n",
        "the open kernel module does not support this GPU: it has no system processor (GSP) at 0000:af:00.0",
        "`gpustack install driver --kernel-module proprietary`; branch 580 is the last for GPUs before Turing (Arch and its kin from 590 on: nvidia-580xx-dkms and nvidia-580xx-utils of the AUR)",
    ),
    (
        "github.com/NVIDIA/open-gpu-kernel-modules/issues/230: the first open modules on a GeForce",
        "[    3.513141] NVRM: Open nvidia.ko is only ready for use on Data Center GPUs.\n"
        "[    3.513144] NVRM: To force use of Open nvidia.ko on other GPUs, see the\n"
        "[    3.824916] NVRM: GPU 0000:04:00.0: RmInitAdapter failed! (0x63:0x0:1905)\n",
        "this open kernel module is too old for a GPU that is not a data-center product at 0000:04:00.0: RmInitAdapter failed (0x63:0x0:1905)",
        "install a newer one: `gpustack install driver`; or `gpustack install driver --kernel-module proprietary`",
    ),
    (
        "github.com/Start9Labs/start-technologies/pull/3693: Blackwell under the proprietary module",
        "NVRM: GPU at PCI:000f:01:00: GPU-0f059bf0-a212-94c1-44a7-1068a6c6be66\n"
        "NVRM: Xid (PCI:000f:01:00): 169, fd8cd000 94000000\n"
        "NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)\n",
        "a controller of the GPU halted during start-up, as on Blackwell with the proprietary module at 000f:01:00: RmInitAdapter failed (0x62:0x1a:2631) (while its firmware was being started: a resource ran out)",
        "`gpustack install driver --kernel-module open`",
    ),
    (
        "github.com/NixOS/nixos-hardware/issues/1880: a GTX 1050 under 595",
        "[    4.1] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1c8d)\n"
        "          NVRM: installed in this system is supported through the NVIDIA 580.xx Legacy drivers.\n",
        "this driver no longer supports the GPU; an older branch does at 0000:01:00.0",
        "install that branch: `gpustack plan driver` chooses it for the GPU (NixOS: hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.legacy_580, legacy_470 or legacy_390; Arch: nvidia-580xx-dkms and the like of the AUR)",
    ),
]


@pytest.mark.parametrize(("text", "reason", "fix"), [row[1:] for row in ILL], ids=[row[0].split(":")[0] for row in ILL])
def test_published_lines_are_told_with_cause_and_cure(facts: Matrix, text: str, reason: str, fix: str) -> None:
    assert judged(facts, text) == ("fail", reason, fix)


REMARKS = [
    ("", "no Xid and no RmInitAdapter message"),
    (
        "[1.0] NVRM: Xid (PCI:0000:3b:00): 31, pid=1\n[2.0] NVRM: Xid (PCI:0000:3b:00): 13, pid=1\n"
        "[3.0] NVRM: Xid (PCI:0000:3b:00): 13, pid=1\n",
        "Xid 13 (a program caused a GPU exception), 31 (a program accessed an invalid GPU address); none is known to require more than restarting programs",
    ),
    (
        # github.com/stas00/ml-engineering compute/accelerator/nvidia/debug.md; driver.health tells of what waits for a reset
        "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.\n",
        "Xid 63 (a faulty memory row was remapped); none is known to require more than restarting programs",
    ),
    (
        "NVRM: Xid (PCI:0000:0b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n",
        "Xid 154 (the recovery action of another error changed); none is known to require more than restarting programs",
    ),
    (
        # A driver of 2013; no fact speaks of that number.
        "kernel: [ 269.516] NVRM: Xid (0000:01:00): 3, C 00000005 SC 00000007 M 00001ffc Data ffffffff\n",
        "Xid 3 (its meaning is unknown); none is known to require more than restarting programs",
    ),
]


@pytest.mark.parametrize(("text", "detail"), REMARKS, ids=["quiet", "programs", "row", "recovered", "unknown"])
def test_what_asks_for_nothing_is_a_remark(facts: Matrix, text: str, detail: str) -> None:
    assert judged(facts, text) == ("pass", detail, "")


def test_the_log_of_an_h100_is_quiet(facts: Matrix) -> None:
    """Its NVRM lines as they were on 2026-11-21, of a machine that passed every check."""
    text = (FIXTURES / "h100/dmesg-nvidia.log").read_text()
    assert "NVRM" in text
    assert judged(facts, text) == ("pass", "no Xid and no RmInitAdapter message", "")


class _Says:
    """A machine on which dmesg says something, or is refused."""

    def __init__(self, out: str, code: int) -> None:
        self._out, self._code = out, code

    def run(self, argv: tuple[str, ...], **_: Any) -> Finished:
        if argv[0] != "dmesg":
            return Finished(argv=argv, code=None, error=f"{argv[0]} is not installed")
        return Finished(argv=argv, code=self._code, out=self._out)


def checked(healthy: Host, facts: Matrix, folder: Path, said: _Says, environment: Any) -> CheckResult:
    host = msgspec.structs.replace(healthy, environment=environment)
    check = next(one for one in checks_of("driver") if one.id == "driver.kernel-log")
    context = Context(host=host, matrix=facts, runner=said)
    return runner._Answer(context, runner._Required(frozenset(), frozenset()))(check, {}, folder)


@pytest.mark.parametrize("environment", ["bare-metal", "container"])
def test_a_log_that_can_be_read_is_judged_in_a_container_too(
    healthy: Host, facts: Matrix, tmp_path: Path, environment: str
) -> None:
    line = "NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus.\n"
    assert checked(healthy, facts, tmp_path, _Says(BOOT + line, 0), environment).status == "fail"


@pytest.mark.parametrize(
    ("environment", "reason", "fix"),
    [
        ("bare-metal", "this user has no permission to read the kernel log", "run it with `sudo`"),
        (
            "container",
            "this container has no permission to read its host's kernel log",
            "run `gpustack verify driver` on the host",
        ),
    ],
)
def test_a_log_that_may_not_be_read(
    healthy: Host, facts: Matrix, tmp_path: Path, environment: str, reason: str, fix: str
) -> None:
    result = checked(healthy, facts, tmp_path, _Says("", 1), environment)
    assert (result.status, result.reason, result.fix) == ("skip", reason, fix)


def numbers(facts: Matrix, table: str, number: str) -> dict[int, str]:
    return {row[number]: row["name"] for row in facts.rows("driver-errors", table, dict)}


def test_codes_of_cuda_are_named_as_its_headers_name_them(facts: Matrix) -> None:
    include = Path(sysconfig.get_path("purelib")) / "nvidia/cu13/include"
    text = (include / "cuda.h").read_text() + (include / "driver_types.h").read_text()
    named = {(name, int(code)) for name, code in re.findall(r"\b((?:CUDA_ERROR|cudaError)\w+)\s*=\s*(\d+)", text)}
    told = numbers(facts, "cuda", "code")
    assert len(told) >= 20
    assert {(name, code) for code, name in told.items()} <= named


def test_codes_of_nvml_and_states_of_the_fabric_are_named_as_nvml_names_them(facts: Matrix) -> None:
    for table, number in (("nvml", "code"), ("fabric_states", "state")):
        told = numbers(facts, table, number)
        assert {code: getattr(pynvml, name) for code, name in told.items()} == {code: code for code in told}


def test_every_xid_asks_for_an_action_that_is_described(facts: Matrix) -> None:
    actions = {row["action"] for row in facts.rows("driver-errors", "xid_actions", dict)}
    asked = {row["action"] for row in facts.rows("driver-errors", "xids", dict)}
    assert asked == actions
    assert all(bool(row["fix"]) == row["grave"] for row in
               (({"fix": ""} | row) for row in facts.rows("driver-errors", "xid_actions", dict)))  # fmt: skip
