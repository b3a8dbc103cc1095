"""``gpustack fleet verify``."""

from pathlib import Path
from typing import Annotated

from gpustack.cli import frame
from gpustack.cli.declare import REQUIRED, Argument, Option, command
from gpustack.cli.fleet_options import Forks, Inventory, Level, Limit, ProgramFile, demand_inventory, interruptible
from gpustack.cli.outputs import folder


@command("fleet verify", example="gpustack fleet verify -i hosts.ini driver cuda --level smoke --out reports")
def fleet_verify(
    out: Annotated[Path, Option("--out", metavar="DIR", help="Where fleet.json and HOST/report.json go.")] = REQUIRED,
    components: Annotated[
        list[str] | None, Argument(metavar="COMPONENT...", help="driver, cuda ...; all if none is named.")
    ] = None,
    inventory: Inventory = None,
    limit: Limit = None,
    level: Annotated[Level, Option("--level", help="quick reads, smoke and full run programs.")] = Level.QUICK,
    program: ProgramFile = None,
    forks: Forks = None,
) -> int:
    """Verify the hosts of an inventory and fetch their reports. A verification that did not run is a failure."""
    from gpustack.fleet.engine import FORKS
    from gpustack.fleet.verify import faults_of, verify_fleet

    inventories = demand_inventory(inventory)
    with interruptible() as (is_stopped, tell):
        fleet, reports = verify_fleet(
            inventories,
            [*(components or ()), "--level", level.value],
            folder(out, "--out"),
            limit=limit or "",
            program=program,
            forks=forks or FORKS,
            is_stopped=is_stopped,
            tell=tell,
        )
    faults = {name: faults_of(report) for name, report in reports.items()}
    lines = [f"{one.name}: {one.state}: {one.reason}" for one in fleet.hosts if one.state != "answered"]
    lines += [f"{name}: {text}" for name, texts in faults.items() for text in texts]
    passed = sum(not texts for texts in faults.values())
    lines.append(f"{passed} of {len(fleet.hosts)} hosts passed; reports are in {out}")
    frame.page("\n".join(lines))
    return 0 if passed == len(fleet.hosts) else 1
