"""A full check of the driver: what the kernel's log says of the GPUs since boot."""

from __future__ import annotations

import re

from gpustack.verify import view
from gpustack.verify.declare import Context, Outcome, check, failed, passed, skipped

XIDS = {
    48: "an ECC error that could not be corrected",
    61: "a fault of the GPU's own controller",
    62: "a fault of the GPU's own controller",
    63: "a broken memory row, replaced at the next reset",
    64: "a broken memory row that could not be replaced",
    74: "an NVLink error",
    79: "the GPU fell off the bus",
    92: "many corrected ECC errors",
    94: "an ECC error that stopped one program",
    95: "an ECC error that stopped all programs",
    119: "the GPU's system processor (GSP) does not answer",
    120: "the GPU's system processor (GSP) failed",
}
"""Numbers of the driver's error messages that speak of the board or its driver, not of a faulty program."""

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


@check(
    "driver.kernel-log",
    level="full",
    title="the kernel's log since boot",
    expects="The kernel's log holds no error of a GPU: no RmInitAdapter, no Xid that speaks of the board.",
    mends="Look up the Xid's number; read the lines before it in `sudo dmesg`.",
    unless=(view.no_gpu, view.in_container),
    limit_s=30.0,
)
def kernel_log(context: Context) -> Outcome:
    for command in (("journalctl", "--dmesg", "--boot", "--no-pager", "--output=short-iso"), ("dmesg",)):
        end = context.run(*command, timeout=12.0)
        # A user without the right to read it gets an empty log and exit code 0 from journalctl.
        if end.code == 0 and len(end.out.splitlines()) > 1:
            return judge_log(end.out)
    return skipped("the kernel's log cannot be read by this user", "run it with `sudo`")


def judge_log(text: str) -> Outcome:
    """What the kernel's log says of the GPUs."""
    lines = [line.strip() for line in text.splitlines() if "NVRM" in line]
    adapters = [line for line in lines if "RmInitAdapter failed" in line]
    if adapters:
        where = re.search(r"GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F:.]*[0-9a-fA-F])", adapters[-1])
        codes = re.search(r"RmInitAdapter failed!? ?(\([^)]*\))", adapters[-1])
        return failed(
            f"a GPU does not come up{f' at {where[1]}' if where else ''}: RmInitAdapter failed"
            f"{f' {codes[1]}' if codes else ''}",
            "in the firmware's set-up switch on Above 4G Decoding and Resizable BAR; look at power cables and seating;"
            " a driver that is too old for the GPU says so one line before",
            evidence={"kernel log": "\n".join(lines[-20:])},
        )
    found = [(match[1], int(match[2])) for line in lines if (match := _XID.search(line))]
    grave = [(place, number) for place, number in found if number in XIDS]
    if grave:
        place, number = grave[-1]
        return failed(
            f"Xid {number} at {place}: {XIDS[number]}"
            + (f"; {len(grave)} such lines since boot" if len(grave) > 1 else ""),
            "end all programs and reset the GPU, or reboot; if it comes back, have the board looked at",
            evidence={"kernel log": "\n".join(lines[-20:])},
        )
    if found:
        numbers = ", ".join(str(number) for number in sorted({number for _, number in found}))
        return passed(f"Xid {numbers}, which faulty programs cause; nothing of the boards")
    return passed("no Xid and no RmInitAdapter line")
