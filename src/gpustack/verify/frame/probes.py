"""The output of the probe programs: JSON lines, and the GPUs that they are about."""

import os
import sys
from typing import Any

import msgspec

from gpustack.model.host import Gpu, Host
from gpustack.system.run import Finished
from gpustack.verify.declare import Context
from gpustack.verify.frame import host_facts
from gpustack.verify.samples import place


def parse_lines(text: str) -> list[dict[str, Any]]:
    """The JSON objects among the lines of ``text``; other lines, which libraries print, are ignored."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:
                continue
    return found


def python_probe(
    context: Context, name: str, *arguments: str, timeout: float, beside: tuple[str, ...] = (), libraries: str = ""
) -> Finished:
    """Run a probe of this package with the Python that runs gpustack, which has the required modules.

    ``beside`` are files that it reads; ``libraries`` comes after the loader's own path.
    """
    script, *_ = place(context.folder, name, *beside)
    env = {"PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)}
    if libraries:
        env["LD_LIBRARY_PATH"] = ":".join(part for part in (os.environ.get("LD_LIBRARY_PATH"), libraries) if part)
    return context.run(sys.executable, str(script), *arguments, timeout=timeout, env=env)


def bus(text: str | None) -> str:
    """A bus address in one form: NVML writes eight digits of domain, CUDA four, /proc/driver small letters."""
    parts = (text or "").lower().split(":")
    return ":".join((parts[0][-4:].rjust(4, "0"), *parts[1:])) if len(parts) == 3 else (text or "").lower()


def gpu_at(host: Host, place_on_bus: str | None) -> Gpu | None:
    """The host's GPU at that address."""
    return next((gpu for gpu in host.gpus if bus(gpu.bus_id) == bus(place_on_bus)), None) if place_on_bus else None


def gpu_label(host: Host, line: dict[str, Any]) -> str:
    """The name of the GPU that a probe's line is about."""
    gpu = gpu_at(host, line.get("bus") or line.get("bus_id"))
    if gpu is not None:
        return host_facts.name_of(gpu)
    called = line.get("called") or line.get("name")
    number = line.get("gpu", line.get("index"))
    return str(called) if called else f"GPU {number}"
