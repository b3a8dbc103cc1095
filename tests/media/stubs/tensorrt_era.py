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
from pathlib import Path
from typing import Any

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
    "Builder.num_DLA_cores", "OnnxParser.parse_from_file", "IBuilderConfig.clear_flag", "IBuilderConfig.int8_calibrator",
    "BuilderFlag.TF32", "BuilderFlag.INT8", "BuilderFlag.FP8", "INetworkDefinition.num_inputs",
    "INetworkDefinition.get_input", "INetworkDefinition.num_layers", "INetworkDefinition.get_layer",
    "ILayer.num_outputs", "ILayer.get_output", "ITensor.name", "ITensor.shape", "ITensor.set_dynamic_range",
    "IInt8EntropyCalibrator.read_calibration_cache", "IInt8EntropyCalibrator2.read_calibration_cache",
    "IInt8MinMaxCalibrator.read_calibration_cache", "ICudaEngine.num_io_tensors", "ICudaEngine.get_tensor_name",
    "ICudaEngine.get_tensor_mode", "ICudaEngine.get_tensor_dtype", "ICudaEngine.get_tensor_shape",
    "ICudaEngine.get_tensor_format", "ICudaEngine.get_tensor_location", "ICudaEngine.get_tensor_profile_shape",
    "ICudaEngine.refittable", "ICudaEngine.num_optimization_profiles", "ICudaEngine.binding_is_input",
    "ICudaEngine.get_binding_dtype", "ICudaEngine.get_binding_shape", "ICudaEngine.get_binding_format",
    "ICudaEngine.is_shape_binding", "ICudaEngine.get_profile_shape", "IExecutionContext.set_input_shape",
    "IExecutionContext.get_tensor_shape", "IExecutionContext.set_binding_shape",
    "IExecutionContext.get_binding_shape", "TensorIOMode.INPUT", "TensorLocation.HOST", "TensorFormat.LINEAR",
    "DataType.FLOAT", "IPluginRegistry.plugin_creator_list", "IPluginRegistry.all_creators", "Runtime.num_DLA_cores",
)  # fmt: skip
"""Everything of the module that verify's child may ask for."""

_RTX = ("IBuilderConfig.num_compute_capabilities", "IBuilderConfig.set_compute_capability", "ComputeCapability.SM89")
_OLD = (
    "ICudaEngine.get_binding_name", "ICudaEngine.num_bindings", "IExecutionContext.execute_async_v2",
    "ICudaEngine.binding_is_input", "ICudaEngine.get_binding_dtype", "ICudaEngine.get_binding_shape",
    "ICudaEngine.get_binding_format", "ICudaEngine.is_shape_binding", "ICudaEngine.get_profile_shape",
    "IExecutionContext.set_binding_shape", "IExecutionContext.get_binding_shape",
)  # fmt: skip
_SINCE_8_5 = (
    "ICudaEngine.num_io_tensors", "ICudaEngine.get_tensor_name", "ICudaEngine.get_tensor_mode",
    "ICudaEngine.get_tensor_dtype", "ICudaEngine.get_tensor_shape", "ICudaEngine.get_tensor_format",
    "ICudaEngine.get_tensor_location", "ICudaEngine.get_tensor_profile_shape", "IExecutionContext.set_input_shape",
    "IExecutionContext.get_tensor_shape", "TensorIOMode.INPUT",
)  # fmt: skip
LACKS: dict[str, tuple[str, ...]] = {
    "8.0.1": (
        *_RTX, "IBuilderConfig.set_memory_pool_limit", "MemoryPoolType.WORKSPACE", "BuilderFlag.BF16",
        "ICudaEngine.device_memory_size_v2", "IExecutionContext.set_tensor_address",
        "IExecutionContext.execute_async_v3", *_SINCE_8_5, "BuilderFlag.FP8", "IPluginRegistry.all_creators",
    ),
    "8.6.0": (*_RTX, "BuilderFlag.BF16", "ICudaEngine.device_memory_size_v2", "IPluginRegistry.all_creators"),
    "10.0.1": (*_RTX, *_OLD, "IBuilderConfig.max_workspace_size", "ICudaEngine.device_memory_size_v2"),
    "10.13.3.9": (*_RTX, *_OLD, "IBuilderConfig.max_workspace_size"),
    "11.4.0.106": (
        *_RTX, *_OLD, "IBuilderConfig.max_workspace_size", "BuilderFlag.FP16", "BuilderFlag.BF16",
        "NetworkDefinitionCreationFlag.EXPLICIT_BATCH", "ICudaEngine.device_memory_size", "BuilderFlag.INT8",
        "BuilderFlag.FP8", "IBuilderConfig.int8_calibrator", "ITensor.set_dynamic_range",
        "IInt8EntropyCalibrator.read_calibration_cache", "IInt8EntropyCalibrator2.read_calibration_cache",
        "IInt8MinMaxCalibrator.read_calibration_cache", "IPluginRegistry.plugin_creator_list",
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
    INT8 = 1
    BF16 = 17
    FP8 = 19


class TensorIOMode(enum.IntEnum):
    INPUT = 1
    OUTPUT = 2


class TensorLocation(enum.IntEnum):
    DEVICE = 0
    HOST = 1


class TensorFormat(enum.IntEnum):
    LINEAR = 0
    CHW32 = 5


class DataType(enum.IntEnum):
    FLOAT = 0
    INT32 = 3


class IPluginRegistry:
    plugin_creator_list = ("first", "second")
    all_creators = ("first", "second", "third")


def get_plugin_registry() -> IPluginRegistry:
    return IPluginRegistry()


def init_libnvinfer_plugins(logger: ILogger, namespace: str) -> bool:
    return isinstance(logger, ILogger) and namespace == ""


class IInt8EntropyCalibrator:
    def read_calibration_cache(self) -> bytes: ...


class IInt8EntropyCalibrator2:
    def read_calibration_cache(self) -> bytes: ...


class IInt8MinMaxCalibrator:
    def read_calibration_cache(self) -> bytes: ...


class ITensor:
    def __init__(self, network: INetworkDefinition, name: str) -> None:
        self._network, self._name = network, name

    @property
    def name(self) -> str:
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._network.batch, 1, 28, 28)

    @shape.setter
    def shape(self, lengths: list[int]) -> None:
        self._network.batch = lengths[0]

    def set_dynamic_range(self, least: float, most: float) -> bool:
        self._network.ranges[self._name] = (least, most)
        return True


class ILayer:
    num_outputs = 1

    def __init__(self, network: INetworkDefinition) -> None:
        self._network = network

    def get_output(self, place: int) -> ITensor:
        assert place == 0
        return ITensor(self._network, "probabilities")


class MemoryPoolType(enum.IntEnum):
    WORKSPACE = 0


class ComputeCapability(enum.IntEnum):
    SM89 = 4


class IBuilderConfig:
    max_workspace_size = 0
    num_compute_capabilities = 0

    def set_memory_pool_limit(self, pool: MemoryPoolType, size: int) -> None: ...

    int8_calibrator: Any = None

    def __init__(self) -> None:
        self.flags = {int(BuilderFlag.TF32)}

    def set_flag(self, flag: BuilderFlag) -> None:
        self.flags.add(int(flag))

    def clear_flag(self, flag: BuilderFlag) -> None:
        self.flags.discard(int(flag))

    def set_compute_capability(self, capability: ComputeCapability, place: int) -> None: ...


class INetworkDefinition:
    num_inputs = 1
    num_layers = 1

    def __init__(self) -> None:
        self.batch = 0
        self.ranges: dict[str, tuple[float, float]] = {}

    def get_input(self, place: int) -> ITensor:
        assert place == 0
        return ITensor(self, "input")

    def get_layer(self, place: int) -> ILayer:
        assert place == 0
        return ILayer(self)


class Builder:
    num_DLA_cores = 2 if _FAULT == "DLA" else 0  # noqa: N815 (the name of the real one)

    def __init__(self, logger: ILogger) -> None:
        self._logger = logger

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        # Since 10 every network is of explicit batch; before, ONNX needs the flag.
        assert flags == (1 if has("NetworkDefinitionCreationFlag.EXPLICIT_BATCH") else 0)
        return INetworkDefinition()

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> bytes | None:
        assert config
        _crash("crash build")
        self._logger.log(Severity.WARNING, "this is a stand-in")
        if network.batch == 32 and _FAULT == "full at 32":
            self._logger.log(Severity.ERROR, "Cuda Runtime (out of memory)")
            return None
        if BuilderFlag.__members__.get("INT8", -1) in config.flags:
            cache = config.int8_calibrator and config.int8_calibrator.read_calibration_cache()
            if not cache and not network.ranges:
                self._logger.log(Severity.ERROR, "Calibration failure occurred with no scaling factors detected.")
                return None
        return _HEAD + struct.pack("<I", network.batch) if network.batch else None


_ONE_PICTURE = bytes.fromhex("0a0208010a0208010a02081c0a02081c")
OPEN_BATCH = bytes.fromhex("0a0212000a0208010a02081c0a02081c")
"""The dimensions 1x1x28x28 in an ONNX file, and these with a batch size that has no value."""


class OnnxParser:
    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        self._network, self._logger = network, logger
        self.num_errors = 0

    def parse(self, model: bytes) -> bool:
        weights = load_digits().weights
        self._network.batch = next((one for one in (1, 8, 32) if model == digits_model(weights, one)), 0)
        self.num_errors = 0 if self._network.batch else 1
        return bool(self._network.batch)

    def parse_from_file(self, path: str) -> bool:
        data = Path(path).read_bytes()
        if data.count(OPEN_BATCH) == 1 and self.parse(data.replace(OPEN_BATCH, _ONE_PICTURE)):
            self._network.batch = -1
            return True
        return self.parse(data)

    def get_error(self, place: int) -> str:
        return f"In node -1 (deserialize_onnx_model): MODEL_DESERIALIZE_FAILED ({place})"


OnnxParser.num_errors = 0  # type: ignore[attr-defined]


class Runtime:
    num_DLA_cores = 2 if _FAULT == "DLA" else 0  # noqa: N815 (the name of the real one)

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

    num_io_tensors = 2
    num_optimization_profiles = 1
    refittable = _FAULT == "DLA"

    def _shape(self, name: str) -> tuple[int, ...]:
        batch = self.batch or -1
        return (batch, 1, 28, 28) if name == "input" else (batch, 10)

    def get_tensor_name(self, place: int) -> str:
        return ("probabilities", "input")[place]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name == "input" else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        return DataType.INT32 if _FAULT == "whole numbers" and name == "input" else DataType.FLOAT

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self._shape(name)

    def get_tensor_format(self, name: str) -> TensorFormat:
        return TensorFormat.CHW32 if _FAULT == "vectors" and name == "input" else TensorFormat.LINEAR

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.HOST if _FAULT == "on host" and name == "input" else TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[tuple[int, ...]]:
        assert (name, profile) == ("input", 0)
        return [(1, 1, 28, 28), (8, 1, 28, 28), (32, 1, 28, 28)]

    def binding_is_input(self, place: int) -> bool:
        return place == 1

    def get_binding_dtype(self, place: int) -> DataType:
        assert place in {0, 1}
        return DataType.FLOAT

    def get_binding_shape(self, place: int) -> tuple[int, ...]:
        return self._shape(("probabilities", "input")[place])

    def get_binding_format(self, place: int) -> TensorFormat:
        assert place in {0, 1}
        return TensorFormat.LINEAR

    def is_shape_binding(self, place: int) -> bool:
        assert place in {0, 1}
        return False

    def get_profile_shape(self, profile: int, place: int) -> list[tuple[int, ...]]:
        assert (profile, place) == (0, 1)
        return [(1, 1, 28, 28), (8, 1, 28, 28), (32, 1, 28, 28)]

    def create_execution_context(self) -> IExecutionContext | None:
        global _CONTEXTS  # noqa: PLW0603 (of this process)
        _CONTEXTS += 1
        return IExecutionContext(self) if _FAULT != "one context" or _CONTEXTS == 1 else None


_CONTEXTS = 0


class IExecutionContext:
    profiler: IProfiler | None = None

    def __init__(self, engine: ICudaEngine) -> None:
        self._engine = engine
        self._places: dict[str, int] = {}
        self._batch = engine.batch

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        assert (name, shape[1:]) == ("input", (1, 28, 28))
        self._batch = shape[0]
        return 1 <= shape[0] <= 32

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (self._batch or -1, *self._engine._shape(name)[1:])

    def set_binding_shape(self, place: int, shape: tuple[int, ...]) -> bool:
        assert (place, shape[1:]) == (1, (1, 28, 28))
        self._batch = shape[0]
        return 1 <= shape[0] <= 32

    def get_binding_shape(self, place: int) -> tuple[int, ...]:
        return (self._batch or -1, *self._engine._shape(("probabilities", "input")[place])[1:])

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
        for one in range(self._batch):
            picture = ctypes.string_at(taken + one * _PICTURE, _PICTURE)
            ctypes.memmove(given + one * _ANSWER, answers().get(picture, _OTHER), _ANSWER)
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
_OTHER = array("f", [float("nan" if _FAULT == "overflow" else 0)] * 10).tobytes()
"""What the network answers to anything that is none of the pictures."""


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
