"""What downloads look like on a terminal, which is emulated, and in a file: a line a file, and one for all of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pyte

from gpustack import resources

PROGRAM = """
import sys, time
from gpustack.cli.progress import Progress

MIB = 2**20
report = Progress()
first, second, third = (report.transfer(name, size) for name, size in (("a.tar", 100 * MIB), ("b.run", 10 * MIB), ("c.deb", 1 * MIB)))

def go_on(*states):
    # For as long as it takes until each has been looked at.
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        for count, there, total in states:
            count(there, total)
    print("look", flush=True)
    sys.stdin.readline()

go_on((first, 40 * MIB, 100 * MIB), (second, MIB, 10 * MIB))
third(MIB, MIB)
go_on((first, 60 * MIB, 100 * MIB), (second, 2 * MIB, 10 * MIB))
first(100 * MIB, 100 * MIB)
second(10 * MIB, 10 * MIB)
report.say("and on")
print("look", flush=True)
sys.stdin.readline()
"""
PACE = re.compile(r", (\d+\.\d) MiB/s, ([\d:]+) left$")
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(resources.folder("matrices").parent / "src")}


def screens() -> list[list[str]]:
    """The lines on an emulated terminal whenever the program asks to be looked at."""
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    outer, inner = os.openpty()
    found = []
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=inner,
        text=True,
        env={**ENVIRONMENT, "TERM": "xterm"},
    )
    os.close(inner)
    os.set_blocking(outer, False)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        while process.stdout.readline():
            # It waits for us: what it has written is all there.
            stream.feed(os.read(outer, 1 << 20).replace(b"\n", b"\r\n").replace(b"\r\r\n", b"\r\n"))
            found.append([line.rstrip() for line in screen.display if line.strip()])
            process.stdin.write("\n")
            process.stdin.flush()
    os.close(outer)
    assert process.returncode == 0
    return found


def test_a_terminal_has_a_line_for_each_file_and_one_for_all() -> None:
    begun, further, done = screens()
    paces = [PACE.search(screen[-1]) for screen in (begun, further)]
    begun[-1], further[-1] = (PACE.sub("", screen[-1]) for screen in (begun, further))
    assert paces[0] is None, "what lay there already did not come at any rate"
    assert paces[1] is not None
    # 21 MiB came in what a second look takes at least; 48 MiB are left.
    assert float(paces[1][1]) > 0
    assert paces[1][2].count(":") in {1, 2}
    goes_on = [
        "    a.tar 40.0 MiB of 100.0 MiB: continues from there",
        "    b.run 1.0 MiB of 10.0 MiB: continues from there",
    ]
    assert begun == [
        *goes_on,
        "    a.tar 40.0 MiB of 100.0 MiB",
        "    b.run 1.0 MiB of 10.0 MiB",
        "    all 3 files: 41.0 MiB of 111.0 MiB",
    ]
    whole = "    c.deb 1.0 MiB of 1.0 MiB"
    assert further == [
        *goes_on,
        whole,
        "    a.tar 60.0 MiB of 100.0 MiB",
        "    b.run 2.0 MiB of 10.0 MiB",
        "    all 3 files: 63.0 MiB of 111.0 MiB",
    ]
    assert done == [*goes_on, whole, "    a.tar 100.0 MiB of 100.0 MiB", "    b.run 10.0 MiB of 10.0 MiB", "and on"]


def test_a_file_gets_plain_lines_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input="\n\n\n", capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert done.stderr.splitlines() == [
        "    a.tar 40.0 MiB of 100.0 MiB: continues from there",
        "    b.run 1.0 MiB of 10.0 MiB: continues from there",
        "    c.deb 1.0 MiB of 1.0 MiB",
        "    a.tar 100.0 MiB of 100.0 MiB",
        "    b.run 10.0 MiB of 10.0 MiB",
        "and on",
    ]
