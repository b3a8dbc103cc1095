"""Reports of every kind, for the judges of every format."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpustack.model.host import Gpu, Host, OperatingSystem
from gpustack.model.results import CheckResult, Measurement, Report, Status
from gpustack.verify.frame.report import build_report

RECORDED = Path(__file__).resolve().parents[1] / "fixtures/reports/h200-two-gpus.json"
"""What two H200 answered on 2026-11-21; the UUIDs are replaced."""

STARTED = "2026-11-21T10:00:00+00:00"
STATUSES: tuple[Status, ...] = ("pass", "fail", "skip", "error")

CONTROLS = "".join(map(chr, (*range(0x20), 0x7F, *range(0x80, 0xA0))))
LINES = "one\ntwo\r\nthree\rfour\vfive\fsix\x85seven\u2028eight\u2029nine"
MARKUP = "<b>&amp;</b> ]]> <![CDATA[ <!-- --> </title></style></script><script>alert(1)</script> \"'><img src=x>"
COMMANDS = "::error::x ##[error]y %0A::set-output name=a::b ::add-mask::c , : % $(reboot) `reboot`"
DIRECTIVES = "ok 1 # SKIP no # TODO yes \\# \\\\ --- ... 1..5 Bail out! TAP version 13 {a} [b] *c &d !e |f >g @h"
TERMINAL = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J \x9b31m \b\b\r"
UNICODE = "é 中 🚀 a\u0301 \u202eright to left\u202c \u200bzero \ufeff \ufffe \uffff \U0001ffff \ue000"
HOSTILE = {
    "controls": CONTROLS,
    "lines": LINES,
    "markup": MARKUP,
    "commands": COMMANDS,
    "directives": DIRECTIVES,
    "terminal": TERMINAL,
    "unicode": UNICODE,
    "spaces": "  \t  ",
}
"""What a host, a user's own check or a program's output may say."""


def recorded() -> Report:
    return msgspec.json.decode(RECORDED.read_bytes(), type=Report)


def result(status: Status, text: str, number: int = 0) -> CheckResult:
    """A check with ``text`` wherever there is text."""
    return CheckResult(
        id=f"driver.{status}{number or ''}",
        component="driver",
        status=status,
        title=text,
        level="smoke",
        duration_s=1234.5678 * number,
        reason=text if status != "pass" else "",
        fix=text,
        detail=text,
        expected=text,
        actual=text,
        measurements={text: Measurement(value=1.5, unit=text), "said": Measurement(value=text, unit="x")},
        evidence={text: text},
    )


def every_status(text: str) -> Report:
    host = Host(
        os=OperatingSystem(id="debian", name=text),
        kernel=text,
        gpus=(Gpu(name=text, bus_id="0000:01:00.0"),),
    )
    checks = [result(status, text) for status in STATUSES]
    # A component of a user's own may be called as he likes.
    checks.append(msgspec.structs.replace(checks[0], id='si"te.\\<&>', component='si"te'))
    return build_report(host, checks, "full", started=STARTED)


def eight_gpus() -> Report:
    """What eight GPUs measure, with all the ways in which figures can be odd."""
    cards = tuple(Gpu(name="H200", bus_id=f"0000:{number:02x}:00.0") for number in range(8))
    measured = {
        f"gpu{number}-{name}": Measurement(value=value, unit=unit)
        for number in range(8)
        for name, value, unit in (
            ("memory-bandwidth", 3992.4 - number, "GB/s"),
            ("ratio", 0.83, "of datasheet"),
            ("errors", 0, "errors"),
            ("change", -1.5, "%"),
            ("small", 1e-9, "s"),
            ("large", 10**15, "B"),
        )
    }
    checks = (
        CheckResult(id="driver.throughput", component="driver", status="fail", title="rates", reason="GPU 7 is slow",
                    fix="`nvidia-smi -q -d PERFORMANCE`", measurements=measured, duration_s=12.3456),
        CheckResult(id="nccl.all-reduce", component="nccl", status="pass", title="sums", detail="right on 8 GPUs"),
    )  # fmt: skip
    return build_report(Host(gpus=cards), checks, "full", started=STARTED)


def long() -> Report:
    """A program that wrote a megabyte to one line."""
    check = CheckResult(id="driver.log", component="driver", status="fail", title="log", reason="it says much",
                        detail="0123456789" * 100_000, evidence={"dmesg": "a b c d e\n" * 100_000})  # fmt: skip
    return build_report(recorded().host, (check,), "full", started=STARTED)


def required() -> Report:
    """A skip that was required has become a failure; the others stay."""
    checks = (
        CheckResult(id="driver.dcgm", component="driver", status="fail", title="DCGM", level="full",
                    reason="required, but DCGM is not installed", fix="install DCGM"),
        CheckResult(id="driver.fabric-manager", component="driver", status="skip", title="fabric", reason="not needed"),
    )  # fmt: skip
    return build_report(recorded().host, checks, "full", started=STARTED)


def only(*statuses: Status) -> Report:
    checks = [result(status, "text", number) for number, status in enumerate(statuses, start=1)]
    return build_report(recorded().host, checks, "smoke", started=STARTED)


REPORTS: dict[str, Report] = {
    "recorded": recorded(),
    "all-pass": only("pass", "pass", "pass"),
    "failures": only("fail", "pass", "fail"),
    "skips": only("skip", "skip"),
    "required": required(),
    "errors": only("error", "error", "pass"),
    "every-status": every_status("text"),
    "eight-gpus": eight_gpus(),
    "long": long(),
    "empty": build_report(Host(), (), "quick"),
    **{f"hostile-{name}": every_status(text) for name, text in HOSTILE.items()},
}
