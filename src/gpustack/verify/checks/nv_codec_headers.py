"""Checks of nv-codec-headers: found by pkg-config, fit for the driver, and compiled against."""

from __future__ import annotations

from gpustack.model.host import Host
from gpustack.system.run import Finished
from gpustack.verify import view
from gpustack.verify.commands import evidence_of, first_line
from gpustack.verify.declare import Context, Outcome, check, failed, needless, passed, skipped
from gpustack.verify.ffmpeg.engines import api_of_driver, api_of_headers, driver_for_api
from gpustack.versions import version

INSTALL = "`gpustack install nv-codec-headers`"
_PROGRAM = """\
#include <stdio.h>
#include <ffnvcodec/nvEncodeAPI.h>
#include <ffnvcodec/dynlink_loader.h>
int main(void)
{
    printf("%d.%d\\n", NVENCAPI_MAJOR_VERSION, NVENCAPI_MINOR_VERSION);
    return 0;
}
"""


def _told(context: Context) -> str | None:
    """The version of the headers that a build would take: pkg-config's, else the one that was detected."""
    asked = _asked(context)
    if asked.code == 0 and asked.out.strip():
        return asked.out.strip()
    return view.installed_version(context.host, "nv-codec-headers")


def _asked(context: Context) -> Finished:
    """What pkg-config says of ffnvcodec, asked once, and not where no file of that name is in its usual places."""
    import os  # noqa: PLC0415 (its environment is asked here alone)

    words = ("pkg-config", "--modversion", "ffnvcodec")
    elsewhere = any(os.environ.get(name) for name in ("PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"))
    if not elsewhere and "nv-codec-headers" not in context.host.installed and "nv-codec-headers" not in context.asked:
        return Finished(argv=words, code=1)
    return context.shared.once("pkg-config ffnvcodec", lambda: context.run(*words, timeout=10))


def _absent(host: Host) -> Outcome:
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
    own = view.installed_version(context.host, "nv-codec-headers")
    told = asked.out.strip() if asked.code == 0 else ""
    if told:
        return passed(f"ffnvcodec {told}", actual=told)
    if own is None:
        return _absent(context.host)
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
    unless=(view.not_counted,),
)
def driver(context: Context) -> Outcome:
    own = _told(context)
    if own is None:
        return _absent(context.host)
    number = view.driver_version(context.host)
    if number is None:
        return view.no_driver(context.host)
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


@check(
    "nv-codec-headers.compile",
    level="smoke",
    title="a program compiles against them",
    expects="A C program that includes the headers compiles and prints their NVENC API.",
    mends=INSTALL,
    needs=("nv-codec-headers.found",),
    limit_s=60,
)
def compile_(context: Context) -> Outcome:
    own = _told(context)
    if own is None:
        return _absent(context.host)
    source, program = context.folder / "api.c", context.folder / "api"
    source.write_text(_PROGRAM, encoding="utf-8")
    flags = context.run("pkg-config", "--cflags", "ffnvcodec", timeout=10).out.split()
    built = context.run("cc", *flags, "-o", str(program), str(source), "-ldl", timeout=30)
    if built.code is None:
        return skipped(f"no C compiler: {built.error}", "install gcc")
    if built.code != 0:
        words = f"a program does not compile against them: {first_line(built)}"
        return failed(words, evidence=evidence_of(built, work=context.work))
    ran = context.run(str(program), timeout=10)
    api = ran.out.strip()
    if ran.code != 0 or api != api_of_headers(own):
        return failed(
            f"pkg-config tells headers {own}, but what is compiled is NVENC API {api or 'unknown'}",
            "two copies of the headers are here: remove the one that pkg-config does not know",
            expected=api_of_headers(own),
            actual=api,
            evidence=evidence_of(built, ran, work=context.work),
        )
    return passed(f"NVENC API {api}", actual=api, evidence=evidence_of(built, ran, work=context.work))
