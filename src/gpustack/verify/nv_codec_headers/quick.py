"""Quick checks of nv-codec-headers: found by pkg-config, and compatible with the driver."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.system.run import Finished
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.nv_codec_headers.api import api_of_driver, api_of_headers, judge_api

INSTALL = "`gpustack install nv-codec-headers`"


def version_found(context: Context) -> str | None:
    """The version of the headers that a build would use: pkg-config's, else the detected one."""
    answer = _query(context)
    if answer.code == 0 and answer.out.strip():
        return answer.out.strip()
    return host_facts.installed_version(context.host, "nv-codec-headers")


def _query(context: Context) -> Finished:
    """What pkg-config reports for ffnvcodec. It runs once, and only if such a file may exist."""
    import os  # noqa: PLC0415 (only this module reads the environment)

    words = ("pkg-config", "--modversion", "ffnvcodec")
    elsewhere = any(os.environ.get(name) for name in ("PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"))
    if not elsewhere and "nv-codec-headers" not in context.host.installed and "nv-codec-headers" not in context.asked:
        return Finished(argv=words, code=1)
    return context.shared.once("pkg-config ffnvcodec", lambda: context.run(*words, timeout=10))


def absent(host: Host) -> Outcome:
    """The skip where no headers were found."""
    if "ffmpeg" in host.installed:
        return needless("no nv-codec-headers were found; only building FFmpeg requires them", INSTALL)
    return skipped("no nv-codec-headers were found", INSTALL)


@check(
    "nv-codec-headers.found",
    title="headers found by pkg-config",
    expects="pkg-config finds ffnvcodec, as FFmpeg's configure requires.",
    fix=INSTALL,
)
def found(context: Context) -> Outcome:
    answer = _query(context)
    own = host_facts.installed_version(context.host, "nv-codec-headers")
    reported = answer.out.strip() if answer.code == 0 else ""
    if reported:
        return passed(f"ffnvcodec {reported}", actual=reported)
    if own is None:
        return absent(context.host)
    if context.runner is None or answer.code is None:
        return passed(f"nv-codec-headers {own}; pkg-config is not available", actual=own)
    return failed(
        f"nv-codec-headers {own} are installed, but pkg-config does not find ffnvcodec",
        "export PKG_CONFIG_PATH=/usr/local/lib/pkgconfig, or reinstall them in /usr",
    )


@check(
    "nv-codec-headers.driver",
    title="driver supports their NVENC API",
    expects="The driver is new enough for software built with these headers.",
    fix="`gpustack plan driver nv-codec-headers` finds compatible versions.",
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
    offers = api_of_driver(context.matrix, number)
    older = f"`gpustack install nv-codec-headers driver=={number}`" if offers else ""
    return judge_api(context, api_of_headers(own) or own, f"software built with nv-codec-headers {own}", number, older)
