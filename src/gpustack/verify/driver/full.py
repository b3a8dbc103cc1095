"""Full checks of the driver: memory errors, clocks and power, and throughput against the datasheet."""

from __future__ import annotations

from gpustack.model.results import Measurement
from gpustack.verify.cuda.measure import Measured, measure_gpus
from gpustack.verify.declare import Context, Outcome, check, failed, passed
from gpustack.verify.driver.figures import figures_of
from gpustack.verify.driver.nvml import GpuHealth, health_failure, read_health
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.probes import gpu_label

LEAST_RATIO = 0.6
"""Below this share of the datasheet's figure a board is faulty: the middle of what DCGM requires of boards."""


@check(
    "driver.health",
    level="full",
    title="memory errors",
    expects="No GPU has uncorrected memory errors, failed row remapping or a pending row remapping.",
    fix="Reset the GPU or reboot; if errors recur, replace the GPU.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=40.0,
)
def memory_errors(context: Context) -> Outcome:
    found = read_health(context)
    bad = health_failure(context, found)
    if bad is not None:
        return bad
    for gpu in found.gpus:
        wrong = _ill(gpu)
        if wrong is not None:
            return wrong
    off = [gpu.called for gpu in found.gpus if gpu.ecc == 0]
    detail = f"no uncorrected errors on {len(found.gpus)} GPU{'s' if len(found.gpus) > 1 else ''}"
    counts = {
        f"gpu{gpu.index}-{name}": Measurement(value=value, unit="errors")
        for gpu in found.gpus
        for name, value in (("corrected", gpu.corrected), ("uncorrected-ever", gpu.uncorrected_ever))
        if value is not None
    }
    return passed(
        f"{detail}; ECC is off on {', '.join(off)}" if off else detail, measurements=counts, evidence=found.evidence
    )


def _ill(gpu: GpuHealth) -> Outcome | None:
    rows = gpu.remapped or {}
    reset = f"stop all programs, then `sudo nvidia-smi --gpu-reset -i {gpu.index}` or reboot"
    if gpu.error:
        return failed(f"GPU {gpu.index} cannot be reached: {gpu.error}", "check `sudo dmesg` for its Xid message")
    if rows.get("failed"):
        return failed(f"{gpu.called}: row remapping failed", "no spare memory rows are left: replace the GPU (RMA)")
    if gpu.uncorrected:
        return failed(
            f"{gpu.called}: {gpu.uncorrected} uncorrected memory error{'s' if gpu.uncorrected > 1 else ''} since the"
            " driver"
            " was loaded",
            f"{reset}; if errors recur, replace the GPU",
            actual=f"{gpu.uncorrected} uncorrected",
        )
    if rows.get("pending") or gpu.retirement_pending:
        return failed(f"{gpu.called}: row remapping is pending; reset the GPU", reset)
    return None


_THROTTLE = {
    0x8: "a hardware slowdown (heat or power)",
    0x20: "the temperature limit",
    0x40: "overheating (hardware)",
    0x80: "the machine's power brake",
}
"""Bits of NVML's throttle reasons that are faults of the machine; the others are configured limits, or idle clocks."""


@check(
    "driver.clocks",
    level="full",
    title="clocks, power and temperature",
    expects="Neither heat nor the machine's power supply throttles a GPU.",
    fix="See `nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`; check cooling, power cables and power limit.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=40.0,
)
def clocks(context: Context) -> Outcome:
    found = read_health(context)
    bad = health_failure(context, found)
    if bad is not None:
        return bad
    values: dict[str, Measurement] = {}
    remarks = []
    for gpu in found.gpus:
        values |= _measurements(gpu)
        reasons = [words for bit, words in _THROTTLE.items() if (gpu.throttle or 0) & bit]
        if reasons:
            return failed(f"{gpu.called} is throttled by {' and '.join(reasons)}", measurements=values)
        narrow = gpu.link_width and gpu.link_width_max and gpu.link_width < gpu.link_width_max
        remarks.append(f"{gpu.called}: PCIe link has {gpu.link_width} of {gpu.link_width_max} lanes" if narrow else "")
        lowered = (gpu.power_limit_mw or 0) < (gpu.power_default_mw or 0)
        remarks.append(
            f"{gpu.called}: power limit is lowered to {(gpu.power_limit_mw or 0) // 1000} W" if lowered else ""
        )
    return passed("; ".join(part for part in remarks if part) or "no GPU is throttled", measurements=values)


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
    fix="Find what throttles the GPU: `nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`.",
    needs=("driver.context", "cuda.compile"),
    unless=(host_facts.no_gpu,),
    limit_s=600.0,
    alone=True,
)
def throughput(context: Context) -> Outcome:
    answer = measure_gpus(context)
    if isinstance(answer, Outcome):
        return answer
    values: dict[str, Measurement] = {}
    remarks: list[str] = []
    slow: list[str] = []
    for number, one in enumerate(answer):
        for name, measurement, ratio, product in _against_datasheet(context, number, one):
            values[f"gpu{number}-{name}"] = measurement
            if ratio is None:
                continue
            values[f"gpu{number}-{name}-ratio"] = Measurement(value=ratio, unit="of datasheet")
            said = f"{gpu_label(context.host, one.about)}: {ratio:.0%} of {product}'s {name.replace('-', ' ')}"
            (slow if ratio < LEAST_RATIO else remarks).append(said)
    evidence = {name: text for one in answer for name, text in one.evidence.items()}
    if slow:
        return failed("; ".join(slow), measurements=values, evidence=evidence)
    return passed("; ".join(remarks) or "measured; no datasheet value is known", measurements=values, evidence=evidence)


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
