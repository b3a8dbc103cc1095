"""The real nvcc out of the wheels that the tests install, and a host of its release for the checks that call it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from gpustack.model.host import Gpu, Host, Installed, OperatingSystem
from gpustack.model.results import CheckResult
from gpustack.verify.declare import Context, checks_of
from gpustack.verify.frame import runner

TOOLKIT = Path(sysconfig.get_path("purelib")) / "nvidia/cu13"
HOST = Host(
    os=OperatingSystem(id="debian", version_id="12", family="apt"),
    arch="x86_64",
    environment="bare-metal",
    gpus=(Gpu(name="L4", pci_id="10de:27b8", bus_id="0000:01:00.0", compute_capability="8.9"),),
    installed={"cuda": Installed(version="13.0.2", method="network")},
)


def answered(context: Context, identity: str) -> CheckResult:
    """What a check answers here."""
    check = next(one for one in checks_of(identity.partition(".")[0]) if one.id == identity)
    return runner._Answer(context, runner._Required(frozenset(), frozenset()))(check, {}, context.work)
