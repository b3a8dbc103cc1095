"""The health of the GPUs as NVML reports it, read by a program of its own, once a run."""

from typing import Any

import msgspec
from msgspec import Struct, field

from gpustack.model.nvml import SUBJECT, NvmlError
from gpustack.verify.declare import Context, Outcome, errored, failed, skipped
from gpustack.verify.frame.commands import evidence_of
from gpustack.verify.frame.probes import parse_lines, python_probe


class GpuHealth(Struct, frozen=True, kw_only=True):
    """One GPU; None for what it or the driver does not report. ``error`` is set where it cannot be reached."""

    index: int
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    error: str = ""
    code: int = 0
    ecc: int | None = None
    ecc_pending: int | None = None
    uncorrected: int | None = None
    uncorrected_ever: int | None = None
    corrected: int | None = None
    remapped: dict[str, int] | None = None
    retirement_pending: int | None = None
    throttle: int | None = None
    temperature: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    power_default_mw: int | None = None
    clock_mhz: int | None = None
    clock_max_mhz: int | None = None
    memory_used_mib: int | None = None
    memory_mib: int | None = None
    persistence: int | None = None
    compute_mode: int | None = None
    mig: int | None = None
    mig_pending: int | None = None
    mig_instances: int | None = None
    fabric: dict[str, int] | None = None
    link_width: int | None = None
    link_width_max: int | None = None

    @property
    def called(self) -> str:
        """Name and place, for a sentence."""
        return f"{self.name or 'GPU'} ({(self.bus_id or str(self.index)).lower()})"


class Health(Struct, frozen=True, kw_only=True):
    """What NVML reported: the GPUs, or ``error`` with NVML's own ``code``; ``hung`` where it did not return."""

    gpus: tuple[GpuHealth, ...] = ()
    error: str = ""
    code: int = 0
    driver: str | None = None
    hung: bool = False
    evidence: dict[str, str] = field(default_factory=dict)


def read_health(context: Context) -> Health:
    """What NVML reports on this host."""
    return context.shared.once("nvml-health", lambda: _ask(context))


def _ask(context: Context) -> Health:
    end = python_probe(context, "nvml_health.py", timeout=30.0)
    evidence = evidence_of(end, work=context.work)
    lines: list[dict[str, Any]] = parse_lines(end.out)
    if not lines:
        words = end.error or f"the probe of NVML failed (exit code {end.code})"
        return Health(error=words, hung=end.code is None, evidence=evidence)
    return msgspec.convert({**lines[-1], "evidence": evidence}, Health)


def health_failure(context: Context, found: Health) -> Outcome | None:
    """The outcome where NVML did not respond; None where it did."""
    if found.hung:
        return failed(
            f"NVML did not respond: {found.error}",
            "the driver hangs: check `sudo dmesg` for Xid messages, then reboot",
            evidence=found.evidence,
        )
    if found.error:
        return _nvml_error(context, found)
    if not found.gpus:
        return skipped("NVML lists no GPU")
    return None


def _nvml_error(context: Context, found: Health) -> Outcome:
    if found.code == 0:
        return errored(f"NVML could not be queried: {found.error}", evidence=found.evidence)
    meaning = next((row for row in context.matrix.rows(SUBJECT, "nvml", NvmlError) if row.code == found.code), None)
    cause = meaning.cause if meaning else "NVML cannot be used"
    fix = meaning.fix if meaning else "check `sudo dmesg` for NVRM messages"
    return failed(f"NVML reports {found.error!r}: {cause}", fix, evidence=found.evidence)
