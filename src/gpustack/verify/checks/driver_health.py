"""Full checks of the driver: memory errors, the kernel's log, clocks and power, and what DCGM finds."""

from __future__ import annotations

import re

from gpustack.model.results import Measurement
from gpustack.verify import view
from gpustack.verify.checks.driver_modes import unreadable
from gpustack.verify.commands import evidence_of, first_line
from gpustack.verify.declare import Context, Outcome, check, errored, failed, needless, passed, skipped
from gpustack.verify.figures import figures_of
from gpustack.verify.measure import Measured, measured
from gpustack.verify.nvml import GpuHealth, health
from gpustack.verify.probes import gpu_called

LEAST_RATIO = 0.6
"""Below this share of the datasheet's figure something is wrong with a board."""


@check(
    "driver.health",
    level="full",
    title="memory errors",
    expects="No GPU has uncorrected memory errors, failed row remapping, or a repair that waits for a reset.",
    mends="Reset the GPU or reboot; if errors come back, have it replaced.",
    needs=("driver.module",),
    unless=(view.no_gpu,),
    limit_s=40.0,
)
def memory_errors(context: Context) -> Outcome:
    found = health(context)
    bad = unreadable(found)
    if bad is not None:
        return bad
    for gpu in found.gpus:
        wrong = _ill(gpu)
        if wrong is not None:
            return wrong
    off = [gpu.called for gpu in found.gpus if gpu.ecc == 0]
    told = f"no uncorrected errors on {len(found.gpus)} GPU{'s' if len(found.gpus) > 1 else ''}"
    counts = {
        f"gpu{gpu.index}-{name}": Measurement(value=value, unit="errors")
        for gpu in found.gpus
        for name, value in (("corrected", gpu.corrected), ("uncorrected-ever", gpu.uncorrected_ever))
        if value is not None
    }
    return passed(
        f"{told}; ECC is off on {', '.join(off)}" if off else told, measurements=counts, evidence=found.evidence
    )


def _ill(gpu: GpuHealth) -> Outcome | None:
    rows = gpu.remapped or {}
    reset = f"end all programs, then `sudo nvidia-smi --gpu-reset -i {gpu.index}` or reboot"
    if gpu.error:
        return failed(f"GPU {gpu.index} cannot be reached: {gpu.error}", "look for its Xid line in `sudo dmesg`")
    if rows.get("failed"):
        return failed(
            f"{gpu.called} could not replace a broken row of its memory", "it is at its end: have it replaced"
        )
    if gpu.uncorrected:
        return failed(
            f"{gpu.called} had {gpu.uncorrected} memory error{'s' if gpu.uncorrected > 1 else ''} since it started that"
            " could not be corrected",
            f"{reset}; if more come, have it replaced",
            actual=f"{gpu.uncorrected} uncorrected",
        )
    if rows.get("pending") or gpu.retirement_pending:
        return failed(f"{gpu.called} waits for a reset to replace a broken row of its memory", reset)
    return None


XIDS = {
    48: "an ECC error that could not be corrected",
    61: "a fault of the GPU's own controller",
    62: "a fault of the GPU's own controller",
    63: "a broken memory row, replaced at the next reset",
    64: "a broken memory row that could not be replaced",
    74: "an NVLink error",
    79: "the GPU fell off the bus",
    92: "many corrected ECC errors",
    94: "an ECC error that stopped one program",
    95: "an ECC error that stopped all programs",
    119: "the GPU's system processor (GSP) does not answer",
    120: "the GPU's system processor (GSP) failed",
}
"""Numbers of the driver's error messages that speak of the board or its driver, not of a faulty program."""

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


@check(
    "driver.kernel-log",
    level="full",
    title="the kernel's log since boot",
    expects="The kernel's log holds no error of a GPU: no RmInitAdapter, no Xid that speaks of the board.",
    mends="Look up the Xid's number; read the lines before it in `sudo dmesg`.",
    unless=(view.no_gpu, view.in_container),
    limit_s=30.0,
)
def kernel_log(context: Context) -> Outcome:
    for command in (("journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-iso"), ("dmesg",)):
        end = context.run(*command, timeout=12.0)
        # A user without the right to read it gets an empty log and exit code 0 from journalctl.
        if end.code == 0 and len(end.out.splitlines()) > 1:
            return judge_log(end.out)
    return skipped("the kernel's log cannot be read by this user", "run it with `sudo`")


def judge_log(text: str) -> Outcome:
    """What the kernel's log says of the GPUs."""
    lines = [line.strip() for line in text.splitlines() if "NVRM" in line]
    adapters = [line for line in lines if "RmInitAdapter failed" in line]
    if adapters:
        where = re.search(r"GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F:.]*[0-9a-fA-F])", adapters[-1])
        codes = re.search(r"RmInitAdapter failed!? ?(\([^)]*\))", adapters[-1])
        return failed(
            f"a GPU does not come up{f' at {where[1]}' if where else ''}: RmInitAdapter failed"
            f"{f' {codes[1]}' if codes else ''}",
            "in the firmware's set-up switch on Above 4G Decoding and Resizable BAR; look at power cables and seating;"
            " a driver that is too old for the GPU says so one line before",
            evidence={"kernel log": "\n".join(lines[-20:])},
        )
    found = [(match[1], int(match[2])) for line in lines if (match := _XID.search(line))]
    grave = [(place, number) for place, number in found if number in XIDS]
    if grave:
        place, number = grave[-1]
        return failed(
            f"Xid {number} at {place}: {XIDS[number]}"
            + (f"; {len(grave)} such lines since boot" if len(grave) > 1 else ""),
            "end all programs and reset the GPU, or reboot; if it comes back, have the board looked at",
            evidence={"kernel log": "\n".join(lines[-20:])},
        )
    if found:
        numbers = ", ".join(str(number) for number in sorted({number for _, number in found}))
        return passed(f"Xid {numbers}, which faulty programs cause; nothing of the boards")
    return passed("no Xid and no RmInitAdapter line")


_THROTTLE = {
    0x4: ("the software power limit", False),
    0x8: ("a hardware slowdown (heat or power)", True),
    0x20: ("the temperature limit", True),
    0x40: ("heat (hardware)", True),
    0x80: ("the power brake of the machine", True),
}
"""Bits of NVML's throttle reasons, and whether one is a fault of the machine."""


@check(
    "driver.clocks",
    level="full",
    title="clocks, power and temperature",
    expects="No GPU is slowed down by heat or by the machine's power supply.",
    mends="Look at `nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`: cooling, power cables, power limit.",
    needs=("driver.module",),
    unless=(view.no_gpu,),
    limit_s=40.0,
)
def clocks(context: Context) -> Outcome:
    found = health(context)
    bad = unreadable(found)
    if bad is not None:
        return bad
    values: dict[str, Measurement] = {}
    told = []
    for gpu in found.gpus:
        values |= _measurements(gpu)
        reasons = [words for bit, (words, is_fault) in _THROTTLE.items() if (gpu.throttle or 0) & bit and is_fault]
        if reasons:
            return failed(f"{gpu.called} is slowed down by {' and '.join(reasons)}", measurements=values)
        narrow = gpu.link_width and gpu.link_width_max and gpu.link_width < gpu.link_width_max
        told.append(f"{gpu.called}: link of {gpu.link_width} instead of {gpu.link_width_max} lanes" if narrow else "")
        lowered = (gpu.power_limit_mw or 0) < (gpu.power_default_mw or 0)
        told.append(f"{gpu.called}: power limit lowered to {(gpu.power_limit_mw or 0) // 1000} W" if lowered else "")
    return passed("; ".join(part for part in told if part) or "nothing slows a GPU down", measurements=values)


def _measurements(gpu: GpuHealth) -> dict[str, Measurement]:
    values = {
        "temperature": (gpu.temperature, "°C"),
        "power": (gpu.power_mw and round(gpu.power_mw / 1000, 1), "W"),
        "power-limit": (gpu.power_limit_mw and gpu.power_limit_mw // 1000, "W"),
        "sm-clock": (gpu.clock_mhz, "MHz"),
        "sm-clock-max": (gpu.clock_max_mhz, "MHz"),
        "memory-used": (gpu.memory_used_mib, "MiB"),
    }
    return {f"gpu{gpu.index}-{n}": Measurement(value=v, unit=unit) for n, (v, unit) in values.items() if v is not None}


@check(
    "driver.throughput",
    level="full",
    title="memory bandwidth and matrix rate against the datasheet",
    expects=f"Every GPU reaches {LEAST_RATIO:.0%} of its datasheet's memory bandwidth and matrix rate.",
    mends="Look at `nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`: something slows the GPU down.",
    needs=("driver.context", "cuda.compile"),
    unless=(view.no_gpu,),
    limit_s=600.0,
    alone=True,
)
def throughput(context: Context) -> Outcome:
    answer = measured(context)
    if isinstance(answer, Outcome):
        return answer
    values: dict[str, Measurement] = {}
    told: list[str] = []
    slow: list[str] = []
    for number, one in enumerate(answer):
        for name, measurement, ratio, product in _against_datasheet(context, number, one):
            values[f"gpu{number}-{name}"] = measurement
            if ratio is None:
                continue
            values[f"gpu{number}-{name}-ratio"] = Measurement(value=ratio, unit="of datasheet")
            said = f"{gpu_called(context.host, one.about)}: {ratio:.0%} of {product}'s {name.replace('-', ' ')}"
            (slow if ratio < LEAST_RATIO else told).append(said)
    evidence = {name: text for one in answer for name, text in one.evidence.items()}
    if slow:
        return failed("; ".join(slow), measurements=values, evidence=evidence)
    return passed("; ".join(told) or "measured; no datasheet figure is known", measurements=values, evidence=evidence)


def _against_datasheet(
    context: Context, number: int, one: Measured
) -> list[tuple[str, Measurement, float | None, str]]:
    """Each rate by name with its share of the figure, where the matrix has one."""
    figures = figures_of(context, number, one.about)
    stated = {
        "memory-bandwidth": figures.bandwidth_gbs if figures else None,
        "matrix-rate-fp16": figures.fp16_tflops if figures else None,
    }
    return [
        (
            name,
            one.values[name],
            round(float(one.values[name].value) / figure, 3) if figure else None,
            figures.name if figures else "",
        )
        for name, figure in stated.items()
        if name in one.values
    ]


@check(
    "driver.dcgm",
    level="full",
    title="DCGM's own diagnosis",
    expects="`dcgmi diag -r 1` passes on every GPU.",
    mends="Read what `dcgmi diag -r 1` says.",
    needs=("driver.module",),
    unless=(view.no_gpu,),
    limit_s=300.0,
    alone=True,
)
def dcgm(context: Context) -> Outcome:
    end = context.run("dcgmi", "diag", "-r", "1", "-j", timeout=280.0)
    if end.code is None and "is not installed" in end.error:
        return needless("DCGM is not installed here")
    evidence = evidence_of(end, work=context.work)
    if end.code is None:
        return errored(f"dcgmi: {end.error}", evidence=evidence)
    if "host engine" in (end.out + end.err).lower():
        return skipped("DCGM is installed but its host engine does not run", "`sudo systemctl start nvidia-dcgm`")
    failures = re.findall(r'"(?:status|result)"\s*:\s*"(?i:fail)"', end.out)
    if end.code != 0 or failures:
        warning = re.search(r'"(?:warnings?|error)"\s*:\s*(?:\[\s*\{[^}]*?"warning"\s*:\s*)?"([^"]+)"', end.out)
        return failed(f"DCGM finds a fault: {warning[1] if warning else first_line(end)}", evidence=evidence)
    return passed("dcgmi diag -r 1 passes", evidence=evidence)
