"""A stand-in for TensorRT's Python module of one era, which the environment names: it has no more than that era has.

It builds nothing and computes nothing: an "engine" is a header and the batch of the network, and running it looks up the answer
that the reference gave to each picture. Which names an era has was read from real modules (8.6.0, 10.0.1, 10.13.3.9,
11.4.0.106), and for 8.0 from NVIDIA's sources of the bindings; test_tensorrt_eras.py compares them.
"""

from __future__ import annotations

import ctypes
import enum
import os
import signal
import struct
from array import array

from gpustack.verify.tensorrt.digits_engine import as_floats
from gpustack.verify.tensorrt.onnx import digits_model, load_digits

NAMES = (
    "Builder.create_network", "Builder.create_builder_config", "Builder.build_serialized_network", "OnnxParser.parse",
    "OnnxParser.num_errors", "OnnxParser.get_error", "IBuilderConfig.set_memory_pool_limit",
    "IBuilderConfig.max_workspace_size", "IBuilderConfig.set_flag", "IBuilderConfig.num_compute_capabilities",
    "IBuilderConfig.set_compute_capability", "MemoryPoolType.WORKSPACE", "BuilderFlag.FP16", "BuilderFlag.BF16",
    "NetworkDefinitionCreationFlag.EXPLICIT_BATCH", "Runtime.deserialize_cuda_engine",
    "ICudaEngine.create_execution_context", "ICudaEngine.device_memory_size", "ICudaEngine.device_memory_size_v2",
    "ICudaEngine.get_binding_name", "ICudaEngine.num_bindings", "IExecutionContext.set_tensor_address",
    "IExecutionContext.execute_async_v2", "IExecutionContext.execute_async_v3", "IExecutionContext.profiler",
    "ILogger.Severity", "ILogger.log", "IProfiler.report_layer_time", "ComputeCapability.SM89",
)  # fmt: skip
"""Everything of the module that verify's child may ask for."""

_RTX = ("IBuilderConfig.num_compute_capabilities", "IBuilderConfig.set_compute_capability", "ComputeCapability.SM89")
_OLD = ("ICudaEngine.get_binding_name", "ICudaEngine.num_bindings", "IExecutionContext.execute_async_v2")
LACKS: dict[str, tuple[str, ...]] = {
    "8.0.1": (
        *_RTX, "IBuilderConfig.set_memory_pool_limit", "MemoryPoolType.WORKSPACE", "BuilderFlag.BF16",
        "ICudaEngine.device_memory_size_v2", "IExecutionContext.set_tensor_address",
        "IExecutionContext.execute_async_v3",
    ),
    "8.6.0": (*_RTX, "BuilderFlag.BF16", "ICudaEngine.device_memory_size_v2"),
    "10.0.1": (*_RTX, *_OLD, "IBuilderConfig.max_workspace_size", "ICudaEngine.device_memory_size_v2"),
    "10.13.3.9": (*_RTX, *_OLD, "IBuilderConfig.max_workspace_size"),
    "11.4.0.106": (
        *_RTX, *_OLD, "IBuilderConfig.max_workspace_size", "BuilderFlag.FP16", "BuilderFlag.BF16",
        "NetworkDefinitionCreationFlag.EXPLICIT_BATCH", "ICudaEngine.device_memory_size",
    ),
}  # fmt: skip
"""What the module of each release does not have."""

__version__ = os.environ.get("TENSORRT_ERA", "10.13.3.9")
_NUMBERS = bytes(int(one) for one in f"{__version__}.0".split(".")[:4])
_FAULT = os.environ.get("TENSORRT_ERA_FAULT", "")
"""What this stand-in does wrong: "wrong" answers, a "cut" engine, or a crash while it builds or runs ("crash run")."""
_HEAD = (b"ftrt" + bytes(12) + struct.pack("<Q", 200 if _FAULT == "cut" else 100) + _NUMBERS).ljust(96, b"\0")
_PICTURE, _ANSWER = 784 * 4, 10 * 4


class Severity(enum.IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3


class ILogger:
    Severity = Severity

    def log(self, severity: Severity, text: str) -> None: ...


class IProfiler:
    def report_layer_time(self, name: str, milliseconds: float) -> None: ...


class NetworkDefinitionCreationFlag(enum.IntEnum):
    STRONGLY_TYPED = 1
    EXPLICIT_BATCH = 0


class BuilderFlag(enum.IntEnum):
    TF32 = 7
    FP16 = 0
    BF16 = 17


class MemoryPoolType(enum.IntEnum):
    WORKSPACE = 0


class ComputeCapability(enum.IntEnum):
    SM89 = 4


class IBuilderConfig:
    max_workspace_size = 0
    num_compute_capabilities = 0

    def set_memory_pool_limit(self, pool: MemoryPoolType, size: int) -> None: ...

    def set_flag(self, flag: BuilderFlag) -> None: ...

    def set_compute_capability(self, capability: ComputeCapability, place: int) -> None: ...


class Network:
    def __init__(self) -> None:
        self.batch = 0


class Builder:
    def __init__(self, logger: ILogger) -> None:
        self._logger = logger

    def create_network(self, flags: int = 0) -> Network:
        # Since 10 every network is of explicit batch; before, ONNX needs the flag.
        assert flags == (1 if has("NetworkDefinitionCreationFlag.EXPLICIT_BATCH") else 0)
        return Network()

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def build_serialized_network(self, network: Network, config: IBuilderConfig) -> bytes | None:
        assert config
        _crash("crash build")
        self._logger.log(Severity.WARNING, "this is a stand-in")
        return _HEAD + struct.pack("<I", network.batch) if network.batch else None


class OnnxParser:
    def __init__(self, network: Network, logger: ILogger) -> None:
        self._network, self._logger = network, logger
        self.num_errors = 0

    def parse(self, model: bytes) -> bool:
        weights = load_digits().weights
        self._network.batch = next((one for one in (1, 8, 32) if model == digits_model(weights, one)), 0)
        self.num_errors = 0 if self._network.batch else 1
        return bool(self._network.batch)

    def get_error(self, place: int) -> str:
        return f"In node -1 (deserialize_onnx_model): MODEL_DESERIALIZE_FAILED ({place})"


OnnxParser.num_errors = 0  # type: ignore[attr-defined]


class Runtime:
    def __init__(self, logger: ILogger) -> None:
        self._logger = logger

    def deserialize_cuda_engine(self, data: bytes) -> ICudaEngine | None:
        if data[:-4] != _HEAD:
            self._logger.log(Severity.ERROR, "Serialization assertion plan->header.size == blobSize failed")
            return None
        return ICudaEngine(*struct.unpack("<I", data[-4:]))


class ICudaEngine:
    device_memory_size = 4096
    device_memory_size_v2 = 8192
    num_bindings = 2

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def get_binding_name(self, place: int) -> str:
        # The output first: a caller that takes the order for granted is found out.
        return ("probabilities", "input")[place]

    def create_execution_context(self) -> IExecutionContext:
        return IExecutionContext(self)


class IExecutionContext:
    profiler: IProfiler | None = None

    def __init__(self, engine: ICudaEngine) -> None:
        self._engine = engine
        self._places: dict[str, int] = {}

    def set_tensor_address(self, name: str, place: int) -> bool:
        self._places[name] = place
        return True

    def execute_async_v3(self, stream: int) -> bool:
        assert stream
        return self._run(self._places["input"], self._places["probabilities"])

    def execute_async_v2(self, bindings: list[int], stream: int) -> bool:
        assert stream
        return self._run(bindings[1], bindings[0])

    def _run(self, taken: int, given: int) -> bool:
        _crash("crash run")
        for one in range(self._engine.batch):
            picture = ctypes.string_at(taken + one * _PICTURE, _PICTURE)
            ctypes.memmove(given + one * _ANSWER, answers()[picture], _ANSWER)
        if self.profiler is not None:
            self.profiler.report_layer_time("look up", 0.5)
        return True


def answers() -> dict[bytes, bytes]:
    """The reference's answer to each picture that comes with gpustack, both as 32-bit floats; reversed if so asked."""
    if not _ANSWERS:
        digits = load_digits()
        step = -1 if _FAULT == "wrong" else 1
        for picture, row in zip(digits.pictures, digits.probabilities, strict=True):
            _ANSWERS[as_floats(picture)] = array("f", row[::step]).tobytes()
    return _ANSWERS


_ANSWERS: dict[bytes, bytes] = {}


def _crash(fault: str) -> None:
    if fault == _FAULT:
        os.kill(os.getpid(), signal.SIGSEGV)


def has(name: str) -> bool:
    """Whether the module of this era has "Class.attribute"."""
    return name not in LACKS[__version__]


def _hollowed(whole: type, gone: set[str]) -> type:
    if issubclass(whole, enum.Enum):
        kept = {one.name: one.value for one in whole if one.name not in gone}
        return enum.IntEnum(whole.__name__, kept)
    for name in gone:
        delattr(whole, name)
    return whole


for _class in {name.partition(".")[0] for name in LACKS[__version__]}:
    _gone = {name.partition(".")[2] for name in LACKS[__version__] if name.startswith(f"{_class}.")}
    globals()[_class] = _hollowed(globals()[_class], _gone)
