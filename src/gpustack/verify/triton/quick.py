"""Quick checks of Triton: the server found, and compatible with the driver."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, judge_fit

INSTALL = "`gpustack install triton`"


def _release_of(context: Context) -> str | None:
    """The release month of the installed server, looked up by its own version where only that is known."""
    known = host_facts.installed_version(context.host, "triton")
    if known is None:
        return None
    for row in context.matrix.releases("triton"):
        if row.version == known:
            return known
    from gpustack.triton.releases import ReleaseRow  # noqa: PLC0415 (only where a server is here)

    rows = context.matrix.rows("triton", "releases", ReleaseRow)
    return next((row.version for row in rows if row.server == known), None)


@check(
    "triton.found",
    title="server found",
    expects="Triton is installed, or this is a Triton container.",
    fix=INSTALL,
)
def found(context: Context) -> Outcome:
    own = context.host.installed.get("triton")
    if context.given.get("url"):
        from gpustack.triton.client import server_at  # noqa: PLC0415 (only where a server is named)

        return passed(f"using the server at {server_at(context.given['url']).url}")
    if own is None:
        return skipped("no Triton server was found; use `--url URL` for a remote server", INSTALL)
    release = _release_of(context)
    month = f" (release {release})" if release and release != own.version else ""
    return passed(f"Triton {own.version or 'of unknown version'}{month} in {own.path or 'an unknown folder'}")


def _none(host: Host) -> Outcome | None:
    return None if "triton" in host.installed else needless("no Triton server is installed on this host")


@check(
    "triton.driver",
    title="driver is new enough for this server",
    expects="The driver is new enough for the CUDA in the server's image.",
    fix="Install a newer driver (`gpustack install driver`), or use an older release of the server.",
    needs=("triton.found", "driver.version"),
    unless=(_none, host_facts.not_counted),
)
def driver(context: Context) -> Outcome:
    release = _release_of(context)
    number = host_facts.driver_version(context.host)
    if release is None:
        return skipped("the server's release is unknown")
    if number is None:
        return host_facts.no_driver(context.host)
    server = Part("triton", release)
    outcome = judge_fit(context, server, Part("driver", number))
    if outcome.status == "skip":
        return skipped(outcome.reason, f"see the release notes of {server} for the driver it requires")
    return outcome
