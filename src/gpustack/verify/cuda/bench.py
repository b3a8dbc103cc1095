"""Measures copies, memory bandwidth and matrix rate of every GPU that CUDA lists."""

from __future__ import annotations

import msgspec

from gpustack.errors import GpustackError, UnsupportedError
from gpustack.verify.cuda.measure import Measured, measure_gpus
from gpustack.verify.declare import Context, Outcome
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.bench_table import Bench, Cell, demand_whole
from gpustack.verify.frame.scratch import scratch_folder


def bench(context: Context) -> Bench:
    """Measure every GPU. Raises UnsupportedError (exit 4) where that is not possible, GpustackError where it fails.

    Raises Interrupted, with the GPUs that were finished, if a signal ends it.
    """
    finished: list[Measured] = []
    stop = None
    with scratch_folder("gpustack-bench-") as folder:
        try:
            found = measure_gpus(msgspec.structs.replace(context, work=folder), finished)
        except KeyboardInterrupt as exc:
            if not finished:
                raise
            found, stop = tuple(finished), exc
    if isinstance(found, Outcome):
        kind = UnsupportedError if found.status == "skip" else GpustackError
        raise kind(found.reason, where="bench gpu", hint=found.fix)
    names = tuple(dict.fromkeys(value for one in found for value in one.values))
    rows: list[dict[str, Cell]] = []
    for number, one in enumerate(found):
        values: dict[str, Cell] = {key: value.value for key, value in one.values.items()}
        rows.append({"gpu": str(one.about.get("name", number)), **values})
    units = {key: value.unit for one in found for key, value in one.values.items() if value.unit}
    measured = Bench(
        subject="gpu",
        settings={"driver": host_facts.driver_version(context.host) or "unknown"},
        columns=("gpu", *names),
        units=units,
        rows=tuple(rows),
    )
    return demand_whole(measured, stop)
