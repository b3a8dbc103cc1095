"""A stand-in for TensorRT-RTX's Python module: that of TensorRT beside it, with engines for the GPU that is asked for.

As the real 1.7.1 it builds nothing for Turing, and says why. ``TENSORRT_RTX_FAULT`` chooses what it does wrong.
"""

from __future__ import annotations

import enum
import os
import struct

import tensorrt
from tensorrt import *  # noqa: F403 (what both have)

__version__ = "1.7.1.116"
_FAULT = os.environ.get("TENSORRT_RTX_FAULT", "")
_TURING = "Cannot compile operation 'gemm' for Turing (SM75): FP32 GEMM is not supported. "
_UNKNOWN = "compute capability 9.0. Supported compute capabilities: 8.0 8.6 8.9 12.0. TensorRT-RTX does not"
"""Words of the real 1.7.1, the second as it refuses to run an engine."""


class ComputeCapability(enum.IntEnum):
    SM75 = 1
    SM80 = 2
    SM86 = 4
    SM89 = 8
    SM120 = 16


class IBuilderConfig(tensorrt.IBuilderConfig):
    num_compute_capabilities = 0
    target = 0

    def set_compute_capability(self, capability: ComputeCapability, place: int) -> None:
        assert place < self.num_compute_capabilities
        self.target = int(capability)


class Builder(tensorrt.Builder):
    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def build_serialized_network(self, network: tensorrt.INetworkDefinition, config: IBuilderConfig) -> bytes | None:
        if config.target == ComputeCapability.SM75 or _FAULT == "refuse":
            words = _TURING if config.target == ComputeCapability.SM75 else _UNKNOWN
            self._logger.log(tensorrt.Severity.ERROR, words)
            return None
        batch = super().build_serialized_network(network, config)[-4:]
        target = int(ComputeCapability.SM86) if _FAULT == "other" else config.target
        length = 200 if _FAULT == "cut" else 100
        numbers = bytes(int(one) for one in __version__.split("."))
        head = b"vtrt" + bytes(12) + struct.pack("<Q", length) + numbers + bytes(4) + struct.pack("<Q", target)
        return head.ljust(96, b"\0") + batch


class Runtime(tensorrt.Runtime):
    def deserialize_cuda_engine(self, data: bytes) -> tensorrt.ICudaEngine | None:
        return tensorrt.ICudaEngine(*struct.unpack("<I", data[-4:]))
