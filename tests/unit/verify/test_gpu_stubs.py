"""The driver's checks against stand-ins for libcuda.so.1 and libnvidia-ml.so.1, compiled here.

No GPU can be had where these tests run. Everything else is real: the loader loads the stand-ins, pynvml and the probe
programs call them, processes hang and are ended.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gpustack.matrix.index import Matrix
from gpustack.model.host import Gpu, Host
from gpustack.model.results import CheckResult
from gpustack.system.run import LocalRunner
from gpustack.verify.declare import Context, checks_of
from gpustack.verify.frame import runner

STUBS = Path(__file__).resolve().parents[2] / "stubs"
L4 = "L4 (0000:01:00.0)"


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for source, library in (("libcuda.c", "libcuda.so.1"), ("libnvidia-ml.c", "libnvidia-ml.so.1")):
        command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(folder / library), str(STUBS / source)]
        subprocess.run(command, check=True)
    return folder


Ask = Callable[..., CheckResult]


@pytest.fixture
def ask(stubs: Path, healthy: Host, matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run one check of the driver with stand-ins that behave as named, on a host with so many GPUs."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stubs))
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"):
        monkeypatch.delenv(name, raising=False)

    def run(
        identity: str,
        stub: str = "",
        *,
        gpus: int = 1,
        limit: float | None = None,
        container: bool = False,
        card: Gpu | None = None,
        last: Gpu | None = None,
        **env: object,
    ) -> CheckResult:
        for name, value in {"STUB": stub, "STUB_GPUS": gpus, **env}.items():
            monkeypatch.setenv(name, str(value))
        cards = tuple(
            msgspec.structs.replace(
                (last if number + 1 == gpus else None) or card or healthy.gpus[0],
                bus_id=f"0000:{number + 1:02x}:00.0",
                uuid=f"GPU-{number}",
            )
            for number in range(gpus)
        )
        host = msgspec.structs.replace(healthy, gpus=cards)
        if container:
            host = msgspec.structs.replace(host, environment="container")
        check = next(one for one in checks_of("driver") if one.id == identity)
        if limit is not None:
            check = msgspec.structs.replace(check, limit_s=limit)
        context = Context(host=host, matrix=matrix, runner=LocalRunner())
        answer = runner._Answer(context, runner._Required(frozenset(), frozenset()))
        folder = tmp_path / identity
        folder.mkdir()
        return answer(check, {}, folder)

    return run


def told(result: CheckResult) -> tuple[str, str, str]:
    return result.status, result.reason or result.detail, result.fix


def test_a_healthy_gpu_passes_every_check(ask: Ask, stubs: Path) -> None:
    assert told(ask("driver.context")) == ("pass", f"CUDA 13.0 through {stubs}/libcuda.so.1: {L4}", "")
    assert told(ask("driver.lists")) == ("pass", "0000:01:00.0 is GPU-00000000-0000-0000-0000-000000000000", "")
    assert told(ask("driver.modes"))[:2] == ("pass", "NVIDIA L4 (00000000:01:00.0): available to every program")
    assert told(ask("driver.health")) == ("pass", "no uncorrected errors on 1 GPU", "")
    clocks = ask("driver.clocks")
    assert told(clocks) == ("pass", "no GPU is throttled", "")
    assert {name: (one.value, one.unit) for name, one in clocks.measurements.items()} == {
        "gpu0-temperature": (41, "°C"),
        "gpu0-power": (28.4, "W"),
        "gpu0-power-limit": (72, "W"),
        "gpu0-sm-clock": (2040, "MHz"),
        "gpu0-sm-clock-max": (2040, "MHz"),
        "gpu0-memory-used": (1034, "MiB"),
    }


DMESG = "check `sudo dmesg` for NVRM and Xid messages"
FROM_INIT = [
    (
        100,
        "CUDA reports error 100 (CUDA_ERROR_NO_DEVICE): the driver is installed but lists no GPU for CUDA: none started, or all are hidden",
        "check CUDA_VISIBLE_DEVICES, that nvidia_uvm is loaded (`sudo modprobe nvidia_uvm`), then `sudo dmesg` for RmInitAdapter messages; a service that found no GPU at boot and finds it after a restart starts too early: After=nvidia-persistenced.service in its unit",
    ),
    (
        802,
        "CUDA reports error 802 (CUDA_ERROR_SYSTEM_NOT_READY): the GPUs are attached to NVSwitches, and Fabric Manager has not initialized these",
        "check `systemctl status nvidia-fabricmanager`: it must run, in the driver's exact version (`gpustack install fabric-manager`)",
    ),
    (
        803,
        "CUDA reports error 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH): the kernel module and the driver library have different versions: the driver was upgraded without a reboot",
        "`sudo reboot`; if they still differ, reinstall the driver from one source",
    ),
    (
        804,
        "CUDA reports error 804 (CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE): a forward compatibility libcuda is loaded, which this GPU (not a data-center product) or this driver does not support",
        "remove the package cuda-compat, or its folder from the loader's path, and install a newer driver",
    ),
    (
        999,
        "CUDA reports error 999 (CUDA_ERROR_UNKNOWN): the driver failed without a reason; usually nvidia_uvm is not loaded or cannot be opened, for example after sleep mode",
        f"`sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm`; {DMESG}",
    ),
    (34, "CUDA reports error 34 (CUDA_ERROR_STUB_LIBRARY): the loaded libcuda is the toolkit's stub, which is for linking only", "remove the toolkit's folder `stubs` from LD_LIBRARY_PATH and /etc/ld.so.conf.d"),
    (12345, "CUDA reports error 12345 (CUDA_ERROR_STUB)", DMESG),
]  # fmt: skip


@pytest.mark.parametrize(("code", "reason", "fix"), FROM_INIT, ids=[str(code) for code, _, _ in FROM_INIT])
def test_each_error_of_cuda_has_its_own_cause_and_cure(ask: Ask, code: int, reason: str, fix: str) -> None:
    """github.com/gpustack/gpustack issue 1254: 802 and 804 in texts of one shape, with different cures."""
    result = ask("driver.context", STUB_CUINIT=code)
    assert told(result) == ("fail", reason, fix)
    assert result.actual == f"error {code}"


def test_in_a_container_the_cure_of_802_is_on_the_machine_below(ask: Ask) -> None:
    """github.com/huggingface/huggingface_hub issue 4128."""
    assert told(ask("driver.context", STUB_CUINIT=802, container=True))[2] == (
        "on the container's host, check `systemctl status nvidia-fabricmanager`: it must run, in the driver's exact version"
    )


def test_a_gpu_in_exclusive_mode_is_named(ask: Ask) -> None:
    assert told(ask("driver.context", gpus=2, STUB_CONTEXT=46)) == (
        "fail",
        "L4 (0000:02:00.0), context: error 46 (CUDA_ERROR_DEVICE_UNAVAILABLE): the GPU allows no new context: it is in exclusive or prohibited compute mode, MIG has no instance, or the GPU is to be reset after an Xid",
        "`nvidia-smi -q -d COMPUTE` shows the mode, `sudo nvidia-smi -c 0` sets the default; in MIG mode, `nvidia-smi mig -lgi` lists the instances; after an Xid (`sudo dmesg`) reset the GPU or reboot",
    )


def test_hidden_gpus_are_told_from_absent_ones(ask: Ask) -> None:
    status, reason, _ = told(ask("driver.context", STUB_CUINIT=100, CUDA_VISIBLE_DEVICES=""))
    assert status == "fail"
    assert reason.endswith("or all are hidden; CUDA_VISIBLE_DEVICES is ''")


def test_a_damaged_driver_library_is_told_and_ends_nothing_else(ask: Ask, stubs: Path, tmp_path: Path) -> None:
    """Cut off after its headers, as a full disk leaves it: the loader maps pages that the file does not have."""
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "libcuda.so.1").write_bytes((stubs / "libcuda.so.1").read_bytes()[:4096])
    status, reason, fix = told(ask("driver.context", LD_LIBRARY_PATH=cut))
    assert status == "fail"
    assert "loads the driver library crashed (signal 7, SIGBUS): the file is damaged" in reason
    assert "reinstall the driver" in fix


def test_memory_that_returns_other_bytes(ask: Ask) -> None:
    assert told(ask("driver.context", "wrong-bytes"))[1] == f"{L4} returns corrupted data"


@pytest.mark.gate
def test_a_driver_that_hangs_is_ended_and_told(ask: Ask, tmp_path: Path) -> None:
    status, reason, fix = told(ask("driver.context", "hang-init", limit=5.0))
    assert (status, fix) == ("fail", "the driver hangs: check `sudo dmesg` for Xid messages, then reboot")
    assert reason.startswith("cuInit did not return: no answer within ")
    assert subprocess.run(["pgrep", "-f", str(tmp_path)], check=False, capture_output=True).stdout == b""


@pytest.mark.gate
def test_a_gpu_that_hangs_is_named(ask: Ask) -> None:
    status, reason, _ = told(ask("driver.context", "hang-context", gpus=3, limit=5.0))
    assert status == "fail"
    assert reason == "L4 (0000:03:00.0) does not respond: no context was created within 5 s"


@pytest.mark.gate
def test_an_nvml_that_hangs_is_ended_and_told(ask: Ask) -> None:
    status, reason, fix = told(ask("driver.health", "hang-nvml", limit=5.0))
    assert (status, fix) == ("fail", "the driver hangs: check `sudo dmesg` for Xid messages, then reboot")
    assert reason.startswith("NVML did not respond: no answer within ")


NVML = [
    (
        18,
        "NVML reports 'RM has detected an NVML/RM version mismatch.': the kernel module and the driver libraries have different versions: the driver was upgraded without a reboot",
        "reboot: `sudo reboot`",
    ),
    (
        9,
        "NVML reports 'Driver Not Loaded': the kernel module is not loaded, or supports no GPU of this host",
        "`sudo modprobe nvidia`; then check `sudo dmesg` for RmInitAdapter messages",
    ),
    (999, "NVML reports 'Unknown Error': NVML cannot be used", "check `sudo dmesg` for NVRM messages"),
]


@pytest.mark.parametrize(("code", "reason", "fix"), NVML, ids=[str(code) for code, _, _ in NVML])
def test_what_nvml_answers_has_a_cause_and_a_cure(ask: Ask, code: int, reason: str, fix: str) -> None:
    assert told(ask("driver.modes", STUB_NVML=code)) == ("fail", reason, fix)


ILL = [
    (
        "driver.health",
        "ecc",
        "NVIDIA L4 (00000000:02:00.0): 2 uncorrected memory errors since the driver was loaded",
        "stop all programs, then `sudo nvidia-smi --gpu-reset -i 1` or reboot; if errors recur, replace the GPU",
    ),
    (
        "driver.health",
        "remap-failed",
        "NVIDIA L4 (00000000:02:00.0): row remapping failed",
        "no spare memory rows are left: replace the GPU (RMA)",
    ),
    (
        "driver.health",
        "remap-pending",
        "NVIDIA L4 (00000000:02:00.0): row remapping is pending; reset the GPU",
        "stop all programs, then `sudo nvidia-smi --gpu-reset -i 1` or reboot",
    ),
    ("driver.health", "lost", "GPU 1 cannot be reached: GPU is lost", "check `sudo dmesg` for its Xid message"),
    (
        "driver.lists",
        "lost",
        "NVML lists GPU 1 but cannot reach it: GPU is lost",
        "the GPU fell off the bus: check `sudo dmesg` for Xid 79; only a power cycle restores it",
    ),
    (
        "driver.lists",
        "other-uuid",
        "NVML reports UUID 00000000-0000-0000-0000-000000000000 for the GPU at 0000:01:00.0, but CUDA reports 00000000-0000-0000-0000-000000000064",
        "`sudo reboot`",
    ),
    (
        "driver.modes",
        "mig-empty",
        "NVIDIA L4 (00000000:01:00.0) is in MIG mode without instances, so CUDA cannot use it",
        "create instances: `sudo nvidia-smi mig -cgi PROFILE -C` (a reboot removes them), or disable MIG: `sudo nvidia-smi -mig 0`",
    ),
    (
        "driver.modes",
        "prohibited",
        "NVIDIA L4 (00000000:01:00.0) is in prohibited compute mode: no program can create a context",
        "`sudo nvidia-smi -i 0 -c 0`",
    ),
    (
        "driver.modes",
        "fabric-waits",
        "the NVLink fabric of NVIDIA L4 (00000000:01:00.0) is still initializing; until then, CUDA fails with error 802",
        "see `systemctl status nvidia-fabricmanager` and /var/log/fabricmanager.log",
    ),
    (
        "driver.modes",
        "fabric-failed",
        "the NVLink fabric of NVIDIA L4 (00000000:01:00.0) failed to initialize (status 1); until then, CUDA fails with error 802",
        "see `systemctl status nvidia-fabricmanager` and /var/log/fabricmanager.log",
    ),
    (
        "driver.clocks",
        "hot",
        "NVIDIA L4 (00000000:02:00.0) is throttled by overheating (hardware)",
        "See `nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`; check cooling, power cables and power limit.",
    ),
]


@pytest.mark.parametrize(("identity", "stub", "reason", "fix"), ILL, ids=[f"{row[0]}-{row[1]}" for row in ILL])
def test_each_fault_of_a_gpu_is_told_with_its_cure(ask: Ask, identity: str, stub: str, reason: str, fix: str) -> None:
    assert told(ask(identity, stub, gpus=2)) == ("fail", reason, fix)


def test_a_running_fabric_manager_is_no_proof(ask: Ask) -> None:
    """github.com/NVIDIA/gpu-operator issue 2781: pod and service are ready, the fabric stays in progress, CUDA says 802."""
    assert ask("driver.modes", "fabric-waits", gpus=2).status == "fail"
    assert told(ask("driver.context", STUB_CUINIT=802, gpus=2))[1].startswith("CUDA reports error 802")


def test_one_of_eight_gpus_is_missing(ask: Ask) -> None:
    assert told(ask("driver.lists", "missing", gpus=8)) == (
        "fail",
        "NVML does not list the GPU at 0000:08:00.0",
        "check `sudo dmesg` for RmInitAdapter and Xid messages at that address",
    )


def test_mig_instances_are_counted(ask: Ask) -> None:
    assert told(ask("driver.modes", "mig"))[1] == "NVIDIA L4 (00000000:01:00.0): MIG with 2 instances"


def test_a_power_cap_and_a_narrow_link_are_remarks(ask: Ask) -> None:
    assert told(ask("driver.clocks", "power-cap"))[:2] == (
        "pass",
        "NVIDIA L4 (00000000:01:00.0): PCIe link has 8 of 16 lanes; NVIDIA L4 (00000000:01:00.0): power limit is lowered to 40 W",
    )


def test_libraries_that_a_container_was_not_given(ask: Ask) -> None:
    """github.com/NVIDIA/nvidia-docker issue 1530: libnvidia-encode.so.1 without the capability `video`."""
    status, reason, fix = told(ask("driver.libraries", container=True, NVIDIA_DRIVER_CAPABILITIES="utility"))
    assert status == "skip"
    assert (
        "not available in this container: libnvidia-ptxjitcompiler.so.1, libnvidia-encode.so.1, libnvcuvid.so.1"
        in reason
    )
    assert fix.startswith("start it with NVIDIA_DRIVER_CAPABILITIES=utility,compute,video")


def test_libraries_that_the_machine_below_lacks(ask: Ask) -> None:
    assert told(ask("driver.libraries", container=True, NVIDIA_DRIVER_CAPABILITIES="utility,video")) == (
        "fail",
        "libnvidia-encode.so.1, libnvcuvid.so.1 (video) was requested but is missing on the container's host",
        "install all of the driver's libraries on the host",
    )


def test_no_dcgm_is_nothing_to_check(ask: Ask) -> None:
    fix = "install NVIDIA's Data Center GPU Manager (DCGM) and start its host engine"
    assert told(ask("driver.dcgm")) == ("skip", "DCGM is not installed", fix)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"STUB_GPUS": "8"}, (8, None)),
        ({"STUB_GPUS": "8", "STUB": "missing"}, (7, None)),
        ({"STUB_NVML": "18"}, (0, "RM has detected an NVML/RM version mismatch.")),
    ],
)
def test_detection_reads_them_too(stubs: Path, env: dict[str, str], expected: tuple[int, str | None]) -> None:
    code = (
        "import json; from gpustack.detect.nvml import read_nvml; told = read_nvml();"
        " print(json.dumps([len(told.get('gpus', ())), told.get('error')]))"
    )
    environment = {"LD_LIBRARY_PATH": str(stubs), "PYTHONPATH": ":".join(sys.path), **env}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert tuple(msgspec.json.decode(done.stdout)) == expected


def test_a_damaged_library_does_not_end_detection(stubs: Path, tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes((stubs / "libnvidia-ml.so.1").read_bytes()[:4096])
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    code = "from gpustack.detect.nvml import read_nvml; print(read_nvml()['error'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout == ("a program that asks it crashed (SIGBUS): libnvidia-ml.so.1 or libcuda.so.1 is damaged\n")


def test_an_nvml_that_hangs_does_not_hold_detection(stubs: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(stubs), "PYTHONPATH": ":".join(sys.path), "STUB": "hang-nvml"}
    code = "from gpustack.detect import nvml; nvml.TIME_LIMIT_S = 0.5; print(nvml.read_nvml()['error'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout == "NVML gave no answer within 0.5 s\n"


def test_gpus_are_known_by_their_place_on_the_bus() -> None:
    from gpustack.verify.frame.probes import gpu_at

    gpu = Gpu(name="L4", bus_id="0000:01:00.0")
    host = Host(gpus=(gpu,))
    assert [gpu_at(host, text) for text in ("00000000:01:00.0", "0000:01:00.0", "0000:02:00.0", None)] == [
        gpu,
        gpu,
        None,
        None,
    ]


def test_every_gpu_adds_numbers_without_a_compiler(ask: Ask) -> None:
    assert told(ask("driver.sums", gpus=2)) == ("pass", f"correct sums on {L4}, L4 (0000:02:00.0)", "")


def test_sums_that_are_wrong_name_their_gpu(ask: Ask) -> None:
    assert told(ask("driver.sums", "wrong-sums")) == (
        "fail",
        f"{L4} computed wrong results: 2 of 262,144 sums",
        "take the GPU out of service and replace it",
    )


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        (218, "error 218 (CUDA_ERROR_INVALID_PTX): the driver could not compile the program's PTX for this GPU"),
        (222, "error 222 (CUDA_ERROR_UNSUPPORTED_PTX_VERSION): the program's PTX is from a newer toolkit"),
        (209, "error 209 (CUDA_ERROR_NO_BINARY_FOR_GPU): the program has no code for this GPU's compute capability"),
        (221, "error 221 (CUDA_ERROR_JIT_COMPILER_NOT_FOUND): the driver's compiler, libnvidia-ptxjitcompiler.so.1,"),
        (223, "error 223 (CUDA_ERROR_JIT_COMPILATION_DISABLED): the driver is configured not to compile PTX"),
    ],
)  # fmt: skip
def test_ptx_that_the_driver_does_not_take(ask: Ask, code: int, begins: str) -> None:
    status, reason, _ = told(ask("driver.sums", STUB_MODULE=code))
    assert status == "fail"
    assert reason.startswith(f"{L4}, module: {begins}")
    assert reason.endswith("; the driver's compiler says: ptxas application ptx input, line 9; fatal")


def test_a_kernel_that_the_gpu_stops(ask: Ask) -> None:
    assert told(ask("driver.sums", STUB_KERNEL=719)) == (
        "fail",
        f"{L4}, kernel: error 719 (CUDA_ERROR_LAUNCH_FAILED): the GPU stopped the program with an error",
        DMESG,
    )


@pytest.mark.gate
def test_a_kernel_that_never_ends_is_named(ask: Ask) -> None:
    status, reason, _ = told(ask("driver.sums", "hang-kernel", limit=5.0))
    assert (status, reason) == ("fail", f"{L4} does not end a kernel that takes a moment: no answer within 5 s")


def test_a_gpu_older_than_the_kernel_is_said(ask: Ask, healthy: Host) -> None:
    old = msgspec.structs.replace(healthy.gpus[0], name="Tesla K80", compute_capability="3.7")
    status, reason, _ = told(ask("driver.sums", STUB_MODULE=209, card=old))
    assert (status, reason) == (
        "skip",
        "Tesla K80 (0000:01:00.0): older than the compute capability 5.0 that gpustack's kernel is for",
    )


def test_gpus_younger_than_the_kernel_are_enough(ask: Ask, healthy: Host) -> None:
    old = msgspec.structs.replace(healthy.gpus[0], name="Tesla K80", compute_capability="3.7")
    assert told(ask("driver.sums", gpus=2, STUB_MODULE=209, STUB_MODULE_GPU=1, last=old)) == (
        "pass",
        f"correct sums on {L4}; not run on Tesla K80 (0000:02:00.0), which is older than compute capability 5.0",
        "",
    )
