"""Measures the user's own network with TensorRT: an engine for each precision and batch size, or an engine file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gpustack.errors import UnsupportedError, UsageError
from gpustack.system.hashed import sha256_of_file
from gpustack.verify.declare import Context, Note, silent
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.bench_table import Bench, Cell, demand_whole
from gpustack.verify.frame.scratch import scratch_folder
from gpustack.verify.tensorrt import trtexec
from gpustack.verify.tensorrt.bench import layer_rows
from gpustack.verify.tensorrt.digits_engine import find_trtexec, release_of, trtexec_fault
from gpustack.verify.tensorrt.error_texts import choose_message, explain_error
from gpustack.verify.tensorrt.libraries import Binding, failure_reason, find_bindings, run_child
from gpustack.verify.tensorrt.network import (
    Asked,
    Case,
    Scales,
    cases_of,
    chosen_precisions,
    offered,
    read_file,
    read_scales,
)
from gpustack.verify.tensorrt.onnx_inputs import Input, Network
from gpustack.versions import version

SCRIPT = Path(__file__).with_name("network_child.py")
BUILD_LIMIT_S = 3600
_RUN_LIMIT_S = 300
_CELL_S = 120
COLUMNS = (
    "batch", "streams", "precision", "cuda_graph", "build_s", "engine_bytes", "load_s", "scratch_bytes", "device_bytes",
    "host_min_ms", "host_mean_ms", "host_median_ms", "host_p90_ms", "host_p95_ms", "host_p99_ms", "gpu_compute_ms",
    "enqueue_ms", "h2d_ms", "d2h_ms", "wall_ms", "wall_p99_ms", "runs_per_s", "items_per_s", "waiting_items_per_s",
    "sm_mhz_before", "sm_mhz_after", "memory_mhz_after",
)  # fmt: skip
_PARTS = {"min": "min", "mean": "mean", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


class FailedError(Exception):
    """One engine could not be built or measured; ``stage`` says where."""

    def __init__(self, said: str, stage: str = "") -> None:
        known = explain_error(said)
        super().__init__(known.cause)
        self.stage, self.fix = stage, known.fix


class Maker(msgspec.Struct, frozen=True, kw_only=True):
    """What builds and runs: Python's module of TensorRT, which measures more, else trtexec."""

    context: Context
    release: str
    module: Binding | None = None
    program: Path | None = None

    @property
    def called(self) -> str:
        return f"{self.release} by {self.program if self.module is None else f'Python {self.module.module}'}"

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:  # noqa: ANN401 (what the child takes)
        """The child's answer. Raises FailedError."""
        assert self.module is not None  # noqa: S101 (trtexec is asked otherwise)
        whole = {"module": self.module.module, **request}
        answer, end = run_child(self.context, self.module.python, whole, timeout=timeout, script=SCRIPT)
        if answer is None:
            raise FailedError(failure_reason(end))
        if not answer["ok"]:
            raise FailedError(choose_message(answer["messages"]).removeprefix("ERROR: "), answer["stage"])
        found: dict[str, Any] = answer
        return found

    def run(self, words: tuple[str, ...], timeout: float) -> trtexec.Said:
        """What trtexec printed. Raises FailedError."""
        end = self.context.run(str(self.program), *words, timeout=timeout)
        said = trtexec.read(end.out + end.err)
        fault = trtexec_fault(end, said)
        if fault:
            raise FailedError(fault)
        return said


class Whole(msgspec.Struct, kw_only=True):
    """What was found so far. ``note`` receives each engine that is started or finished."""

    rows: list[dict[str, Cell]] = []
    layers: list[dict[str, Cell]] = []
    note: Note = silent
    notes: list[str] = []
    settings: dict[str, str] = {}
    faults: list[FailedError] = []


def bench_network(context: Context, asked: Asked, note: Note = silent) -> Bench:
    """Measure the network. Raises UsageError for a file or shape that does not fit, UnsupportedError without GPU.

    Raises Interrupted, with the rows of the engines that were finished, if a signal ends it.
    """
    network, scales = read_file(asked), read_scales(asked.calibration)
    if network is not None:
        cases_of(asked, network.inputs)
        chosen_precisions(asked, network, ())
    gpu = next(iter(host_facts.own_gpus(context.host)), None)
    if gpu is None:
        msg = "no NVIDIA GPU was found"
        raise _unavailable(msg, "`gpustack verify driver` says what is missing")
    with scratch_folder("gpustack-bench-") as folder:
        maker = _maker(msgspec.structs.replace(context, work=folder))
        whole, stop = Whole(note=note), None
        try:
            _measure_all(maker, asked, network, scales, whole)
        except KeyboardInterrupt as exc:
            if not whole.rows:
                raise
            stop = exc
    if not whole.rows:
        raise _nothing(whole)
    path = asked.onnx or asked.engine
    assert path is not None  # noqa: S101 (one of both is there)
    settings = {
        "tensorrt": maker.called,
        "gpu": host_facts.name_of(gpu),
        "driver": host_facts.driver_version(context.host) or "unknown",
        "network": f"{path.name}, sha256 {sha256_of_file(path)}",
        "latency": "copy to the GPU, computation and copy back, pinned memory, while all streams run",
        "waiting": "each stream waits for its run before the next; wall_ms is what it waits",
        "time": f"{asked.warm_up_ms} ms of warm-up, then at least {asked.seconds} s and {asked.iterations} runs",
        **whole.settings,
    }
    if asked.limit_ms is not None:
        settings[f"throughput within {asked.limit_ms:g} ms"] = _best_within(whole.rows, asked.limit_ms)
    columns = tuple(name for name in COLUMNS if any(row.get(name) is not None for row in whole.rows))
    notes = tuple(dict.fromkeys(whole.notes))
    rows, layers = tuple(whole.rows), tuple(whole.layers)
    found = Bench(subject="tensorrt", settings=settings, columns=columns, rows=rows, notes=notes, layers=layers)
    return demand_whole(found, stop)


def _maker(context: Context) -> Maker:
    usable = [one for one in find_bindings(context) if not one.error]
    module = next((one for one in usable if not one.is_rtx), None) or next(iter(usable), None)
    if module is not None:
        return Maker(context=context, release=module.version, module=module)
    program = find_trtexec(context)
    release = release_of(context, program) if program is not None else ""
    if not release:
        missing = "no TensorRT that runs engines" if program is None else f"the TensorRT version of {program}"
        msg = f"{missing} was found"
        raise _unavailable(msg, "`gpustack install tensorrt --method tensorrt=pip`")
    if version(release) < version("6.0"):
        msg = f"{program} {release} measures no network of your own"
        raise _unavailable(msg, "install TensorRT 6.0 or newer")
    return Maker(context=context, release=release, program=program)


def _unavailable(message: str, hint: str) -> UnsupportedError:
    return UnsupportedError(message, code="benchmark-unavailable", hint=hint)


def _nothing(whole: Whole) -> UsageError | UnsupportedError:
    """Why there is no row at all: the first failure, else the first note."""
    first = next(iter(whole.faults), None)
    if first is None:
        return _unavailable("; ".join(whole.notes), "choose another --precision")
    if first.stage in {"parse", "shape", "calibration"}:
        option = {"parse": "--onnx", "shape": "--shapes", "calibration": "--calibration"}[first.stage]
        hint = first.fix or "correct it as the message says"
        return UsageError(str(first), code="invalid-model", where=option, hint=hint)
    return _unavailable(str(first), first.fix or "`gpustack verify tensorrt --level smoke` tries this TensorRT itself")


def _measure_all(maker: Maker, asked: Asked, network: Network | None, scales: Scales | None, whole: Whole) -> None:
    """Measure every precision and case; failures are kept, and the next one is tried."""
    if network is None:
        _measure_engine(maker, asked, whole)
        return
    is_rtx = maker.module is not None and maker.module.is_rtx
    available = offered(maker.release, is_rtx=is_rtx)
    for precision in chosen_precisions(asked, network, available):
        if precision not in available:
            whole.notes.append(f"{precision} was skipped: TensorRT {maker.release} cannot be set to it")
            continue
        for case in cases_of(asked, network.inputs):
            name = f"batch {case.batch}, {precision}"
            whole.note("starts", name)
            try:
                engine, built = _build(maker, asked, case, precision, scales)
                _measure(maker, asked, engine, case, {"precision": precision, **built}, whole)
                engine.unlink()
            except FailedError as exc:
                whole.faults.append(exc)
                whole.notes.append(f"{name}: {exc}")
            whole.note("ends", name)


def _measure_engine(maker: Maker, asked: Asked, whole: Whole) -> None:
    assert asked.engine is not None  # noqa: S101 (there is no ONNX file)
    engine = asked.engine.resolve()
    try:
        if maker.module is None:
            cases = _unseen(asked)
        else:
            rows = maker.ask(_RUN_LIMIT_S, do="inspect", engine=str(engine))["inputs"]
            cases = cases_of(asked, tuple(_input(row) for row in rows))
        for case in cases:
            whole.note("starts", f"batch {case.batch}, {engine.name}")
            built: dict[str, Cell] = {"precision": "built", "engine_bytes": engine.stat().st_size}
            _measure(maker, asked, engine, case, built, whole)
            whole.note("ends", f"batch {case.batch}, {engine.name}")
    except FailedError as exc:
        whole.faults.append(exc)
        whole.notes.append(str(exc))


def _unseen(asked: Asked) -> tuple[Case, ...]:
    """The cases of an engine whose inputs only trtexec will see."""
    inputs = tuple(Input(name=name) for name in asked.shapes)
    if not inputs and asked.batches:
        msg = "trtexec does not tell which inputs of the engine leave their batch size open"
        raise UsageError(msg, code="invalid-value", where="--batch", hint="give --shapes, with N for the batch size")
    return cases_of(asked, inputs)


def _input(row: dict[str, Any]) -> Input:
    return Input(
        name=row["name"],
        shape=tuple(None if length < 0 else length for length in row["shape"]),
        least=tuple(row.get("least", ())),
        most=tuple(row.get("most", ())),
    )


def _build(
    maker: Maker, asked: Asked, case: Case, precision: str, scales: Scales | None
) -> tuple[Path, dict[str, Cell]]:
    """Build an engine for one case: its file, and what is known of the build. Raises FailedError."""
    assert asked.onnx is not None  # noqa: S101 (an engine file is not built)
    engine = maker.context.folder / f"network-{case.batch}-{precision}.engine"
    onnx, is_int8 = str(asked.onnx.resolve()), precision == "int8"
    if maker.module is not None:
        more: dict[str, Any] = {"algorithm": scales.algorithm, "calibration": str(scales.path)} if scales else {}
        more |= {"ranges": scales.ranges} if scales else {}
        answer = maker.ask(
            BUILD_LIMIT_S, do="build", onnx=onnx, engine=str(engine), precision=precision,
            shapes={name: case.shapes[name] for name in case.open}, **(more if is_int8 else {}),
        )  # fmt: skip
        plugins, cores = answer["plugins"], answer["dla_cores"]
        told = {"plugins": "unknown" if plugins is None else f"{plugins} of TensorRT's own are available"}
        told["dla"] = f"{cores} cores are available" if cores else "not available on this GPU"
        return engine, {"build_s": round(answer["seconds"], 3), "engine_bytes": answer["bytes"], **told}
    if is_int8 and scales is not None and scales.ranges:
        msg = "trtexec takes a calibration cache, not ranges: install Python's tensorrt for these"
        raise FailedError(msg)
    release = maker.release
    extra = [f"--{form}Shapes={case.words()}" for form in ("min", "opt", "max")] if case.open else []
    extra += ["--noTF32"] if precision == "fp32" and version(release) >= version("7.1") else []
    extra += [f"--calib={scales.path}"] if is_int8 and scales is not None else []
    limit = 0 if version(release) >= version("8.4") else 1024
    words = trtexec.build_words(onnx, str(engine), release, precision, workspace_mb=limit, more=tuple(extra))
    said = maker.run(words, BUILD_LIMIT_S)
    if not engine.is_file():
        msg = "trtexec passed, but wrote no engine"
        raise FailedError(msg)
    return engine, {"build_s": said.built_s, "engine_bytes": engine.stat().st_size}


def _measure(  # noqa: PLR0913, PLR0917 (the parts of one measurement)
    maker: Maker, asked: Asked, engine: Path, case: Case, known: dict[str, Cell], whole: Whole
) -> None:
    """Add the rows of one engine. Raises FailedError."""
    for name in ("plugins", "dla"):
        if name in known:
            whole.settings[name] = str(known.pop(name))
    row: dict[str, Cell] = {"batch": case.batch, **known}
    if maker.module is None:
        _by_trtexec(maker, asked, engine, case, row, whole)
        return
    limit = _RUN_LIMIT_S + len(asked.streams) * len(asked.graphs) * (_CELL_S + 3 * asked.seconds)
    answer = maker.ask(
        limit, do="measure", engine=str(engine), shapes=case.shapes, streams=asked.streams, graphs=asked.graphs,
        iterations=asked.iterations, warm_up_s=asked.warm_up_ms / 1000, seconds=asked.seconds, layers=asked.with_layers,
    )  # fmt: skip
    before, after = answer["clocks"]
    row |= {
        "load_s": round(answer["load_seconds"], 4), "scratch_bytes": answer["scratch_bytes"] or None,
        "device_bytes": answer["used_bytes"], "sm_mhz_before": before.get("sm"), "sm_mhz_after": after.get("sm"),
        "memory_mhz_after": after.get("memory"),
    }  # fmt: skip
    whole.rows += [{**row, **_figures(cell, case.batch)} for cell in answer["cells"]]
    whole.notes += answer["notes"]
    whole.settings["refit"] = "the engine can be refitted" if answer["refittable"] else "not built into the engine"
    if not asked.onnx:
        cores = answer["dla_cores"]
        whole.settings["dla"] = f"{cores} cores are available" if cores else "not available on this GPU"
    about = {"batch": case.batch, "precision": row["precision"]}
    whole.layers += [{**about, **one} for one in layer_rows(answer["layers"])]


def _figures(cell: dict[str, Any], batch: int) -> dict[str, Cell]:
    medians = ("gpu_compute_ms", "enqueue_ms", "h2d_ms", "d2h_ms", "wall_ms")
    return {
        "streams": cell["streams"],
        "cuda_graph": "on" if cell["cuda_graph"] else "off",
        **{f"host_{name}_ms": round(cell["latency_ms"][part], 4) for name, part in _PARTS.items()},
        **{name: round(cell[name]["p50"], 4) for name in medians},
        "wall_p99_ms": round(cell["wall_ms"]["p99"], 4),
        "runs_per_s": round(cell["runs_per_s"], 1),
        "items_per_s": round(cell["runs_per_s"] * batch, 1),
        "waiting_items_per_s": round(cell["waiting_per_s"] * batch, 1),
    }


def _by_trtexec(  # noqa: PLR0913, PLR0917 (the parts of one measurement)
    maker: Maker, asked: Asked, engine: Path, case: Case, row: dict[str, Cell], whole: Whole
) -> None:
    layers = maker.context.folder / "layers.json"
    for with_graph in asked.graphs:
        timing = trtexec.Timing(
            warm_up_ms=asked.warm_up_ms, iterations=asked.iterations, seconds=asked.seconds, with_graph=with_graph
        )
        for count in asked.streams:
            is_profiled = asked.with_layers and not with_graph and count == asked.streams[0]
            words = trtexec.bench_words(
                str(engine), maker.release, count, profile=str(layers) if is_profiled else "", timing=timing,
                shapes=case.words(),
            )  # fmt: skip
            said = maker.run(words, _RUN_LIMIT_S + 3 * asked.seconds)
            whole.rows.append({**row, "streams": count, "cuda_graph": "on" if with_graph else "off", **_of(said, case)})
            if is_profiled:
                about: dict[str, Cell] = {"batch": case.batch, "precision": row["precision"]}
                whole.layers += [{**about, **one} for one in trtexec.layers(layers)]
    whole.settings |= {
        "plugins, dla, refit": "not told by trtexec",
        "device memory, clocks": "not told by trtexec; Python's tensorrt measures them",
    }


def _of(said: trtexec.Said, case: Case) -> dict[str, Cell]:
    """The figures that trtexec printed."""
    latency, rate = said.rows.get("Latency", {}), said.throughput
    medians = {
        "gpu_compute_ms": "GPU Compute Time", "enqueue_ms": "Enqueue Time", "h2d_ms": "H2D Latency",
        "d2h_ms": "D2H Latency",
    }  # fmt: skip
    return {
        "load_s": said.loaded_s,
        **{f"host_{name}_ms": latency.get(name) for name in _PARTS},
        **{name: said.rows.get(block, {}).get("median") for name, block in medians.items()},
        "runs_per_s": rate,
        "items_per_s": None if rate is None else rate * case.batch,
    }


def _best_within(rows: list[dict[str, Cell]], limit_ms: float) -> str:
    """The row with the highest throughput whose 99th percentile stays within the limit, as a sentence."""
    best: tuple[float, float, dict[str, Cell]] | None = None
    for row in rows:
        time = row.get("wall_p99_ms", row.get("host_p99_ms"))
        rate = row.get("waiting_items_per_s", row.get("items_per_s"))
        if not isinstance(time, (int, float)) or not isinstance(rate, (int, float)) or time > limit_ms:
            continue
        if best is None or rate > best[0]:
            best = (rate, time, row)
    if best is None:
        return "none: no row's 99th percentile stays within it"
    rate, time, row = best
    graph = ", CUDA graph" if row["cuda_graph"] == "on" else ""
    about = f"batch {row['batch']}, {row['streams']} streams, {row['precision']}{graph}"
    return f"{rate:.1f} items per second (p99 {time:.4g} ms) with {about}"
