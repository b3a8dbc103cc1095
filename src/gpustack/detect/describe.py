"""A host described by options instead of detected: system, architecture, GPUs, driver."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from gpustack.detect.jetpack import demand_supported, is_board, newest_l4t
from gpustack.detect.machines import Named, architecture_of, demand_possible, processor_of, resolve
from gpustack.detect.products import Products
from gpustack.detect.properties import Properties, changed
from gpustack.detect.system_names import parse_system
from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.model.architectures import architecture
from gpustack.model.host import Environment, Gpu, Host, OperatingSystem
from gpustack.model.places import System

MAX_GPUS = 64


def describe(  # noqa: PLR0913 (one argument for each option that describes a host)
    matrix: Matrix,
    *,
    os: str,
    arch: str | None,
    gpus: tuple[str, ...] = (),
    driver: str | None = None,
    properties: Properties | None = None,
) -> Host:
    """The host of these options; ``arch`` defaults to that of its GPU's processor, else x86_64 (a Jetson: aarch64).

    Raises UsageError for invalid values and UnsupportedError for an unknown system.
    """
    system, version = parse_system(os, matrix)
    given = properties or Properties()
    named = _resolve_gpus(matrix, gpus)
    environment = given.environment or _environment(system)
    found = tuple(gpu for one in named for gpu in one.gpus)
    if given.environment is None and environment == "bare-metal" and any(gpu.is_vgpu for gpu in found):
        environment = "vm"
    if environment in {"bare-metal", "container"} and _is_board(system, found):
        environment = "jetson"  # a container on a Jetson runs what its Jetson Linux runs
    host = Host(
        os=OperatingSystem(
            id=system.id,
            version_id=version or None,
            family=system.family or None,
            name=_name(system, version),
            eol=system.eol or None,
            codename=system.codename or None,
            repo=system.repo or None,
            base=system.base or None,
            system=system.key,
        ),
        arch=_architecture(arch, named) or _usual(environment, found, matrix),
        environment=environment,
        glibc=None if system.rolling or system.glibc_least else system.glibc or None,
        l4t=newest_l4t(version, matrix) if system.id == "l4t" else UNSET,
        described=True,
    )
    demand_possible(host.arch, found, matrix)
    if host.l4t:
        demand_supported(host.l4t, found, matrix)
    own = given.environment and environment
    return changed(host, replace(given, driver=driver or given.driver, environment=own), found)


def _usual(environment: Environment, gpus: tuple[Gpu, ...], matrix: Matrix) -> str:
    """The default architecture: that of the processor that a GPU is combined with, else the usual one."""
    needed = next((arch for gpu in gpus if (arch := processor_of(gpu, matrix)[0])), "")
    return needed or ("aarch64" if environment == "jetson" else "x86_64")


def redescribed(matrix: Matrix, host: Host, *, gpus: tuple[str, ...], properties: Properties) -> Host:
    """A detected host with the given GPUs and properties in place of its own. Raises UsageError."""
    found = tuple(gpu for one in _resolve_gpus(matrix, gpus) for gpu in one.gpus)
    demand_possible(host.arch, found, matrix)
    return changed(host, properties, found)


def _is_board(system: System, gpus: tuple[Gpu, ...]) -> bool:
    """Whether a system runs on a Jetson module, by its name or its GPU."""
    return system.id == "l4t" or (system.family != "windows" and any(is_board(gpu) for gpu in gpus))


def _name(system: System, version: str) -> str:
    """The row's name; if the row covers several releases, with the requested one."""
    asked = version.lstrip("vV")
    return (
        system.name.replace(system.version, asked, 1)
        if system.version and system.version in system.name
        else system.name
    )


def _resolve_gpus(matrix: Matrix, names: tuple[str, ...]) -> list[Named]:
    products = Products(matrix)
    named = [resolve(name, matrix, products) for name in names[: MAX_GPUS + 1]]
    count = max(len(names), sum(len(one.gpus) for one in named))
    if count > MAX_GPUS:
        msg = f"{count} GPUs: no host has so many"
        raise UsageError(msg, code="invalid-value", where="--gpu", hint=f"name at most {MAX_GPUS}")
    return named


def _architecture(text: str | None, named: list[Named]) -> str | None:
    machines = [one.machine for one in named if one.machine is not None]
    machine = architecture_of(machines)
    if text is None:
        return machine
    found = architecture(text.strip().lower())
    if found is not None and machine not in {None, found.name}:
        msg = f"{machines[0].name} is a machine of architecture {machine}, not {found.name}"
        raise UsageError(msg, code="conflicting-options", where="--arch", hint=f"leave --arch out, or give {machine}")
    if found is None:
        msg = f"{text[:40]!r} is not an architecture that NVIDIA's software exists for"
        raise UsageError(
            msg, code="unknown-architecture", where="--arch", hint="x86_64 (amd64), aarch64 (arm64, sbsa) or ppc64le"
        )
    return found.name


def _environment(system: System) -> Environment:
    if system.id.startswith("wsl-"):
        return "wsl"
    return "bare-metal"
