"""Smoke check of nv-codec-headers: a program that includes them compiles."""

from __future__ import annotations

from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped
from gpustack.verify.frame.commands import evidence_of, first_line
from gpustack.verify.nv_codec_headers.api import api_of_headers
from gpustack.verify.nv_codec_headers.quick import INSTALL, absent, version_found

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


@check(
    "nv-codec-headers.compile",
    level="smoke",
    title="a program compiles with them",
    expects="A C program that includes the headers compiles and prints their NVENC API.",
    fix=INSTALL,
    needs=("nv-codec-headers.found",),
    limit_s=60,
)
def compile_(context: Context) -> Outcome:
    own = version_found(context)
    if own is None:
        return absent(context.host)
    source, program = context.folder / "api.c", context.folder / "api"
    source.write_text(_PROGRAM, encoding="utf-8")
    flags = context.run("pkg-config", "--cflags", "ffnvcodec", timeout=10).out.split()
    built = context.run("cc", *flags, "-o", str(program), str(source), "-ldl", timeout=30)
    if built.code is None:
        return skipped(f"no C compiler was found: {built.error}", "install gcc")
    if built.code != 0:
        words = f"a program that includes the headers does not compile: {first_line(built)}"
        return failed(words, evidence=evidence_of(built, work=context.work))
    ran = context.run(str(program), timeout=10)
    api = ran.out.strip()
    if ran.code != 0 or api != api_of_headers(own):
        return failed(
            f"pkg-config reports headers {own}, but the compiler uses headers for NVENC API"
            f" {api or 'of unknown version'}",
            "remove the second copy of the headers, which pkg-config does not report",
            expected=api_of_headers(own),
            actual=api,
            evidence=evidence_of(built, ran, work=context.work),
        )
    return passed(f"NVENC API {api}", actual=api, evidence=evidence_of(built, ran, work=context.work))
