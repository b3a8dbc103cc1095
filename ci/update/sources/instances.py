"""Machine types of clouds with GPUs: AWS's in Karpenter's documents, Google's Cluster Toolkit, SkyPilot's lists.

A GPU is known by the provider's word for it; a word that is new stops the source: its device is a person's business.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from update.form import text_of
from update.record import Body, Found, Given, Row, refuse

HAND_OUT = "instance-types.md of Karpenter, gpu-definition/main.tf of Cluster Toolkit, oci/vms.csv of SkyPilot"
_WORDS = {
    "0x15f9": "oci/P100",
    "0x1db1": "oci/V100",
    "0x1db5": "aws/v100",
    "0x1eb4": "aws/t4g",
    "0x1eb8": "aws/t4",
    "0x20b0": "aws/a100-40 gcp/nvidia-tesla-a100 oci/A100",
    "0x20b2": "aws/a100-80 gcp/nvidia-a100-80gb oci/A100-80GB",
    "0x2236": "oci/A10",
    "0x2237": "aws/a10g",
    "0x2330": "aws/h100 gcp/nvidia-h100-80gb gcp/nvidia-h100-mega-80gb oci/H100",
    "0x2335": "aws/h200 gcp/nvidia-h200-141gb oci/H200",
    "0x26b9": "aws/l40s oci/L40S",
    "0x27b8": "aws/l4 gcp/nvidia-l4",
    "0x2901": "aws/b200 gcp/nvidia-b200 oci/B200",
    "0x2941": "gcp/nvidia-gb200 oci/GB200",
    "0x2bb5": "aws/rtx-pro-server-6000 gcp/nvidia-rtx-pro-6000 oci/RTXPRO6000",
    "0x2c3a": "aws/rtx-pro-4500",
    "0x3182": "aws/b300 oci/B300",
    "0x31c2": "oci/GB300",
}
"""What each provider calls a device."""
_DEVICES = {word: device for device, words in _WORDS.items() for word in words.split()}
_ON_ARM = frozenset({"0x2941", "0x31c2"})
"""Superchips: their processors are Arm's."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9.-]{2,40}")
_COUNT = re.compile(r"\d{1,2}")
_LABEL = re.compile(r"\|(?:karpenter\.k8s\.aws|kubernetes\.io)/([a-z-]+)\|([^|\n]*)\|")
_TYPE = re.compile(r'"([^"\n]+)"\s+= \{ type = "([^"\n]+)", count = (\d+) \}')
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_WHOLE_OF_A100 = "a100"
"""AWS has one word for the A100 with either memory."""


class _Type(NamedTuple):
    name: str
    gpu: str
    count: str
    arch: str = ""


def rows(bodies: Sequence[Body]) -> Given:
    """One row for each machine type with NVIDIA's GPUs."""
    found: list[Found] = []
    for body in bodies:
        of = next((about for pattern, *about in _READ if pattern.fullmatch(body.address)), None)
        if of is None:
            raise refuse(body.address, "lists no machine types that the facts use")
        provider, src, read = of
        found += [Found("gpu-names", "instances", _row(one, provider, src)) for one in read(body)]
        if not found:
            raise refuse(body.address, "names no machine type with a GPU")
    return Given(tuple({one.row["name"]: one for one in found}.values()))


def _row(one: _Type, provider: str, src: str) -> Row:
    if not _NAME.fullmatch(one.name) or not _COUNT.fullmatch(one.count):
        raise refuse(one.name, f"has {one.count!r} GPUs")
    device = _DEVICES.get(f"{provider}/{one.gpu}")
    if device is None:
        raise refuse(one.name, f"has the unknown GPU {one.gpu!r}")
    arch = one.arch or ("aarch64" if device in _ON_ARM else "x86_64")
    row: Row = {"name": one.name, "provider": provider, "devices": [device], "count": one.count, "arch": arch}
    part = {} if int(one.count) else {"count": "1", "share": "vgpu"}  # a part of one GPU counts as none
    return {**row, **part, "src": [src]}


def _of_aws(body: Body) -> Iterator[_Type]:
    for block in text_of(body).split("\n### `")[1:]:
        labels = dict(_LABEL.findall(block))
        if labels.get("instance-gpu-manufacturer") == "nvidia":
            gpu, memory = labels.get("instance-gpu-name", ""), labels.get("instance-gpu-memory", "")
            if gpu == _WHOLE_OF_A100 and memory.isdecimal():
                gpu = f"{gpu}-{int(memory[:6]) // 1024}"
            machine = _MACHINES.get(labels.get("arch", ""))
            if machine is None:
                raise refuse(body.address, f"has no architecture for {block[:40]!r}")
            yield _Type(block.partition("`")[0], gpu, labels.get("instance-gpu-count", ""), machine)


def _of_gcp(body: Body) -> Iterator[_Type]:
    yield from (_Type(*found) for found in _TYPE.findall(text_of(body)))


def _of_oci(body: Body) -> Iterator[_Type]:
    try:
        for line in csv.DictReader(text_of(body).splitlines()):
            if "'NVIDIA'" in (line.get("GpuInfo") or ""):
                values = (line.get(name) or "" for name in ("InstanceType", "AcceleratorName", "AcceleratorCount"))
                yield _Type(*values)
    except csv.Error as exc:
        raise refuse(body.address, f"is no table: {exc}") from exc


_READ: tuple[tuple[re.Pattern[str], str, str, Callable[[Body], Iterator[_Type]]], ...] = (
    (re.compile(r"https://github\.com/aws/karpenter-provider-aws/blob/\w+/.+\.md"), "aws", "karpenter", _of_aws),
    (re.compile(r"https://github\.com/GoogleCloudPlatform/cluster-toolkit/.+\.tf"), "gcp", "cluster_toolkit", _of_gcp),
    (re.compile(r"https://github\.com/skypilot-org/skypilot-catalog/.+/oci/vms\.csv"), "oci", "skypilot", _of_oci),
)
