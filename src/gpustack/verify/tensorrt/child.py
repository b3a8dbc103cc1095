"""Runs inside the Python that has TensorRT, in a separate process: a crash of the builder affects nothing else.

Called as ``python child.py REQUEST.json``; prints one JSON object. It needs nothing but the standard library and
TensorRT's own bindings (``tensorrt`` 8 to 11, or ``tensorrt_rtx``): memory and timing go through libcuda by ctypes.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_HOST_ALLOC_PORTABLE = 1
_WARM_UP_S = 0.3
"""Runs before the timed ones: clocks only go up under load."""
_MEASURED_S = 0.5
"""Minimum time over which runs per second are counted."""
_PROFILED = 50
"""Runs over which the time of each layer is measured."""


def main() -> None:
    """Carry out the request."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if request["do"] == "load":
        answer = load(request["soname"])
    else:
        module = importlib.import_module(request["module"])
        answer = info(module) if request["do"] == "info" else attempt(module, request)
    sys.stdout.write(json.dumps(answer) + "\n")


def mapped() -> list[str]:
    """The TensorRT libraries that this process has loaded."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {line.split(None, 5)[5] for line in lines if len(line.split(None, 5)) == 6}
    return sorted(path for path in paths if "libnvinfer" in path or "libtensorrt_rtx" in path)


def load(soname: str) -> dict[str, Any]:
    """Load a library as a C++ program would, and return its version."""
    library = ctypes.CDLL(soname)
    number = library.getInferLibVersion()
    return {"number": number, "libraries": mapped()}


def attempt(module: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Build, run or only load; TensorRT's messages are reported even where its bindings raise."""
    messages: list[str] = []
    try:
        return {"build": build, "run": run, "read": read}[request["do"]](module, request, messages)
    except Exception as exc:  # noqa: BLE001 (whatever the bindings raise belongs in the answer)
        return {"ok": False, "stage": "raised", "messages": [*messages, f"ERROR: {type(exc).__name__}: {exc}"[:600]]}


def info(module: Any) -> dict[str, Any]:
    """The module and the libraries that it loaded."""
    return {"version": module.__version__, "file": module.__file__, "libraries": mapped()}


def logger_of(module: Any, messages: list[str]) -> Any:
    """A logger that keeps warnings and errors, in TensorRT's own words."""

    class Kept(module.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            module.ILogger.__init__(self)

        def log(self, severity: Any, text: str) -> None:
            if int(severity) <= int(module.ILogger.Severity.WARNING):
                messages.append(f"{severity.name}: {text}"[:600])

    return Kept()


def build(module: Any, request: dict[str, Any], messages: list[str]) -> dict[str, Any]:
    """Build an engine from ONNX and save it."""
    logger = logger_of(module, messages)
    started = time.perf_counter()
    builder = module.Builder(logger)
    explicit = getattr(module.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    network = builder.create_network(0 if explicit is None else 1 << int(explicit))
    parser = module.OnnxParser(network, logger)
    if not parser.parse(Path(request["onnx"]).read_bytes()):
        faults = [str(parser.get_error(place)) for place in range(parser.num_errors)]
        return {"ok": False, "stage": "parse", "messages": faults + messages}
    config = builder.create_builder_config()
    if hasattr(config, "set_memory_pool_limit"):
        config.set_memory_pool_limit(module.MemoryPoolType.WORKSPACE, 256 << 20)
    else:
        config.max_workspace_size = 256 << 20
    precision = request.get("precision", "fp32")
    if precision != "fp32":
        config.set_flag(getattr(module.BuilderFlag, precision.upper()))
    targets = request.get("targets", [])
    if targets:
        config.num_compute_capabilities = len(targets)
        for place, name in enumerate(targets):
            config.set_compute_capability(getattr(module.ComputeCapability, name), place)
    plan = builder.build_serialized_network(network, config)
    seconds = time.perf_counter() - started
    if plan is None:
        return {"ok": False, "stage": "build", "seconds": seconds, "messages": messages}
    data = bytes(memoryview(plan))
    Path(request["engine"]).write_bytes(data)
    return {
        "ok": True,
        "seconds": seconds,
        "bytes": len(data),
        "version": module.__version__,
        "messages": messages,
        "libraries": mapped(),
    }


class Cuda:
    """The few driver calls that running an engine requires."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of libcuda. Raises RuntimeError with its error's name."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            msg = f"{name}: {(text.value or b'error').decode()} ({status})"
            raise RuntimeError(msg)

    def stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), 1)
        return made

    def event(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(made), 0)
        return made

    def elapsed(self, begin: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        found = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(found), begin, end)
        return found.value

    def free_memory(self) -> int:
        """The free bytes of the GPU; other programs use it, too."""
        free, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
        return free.value

    def bus(self) -> bytes:
        """The bus address of the GPU that is used."""
        name = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", name, 32, 0)
        return name.value

    def on_device(self, size: int) -> ctypes.c_uint64:
        place = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place

    def pinned(self, size: int) -> ctypes.c_void_p:
        place = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(place), ctypes.c_size_t(size), _HOST_ALLOC_PORTABLE)
        return place


class Lane:
    """One execution context with its stream, its memory on both sides, and events around each part of a run.

    ``inputs`` and ``outputs`` are the engine's tensors, each with its size in bytes.
    """

    def __init__(
        self, engine: Any, cuda: Cuda, inputs: dict[str, int], outputs: dict[str, int], context: Any = None
    ) -> None:
        self.cuda = cuda
        self.context = context or engine.create_execution_context()
        self.inputs, self.outputs = inputs, outputs
        self.stream = cuda.stream()
        sizes = {**inputs, **outputs}
        self.here = {name: cuda.pinned(size) for name, size in sizes.items()}
        self.there = {name: cuda.on_device(size) for name, size in sizes.items()}
        self.events = [cuda.event() for _ in range(4)]
        self.bindings: list[int | None] = []
        if hasattr(self.context, "set_tensor_address"):
            for name, place in self.there.items():
                self.context.set_tensor_address(name, place.value)
        else:
            names = [engine.get_binding_name(place) for place in range(engine.num_bindings)]
            self.bindings = [self.there[name].value for name in names]

    def start(self) -> float:
        """Queue one run; return the seconds that queueing its kernels took."""
        cuda, stream = self.cuda, self.stream
        cuda.call("cuEventRecord", self.events[0], stream)
        for name, size in self.inputs.items():
            cuda.call("cuMemcpyHtoDAsync_v2", self.there[name], self.here[name], ctypes.c_size_t(size), stream)
        cuda.call("cuEventRecord", self.events[1], stream)
        before = time.perf_counter()
        self.compute()
        queued = time.perf_counter() - before
        cuda.call("cuEventRecord", self.events[2], stream)
        for name, size in self.outputs.items():
            cuda.call("cuMemcpyDtoHAsync_v2", self.here[name], self.there[name], ctypes.c_size_t(size), stream)
        cuda.call("cuEventRecord", self.events[3], stream)
        return queued

    def compute(self) -> None:
        """Queue the network itself. Raises RuntimeError where TensorRT does not accept it."""
        if hasattr(self.context, "execute_async_v3"):
            done = self.context.execute_async_v3(self.stream.value)
        else:
            done = self.context.execute_async_v2(self.bindings, self.stream.value)
        if not done:
            msg = "the engine refused to run"
            raise RuntimeError(msg)

    def wait(self) -> None:
        self.cuda.call("cuStreamSynchronize", self.stream)

    def times(self) -> tuple[float, float, float]:
        """Milliseconds of the copy there, the computation, and the copy back of the last run."""
        events, elapsed = self.events, self.cuda.elapsed
        return elapsed(events[0], events[1]), elapsed(events[1], events[2]), elapsed(events[2], events[3])


def run(module: Any, request: dict[str, Any], messages: list[str]) -> dict[str, Any]:
    """Load an engine, run it on each input, and measure if asked."""
    cuda = Cuda()
    started = time.perf_counter()
    runtime = module.Runtime(logger_of(module, messages))
    engine = runtime.deserialize_cuda_engine(Path(request["engine"]).read_bytes())
    seconds = time.perf_counter() - started
    if engine is None:
        return {"ok": False, "stage": "load", "messages": messages}
    floats = array("f")
    floats.frombytes(Path(request["input"]).read_bytes())
    batch = request["batch"]
    streams = request.get("streams", [1])
    given, made = {request["input_name"]: batch * 784 * 4}, {request["output_name"]: batch * 10 * 4}
    lanes = [Lane(engine, cuda, given, made) for _ in range(max(streams))]
    outputs = [answer(lanes[0], floats, place, batch) for place in range(len(floats) // (batch * 784))]
    answered = {
        "ok": True,
        "load_seconds": seconds,
        "outputs": outputs,
        "messages": messages,
        "version": module.__version__,
        "device_memory": int(getattr(engine, "device_memory_size_v2", 0) or getattr(engine, "device_memory_size", 0)),
    }
    for lane in lanes:
        fill(lane, floats, 0, batch)
    if request.get("iterations"):
        answered["timing"] = [measured(lanes[:count], request["iterations"]) for count in streams]
    if request.get("profile"):
        answered["layers"] = profiled(module, lanes[0])
    return answered


def read(module: Any, request: dict[str, Any], messages: list[str]) -> dict[str, Any]:
    """Load an engine and run nothing: code in a version-compatible engine stays disabled, as by default."""
    runtime = module.Runtime(logger_of(module, messages))
    engine = runtime.deserialize_cuda_engine(Path(request["engine"]).read_bytes())
    return {"ok": engine is not None, "stage": "load", "messages": messages, "version": module.__version__}


def fill(lane: Lane, floats: array[float], place: int, batch: int) -> None:
    """Give the lane one batch of the input."""
    piece = floats[place * batch * 784 : (place + 1) * batch * 784]
    for name, size in lane.inputs.items():
        ctypes.memmove(lane.here[name], piece.tobytes(), size)


def answer(lane: Lane, floats: array[float], place: int, batch: int) -> list[float]:
    """The output for one batch of the input."""
    fill(lane, floats, place, batch)
    lane.start()
    lane.wait()
    found = array("f")
    for name, size in lane.outputs.items():
        found.frombytes(ctypes.string_at(lane.here[name], size))
    return list(found)


def percentile(values: list[float], part: float) -> float:
    """The value that ``part`` percent of ``values`` do not exceed, as trtexec counts it."""
    ordered = sorted(values)
    place = min(len(ordered) - 1, max(0, round(part / 100 * len(ordered)) - 1))
    return ordered[place]


def together(lanes: Sequence[Lane]) -> list[float]:
    """One run on every lane at once; the seconds that queueing took on each."""
    queued = [lane.start() for lane in lanes]
    for lane in lanes:
        lane.wait()
    return queued


def measured(
    lanes: Sequence[Lane], iterations: int, warm_up_s: float = _WARM_UP_S, least_s: float = 0
) -> dict[str, Any]:
    """Milliseconds of every run while all lanes work at once, and the runs a second of all lanes together.

    At least ``iterations`` runs and ``least_s`` seconds. ``latency_ms`` is the copy there, the computation and the copy
    back, as trtexec counts it; ``wall_ms`` is what a program waits for one run on every lane.
    """
    begin = time.perf_counter()
    while time.perf_counter() - begin < warm_up_s:
        together(lanes)
    kept: dict[str, list[float]] = {
        name: [] for name in ("latency_ms", "gpu_compute_ms", "h2d_ms", "d2h_ms", "enqueue_ms", "wall_ms")
    }
    begin = time.perf_counter()
    while len(kept["wall_ms"]) < iterations or time.perf_counter() - begin < least_s:
        before = time.perf_counter()
        queued = together(lanes)
        kept["wall_ms"].append((time.perf_counter() - before) * 1e3)
        for lane, seconds in zip(lanes, queued):  # noqa: B905 (Python 3.8 and 3.9 run this too)
            there, compute, back = lane.times()
            kept["h2d_ms"].append(there)
            kept["gpu_compute_ms"].append(compute)
            kept["d2h_ms"].append(back)
            kept["latency_ms"].append(there + compute + back)
            kept["enqueue_ms"].append(seconds * 1e3)
    return {"samples": kept, "runs_per_second": rate(lanes, iterations)}


def rate(lanes: Sequence[Lane], iterations: int) -> float:
    """Runs a second of all lanes, queued without waiting for the one before."""
    runs, begin = 0, time.perf_counter()
    while True:
        for _ in range(iterations):
            for lane in lanes:
                lane.start()
        for lane in lanes:
            lane.wait()
        runs += iterations * len(lanes)
        seconds = time.perf_counter() - begin
        if seconds >= _MEASURED_S:
            return runs / seconds


def profiled(module: Any, lane: Lane) -> dict[str, list[float]]:
    """Milliseconds of every layer in runs of their own: profiling slows a run, so no timed one is profiled."""
    layers: dict[str, list[float]] = {}

    class Profiler(module.IProfiler):  # type: ignore[misc]
        def __init__(self) -> None:
            module.IProfiler.__init__(self)

        def report_layer_time(self, name: str, milliseconds: float) -> None:
            layers.setdefault(name, []).append(milliseconds)

    profiler = Profiler()
    lane.context.profiler = profiler
    for _ in range(_PROFILED):
        together([lane])
    return layers


if __name__ == "__main__":
    main()
