"""Full checks of the driver: memory errors, clocks and power, and throughput against the datasheet."""

from __future__ import annotations

from gpustack.model.results import Measurement
from gpustack.verify.cuda.measure import Measured, measured
from gpustack.verify.declare import Context, Outcome, check, failed, passed
from gpustack.verify.driver.figures import figures_of
from gpustack.verify.driver.nvml import GpuHealth, health, unreadable
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.probes import gpu_called

LEAST_RATIO = 0.6
"""Below this share of the datasheet's figure a board is not well: the middle of what DCGM asks of boards."""


@check(
    "driver.health",
    level="full",
    title="memory errors",
    expects="No GPU has uncorrected memory errors, failed row remapping, or a repair that waits for a reset.",
    mends="Reset the GPU or reboot; if errors come back, have it replaced.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=40.0,
)
def memory_errors(context: Context) -> Outcome:
    found = health(context)
    bad = unreadable(context, found)
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


_THROTTLE = {
    0x8: "a hardware slowdown (heat or power)",
    0x20: "the temperature limit",
    0x40: "heat (hardware)",
    0x80: "the power brake of the machine",
}
"""Bits of NVML's throttle reasons that are faults of the machine; the others are limits that were set, or idleness."""


@check(
    "driver.clocks",
    level="full",
    title="clocks, power and temperature",
    expects="No GPU is slowed down by heat or by the machine's power supply.",
    mends="Look at `nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`: cooling, power cables, power limit.",
    needs=("driver.module",),
    unless=(host_facts.no_gpu,),
    limit_s=40.0,
)
def clocks(context: Context) -> Outcome:
    found = health(context)
    bad = unreadable(context, found)
    if bad is not None:
        return bad
    values: dict[str, Measurement] = {}
    told = []
    for gpu in found.gpus:
        values |= _measurements(gpu)
        reasons = [words for bit, words in _THROTTLE.items() if (gpu.throttle or 0) & bit]
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
    unless=(host_facts.no_gpu,),
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
