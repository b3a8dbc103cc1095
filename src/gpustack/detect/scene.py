"""Everything parsed from the evidence of one machine, for the detectors of problems."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse import driver, kernel, libraries, packages, pci, platform, repositories, sources, toolkit
from gpustack.detect.parse.os_release import operating_system, parse_os_release
from gpustack.detect.parse.packages import Package
from gpustack.detect.parse.pci import PciFunction
from gpustack.detect.parse.release_files import by_release_files
from gpustack.detect.parse.repositories import SourceEntry
from gpustack.detect.parse.toolkit import Toolkit
from gpustack.detect.products import Products, device_digits, gpu_of, jetson_gpu
from gpustack.matrix.index import Matrix
from gpustack.model.host import Copy, Environment, Gpu, KernelModule, OperatingSystem
from gpustack.model.places import System, find_system

BY_NAME = ("kind", "nvenc", "architecture", "open_module", "driver_first", "driver_last")
"""What the name of a GPU tells where several devices have that name."""


class Scene(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One machine, parsed. ``told`` are the values of os-release; ``system`` is the matrix row that covers it."""

    evidence: Evidence
    matrix: Matrix
    told: dict[str, str]
    os: OperatingSystem
    system: System | None
    packages: tuple[Package, ...]
    kernel: str | None
    next_kernel: str | None
    arch: str | None
    environment: Environment | None
    modules: tuple[str, ...]
    functions: tuple[PciFunction, ...]
    gpus: tuple[Gpu, ...]
    module: KernelModule | None
    copies: tuple[Copy, ...]
    toolkits: tuple[Toolkit, ...]
    sources: tuple[SourceEntry, ...]
    keys: tuple[str, ...]
    secure_boot: bool | None
    products: Products

    @property
    def driver_is_loaded(self) -> bool:
        """Whether the driver's module is in the running kernel."""
        return self.module is not None and self.module.loaded

    @property
    def flavour(self) -> Literal["open", "proprietary"] | None:
        """The flavour of the driver's module, loaded or installed."""
        return self.module.flavour if self.module is not None else None

    @property
    def container(self) -> str:
        """The kind of container by its engine's own word, as lxc; "" without one."""
        return platform.container_kind(self.evidence)

    @property
    def library_version(self) -> str | None:
        """The version of the libcuda that programs load."""
        found = libraries.driver_library(self.copies)
        return found.version if found is not None else None

    @property
    def driver_version(self) -> str | None:
        """The driver's version: of the loaded module, else the library, the packages, the installed module, NVML."""
        loaded = self.module.version if self.module is not None and self.module.loaded else None
        nvml = (self.evidence.nvml or {}).get("driver")
        found = loaded or self.library_version or driver.package_version(self.packages)
        if found is None and self.module is not None:
            found = self.module.version
        return found or (nvml if isinstance(nvml, str) and nvml[:1].isdigit() else None)

    def installed(self, pattern: str) -> tuple[Package, ...]:
        """The installed packages whose whole name matches."""
        return packages.matching(self.packages, pattern)

    @cached_property
    def files_like(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        """The paths of files by the patterns that somebody has asked for."""
        return {}

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The enabled module streams of the driver."""
        return repositories.streams(self.evidence)

    @cached_property
    def source_faults(self) -> dict[repositories.SourceEntry, str]:
        """The enabled sources of NVIDIA's that cannot be used, and why."""
        keys = tuple(self.matrix.keys)
        mine = [one for one in self.sources if one.enabled and one.is_nvidia]
        found = {one: sources.fault(self.evidence, one, self.sources, keys) for one in mine}
        return {one: why for one, why in found.items() if why}

    @property
    def nvswitches(self) -> int | None:
        """The number of NVSwitches on the bus or in the driver; None if neither could be read."""
        shown = len(self.evidence.listings.get("/proc/driver/nvidia-nvswitch/devices", ()))
        if pci.BASE not in self.evidence.listings and not shown:
            return None
        ids = {device_digits(str(row.get("device"))) for row in self.matrix.rows("gpus", "nvswitches", dict)}
        return max(shown, sum(function.device in ids for function in self.functions))


def build_scene(evidence: Evidence, matrix: Matrix) -> Scene:
    """All parsers over one machine's evidence."""
    found = packages.all_packages(evidence)
    text = evidence.text("/etc/os-release", "/usr/lib/os-release")
    told = parse_os_release(text) if text is not None else by_release_files(evidence)
    running = kernel.running_kernel(evidence)
    environment = platform.environment(evidence, running)
    products = Products(matrix)
    modules = kernel.loaded_modules(evidence)
    functions = pci.parse_functions(evidence)
    system, os = _system(evidence, matrix, told, found, environment)
    return Scene(
        evidence=evidence,
        matrix=matrix,
        told=told,
        os=os,
        system=system,
        packages=found,
        kernel=running,
        next_kernel=None if environment in {"container", "wsl"} else kernel.next_kernel(evidence, found),
        arch=kernel.architecture(evidence, found, running),
        environment=environment,
        modules=modules,
        functions=functions,
        gpus=find_gpus(evidence, products, functions),
        module=driver.kernel_module(evidence, found, modules),
        copies=libraries.find_copies(evidence),
        toolkits=toolkit.find_toolkits(evidence, found),
        sources=repositories.all_sources(evidence),
        keys=repositories.host_keys(evidence, found, tuple(matrix.keys)),
        secure_boot=platform.secure_boot(evidence),
        products=products,
    )


def _system(
    evidence: Evidence,
    matrix: Matrix,
    told: dict[str, str],
    found: tuple[Package, ...],
    environment: Environment | None,
) -> tuple[System | None, OperatingSystem]:
    managers = {package.manager for package in found}
    has_dpkg = evidence.has("/var/lib/dpkg/status")
    hint = "apt" if has_dpkg or "dpkg" in managers else "dnf" if "rpm" in managers else None
    os = operating_system(told, matrix.systems, manager_hint=hint)
    special = _special(evidence, matrix, told, environment)
    if special is None:
        return matrix.system(os.system), os
    plain_base = f"{os.id}{os.version_id}" if os.id and os.version_id else None
    return special, OperatingSystem(
        id=os.id,
        version_id=os.version_id,
        family=special.family or os.family,
        name=os.name,
        eol=os.eol,
        codename=os.codename,
        like=os.like,
        repo=special.repo or None,
        base=special.base or plain_base,
        system=special.key,
    )


def _special(
    evidence: Evidence, matrix: Matrix, told: dict[str, str], environment: Environment | None
) -> System | None:
    """The row of a system that os-release does not distinguish from its parent: WSL, Jetson, DGX OS, Armbian."""
    version = told.get("VERSION_ID")
    if environment == "wsl":
        return find_system(matrix.systems, f"wsl-{told.get('ID', '')}", version)
    if environment == "jetson":
        release = platform.l4t_release(evidence)
        return find_system(matrix.systems, "l4t", release.partition(".")[0]) if release else None
    marks = {"/etc/dgx-release": "dgx-os", "/etc/armbian-release": "armbian"}
    return next((find_system(matrix.systems, name, None) for path, name in marks.items() if evidence.has(path)), None)


def find_gpus(evidence: Evidence, products: Products, functions: tuple[PciFunction, ...]) -> tuple[Gpu, ...]:
    """The GPUs on the bus in its order, completed by NVML; only NVML's or the Jetson's if the bus shows none."""
    answers = _nvml_gpus(evidence)
    by_bus = {_bus(gpu.get("bus_id")): gpu for gpu in answers}
    found = [
        _gpu(products, function, by_bus) for function in functions if function.is_gpu or _is_known(products, function)
    ]
    if not found:
        found = [_gpu(products, _nvml_function(gpu), by_bus) for gpu in answers]
    if not found:
        chip = platform.tegra_chip(evidence)
        model = evidence.line("/proc/device-tree/model")
        own = jetson_gpu(products.integrated(), chip, model) if chip else None
        found = [own] if own is not None else []
    return tuple(found)


def _is_known(products: Products, function: PciFunction) -> bool:
    """Whether a function of unknown class is a GPU, by its device id."""
    return function.kind is None and function.device is not None and products.knows(function.device)


def _nvml_gpus(evidence: Evidence) -> list[dict[str, object]]:
    gpus = (evidence.nvml or {}).get("gpus")
    return [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []


def _nvml_function(gpu: dict[str, object]) -> PciFunction:
    """A GPU that only NVML shows, as a function on the bus; NVML's words contain the device in their upper half."""
    device, subsystem = _positive(gpu.get("device_id")), _positive(gpu.get("subsystem_id"))
    return PciFunction(
        bus_id=_bus(gpu.get("bus_id")) or "",
        device=f"{device >> 16 & 0xFFFF:04x}" if device else None,
        subsystem=f"{subsystem & 0xFFFF:04x}:{subsystem >> 16 & 0xFFFF:04x}" if subsystem else None,
    )


def _bus(text: object) -> str | None:
    """A bus address in the kernel's notation: NVML writes the domain with eight digits and capital letters."""
    if not isinstance(text, str) or text.count(":") < 2:
        return None
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _gpu(products: Products, function: PciFunction, by_bus: dict[str | None, dict[str, object]]) -> Gpu:
    device, answer = function.device, by_bus.get(function.bus_id or None, {})
    product = products.find(device, function.subsystem) if device else None
    seen = {
        "subsystem_id": function.subsystem,
        "bus_id": function.bus_id or None,
        "bound": function.bound,
        "memory_mib": _positive(answer.get("memory_mib")),
        "uuid": _string(answer.get("uuid")),
        "compute_capability": _string(answer.get("compute_capability")),
    }
    split = {"part": "MIG"} if answer.get("mig") == 1 else {}
    if product is not None:
        return gpu_of(product, **seen, **split)
    own = {"name": _string(answer.get("name")), "pci_id": f"10de:{device}" if device else None}
    more = {field: answer[field] for field in BY_NAME if answer.get(field) is not None}
    return msgspec.convert({**own, **more, **seen, **split}, Gpu)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
