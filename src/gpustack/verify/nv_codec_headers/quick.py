"""Quick checks of nv-codec-headers: found by pkg-config, and compatible with the driver."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.system.run import Finished
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.ffmpeg.engines import api_of_driver, api_of_headers, driver_for_api
from gpustack.verify.frame import host_facts
from gpustack.versions import version

INSTALL = "`gpustack install nv-codec-headers`"


def version_found(context: Context) -> str | None:
    """The version of the headers that a build would take: pkg-config's, else the one that was detected."""
    asked = _asked(context)
    if asked.code == 0 and asked.out.strip():
        return asked.out.strip()
    return host_facts.installed_version(context.host, "nv-codec-headers")


def _asked(context: Context) -> Finished:
    """What pkg-config says of ffnvcodec, asked once, and not where no file of that name is in its usual places."""
    import os  # noqa: PLC0415 (its environment is asked here alone)

    words = ("pkg-config", "--modversion", "ffnvcodec")
    elsewhere = any(os.environ.get(name) for name in ("PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"))
    if not elsewhere and "nv-codec-headers" not in context.host.installed and "nv-codec-headers" not in context.asked:
        return Finished(argv=words, code=1)
    return context.shared.once("pkg-config ffnvcodec", lambda: context.run(*words, timeout=10))


def absent(host: Host) -> Outcome:
    """The skip where no headers were found."""
    if "ffmpeg" in host.installed:
        return needless("no nv-codec-headers were found; only building FFmpeg needs them", INSTALL)
    return skipped("no nv-codec-headers were found", INSTALL)


@check(
    "nv-codec-headers.found",
    title="headers found by pkg-config",
    expects="pkg-config knows ffnvcodec, so that FFmpeg's configure finds it.",
    mends=INSTALL,
)
def found(context: Context) -> Outcome:
    asked = _asked(context)
    own = host_facts.installed_version(context.host, "nv-codec-headers")
    told = asked.out.strip() if asked.code == 0 else ""
    if told:
        return passed(f"ffnvcodec {told}", actual=told)
    if own is None:
        return absent(context.host)
    if context.runner is None or asked.code is None:
        return passed(f"nv-codec-headers {own}; pkg-config could not be asked", actual=own)
    return failed(
        f"nv-codec-headers {own} are installed, but pkg-config does not find ffnvcodec",
        "export PKG_CONFIG_PATH=/usr/local/lib/pkgconfig, or reinstall them below /usr",
    )


@check(
    "nv-codec-headers.driver",
    title="driver offers their NVENC API",
    expects="The driver is new enough for what is built with these headers.",
    mends="`gpustack plan driver nv-codec-headers` names a newer driver or older headers that go together.",
    needs=("nv-codec-headers.found", "driver.version"),
    unless=(host_facts.not_counted,),
)
def driver(context: Context) -> Outcome:
    own = version_found(context)
    if own is None:
        return absent(context.host)
    number = host_facts.driver_version(context.host)
    if number is None:
        return host_facts.no_driver(context.host)
    api = api_of_headers(own)
    first = driver_for_api(context.matrix, api)
    if first is None:
        return skipped(f"no fact tells which driver offers NVENC API {api or own}")
    if version(number) < version(first):
        offers = api_of_driver(context.matrix, number)
        older = f", or `gpustack install nv-codec-headers driver=={number}`" if offers else ""
        return failed(
            f"what is built with nv-codec-headers {own} needs driver {first}; this is {number}, which offers"
            f" {f'NVENC API {offers}' if offers else 'no NVENC API that is known'}",
            f"`gpustack install 'driver>={first}'`{older}",
            expected=f"driver {first} or newer",
            actual=f"driver {number}",
        )
    return passed(f"NVENC API {api} needs driver {first}; this is {number}")
