"""Quick checks of Triton: the server found, and fit for the driver."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.rules import Part, fit
from gpustack.versions import version

INSTALL = "`gpustack install triton`"


def _release_of(context: Context) -> str | None:
    """The container month of the server that is here, by the server's own version where that is what is known."""
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
    expects="A Triton server is here: its program, or its container around us.",
    mends=INSTALL,
)
def found(context: Context) -> Outcome:
    own = context.host.installed.get("triton")
    if context.given.get("url"):
        from gpustack.triton.client import server_at  # noqa: PLC0415 (only where a server is named)

        return passed(f"the server at {server_at(context.given['url']).url} is asked")
    if own is None:
        return skipped("no Triton server was found; `--url URL` asks one that runs elsewhere", INSTALL)
    release = _release_of(context)
    month = f" (release {release})" if release and release != own.version else ""
    return passed(f"Triton {own.version or 'of unknown version'}{month} in {own.path or 'an unknown place'}")


def _none(host: Host) -> Outcome | None:
    return None if "triton" in host.installed else needless("no Triton server was found on this host itself")


@check(
    "triton.driver",
    title="driver runs this server",
    expects="The driver is new enough for the CUDA inside the server's image.",
    mends="Install a newer driver (`gpustack install driver`), or take an older release of the server.",
    needs=("triton.found", "driver.version"),
    unless=(_none, host_facts.not_counted),
)
def driver(context: Context) -> Outcome:
    release = _release_of(context)
    number = host_facts.driver_version(context.host)
    if release is None:
        return skipped("the server does not tell which release it is")
    if number is None:
        return host_facts.no_driver(context.host)
    answer = fit(context.matrix, context.host, Part("triton", release), Part("driver", number))
    if answer.breach:
        return failed(
            f"Triton {release} does not run on driver {number}: {answer.sentence(f'Triton {release}')}",
            expected=f"driver {answer.wanted}" if answer.wanted else "",
            actual=f"driver {number}",
        )
    if not answer.covered:
        return skipped(
            f"no fact covers Triton {release} with driver {number}", "its release note names the driver it needs"
        )
    return passed(f"driver {number} runs Triton {release}", actual=str(version(number)))
