"""A host as rules see it: which conditions hold, and the values of its properties."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from gpustack.model.facts import Rule, When
from gpustack.model.host import Gpu, Host
from gpustack.model.places import System
from gpustack.versions import is_within

_LEADING_VERSION = re.compile(r"\d+(?:\.\d+)*(?:-\d+(?:\.\d+)*(?=\.el\d|-(?:cloud-|rt-)?a(?:md|rm)64\b))?")
"""Kernels of Enterprise Linux and Debian keep their number; what follows it says what they take from newer ones."""


OPTIONS = {
    "os": "--os",
    "arch": "--arch",
    "environment": "--environment",
    "gpu": "--gpu",
    "compute-capability": "--gpu",
    "kernel": "--kernel",
    "glibc": "--glibc",
    "gcc": "--gcc",
    "clang": "--clang",
    "msvc": "--msvc",
    "python": "--python",
    "l4t": "--os",
}
"""The option that supplies each property of a host that a rule may need."""

STATES = {"secure-boot": "--secure-boot", "mig": "--mig", "vgpu": "--gpu"}
"""States of a host that rules have no values of, and the options that describe them."""

COMPILERS = frozenset({"gcc", "clang", "msvc"})
"""The compilers of a host: another one can be installed."""

SYSTEM_FIXED = frozenset({"os", "arch", "environment", "glibc", "python", "l4t"})
"""Properties that a release of a system fixes: without them there is no verdict. The rest differs between hosts."""


class HostView:
    """The view of one host under one request. A rule that needs an unknown property is reported as not judged.

    ``method_of`` returns the method of a component; it is called only for rules about methods. ``systems`` are the rows
    of the host's system and of the one that it derives from: the defaults of unknown properties. ``compiles`` says
    for a version whether ``check`` has to know if it compiles against the system's C library, and of ""
    if with the compilers of the host; ``named`` are the properties that were given by name.
    """

    def __init__(
        self,
        host: Host,
        method_of: Callable[[str], str] | None = None,
        systems: tuple[System, ...] = (),
        compiles: Callable[[str, str], bool] | None = None,
        named: frozenset[str] = frozenset(),
    ) -> None:
        self.host = host
        self._compiles = compiles
        self._named = named
        self._method_of = method_of
        self._systems = systems
        self._lacking: dict[tuple[When, str, bool], str | None] = {}

    @property
    def is_windows(self) -> bool:
        return self.host.os.family == "windows"

    def system(self, component: str) -> str:
        """The system whose releases of a component count here: in WSL the driver is that of Windows."""
        if component == "driver" and self.host.environment == "wsl":
            return "windows"
        return "windows" if self.is_windows else "linux"

    @cached_property
    def is_known(self) -> bool:
        """Whether everything that the conditions require is known; a host without GPUs has known GPUs."""
        host = self.host
        is_placed = host.arch is not None and host.environment is not None and host.os.id is not None
        return is_placed and all(gpu.kind is not None and gpu.compute_capability for gpu in host.gpus)

    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """The compute capabilities of the host's GPUs, each once."""
        return tuple(dict.fromkeys(gpu.compute_capability for gpu in self.host.gpus if gpu.compute_capability))

    def values(self, property_name: str) -> tuple[str, ...]:
        """The values of a property of the host, or its system's default; () if neither is known.

        A rule must hold for every value.
        """
        if property_name == "compute-capability":
            return self.capabilities
        found = _leading(self.read(property_name)) or _leading(self.default(property_name)[0])
        return tuple(_msc_ver(text) for text in found) if property_name == "msvc" else found

    def read(self, property_name: str) -> str | None:
        """The host's own value of a property, None if it is unknown."""
        host = self.host
        match property_name:
            case "kernel":
                return host.next_kernel or host.kernel
            case "glibc" | "gcc" | "clang" | "msvc" | "python" | "l4t":
                return getattr(host, property_name) or None
            case _:
                return None

    def default(self, property_name: str) -> tuple[str, str]:
        """The system's default of a property, and the name of the system; "" if unknown."""
        # A derivative keeps the base's libraries and compilers; its kernel may be its own. A kernel is that of a point
        # release, which only the host's name tells.
        for system in self._systems[:1] if property_name == "kernel" else self._systems:
            value = getattr(system, property_name, "")
            if value:
                own = self.host.os.name if property_name == "kernel" else ""
                return value, own or self._systems[0].name
        return "", ""

    def least(self, property_name: str) -> str:
        """The oldest default of the releases that a system without its service pack may be, "" if there is one only."""
        if property_name != "glibc" or self.host.glibc:
            return ""
        return next((system.glibc_least for system in self._systems if system.glibc_least), "")

    @property
    def oldest_gcc(self) -> str:
        """The oldest GCC that the system packages, "" if that is unknown."""
        return next((system.gcc_least for system in self._systems if system.gcc_least), "")

    @property
    def has_named_compiler(self) -> bool:
        """Whether somebody named the compiler."""
        return bool(self._named & COMPILERS)

    def is_assumed(self, property_name: str) -> bool:
        """Whether a value is only the system's default for something that differs between hosts or over time."""
        is_fixed = property_name in SYSTEM_FIXED and not any(system.rolling for system in self._systems)
        is_own = is_fixed or bool(_leading(self.read(property_name)))
        return not is_own and bool(_leading(self.default(property_name)[0]))

    def is_compiled_with(self, component: str, version_text: str, property_name: str) -> bool:
        """Whether a toolkit that ``check`` is asked about has to compile with the host's value of a property.

        The C library is the system's. The compiler is the one that is named, else the GCC or Visual C++ that was found;
        the default compiler of a system is one of several that it offers. So is its Python, for bindings.
        """
        if property_name == "glibc":
            is_with = True
        elif property_name == "python" or self._named & COMPILERS:
            is_with = property_name in self._named
        else:
            is_with = property_name != "clang" and not self.is_assumed(property_name)
        is_own = version_text if property_name == "glibc" else ""
        return is_with and self._compiles is not None and self._compiles(component, is_own)

    def runs_modules_of(self, component: str, version_text: str) -> bool:
        """Whether the kernel modules of this release run here, also on the kernel that boots next."""
        host = self.host
        if component != "driver" or host.module is None or not host.module.loaded:
            return False
        return host.module.version == version_text and host.next_kernel in {None, host.kernel}

    def holds(self, rule: Rule, component: str) -> bool:
        """Whether all conditions of a rule of ``component`` are known to hold here."""
        return self.lacking(rule, component) == ""

    def lacking(self, rule: Rule, component: str) -> str | None:
        """The property that is missing to decide a rule's conditions; "" if they hold, None if they do not."""
        is_of_driver = bool(rule.when.os) and "driver" in {component, rule.needs, *rule.equal}
        key = (rule.when, component, is_of_driver)
        if key not in self._lacking:
            self._lacking[key] = self._evaluate(rule.when, component, of_driver=is_of_driver)
        return self._lacking[key]

    def _evaluate(self, when: When, component: str, *, of_driver: bool) -> str | None:
        host = self.host
        answers: list[str | None] = []
        if when.os:
            system = self.system("driver" if of_driver else "")
            is_known = host.os.id is not None or host.os.family is not None or system == "windows"
            family = system if is_known else None
            answers.append(_among(family, (when.os,), "os"))
        if when.system:
            answers.append(_among(host.os.id, when.system, "os"))
        if when.arch:
            answers.append(_among(host.arch, when.arch, "arch"))
        if when.environment:
            answers.append(_among(host.environment, when.environment, "environment"))
        if when.method:
            method = self._method_of(component) if self._method_of else "network"
            answers.append(_among(method, when.method, "method"))
        if when.glibc:
            libraries = self.values("glibc")
            answers.append("glibc" if not libraries else "" if is_within(libraries[0], when.glibc) else None)
        if when.gpu_class or when.compute_capability or when.gpu or when.fabric is not None or when.mig:
            has_switches = bool(host.nvswitches) or any(gpu.fabric == "nvswitch" for gpu in host.gpus)
            is_outside = (when.fabric and self._is_single_in_a_machine_of_its_own) or (
                when.fabric is False and has_switches
            )
            answers.append(None if is_outside else _any_meets(host.gpus, when))
        return _together(answers)

    @cached_property
    def _is_single_in_a_machine_of_its_own(self) -> bool:
        """One GPU of a baseboard in a virtual machine: its NVSwitches, and their manager, stay outside."""
        return self.host.environment == "vm" and self.host.nvswitches == 0 and len(self.host.gpus) == 1

    def gpus_with(self, capability: str) -> tuple[str, ...]:
        """The names of the GPUs of that compute capability."""
        return tuple(dict.fromkeys(gpu.called for gpu in self.host.gpus if gpu.compute_capability == capability))


def _among(value: str | None, wanted: tuple[str, ...], name: str) -> str | None:
    """Whether a value meets a condition: "" yes, None no, and the name of the property if it is unknown."""
    return name if value is None else "" if value in wanted else None


def _together(answers: list[str | None]) -> str | None:
    """Whether all conditions are met: None if one is not, else what is missing, if anything."""
    return None if None in answers else next((answer for answer in answers if answer), "")


def _any_meets(gpus: tuple[Gpu, ...], when: When) -> str | None:
    """Whether any GPU meets the conditions: "" yes, None no, and the missing property if unknown."""
    answers = [_gpu_meets(gpu, when) for gpu in gpus] or ["gpu"]
    return "" if "" in answers else next((answer for answer in answers if answer), None)


def _gpu_meets(gpu: Gpu, when: When) -> str | None:
    answers: list[str | None] = []
    if when.gpu_class:
        answers.append(_among(gpu.kind, when.gpu_class, "gpu"))
    if when.gpu:
        answers.append(_among(gpu.name, when.gpu, "gpu"))
    if when.mig:
        answers.append("" if gpu.is_mig else None)
    if when.fabric is not None:
        answers.append("" if (gpu.fabric == "nvswitch") == when.fabric else None)
    if when.compute_capability:
        answers.append(_of_capability(gpu.compute_capability, when.compute_capability))
    return _together(answers)


def _of_capability(capability: str | None, wanted: str) -> str | None:
    if not capability:
        return "compute-capability"
    return "" if is_within(capability, wanted) else None


def _msc_ver(text: str) -> str:
    """The _MSC_VER of a Visual C++: 1944 for 19.44."""
    major, _, rest = text.partition(".")
    return f"{major}{rest.partition('.')[0].zfill(2)[:2]}" if rest and len(major) == 2 else text


def _leading(text: str | None) -> tuple[str, ...]:
    match = _LEADING_VERSION.match(text or "")
    return (match.group(),) if match else ()
