"""Hosts that differ from their peers: a host that lost a GPU, or has another driver than the rest of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gpustack.model.host import Host

_ENOUGH = 3
"""So many hosts of one kind show what is usual, if most of them agree."""


def remarks_of(hosts: Mapping[str, Host]) -> dict[str, tuple[str, ...]]:
    """What is remarkable about each host; hosts without a remark are omitted."""
    found = {name: [] if host.gpus else ["no NVIDIA GPU"] for name, host in hosts.items()}
    kinds: dict[tuple[str, str | None], list[str]] = {}
    for name, host in hosts.items():
        for gpu in dict.fromkeys(gpu.called for gpu in host.gpus):
            kinds.setdefault((gpu, host.arch), []).append(name)
    for (gpu, _), names in kinds.items():
        usual = _usual({name: sum(one.called == gpu for one in hosts[name].gpus) for name in names})
        for name in names:
            count = sum(one.called == gpu for one in hosts[name].gpus)
            if usual is not None and count < usual:
                found[name].append(f"{count} of {usual} {gpu}: {usual - count} of its peers' GPUs are not on its bus")
    return {name: tuple(remarks) for name, remarks in found.items() if remarks}


def _usual(counts: Mapping[str, int]) -> int | None:
    """The number that more than half of the hosts have; None if there are too few, or none."""
    if len(counts) < _ENOUGH:
        return None
    number, times = Counter(counts.values()).most_common(1)[0]
    return number if times * 2 > len(counts) else None
