"""A host as rules see it: which conditions hold, and the values of its properties."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from gpustack.model.facts import When
from gpustack.model.host import Gpu, Host
from gpustack.versions import is_within

_LEADING_VERSION = re.compile(r"\d+(?:\.\d+)*")


class HostView:
    """The view of one host under one request. Values that are not known make a rule not apply.

    ``method_of`` tells by which method a component is had; it is asked only where a rule is about methods.
    """

    def __init__(self, host: Host, method_of: Callable[[str], str] | None = None) -> None:
        self.host = host
        self._method_of = method_of
        self._held: dict[tuple[When, str], bool] = {}

    @property
    def is_windows(self) -> bool:
        return self.host.os.family == "windows"

    def system(self, component: str) -> str:
        """The system whose releases of a component count here: in WSL the driver is that of Windows."""
        if component == "driver" and self.host.environment == "wsl":
            return "windows"
        return "windows" if self.is_windows else "linux"

    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """The compute capabilities of the host's GPUs, each once."""
        return tuple(dict.fromkeys(gpu.compute_capability for gpu in self.host.gpus if gpu.compute_capability))

    def values(self, property_name: str) -> tuple[str, ...]:
        """What the host has of a property; () when it is not known. A rule has to hold for every value."""
        match property_name:
            case "compute-capability":
                return self.capabilities
            case "kernel":
                return _leading(self.host.next_kernel or self.host.kernel)
            case "glibc":
                return _leading(self.host.glibc)
            case "gcc":
                return _leading(self.host.gcc)
            case _:
                return ()

    def holds(self, when: When, component: str) -> bool:
        """Whether all conditions of a rule about ``component`` are known to hold here."""
        key = (when, component)
        if key not in self._held:
            self._held[key] = self._evaluate(when, component)
        return self._held[key]

    def _evaluate(self, when: When, component: str) -> bool:
        host = self.host
        if when.os and (when.os == "windows") != self.is_windows:
            return False
        if when.arch and host.arch not in when.arch:
            return False
        if when.environment and (host.environment or "bare-metal") not in when.environment:
            return False
        if when.method and (self._method_of(component) if self._method_of else "network") not in when.method:
            return False
        if when.fabric and self._is_single_in_a_machine_of_its_own:
            return False
        needs_gpu = bool(when.gpu_class or when.compute_capability or when.gpu or when.fabric is not None)
        return not needs_gpu or any(_gpu_meets(gpu, when) for gpu in host.gpus)

    @cached_property
    def _is_single_in_a_machine_of_its_own(self) -> bool:
        """One GPU of a baseboard handed to a virtual machine: its NVSwitches, and their manager, stay outside."""
        return self.host.environment == "vm" and self.host.nvswitches == 0 and len(self.host.gpus) == 1

    def gpus_with(self, capability: str) -> tuple[str, ...]:
        """The names of the GPUs of that compute capability."""
        return tuple(dict.fromkeys(gpu.called for gpu in self.host.gpus if gpu.compute_capability == capability))


def _gpu_meets(gpu: Gpu, when: When) -> bool:
    if when.gpu_class and gpu.kind not in when.gpu_class:
        return False
    if when.gpu and gpu.name not in when.gpu:
        return False
    if when.fabric is not None and (gpu.fabric == "nvswitch") != when.fabric:
        return False
    if when.compute_capability:
        return bool(gpu.compute_capability) and is_within(gpu.compute_capability or "", when.compute_capability)
    return True


def _leading(text: str | None) -> tuple[str, ...]:
    match = _LEADING_VERSION.match(text or "")
    return (match.group(),) if match else ()
