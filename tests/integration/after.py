"""The machine after a plan: what the program finds in the tree, on the board and kernel that a tree has not."""

from __future__ import annotations

from msgspec.structs import replace
from tests.integration.field import Scene
from tests.integration.roots import Root

from gpustack.detect.api import detect
from gpustack.matrix.index import load_matrix
from gpustack.model.host import Host, KernelModule
from gpustack.model.plan import Plan
from gpustack.plan.build import build
from gpustack.solve.resolve import resolve


def host_after(root: Root, scene: Scene) -> Host:
    """The described machine with all that package managers and configuration files of the tree tell of it.

    The loaded module is the one of the planned driver: a tree is never booted.
    """
    found = detect(root.path, load_matrix(scene.overlay))
    driver = scene.plan.stack.get("driver")
    module = KernelModule(version=driver.version, flavour=driver.flavour or None, loaded=True) if driver else None
    return replace(
        scene.plan.host,
        installed=found.installed,
        module=module,
        repositories=found.repositories,
        keys=found.keys,
        pins=found.pins,
        holds=found.holds,
        streams=found.streams,
    )


def planned_again(host: Host, scene: Scene) -> Plan:
    """The plan for what was asked of the scene, on another state of its machine."""
    matrix = load_matrix(scene.overlay)
    request = scene.plan.request
    return build(host, request, resolve(matrix, host, request), matrix)
