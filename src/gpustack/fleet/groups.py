"""Equal hosts as one: what makes two hosts the same for a plan, and the names of classes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET, structs

from gpustack.model.host import Gpu, Host

Requirements = tuple[str, ...]


def without_identity(host: Host) -> Host:
    """The host without what differs between equal machines: its name, serials, places on the bus, notes about looks."""
    gpus = tuple(structs.replace(gpu, uuid=None, bus_id=None) for gpu in host.gpus)
    return structs.replace(host, name=UNSET, gpus=gpus, looked=None)


def key_of(host: Host) -> str:
    """Equal for hosts that get the same plan for the same requirements."""
    plain = msgspec.to_builtins(without_identity(host))
    # The text of a problem quotes logs with times; its fix and weight are what a plan uses.
    plain["problems"] = sorted((one.id, one.severity, one.fix) for one in host.problems)
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


def grouped(
    hosts: Iterable[tuple[str, Host]], requirements: Mapping[str, Requirements]
) -> list[tuple[Host, Requirements, list[str]]]:
    """The classes: the host that stands for each, its requirements, its hosts; the largest first."""
    found: dict[tuple[str, Requirements], tuple[Host, Requirements, list[str]]] = {}
    for name, host in hosts:
        asked = requirements.get(name, ())
        key = (key_of(host), asked)
        if key not in found:
            found[key] = (without_identity(host), asked, [])
        found[key][2].append(name)
    return sorted(found.values(), key=lambda one: (-len(one[2]), one[2]))


def names_of(classes: list[tuple[Host, Requirements, list[str]]]) -> list[str]:
    """A name for each class: of its system and GPUs; of several such, the smaller ones add their first host."""
    taken: set[str] = set()
    names = []
    for host, _, members in classes:
        name = f"{_word(host.os.system or host.os.spelled)}_{_word(gpus_of(host)) or 'no_gpu'}"
        if name in taken:
            name = f"{name}_{_word(members[0])}"
        while name in taken:
            name += "_x"
        taken.add(name)
        names.append(name)
    return names


def gpus_of(host: Host) -> str:
    """The GPUs in a few words: 8 x H100 SXM."""
    counts = Counter(_called(gpu) for gpu in host.gpus)
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())


def _called(gpu: Gpu) -> str:
    return gpu.called


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("nvidia ", "")).strip("_")[:60]
