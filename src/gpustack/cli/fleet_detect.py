"""``gpustack fleet detect``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gpustack.cli import frame
from gpustack.cli.declare import REQUIRED, Option, command
from gpustack.cli.fleet_options import Forks, Inventory, Limit, demand_inventory, interruptible, named, table
from gpustack.cli.options import TextOrJson
from gpustack.cli.outputs import folder

if TYPE_CHECKING:
    from gpustack.model.fleet import Fleet
    from gpustack.model.host import Host

REMARKS = 6
"""The exit code of --detailed-exitcode if a host gave no answer or differs from its peers."""


@command("fleet detect", example="gpustack fleet detect -i hosts.ini --limit gpu --out snap")
def fleet_detect(
    out: Annotated[Path, Option("--out", metavar="DIR", help="Where fleet.json and HOST/host.json go.")] = REQUIRED,
    inventory: Inventory = None,
    limit: Limit = None,
    forks: Forks = None,
    format: Annotated[TextOrJson, Option("--format", help="text, or the document.")] = TextOrJson.TEXT,
    detailed_exitcode: Annotated[
        bool, Option("--detailed-exitcode", help="Exit 6 if a host gave no answer or differs from its peers.")
    ] = False,
) -> int:
    """Ask every host of an inventory what it is. Changes nothing there and requires only a Python from 2.7 on."""
    from gpustack.errors import GpustackError
    from gpustack.fleet.detect import detect_fleet
    from gpustack.fleet.engine import FORKS
    from gpustack.fleet.store import write_fleet

    inventories = demand_inventory(inventory)
    place = folder(out, "--out")
    with interruptible() as (is_stopped, tell):
        fleet, hosts = detect_fleet(
            inventories,
            frame.matrix(),
            limit=limit or "",
            forks=forks or FORKS,
            is_stopped=is_stopped,
            tell=tell,
        )
    write_fleet(place, fleet, hosts)
    if format is TextOrJson.JSON:
        frame.document(frame.to_json(fleet))
    else:
        frame.page(_text(fleet, hosts))
    if not hosts:
        msg = "no host gave an answer"
        raise GpustackError(msg, code="engine-failed", where=fleet.hosts[0].name, hint=fleet.hosts[0].reason)
    return REMARKS if detailed_exitcode and any(one.reason or one.remarks for one in fleet.hosts) else 0


def _text(fleet: "Fleet", hosts: "dict[str, Host]") -> str:
    from gpustack.fleet.groups import gpus_of, grouped

    rows: list[tuple[str, ...]] = [("hosts", "system", "kernel", "GPUs", "driver", "names")]
    for host, _, members in grouped(hosts.items(), {}):
        driver = host.installed.get("driver")
        system = host.os.called
        version = (driver.version if driver else None) or "-"
        names = named(tuple(members))
        rows.append((str(len(members)), system, host.kernel or "-", gpus_of(host) or "-", version, names))
    lines = table(rows) if len(rows) > 1 else []
    for member in fleet.hosts:
        if member.state != "answered":
            lines.append(f"{member.name}: {member.state}: {member.reason}")
        lines += [f"{member.name}: {remark}" for remark in member.remarks]
    lost = [sum(one.state == state for one in fleet.hosts) for state in ("unreachable", "failed")]
    bare = sum(not host.gpus for host in hosts.values())
    counts = [f"{len(hosts)} of {len(fleet.hosts)} hosts answered", f"{lost[0]} unreachable", f"{lost[1]} failed"]
    return "\n".join([*lines, f"{', '.join(counts)}, {bare} without an NVIDIA GPU"])
