"""``gpustack fetch``: an air-gapped bundle."""

import os
from pathlib import Path
from typing import Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.options import MinSpeedOption, MirrorOption
from gpustack.cli.outputs import folder


@command("fetch", example="gpustack fetch plan.json --to /media/usb/stack")
def fetch(
    plan: Annotated[Path, Argument(metavar="PLAN.json", help="A plan that `gpustack plan --out` saved.")],
    to: Annotated[Path, Option("--to", metavar="DIR", help="The folder of the bundle.")],
    root: Annotated[
        Path | None,
        Option("--root", metavar="DIR", help="Choose packages for the system in this tree, not this machine."),
    ] = None,
    mirror: MirrorOption = None,
    min_speed: MinSpeedOption = None,
) -> int:
    """Download everything that a plan needs into a bundle, for offline installation.

    Packages and their dependencies come from the real package manager in a separate tree (requires root).
    """
    from gpustack.cli.progress import Progress
    from gpustack.errors import GpustackError
    from gpustack.install.supply.bundling import Maker, brings_packages, demand_same_system
    from gpustack.install.supply.downloads import Fetcher, parse_mirrors, patience_of
    from gpustack.plan.document import load

    # Nobody else may write what root creates, whatever the umask of the caller.
    os.umask(0o022 | os.umask(0o022))
    folder(to, "--to")
    made = load(plan)
    if brings_packages(made):
        from gpustack.detect.api import detect

        demand_same_system(made, detect(root, frame.matrix()))
        if os.geteuid() != 0:
            msg = "packages are resolved in a separate tree, which only root can create"
            raise GpustackError(msg, code="root-required", hint=f"sudo gpustack fetch {plan} --to {to}")
    report = Progress()
    fetcher = Fetcher(mirrors=parse_mirrors(mirror or []), patience=patience_of(min_speed), say=report.say)
    bundle = Maker(root or Path("/"), fetcher, report.transfer, report.say).make(made, to)
    for text in bundle.manifest.left:
        frame.warn(text)
    size = sum(file.size for file in bundle.manifest.files.values())
    frame.page(
        f"{to}: {len(bundle.manifest.files)} files, {size / 2**20:,.1f} MiB, {len(bundle.lock.packages)} packages\n"
        f"signed with the key {bundle.manifest.fingerprint}\n"
        f"install it with: gpustack install --bundle {to} --fingerprint {bundle.manifest.fingerprint}",
        fault=GpustackError,
    )
    return 0
