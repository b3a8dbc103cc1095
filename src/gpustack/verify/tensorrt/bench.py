"""Measures TensorRT as NVIDIA's best practices do: built once, then run; by batch size and streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpustack.errors import UnsupportedError, UsageError
from gpustack.verify.declare import Context, Note, silent
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.bench_table import Bench, Cell, demand_whole
from gpustack.verify.frame.scratch import scratch_folder
from gpustack.verify.tensorrt import trtexec
from gpustack.verify.tensorrt.child import percentile
from gpustack.verify.tensorrt.digits_engine import (
    build_by_python,
    compare_outputs,
    find_trtexec,
    release_of,
    trtexec_fault,
    write_model,
)
from gpustack.verify.tensorrt.error_texts import choose_message, explain_error
from gpustack.verify.tensorrt.libraries import Binding, failure_reason, find_bindings, run_child
from gpustack.verify.tensorrt.onnx import INPUT, OUTPUT
from gpustack.versions import version

BATCHES = (1, 8, 32, 64, 128)
"""Batch sizes of the best practices; larger ones nearly always increase throughput."""

COLUMNS = (
    "batch", "streams", "precision", "build_s", "engine_bytes", "load_s", "host_min_ms", "host_mean_ms",
    "host_median_ms", "host_p90_ms", "host_p95_ms", "host_p99_ms", "gpu_compute_ms", "enqueue_ms", "h2d_ms", "d2h_ms",
    "wall_ms", "runs_per_s", "items_per_s",
)  # fmt: skip


def precisions(release: str, *, is_rtx: bool = False) -> tuple[str, ...]:
    """The precisions that a builder can be set to: from 11 on, and in RTX, they are part of the network itself."""
    if is_rtx or version(release) >= version("11"):
        return ("fp32",)
    return ("fp32", "fp16", "bf16") if version(release) >= version("9") else ("fp32", "fp16")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure. ``precisions`` default to all that the release supports.

    ``profile`` receives the time of each layer, for every engine, as JSON. ``note`` receives each engine that is
    started or finished.
    """

    batches: tuple[int, ...] = BATCHES
    streams: tuple[int, ...] = (1,)
    precisions: tuple[str, ...] = ()
    iterations: int = 500
    profile: Callable[[str], None] | None = None
    note: Note = silent


def parse_precisions(text: str) -> tuple[str, ...]:
    """The precisions of a list such as "fp32,fp16". Raises UsageError for an unknown name."""
    named = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    unknown = [one for one in named if one not in {"fp32", "fp16", "bf16"}]
    if unknown:
        msg = f"unknown precision {unknown[0]!r}"
        raise UsageError(msg, code="invalid-value", where="--precision", hint="known: fp32, fp16, bf16")
    return named


def bench(context: Context, settings: Settings) -> Bench:
    """Measure the TensorRT of this host. Raises UnsupportedError (exit 4) without GPU or TensorRT.

    Raises Interrupted, with the rows of the engines that were finished, if a signal ends it.
    """
    gpu = next(iter(host_facts.own_gpus(context.host)), None)
    module = next((one for one in find_bindings(context) if not one.error and not one.is_rtx), None)
    module = module or next((one for one in find_bindings(context) if not one.error), None)
    program = find_trtexec(context)
    if gpu is None or (module is None and program is None):
        msg = "no NVIDIA GPU was found" if gpu is None else "no TensorRT that builds engines was found"
        raise UnsupportedError(
            msg, code="benchmark-unavailable", hint="`gpustack verify tensorrt` lists what was found"
        )
    with scratch_folder("gpustack-bench-") as folder:
        inside = msgspec.structs.replace(context, work=folder)
        release = _release(inside, program) if program is not None else module.version if module else ""
        is_rtx = program is None and module is not None and module.is_rtx
        found, stop = Found(), None
        try:
            _all(inside, settings, precisions(release, is_rtx=is_rtx), program, module, release, found)
        except KeyboardInterrupt as exc:
            if not found.rows:
                raise
            stop = exc
    if settings.profile is not None:
        settings.profile(json.dumps(found.layers, indent=1) + "\n")
    if any(_is_bound_by_enqueue(row) for row in found.rows):
        found.notes.append("where enqueue_ms is not below gpu_compute_ms, queueing by the CPU limits runs per second")
    maker = str(program) if program is not None else f"Python's {module.module if module else ''}"
    measured = Bench(
        subject="tensorrt",
        settings={
            "tensorrt": f"{release} by {maker}",
            "gpu": host_facts.name_of(gpu),
            "driver": host_facts.driver_version(context.host) or "unknown",
            "network": "digits: two convolutions, two dense layers, 28 x 28 images",
            "latency": "copy to the GPU, computation and copy back, pinned memory, while all streams run",
            "fp32": "TensorRT may use TF32, which is its default",
        },
        columns=COLUMNS,
        rows=tuple(found.rows),
        notes=tuple(found.notes),
    )
    return demand_whole(measured, stop)


def _all(  # noqa: PLR0913, PLR0917 (the settings, and what was found)
    context: Context,
    settings: Settings,
    offered: tuple[str, ...],
    program: Path | None,
    module: Binding | None,
    release: str,
    whole: Found,
) -> None:
    """Measure every requested engine into ``whole``: rows, layers of each engine, and why an engine was skipped."""
    for precision in settings.precisions or offered:
        if precision not in offered:
            whole.notes.append(f"{precision} was skipped: this builder does not support it")
            continue
        for batch in settings.batches:
            settings.note("starts", f"batch {batch}, {precision}")
            found = (
                _by_trtexec(context, program, release, settings, batch, precision)
                if program is not None
                else _by_python(context, module, settings, batch, precision)
            )
            settings.note("ends", f"batch {batch}, {precision}")
            if isinstance(found, str):
                whole.notes.append(f"batch {batch}, {precision}: {found}")
                continue
            whole.rows.extend(found.rows)
            if found.layers:
                whole.layers.append({"batch": batch, "precision": precision, "layers": found.layers})


class Found(msgspec.Struct, kw_only=True):
    """The results of engines: their rows, the time of each layer if requested, and notes."""

    rows: list[dict[str, Cell]] = []
    layers: list[dict[str, Any]] = []
    notes: list[str] = []


def _is_bound_by_enqueue(row: dict[str, Cell]) -> bool:
    enqueue, compute = row["enqueue_ms"], row["gpu_compute_ms"]
    return isinstance(enqueue, float) and isinstance(compute, float) and enqueue >= compute


def layer_rows(times: dict[str, list[float]]) -> list[dict[str, Cell]]:
    """The time of each layer, under the keys that trtexec writes: milliseconds, and percent of all layers."""
    whole = sum(sum(one) for one in times.values()) or 1.0
    return [
        {
            "name": name,
            "timeMs": round(sum(one), 4),
            "averageMs": round(sum(one) / len(one), 6),
            "medianMs": round(percentile(one, 50), 6),
            "percentage": round(100 * sum(one) / whole, 2),
        }
        for name, one in times.items()
    ]


def _release(context: Context, program: Path) -> str:
    """The version of trtexec. Raises UnsupportedError where it is unknown."""
    release = release_of(context, program)
    if not release:
        msg = f"the TensorRT version of {program} could not be determined"
        raise UnsupportedError(msg, code="benchmark-unavailable", hint="install the trtexec of the TensorRT to measure")
    return release


def _by_python(context: Context, module: Binding | None, settings: Settings, batch: int, precision: str) -> Found | str:
    """Measure one engine, built in one process and run in another."""
    if module is None:
        return "no Python module of TensorRT was found"
    made = build_by_python(context, module, context.folder, batch=batch, precision=precision)
    if made.fault:
        return explain_error(made.fault).cause
    _, floats, digits = write_model(context.folder, batch)
    request = {
        "do": "run", "module": module.module, "engine": str(made.engine), "input": str(floats), "input_name": INPUT,
        "output_name": OUTPUT, "batch": batch, "streams": settings.streams, "iterations": settings.iterations,
        "profile": settings.profile is not None,
    }  # fmt: skip
    answer, end = run_child(context, module.python, request, timeout=300)
    if answer is None or not answer["ok"]:
        said = failure_reason(end) if answer is None else choose_message(answer["messages"])
        return explain_error(said).cause
    single = [row[at : at + _DIGITS] for row in answer["outputs"] for at in range(0, len(row), _DIGITS)]
    _, fault = compare_outputs(single, digits)
    if fault:
        return f"not reported, as the outputs are wrong: {fault}"
    build = {name: one.value for name, one in made.measurements.items()}
    rows = [
        _row(batch, count, precision, build, answer["load_seconds"], timing)
        for count, timing in zip(settings.streams, answer["timing"], strict=True)
    ]
    return Found(rows=rows, layers=layer_rows(answer.get("layers", {})))


_DIGITS = 10


def _row(  # noqa: PLR0913, PLR0917 (the parts of one line)
    batch: int, streams: int, precision: str, build: dict[str, Any], load_s: float, timing: dict[str, Any]
) -> dict[str, Cell]:
    samples, rate = timing["samples"], timing["runs_per_second"]
    host = samples["latency_ms"]
    return {
        "batch": batch,
        "streams": streams,
        "precision": precision,
        "build_s": build.get("build"),
        "engine_bytes": build.get("engine"),
        "load_s": round(load_s, 4),
        "host_min_ms": round(min(host), 4),
        "host_mean_ms": round(sum(host) / len(host), 4),
        **{f"host_{name}_ms": round(percentile(host, part), 4) for name, part in _PARTS},
        **{
            name: round(percentile(samples[name], 50), 4)
            for name in ("gpu_compute_ms", "enqueue_ms", "h2d_ms", "d2h_ms", "wall_ms")
        },
        "runs_per_s": round(rate, 1),
        "items_per_s": round(rate * batch, 1),
    }


_PARTS = (("median", 50), ("p90", 90), ("p95", 95), ("p99", 99))


def _by_trtexec(  # noqa: PLR0913, PLR0917 (the parts of one measurement)
    context: Context,
    program: Path,
    release: str,
    settings: Settings,
    batch: int,
    precision: str,
) -> Found | str:
    """The rows of one engine, built in one run of trtexec and measured in others."""
    model, _, _ = write_model(context.folder, batch)
    engine = context.folder / f"digits-{batch}-{precision}.engine"
    words = trtexec.build_words(str(model), str(engine), release, precision)
    end = context.run(str(program), *words, timeout=600)
    built = trtexec.read(end.out + end.err)
    fault = trtexec_fault(end, built)
    if fault or not engine.is_file():
        return explain_error(fault or "trtexec passed, but wrote no engine").cause
    rows: list[dict[str, Cell]] = []
    layers = context.folder / f"layers-{batch}-{precision}.json"
    for count in settings.streams:
        profile = str(layers) if settings.profile is not None and count == settings.streams[0] else ""
        words = trtexec.bench_words(str(engine), release, count, profile=profile)
        end = context.run(str(program), *words, timeout=300)
        said = trtexec.read(end.out + end.err)
        fault = trtexec_fault(end, said)
        if fault:
            return explain_error(fault).cause
        latency = said.rows.get("Latency", {})
        rows.append(
            {
                "batch": batch,
                "streams": count,
                "precision": precision,
                "build_s": built.built_s,
                "engine_bytes": engine.stat().st_size,
                "load_s": said.loaded_s,
                "host_min_ms": latency.get("min"),
                "host_mean_ms": latency.get("mean"),
                "host_median_ms": latency.get("median"),
                **{f"host_{part}_ms": latency.get(part) for part in ("p90", "p95", "p99")},
                "gpu_compute_ms": said.rows.get("GPU Compute Time", {}).get("median"),
                "enqueue_ms": said.rows.get("Enqueue Time", {}).get("median"),
                "h2d_ms": said.rows.get("H2D Latency", {}).get("median"),
                "d2h_ms": said.rows.get("D2H Latency", {}).get("median"),
                "runs_per_s": said.throughput,
                "items_per_s": said.throughput * batch if said.throughput is not None else None,
            }
        )
    return Found(rows=rows, layers=trtexec.layers(layers) if settings.profile is not None else [])
