"""Answers that a host seldom gives, with their whole text: what NVML, libcuda and built programs say, judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpustack.matrix.index import Matrix
from gpustack.model.host import Environment, Host
from gpustack.system.run import Finished
from gpustack.verify.cuda import build, measure
from gpustack.verify.cuda import smoke as cuda_smoke
from gpustack.verify.cuda.toolchain import Home, HostCompiler, Toolkit
from gpustack.verify.cudnn import answers, full_cross, vendor
from gpustack.verify.cudnn import full as cudnn_full
from gpustack.verify.cudnn import smoke as cudnn_smoke
from gpustack.verify.declare import Context, Outcome
from gpustack.verify.driver import full as driver_full
from gpustack.verify.driver import smoke as driver_smoke
from gpustack.verify.driver import smoke_modes as driver_smoke_modes
from gpustack.verify.driver.nvml import GpuHealth, Health, read_health
from gpustack.verify.frame import host_facts
from gpustack.verify.nccl import full as nccl_full
from gpustack.verify.nccl import smoke as nccl_smoke

KIT = Toolkit(nvcc="nvcc", release="13.0", version="13.0.88", root=Path("/usr/local/cuda"))
HOME = Home(include=Path("/usr/include"), library=Path("/usr/lib64/libcudnn.so"), origin="system")
HERE = "0000:01:00.0"
GPU = GpuHealth(index=0, name="NVIDIA L4", bus_id=f"0000{HERE}", uuid="GPU-0")
LATE = "no answer within 90 s"


@pytest.fixture
def context(healthy: Host, matrix: Matrix, tmp_path: Path) -> Context:
    return Context(host=healthy, matrix=matrix, work=tmp_path)


def told(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.status, outcome.reason or outcome.detail, outcome.fix


def ended(code: int | None = 1, out: str = "", err: str = "", error: str = "") -> Finished:
    return Finished(argv=("./program",), code=code, out=out, err=err, error=error)


def inside(context: Context, environment: Environment) -> Context:
    return msgspec.structs.replace(context, host=msgspec.structs.replace(context.host, environment=environment))


def with_nvml(context: Context, *gpus: GpuHealth, **told_by_nvml: Any) -> Context:
    context.shared.once("nvml-health", lambda: Health(gpus=gpus, **told_by_nvml))
    return context


@pytest.mark.parametrize(
    ("seen", "wanted", "expected"),
    [
        ((), "", ("skip", "no g++ was found; nvcc requires a host compiler", "install g++")),
        (
            ("g++ 16.1.0",),
            "6 to before 16",
            (
                "fail",
                "nvcc of CUDA 13.0 supports none of the installed compilers: g++ 16.1.0",
                "install g++ 6 to before 16 as well; gpustack selects it",
            ),
        ),
        (
            ("g++ 16.1.0",),
            "",
            ("fail", "nvcc of CUDA 13.0 supports none of the installed compilers: g++ 16.1.0", "install an older g++"),
        ),
    ],
    ids=["none", "too-new", "no-bound"],
)
def test_no_host_compiler(seen: tuple[str, ...], wanted: str, expected: tuple[str, str, str]) -> None:
    assert told(build._no_compiler(KIT, seen, wanted)) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "#error -- unsupported GNU version! gcc versions later than 15 are not supported!",
            ("fail", "nvcc of CUDA 13.0 does not support the host compiler g++ 16.1.0", "install an older g++ as well"),
        ),
        (
            "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
            ("fail", "nvcc of CUDA 13.0 does not support the host's GPUs", "`gpustack install cuda`"),
        ),
    ],
    ids=["gcc", "architecture"],
)
def test_nvcc_that_refuses(context: Context, said: str, expected: tuple[str, str, str]) -> None:
    assert told(build.build_failure(context, ended(err=said), KIT, "g++ 16.1.0", "")) == expected


def test_programs_that_give_no_answer(context: Context) -> None:
    late = ended(None, error=LATE)
    assert told(cuda_smoke.judge(context, late)) == ("error", f"the program produced no output: {LATE}", "")
    assert told(cuda_smoke.judge(context, ended(3, err="no words of ours"))) == (
        "fail", "the program ended with exit code 3: no words of ours", ""
    )  # fmt: skip
    assert told(answers.judge(context, HOME, late)) == (
        "error",
        f"the network's program produced no output: {LATE}",
        "",
    )
    ran = vendor._judge(Path("/usr/src/cudnn_samples_v9"), HOME, late, {})
    assert told(ran) == ("error", f"mnistCUDNN produced no output: {LATE}", "")
    assert told(measure._broken(context, "GPU 1", late)) == ("error", f"the measurement of GPU 1 failed: {LATE}", "")


def test_samples_without_a_compiler(context: Context) -> None:
    context.shared.once("toolkit", lambda: None)
    context.shared.once("host-compiler", HostCompiler)
    outcome = vendor.run_sample(context, Path("/usr/src/cudnn_samples_v9"), HOME)
    assert isinstance(outcome, vendor.NotRun)
    assert outcome.reason == "/usr/src/cudnn_samples_v9/mnistCUDNN was skipped: it requires nvcc and a host compiler"


def test_no_headers_to_build_against(context: Context) -> None:
    context.shared.once("toolkit", lambda: None)
    context.shared.once("sites", lambda: ())
    bare = msgspec.structs.replace(context, host=Host(environment="bare-metal", arch="x86_64"))
    if any(Path(folder, name).exists() for folder in ("/usr/include", "/usr/local/cuda/include")
           for name in ("cudnn.h", "nccl.h")):  # fmt: skip
        pytest.skip("cuDNN or NCCL is installed on this machine")
    assert told(cudnn_smoke.mnist(bare)) == (
        "skip",
        "no cudnn.h with its library was found to build with",
        "`gpustack install cudnn`",
    )
    assert told(cudnn_full.static(bare)) == ("skip", "no cudnn.h with its library was found", "")
    assert told(nccl_smoke.all_reduce(bare)) == (
        "skip",
        "no nccl.h with its library was found to build with",
        "`gpustack install nccl`",
    )


def test_one_gpu_needs_no_bandwidth(context: Context) -> None:
    assert told(nccl_full.bandwidth(context)) == ("skip", "an all-reduce requires at least two GPUs", "")


class _NoGpu:
    """A program that measures and counts no GPU; nvcc that builds it."""

    def run(self, argv: tuple[str, ...], **_: Any) -> Finished:
        return Finished(argv=argv, code=0, out='{"count": 0}\n')


def test_nothing_to_measure(context: Context) -> None:
    context.shared.once("toolkit", lambda: KIT)
    context.shared.once("host-compiler", lambda: HostCompiler(path="g++", version="13.3.0"))
    outcome = measure.measure_gpus(msgspec.structs.replace(context, runner=_NoGpu()))
    assert isinstance(outcome, Outcome)
    assert told(outcome) == ("skip", "CUDA lists no GPU to measure", "")


@pytest.mark.parametrize(
    ("throttle", "reason"),
    [
        (0x8, "NVIDIA L4 (00000000:01:00.0) is throttled by a hardware slowdown (heat or power)"),
        (0x20, "NVIDIA L4 (00000000:01:00.0) is throttled by the temperature limit"),
        (0x80 | 0x8, "NVIDIA L4 (00000000:01:00.0) is throttled by a hardware slowdown (heat or power) and the machine's power brake"),
    ],
)  # fmt: skip
def test_what_slows_a_gpu_down(context: Context, throttle: int, reason: str) -> None:
    slow = msgspec.structs.replace(GPU, throttle=throttle | 0x4)
    assert told(driver_full.clocks(with_nvml(context, slow))) == ("fail", reason, "")


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({}, "no GPU is throttled"),
        ({"link_width": 8}, "no GPU is throttled"),
        ({"link_width_max": 16}, "no GPU is throttled"),
        ({"link_width": 16, "link_width_max": 16}, "no GPU is throttled"),
        ({"link_width": 8, "link_width_max": 16}, "NVIDIA L4 (00000000:01:00.0): PCIe link has 8 of 16 lanes"),
        ({"power_limit_mw": 72000, "power_default_mw": 72000}, "no GPU is throttled"),
        (
            {"power_limit_mw": 40000, "power_default_mw": 72000},
            "NVIDIA L4 (00000000:01:00.0): power limit is lowered to 40 W",
        ),
    ],
)
def test_remarks_on_clocks_need_figures_that_nvml_reports(
    context: Context, fields: dict[str, Any], remark: str
) -> None:
    assert told(driver_full.clocks(with_nvml(context, msgspec.structs.replace(GPU, **fields)))) == ("pass", remark, "")


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({}, {}),
        ({"corrected": 0}, {"gpu0-corrected": 0}),
        ({"corrected": 3}, {"gpu0-corrected": 3}),
        ({"uncorrected_ever": 2}, {"gpu0-uncorrected-ever": 2}),
        ({"corrected": 3, "uncorrected_ever": 0}, {"gpu0-corrected": 3, "gpu0-uncorrected-ever": 0}),
    ],
)
def test_only_error_counts_that_nvml_reports_are_measurements(
    context: Context, fields: dict[str, int], counted: dict[str, int]
) -> None:
    outcome = driver_full.memory_errors(with_nvml(context, msgspec.structs.replace(GPU, **fields)))
    assert outcome.status == "pass"
    assert {name: one.value for name, one in outcome.measurements.items()} == counted
    assert {one.unit for one in outcome.measurements.values()} <= {"errors"}


class _ForArm:
    """A toolkit whose nvcc writes a program for 64-bit Arm, named by its target."""

    def run(self, argv: tuple[str, ...], **_: Any) -> Finished:
        if "-o" in argv:
            Path(argv[argv.index("-o") + 1]).write_bytes(b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little"))
        target = next((word for word in argv if word in full_cross.TARGETS), "")
        return Finished(argv=argv, code=0, out=f"built for {target}" if target else "")


def test_the_commands_of_every_other_machine_are_evidence(context: Context, tmp_path: Path) -> None:
    kit = Toolkit(nvcc="nvcc", release="13.0", version="13.0.88", root=tmp_path / "cuda")
    for name in ("sbsa-linux", "aarch64-linux"):
        (kit.root / "targets" / name / "include").mkdir(parents=True)
    context.shared.once("toolkit", lambda: kit)
    outcome = full_cross.cross(msgspec.structs.replace(context, runner=_ForArm()))
    assert told(outcome) == (
        "pass",
        "built, not run: Arm servers (SBSA): a program without cuDNN, which is not installed;"
        " DRIVE OS Linux: a program without cuDNN, which is not installed",
        "",
    )
    written = "\n".join(outcome.evidence.values())
    assert "built for sbsa-linux" in written
    assert "built for aarch64-linux" in written


def test_nvml_without_an_answer(context: Context) -> None:
    assert told(driver_smoke_modes.modes(with_nvml(context))) == ("skip", "NVML lists no GPU", "")


class _Broken:
    def run(self, argv: tuple[str, ...], **_: Any) -> Finished:
        return Finished(argv=argv, code=1, err="Traceback\n")


def test_a_probe_that_breaks(context: Context) -> None:
    broken = msgspec.structs.replace(context, runner=_Broken())
    assert read_health(broken).error == "the probe of NVML failed (exit code 1)"
    assert told(driver_smoke_modes.modes(broken)) == (
        "error", "NVML could not be queried: the probe of NVML failed (exit code 1)", ""
    )  # fmt: skip
    assert told(driver_smoke.contexts(broken)) == ("error", "the probe of libcuda failed before cuInit", "")


def test_modes_that_let_programs_in(context: Context) -> None:
    mine = msgspec.structs.replace(GPU, mig=0, mig_pending=1, fabric={"state": 3, "status": 0}, compute_mode=3)
    assert told(driver_smoke_modes.modes(with_nvml(context, mine)))[1] == (
        "NVIDIA L4 (00000000:01:00.0): MIG on after the next reset, exclusive process mode, fabric initialized"
    )


def test_a_gpu_that_nvml_cannot_reach(context: Context) -> None:
    lost = GpuHealth(index=1, error="GPU is lost", code=15)
    assert told(driver_smoke_modes.modes(with_nvml(context, lost))) == (
        "fail",
        "GPU 1 cannot be reached: GPU is lost",
        "check `sudo dmesg` for its Xid message; a GPU that fell off the bus requires a power cycle",
    )


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        (
            {"compute": ["libcuda.so.1"]},
            ("fail", "the driver library libcuda.so.1 (compute) is missing", "`gpustack install driver`"),
        ),
        (
            {"video": ["libnvidia-encode.so.1", "libnvcuvid.so.1"]},
            (
                "skip",
                "libnvidia-encode.so.1, libnvcuvid.so.1 not found: the driver was installed without its video libraries",
                "`gpustack install driver` installs them; only encoding and decoding require them",
            ),
        ),
    ],
    ids=["compute", "video"],
)
def test_libraries_that_a_machine_lacks(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: dict[str, list[str]],
    expected: tuple[str, str, str],
) -> None:  # fmt: skip
    away = {name for names in lacking.values() for name in names}
    for name in {name for names in driver_smoke_modes.LIBRARIES.values() for name in names} - away:
        (tmp_path / name).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert told(driver_smoke_modes.libraries(msgspec.structs.replace(context, runner=_Broken()))) == expected


def test_a_container_is_told_with_what_to_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_DRIVER_CAPABILITIES", "utility")
    assert told(driver_smoke_modes._in_container({"video": ["libnvcuvid.so.1"]})) == (
        "skip",
        "not available in this container: libnvcuvid.so.1",
        "start it with NVIDIA_DRIVER_CAPABILITIES=utility,video if programs require video",
    )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (
            "container",
            (
                "fail",
                "the driver library is not available in this container: libcuda.so.1: cannot open",
                "start it with `--gpus all` and `compute` in NVIDIA_DRIVER_CAPABILITIES",
            ),
        ),
        (
            "bare-metal",
            (
                "fail",
                "the driver library cannot be loaded: libcuda.so.1: cannot open",
                "`gpustack install driver`",
            ),
        ),
    ],
)
def test_a_libcuda_that_is_not_loaded(
    context: Context, environment: Environment, expected: tuple[str, str, str]
) -> None:
    host = inside(context, environment).host
    assert told(driver_smoke._not_loaded(host, "libcuda.so.1: cannot open", {})) == expected


def test_a_gpu_that_begins_and_does_not_end(context: Context) -> None:
    said = '{"step": "load"}\n{"step": "init", "code": 0}\n{"step": "count", "code": 0, "count": 1, "cuda": 13000}\n'
    begun = f'{{"step": "begin", "gpu": 0, "bus": "{HERE}"}}\n'
    end = Finished(argv=("x",), code=None, out=said + begun, error=LATE, seconds=100.0)
    context.shared.once("cuda-contexts", lambda: end)
    assert told(driver_smoke.contexts(context)) == (
        "fail",
        "L4 (0000:01:00.0) does not respond: no context was created within 100 s",
        "check `sudo dmesg` for Xid and RmInitAdapter messages; stop the programs on that GPU and reset it, or reboot",
    )


OTHER = "0000:02:00.0"


@pytest.mark.parametrize(
    ("environment", "hidden", "seen", "expected"),
    [
        (
            "bare-metal", "0", {"NVML": {HERE, OTHER}, "CUDA": {HERE}},
            ("fail", f"CUDA does not see {OTHER}: CUDA_VISIBLE_DEVICES is '0'",
             "unset CUDA_VISIBLE_DEVICES to verify the whole machine"),
        ),
        (
            "bare-metal", None, {"bus": {HERE}, "NVML": {OTHER}},
            ("skip", f"the visible PCI bus does not have the GPUs at {OTHER}", ""),
        ),
        (
            "container", None, {"kernel module": {HERE, OTHER}, "NVML": {HERE}},
            ("skip", "the container has 1 of 2 GPUs", ""),
        ),
    ],
    ids=["hidden", "other-bus", "container"],
)  # fmt: skip
def test_lists_that_differ(
    context: Context, monkeypatch: pytest.MonkeyPatch, environment: Environment, hidden: str | None,
    seen: dict[str, set[str]], expected: tuple[str, str, str],
) -> None:  # fmt: skip
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    outcome = driver_smoke._differences(inside(context, environment), seen)
    assert outcome is not None
    assert told(outcome) == expected


def test_no_list_of_nvml_to_compare_with(context: Context) -> None:
    context.shared.once("cuda-contexts", lambda: Finished(argv=("x",), code=0))
    assert told(driver_smoke.lists(with_nvml(context))) == ("skip", "NVML lists no GPU to compare with", "")


def test_where_there_is_a_gpu_programs_are_not_only_linked(healthy: Host) -> None:
    skip = host_facts.has_gpu(healthy)
    assert skip is not None
    assert (skip.status, skip.reason) == ("skip", "there is a GPU: other checks run such programs on it")
    assert host_facts.has_gpu(msgspec.structs.replace(healthy, gpus=())) is None
