"""``gpustack schema``."""

from enum import Enum
from typing import Annotated

from gpustack.cli import frame
from gpustack.cli.declare import Argument, command


class Kind(str, Enum):
    """The documents that have a schema."""

    HOST = "host"
    CHECK = "check"
    PLAN = "plan"
    LOCK = "lock"
    REPORT = "report"
    FACTS = "facts"
    FLEET_REPORT = "fleet-report"
    FLEET = "fleet"
    FLEET_PLAN = "fleet-plan"


@command("schema", example="gpustack schema plan")
def schema(
    kind: Annotated[
        Kind,
        Argument(metavar="KIND", help="host, check, plan, lock, report, facts, fleet, fleet-plan or fleet-report."),
    ],
) -> int:
    """Print the JSON Schema of a document."""
    import msgspec

    from gpustack.model.fleet import Fleet, FleetPlan
    from gpustack.model.fleet_report import FleetReport
    from gpustack.model.host import Host
    from gpustack.model.lock import Lock
    from gpustack.model.plan import Plan
    from gpustack.model.published import PublishedFacts
    from gpustack.model.resolution import Verdict
    from gpustack.model.results import Report

    kinds: dict[Kind, type] = {
        Kind.HOST: Host,
        Kind.CHECK: Verdict,
        Kind.PLAN: Plan,
        Kind.LOCK: Lock,
        Kind.REPORT: Report,
        Kind.FACTS: PublishedFacts,
        Kind.FLEET_REPORT: FleetReport,
        Kind.FLEET: Fleet,
        Kind.FLEET_PLAN: FleetPlan,
    }
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"gpustack {kind.value} document",
        **msgspec.json.schema(kinds[kind]),
    }
    frame.document(frame.to_json(document))
    return 0
