"""Copies, memory bandwidth and matrix rate of each GPU, measured once per run for several checks."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from gpustack.model.results import Measurement
from gpustack.system.run import Finished
from gpustack.verify.cuda.build import Built, build
from gpustack.verify.cuda.errors import explain
from gpustack.verify.cuda.toolchain import find_homes
from gpustack.verify.declare import Context, Outcome, errored, failed, skipped
from gpustack.verify.frame.commands import evidence_of, first_line
from gpustack.verify.frame.probes import parse_lines


class Measured(Struct, frozen=True, kw_only=True):
    """One GPU: how the program describes it, the values by name, and its output."""

    about: dict[str, Any]
    values: dict[str, Measurement]
    evidence: dict[str, str]


def measure_gpus(context: Context, finished: list[Measured] | None = None) -> tuple[Measured, ...] | Outcome:
    """The measurements of every GPU that CUDA lists, or the reason for their absence.

    Each goes into ``finished`` as soon as it is there: what remains if a signal ends the measurement.
    """
    return context.shared.once("measured", lambda: _measure(context, [] if finished is None else finished))


def _measure(context: Context, finished: list[Measured]) -> tuple[Measured, ...] | Outcome:
    blas = find_homes(context, "cublas_v2.h", "libcublas", "cuda")[:1]
    built = build(context, "measure.cu", *blas, options=("-O2", *(("-DWITH_CUBLAS",) if blas else ())))
    if isinstance(built, Outcome):
        return built
    end = context.run(str(built.program), "-1", timeout=60.0, env=built.environment)
    count = next((int(line["count"]) for line in parse_lines(end.out) if "count" in line), None)
    if count is None:
        return _broken(context, "CUDA", end)
    if count == 0:
        return skipped("CUDA lists no GPU to measure")
    return _each(context, built, count, finished)


def _each(context: Context, built: Built, count: int, found: list[Measured]) -> tuple[Measured, ...] | Outcome:
    for number in range(count):
        end = context.run(str(built.program), str(number), timeout=150.0, env=built.environment)
        lines = parse_lines(end.out)
        if end.code != 0 or not lines:
            return _broken(context, f"GPU {number}", end)
        values = {
            str(line["name"]): Measurement(value=line["value"], unit=line["unit"]) for line in lines if "value" in line
        }
        found.append(Measured(about=lines[0], values=values, evidence=evidence_of(end, work=context.work)))
    return tuple(found)


def _broken(context: Context, what: str, end: Finished) -> Outcome:
    evidence = evidence_of(end, work=context.work)
    broken = next((line for line in parse_lines(end.out) if "step" in line), None)
    if broken is None:
        return errored(f"the measurement of {what} failed: {end.error or first_line(end)}", evidence=evidence)
    cause, fix = explain(int(broken["code"]), context, str(broken.get("name", "")))
    return failed(f"{what}: {cause}", fix, evidence=evidence)
