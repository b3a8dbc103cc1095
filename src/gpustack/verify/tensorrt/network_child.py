"""Builds and measures the user's own network, in the Python that has TensorRT; called as ``child.py`` is."""

from __future__ import annotations

import ctypes
import importlib
import json
import math
import random
import struct
import sys
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "__main__":
    from gpustack.verify.tensorrt import child
else:
    import child  # of this folder, in a Python that may be without gpustack

SIZES = {"FLOAT": 4, "HALF": 2, "BF16": 2, "INT8": 1, "UINT8": 1, "BOOL": 1, "FP8": 1, "INT32": 4, "INT64": 8}
"""Bytes of a value of each type that an input or output may have here."""
_CALIBRATORS = {
    "EntropyCalibration": "IInt8EntropyCalibrator",
    "EntropyCalibration2": "IInt8EntropyCalibrator2",
    "MinMaxCalibration": "IInt8MinMaxCalibrator",
}
_BLOCK, _THREAD_LOCAL = 4096, 1
_OLD_WORKSPACE = 1 << 30
"""The limit before 8.4, whose default is none at all; from 8.4 on the default is the whole GPU."""


class Refusal(Exception):  # noqa: N818 (it is an answer)
    """The request does not fit the network; ``stage`` is the part that does not."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(text)
        self.stage = stage


def main() -> None:
    """Carry out the request."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    messages: list[str] = []
    try:
        module = importlib.import_module(request["module"])
        answer = {"build": build, "inspect": inspect, "measure": measure}[request["do"]](module, request, messages)
    except Refusal as exc:
        answer = {"ok": False, "stage": exc.stage, "messages": [f"ERROR: {exc}"]}
    except Exception as exc:  # noqa: BLE001 (whatever the bindings raise belongs in the answer)
        last = f"ERROR: {type(exc).__name__}: {exc}"[:600]
        answer = {"ok": False, "stage": "raised", "messages": [*messages, last]}
    sys.stdout.write(json.dumps(answer) + "\n")


def build(module: Any, request: dict[str, Any], messages: list[str]) -> dict[str, Any]:
    """Build an engine of fixed shapes from ONNX and save it."""
    logger = child.logger_of(module, messages)
    plugins = count_plugins(module, logger)
    started = time.perf_counter()
    builder = module.Builder(logger)
    explicit = getattr(module.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    parser = module.OnnxParser(network, logger)
    if not parser.parse_from_file(request["onnx"]):
        faults = [str(parser.get_error(place)) for place in range(parser.num_errors)]
        return {"ok": False, "stage": "parse", "messages": faults + messages}
    for place in range(network.num_inputs):
        tensor = network.get_input(place)
        if -1 in tuple(tensor.shape):
            tensor.shape = request["shapes"][tensor.name]
    config = builder.create_builder_config()
    if not hasattr(config, "set_memory_pool_limit"):
        config.max_workspace_size = _OLD_WORKSPACE
    kept = choose_precision(module, network, config, request)
    plan = builder.build_serialized_network(network, config)
    seconds = time.perf_counter() - started
    del kept  # the calibrator has to live until here
    if plan is None:
        return {"ok": False, "stage": "build", "messages": messages}
    data = bytes(memoryview(plan))
    Path(request["engine"]).write_bytes(data)
    cores = int(getattr(builder, "num_DLA_cores", 0))
    return {"ok": True, "seconds": seconds, "bytes": len(data), "plugins": plugins, "dla_cores": cores}


def count_plugins(module: Any, logger: Any) -> int | None:
    """Load TensorRT's own plugins, as a network may use them; how many the registry has, None if it does not tell."""
    if not hasattr(module, "init_libnvinfer_plugins"):  # RTX may have none
        return None
    module.init_libnvinfer_plugins(logger, "")
    registry = module.get_plugin_registry()
    names = getattr(registry, "all_creators", None) or getattr(registry, "plugin_creator_list", None)
    return None if names is None else len(names)


def choose_precision(module: Any, network: Any, config: Any, request: dict[str, Any]) -> Any:
    """Set the builder to the precision; what has to be kept until the engine is built."""
    precision = request["precision"]
    if precision in {"fp32", "tf32"}:
        if precision == "fp32" and hasattr(module.BuilderFlag, "TF32"):
            config.clear_flag(module.BuilderFlag.TF32)
        return None
    flag = getattr(module.BuilderFlag, precision.upper(), None)
    if flag is None:
        msg = "precision"
        raise Refusal(msg, f"this TensorRT cannot be set to {precision}")
    config.set_flag(flag)
    if request.get("ranges"):
        set_ranges(network, request["ranges"])
    elif request.get("algorithm"):
        config.int8_calibrator = calibrator(module, request["algorithm"], Path(request["calibration"]).read_bytes())
        return config.int8_calibrator
    return None


def set_ranges(network: Any, ranges: dict[str, float]) -> None:
    """Give each named tensor of the network its range."""
    layers = [network.get_layer(place) for place in range(network.num_layers)]
    tensors = [network.get_input(place) for place in range(network.num_inputs)]
    tensors += [layer.get_output(place) for layer in layers for place in range(layer.num_outputs)]
    unknown = set(ranges) - {one.name for one in tensors}
    if unknown:
        msg = "calibration"
        raise Refusal(msg, f"the network has no tensor called {min(unknown)!r}, which the ranges name")
    for one in tensors:
        if one.name in ranges:
            one.set_dynamic_range(-ranges[one.name], ranges[one.name])


def calibrator(module: Any, algorithm: str, cache: bytes) -> Any:
    """A calibrator that has a cache and no data."""
    base = getattr(module, _CALIBRATORS[algorithm])

    class Cached(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            base.__init__(self)

        def get_batch_size(self) -> int:
            return 1

        def get_batch(self, names: list[str]) -> None:  # noqa: ARG002 (TensorRT's own signature)
            return None

        def read_calibration_cache(self) -> bytes:
            return cache

        def write_calibration_cache(self, cache: Any) -> None:
            pass

    return Cached()


def tensors(module: Any, engine: Any) -> list[dict[str, Any]]:
    """The engine's inputs and outputs; ``least`` and ``most`` are the limits of an input's shape."""
    return _named(module, engine) if hasattr(engine, "num_io_tensors") else _bound(module, engine)


def _named(module: Any, engine: Any) -> list[dict[str, Any]]:
    found = []
    for place in range(engine.num_io_tensors):
        name = engine.get_tensor_name(place)
        row = {
            "name": name,
            "is_input": engine.get_tensor_mode(name) == module.TensorIOMode.INPUT,
            "kind": engine.get_tensor_dtype(name).name,
            "shape": list(engine.get_tensor_shape(name)),
            "is_linear": engine.get_tensor_format(name) == module.TensorFormat.LINEAR,
            "on_host": engine.get_tensor_location(name) == module.TensorLocation.HOST,
        }
        if row["is_input"] and -1 in row["shape"]:
            least, _, most = engine.get_tensor_profile_shape(name, 0)
            row["least"], row["most"] = list(least), list(most)
        found.append(row)
    return found


def _bound(module: Any, engine: Any) -> list[dict[str, Any]]:
    """As before 8.5, where tensors are numbered."""
    if engine.num_optimization_profiles > 1:
        msg = "engine"
        raise Refusal(msg, "an engine with several optimization profiles is measured from TensorRT 8.5 on")
    found = []
    for place in range(engine.num_bindings):
        row = {
            "name": engine.get_binding_name(place),
            "is_input": bool(engine.binding_is_input(place)),
            "kind": engine.get_binding_dtype(place).name,
            "shape": list(engine.get_binding_shape(place)),
            "is_linear": engine.get_binding_format(place) == module.TensorFormat.LINEAR,
            "on_host": bool(engine.is_shape_binding(place)),
        }
        if row["is_input"] and -1 in row["shape"]:
            least, _, most = engine.get_profile_shape(0, place)
            row["least"], row["most"] = list(least), list(most)
        found.append(row)
    return found


def load(module: Any, request: dict[str, Any], messages: list[str]) -> tuple[Any, Any, list[dict[str, Any]]]:
    """The runtime, the engine and its tensors. Raises Refusal for an engine that cannot be run on plain memory."""
    logger = child.logger_of(module, messages)
    count_plugins(module, logger)
    runtime = module.Runtime(logger)
    engine = runtime.deserialize_cuda_engine(Path(request["engine"]).read_bytes())
    if engine is None:
        return runtime, None, []
    rows = tensors(module, engine)
    for row in rows:
        called = f"{'input' if row['is_input'] else 'output'} {row['name']}"
        if row["on_host"]:
            msg = "engine"
            raise Refusal(msg, f"{called} holds a shape, not data: measure such an engine with trtexec")
        if not row["is_linear"] or row["kind"] not in SIZES:
            kind = row["kind"] if row["kind"] not in SIZES else "vectorized"
            msg = "engine"
            raise Refusal(msg, f"{called} is {kind}: measure such an engine with trtexec")
    return runtime, engine, rows


def inspect(module: Any, request: dict[str, Any], messages: list[str]) -> dict[str, Any]:
    """What a file's engine takes and gives."""
    child.Cuda()
    _, engine, rows = load(module, request, messages)
    if engine is None:
        return {"ok": False, "stage": "load", "messages": messages}
    return {"ok": True, "inputs": [row for row in rows if row["is_input"]]}


class NetworkLane(child.Lane):
    """A lane that can run the network as a CUDA graph."""

    graph: ctypes.c_void_p | None = None

    def capture(self) -> None:
        """Record one run of the network as a graph. Raises RuntimeError where it does work that no graph can hold."""
        graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.call("cuStreamBeginCapture_v2", self.stream, _THREAD_LOCAL)
        try:
            super().compute()
        finally:
            self.cuda.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.cuda.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
        self.graph = ready

    def compute(self) -> None:
        if self.graph is None:
            super().compute()
        else:
            self.cuda.call("cuGraphLaunch", self.graph, self.stream)


def make_lane(engine: Any, cuda: child.Cuda, rows: list[dict[str, Any]], shapes: dict[str, list[int]]) -> NetworkLane:
    """A lane for these shapes. Raises Refusal where the engine does not accept them."""
    context = engine.create_execution_context()
    if context is None:
        msg = "memory"
        raise Refusal(msg, "TensorRT made no execution context: the GPU's memory is full")
    sizes: dict[bool, dict[str, int]] = {True: {}, False: {}}
    by_name = hasattr(context, "set_input_shape")
    for place, row in enumerate(rows):
        if row["is_input"] and -1 in row["shape"]:
            name, wanted = row["name"], tuple(shapes[row["name"]])
            is_set = context.set_input_shape(name, wanted) if by_name else context.set_binding_shape(place, wanted)
            if not is_set:
                msg = "shape"
                raise Refusal(msg, f"the engine does not accept {'x'.join(map(str, wanted))} for {name}")
    for place, row in enumerate(rows):
        shape = tuple(context.get_tensor_shape(row["name"]) if by_name else context.get_binding_shape(place))
        if any(length < 0 for length in shape):
            msg = "engine"
            raise Refusal(msg, f"the shape of {row['name']} depends on the data: measure it with trtexec")
        sizes[row["is_input"]][row["name"]] = max(1, math.prod(shape)) * SIZES[row["kind"]]
    return NetworkLane(engine, cuda, sizes[True], sizes[False], context)


def payload(kind: str, size: int) -> bytes:
    """Values for an input: the same numbers from 0 to 1 every time for floating point, zeros for all other types."""
    chosen = random.Random(0)  # noqa: S311 (not a secret)
    values = [chosen.random() for _ in range(_BLOCK)]
    if kind == "FLOAT":
        block = array("f", values).tobytes()
    elif kind == "HALF":
        block = struct.pack(f"<{_BLOCK}e", *values)
    elif kind == "BF16":
        block = b"".join(struct.pack("<f", value)[2:] for value in values)
    else:
        return bytes(size)
    return (block * (size // len(block) + 1))[:size]


def measure(module: Any, request: dict[str, Any], messages: list[str]) -> dict[str, Any]:
    """Load an engine and measure it with each number of streams, without and with CUDA graphs."""
    cuda = child.Cuda()
    bus, free = cuda.bus(), cuda.free_memory()
    before = clocks(bus)
    started = time.perf_counter()
    runtime, engine, rows = load(module, request, messages)
    seconds = time.perf_counter() - started
    if engine is None:
        return {"ok": False, "stage": "load", "messages": messages}
    lanes, notes = make_lanes(engine, cuda, rows, request)
    kinds = {row["name"]: row["kind"] for row in rows}
    for lane in lanes:
        for name, size in lane.inputs.items():
            ctypes.memmove(lane.here[name], payload(kinds[name], size), size)
    child.together(lanes)
    used = free - cuda.free_memory()
    cells = cells_of(lanes, request, notes)
    after = clocks(bus)
    wrong = sum(not_finite(lanes[0], name) for name in lanes[0].outputs if kinds[name] == "FLOAT")
    if wrong:
        notes.append(f"{wrong} values of the outputs are not finite: with such inputs this precision overflows")
    if any(kinds[name] not in {"FLOAT", "HALF", "BF16"} for name in lanes[0].inputs):
        notes.append("inputs of whole numbers are zeros: times that depend on the data differ")
    layers: dict[str, list[float]] = {}
    if request["layers"]:
        lanes[0].graph = None
        layers = child.profiled(module, lanes[0])
    scratch = int(getattr(engine, "device_memory_size_v2", 0) or getattr(engine, "device_memory_size", 0))
    return {
        "ok": True, "load_seconds": seconds, "cells": cells, "notes": notes, "layers": layers, "scratch_bytes": scratch,
        "used_bytes": used, "clocks": [before, after], "refittable": bool(engine.refittable),
        "dla_cores": int(getattr(runtime, "num_DLA_cores", 0)),
    }  # fmt: skip


def cells_of(lanes: list[NetworkLane], request: dict[str, Any], notes: list[str]) -> list[dict[str, Any]]:
    """Measure each number of streams, without and with graphs."""
    cells = []
    for with_graph in request["graphs"]:
        if with_graph:
            try:
                for lane in lanes:
                    lane.capture()
            except (RuntimeError, AttributeError) as exc:
                notes.append(f"no CUDA graph could be made: {exc}")
                break
        for count in request["streams"]:
            if count <= len(lanes):
                timed = child.measured(lanes[:count], request["iterations"], request["warm_up_s"], request["seconds"])
                cells.append({"streams": count, "cuda_graph": with_graph, **figures(timed, count)})
    return cells


def make_lanes(
    engine: Any, cuda: child.Cuda, rows: list[dict[str, Any]], request: dict[str, Any]
) -> tuple[list[NetworkLane], list[str]]:
    """As many lanes as streams are asked for, or as the engine allows; at least one."""
    lanes = [make_lane(engine, cuda, rows, request["shapes"])]
    try:
        while len(lanes) < max(request["streams"]):
            lanes.append(make_lane(engine, cuda, rows, request["shapes"]))
    except (Refusal, RuntimeError) as exc:
        return lanes, [f"only {len(lanes)} of {max(request['streams'])} streams are possible: {exc}"]
    return lanes, []


def figures(timed: dict[str, Any], streams: int) -> dict[str, Any]:
    """The statistics of each time, runs per second, and those of a caller that waits for each run."""
    samples = timed["samples"]
    found: dict[str, Any] = {
        name: {
            "min": min(values),
            "mean": sum(values) / len(values),
            **{f"p{part}": child.percentile(values, part) for part in (50, 90, 95, 99)},
        }
        for name, values in samples.items()
    }
    waiting = 1e3 * streams / found["wall_ms"]["mean"]
    return {**found, "runs": len(samples["wall_ms"]), "runs_per_s": timed["runs_per_second"], "waiting_per_s": waiting}


def not_finite(lane: NetworkLane, name: str) -> int:
    """How many values of an output are infinite or not a number."""
    values = array("f")
    values.frombytes(ctypes.string_at(lane.here[name], lane.outputs[name]))
    return sum(not math.isfinite(value) for value in values)


def clocks(bus: bytes) -> dict[str, int]:
    """The GPU's clocks in MHz; {} where NVML does not tell them."""
    found: dict[str, int] = {}
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        device = ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(device)):
            return {}
        for name, kind in (("sm", 1), ("memory", 2)):
            value = ctypes.c_uint()
            if not library.nvmlDeviceGetClockInfo(device, kind, ctypes.byref(value)):
                found[name] = value.value
    except (OSError, AttributeError):
        return {}
    return found


if __name__ == "__main__":
    main()
