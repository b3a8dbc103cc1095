"""What planning a fleet costs: simulated hosts of 40 classes, from their documents to grouped plans.

python3 ci/fleet_benchmark.py [HOSTS ...]     (1000 3000 10000 by default)

Each number is planned by a process of its own, whose time and memory the table shows.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = (
    "ubuntu22.04", "ubuntu24.04", "debian12", "rhel8.10", "rhel9.4", "rocky9.4", "sles15.6", "amzn2023", "fedora42",
    "almalinux9.4",
)  # fmt: skip
GPUS = (("H200", 8), ("A100-SXM4-80GB", 4), ("L40S", 2), ("T4", 1))
RECORDED = ROOT / "tests/fixtures/hosts/ubuntu2404-h200-recorded"
"""A real host: how much a document says besides system and GPUs."""


def write_hosts(folder: Path, count: int) -> int:
    """Write the documents of so many hosts; how many bytes they are."""
    from msgspec import structs

    from gpustack.detect.api import detect
    from gpustack.detect.describe import describe
    from gpustack.fleet.store import write_fleet
    from gpustack.matrix.index import load_matrix
    from gpustack.model.fleet import Fleet, Member

    matrix = load_matrix()
    real = detect(RECORDED, matrix)
    kinds = []
    for system in SYSTEMS:
        for name, number in GPUS:
            kind = describe(matrix, os=system, arch="x86_64", gpus=(name,) * number)
            kinds.append(structs.replace(kind, described=False, copies=real.copies, looked=real.looked))
    hosts = {}
    for number in range(count):
        kind = kinds[number % len(kinds)]
        gpus = tuple(
            structs.replace(gpu, uuid=f"GPU-{number:08x}-{place}", bus_id=f"0000:{place + 1:02x}:00.0")
            for place, gpu in enumerate(kind.gpus)
        )
        hosts[f"node{number:05}"] = structs.replace(kind, name=f"node{number:05}", gpus=gpus)
    members = tuple(Member(name=name, groups=("gpu",)) for name in hosts)
    write_fleet(folder, Fleet(date="2026-11-24", inventories=("hosts.ini",), hosts=members), hosts)
    return sum(path.stat().st_size for path in folder.glob("*/host.json"))


def measure(count: int) -> str:
    """One row of the table."""
    with tempfile.TemporaryDirectory() as name:
        snap = Path(name) / "snap"
        size = write_hosts(snap, count)
        command = [sys.executable, "-m", "gpustack", "fleet", "plan", str(snap), "driver", "cuda", "cudnn"]
        started = time.monotonic()
        process = subprocess.Popen(
            [*command, "--out", str(Path(name) / "plans"), "-q"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            text=True,
        )
        out = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        code = os.waitstatus_to_exitcode(status)
        if code not in {0, 3}:
            sys.exit(f"fleet plan ended with {code}:\n{out}")
    cpu = usage.ru_utime + usage.ru_stime
    classes = out.splitlines()[-1].partition(" classes")[0].rpartition(" ")[2]
    return (
        f"| {count} | {classes} | {size / 1e6:.0f} MB | {wall:.1f} s | {cpu:.1f} s | {usage.ru_maxrss / 1024:.0f} MiB |"
    )


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [1000, 3000, 10000]
    print("| hosts | classes | documents | time | CPU | memory |", flush=True)
    print("|---|---|---|---|---|---|", flush=True)
    for count in counts:
        print(measure(count), flush=True)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB", file=sys.stderr)


if __name__ == "__main__":
    main()
