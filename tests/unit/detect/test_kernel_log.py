"""The kernel's log is read wherever a machine keeps it: rotated, packed, in a journal; and it is said where it was not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gpustack.detect import kernel_log
from gpustack.detect.api import detect
from gpustack.detect.gather import gather
from gpustack.detect.kernel_log import read_log
from gpustack.detect.record import read_record, record
from gpustack.detect.text import lines
from gpustack.detect.tree import Tree
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.host import Host

BOOT = "Nov 20 10:00:00 h kernel: [    0.000000] Linux version 6.8.0-85-generic\n"
NOISE = "Nov 20 10:00:01 h kernel: [    1.000000] usb 1-1: new device\n"
LOST = "Nov 20 10:00:02 h kernel: [    2.000000] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
THEN = "Nov 20 10:00:03 h kernel: [    3.000000] NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n"


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


def put(root: Path, path: str, content: str | bytes) -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content if isinstance(content, bytes) else content.encode())


def machine(root: Path) -> Path:
    for name, content in (("vendor", "0x10de\n"), ("device", "0x2330\n"), ("class", "0x030200\n")):
        put(root, f"sys/bus/pci/devices/0000:01:00.0/{name}", content)
    put(root, "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    put(root, "proc/sys/kernel/osrelease", "6.8.0-85-generic\n")
    put(root, "proc/modules", "")
    return root


def told(host: Host) -> str:
    return next((problem.message for problem in host.problems if problem.id == "detect-kernel-log"), "")


def test_a_log_that_was_rotated_since_the_boot(tmp_path: Path, matrix: Matrix) -> None:
    machine(tmp_path)
    put(tmp_path, "var/log/kern.log", THEN)
    put(tmp_path, "var/log/kern.log.1", LOST)
    put(tmp_path, "var/log/kern.log.2.gz", gzip.compress((LOST.replace(": 79", ": 62") + BOOT + NOISE).encode()))
    message = told(detect(tmp_path, matrix))
    assert message.startswith("Xid 79 at 0000:01:00")
    assert "Nov 20 10:00:02" in message
    assert "then Xid 154 (Node Reboot Required)" in message


def test_logs_with_a_date_in_their_names(tmp_path: Path, matrix: Matrix) -> None:
    machine(tmp_path)
    put(tmp_path, "var/log/messages", NOISE)
    put(tmp_path, "var/log/messages-20261101", BOOT + LOST)
    put(tmp_path, "var/log/messages-20261001", LOST.replace(": 79", ": 62"))
    assert told(detect(tmp_path, matrix)).startswith("Xid 79")


def test_a_large_log_is_read_in_pieces(tmp_path: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "PIECE", 1 << 9)
    monkeypatch.setattr(kernel_log, "STEP", 1 << 7)
    machine(tmp_path)
    put(
        tmp_path,
        "var/log/kern.log",
        BOOT
        + LOST.replace(": 79", ": 62")
        + NOISE * 40
        + BOOT
        + NOISE * 90
        + LOST
        + NOISE * 70
        + THEN * 9
        + NOISE * 50,
    )
    message = told(detect(tmp_path, matrix))
    assert message.startswith("Xid 79")
    assert "Xid 154 (Node Reboot Required) (9 times)" in message


def test_of_a_flood_the_first_and_the_last_lines_are_kept(tmp_path: Path) -> None:
    flood = "".join(THEN.replace("10:00:03", f"10:{n // 60 % 60:02}:{n % 60:02}") for n in range(3000))
    put(tmp_path, "var/log/kern.log", BOOT + LOST + flood)
    found = read_log(Tree(str(tmp_path)), None)
    assert len(found.lines) <= kernel_log.EARLIEST + kernel_log.LATEST
    assert found.lines[0] == BOOT.rstrip("\n")
    assert found.lines[1] == LOST.rstrip("\n")
    assert found.lines[-1].split()[2] == "10:49:59"


def test_a_journal_without_its_program(tmp_path: Path, matrix: Matrix) -> None:
    """What is not packed in the binary file is read; that times are unknown is said."""
    machine(tmp_path)
    fields = (
        b"LPKSHHRH"
        + b"\0" * 300
        + b"MESSAGE=usb 1-1\0\0"
        + f"MESSAGE={LOST.partition('] ')[2].strip()}".encode()
        + b"\0\0PRIORITY=3\0"
    )
    put(tmp_path, "var/log/journal/0123/system.journal", fields)
    host = detect(tmp_path, matrix)
    assert told(host).startswith("Xid 79")
    found = read_log(Tree(str(tmp_path)), None)
    assert "without journalctl" in found.note


def test_where_it_was_looked_is_said(tmp_path: Path, matrix: Matrix) -> None:
    machine(tmp_path)
    host = detect(tmp_path, matrix)
    assert host.looked is not None
    assert {"PCI bus", "loaded modules"} <= {*host.looked.at}
    unseen = {one.what: one.why for one in host.looked.not_at}
    assert unseen["packages"] == "no package database that can be read"
    assert unseen["kernel log"] == "no file of /var/log and no journal holds the kernel's messages"
    assert unseen["NVML"] == "not asked: this is a tree of files"
    assert unseen["package sources"] == "none is there"
    assert unseen["logs of services and programs"] == "none is there, or none has a line about GPUs"
    assert unseen["engine files of TensorRT"] == "not searched: `verify tensorrt --engine FILE` reads one"
    last = lines(host)[-1]
    assert last.startswith("looked at: PCI bus, loaded modules")
    assert "kernel log (no file of /var/log" in last
    put(tmp_path, "var/log/kern.log", BOOT)
    put(tmp_path, "var/log/slurmd.log", "error: gpu/nvml: Failed to initialize NVML\n")
    put(tmp_path, "etc/apt/sources.list", "deb https://deb.example/ stable main\n")
    seen = detect(tmp_path, matrix).looked
    assert seen is not None
    assert {"kernel log", "logs of services and programs", "package sources"} <= {*seen.at}


def test_a_tree_without_anything_to_look_at_gets_no_clean_bill(tmp_path: Path, matrix: Matrix) -> None:
    put(tmp_path, "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    *_, verdict, unseen = lines(detect(tmp_path, matrix))
    assert verdict == "nothing could be read here, so no problem could be found"
    assert unseen.startswith("not looked at: packages (no package database that can be read), PCI bus (not there)")


def test_a_boot_before_every_message_ends_the_search_in_older_files(tmp_path: Path, matrix: Matrix) -> None:
    machine(tmp_path)
    put(tmp_path, "var/log/kern.log.1", f"{BOOT}\n{LOST}\n")
    put(
        tmp_path, "var/log/kern.log", f"{BOOT}\n" + "Nov 23 03:00:00 node kernel: [ 2.0] usb 1-1: new device\n" * 30_000
    )
    assert "detect-kernel-log" not in {one.id for one in detect(tmp_path, matrix).problems}


def test_a_recorded_host_keeps_its_log(tmp_path: Path, matrix: Matrix) -> None:
    put(machine(tmp_path / "root"), "var/log/kern.log", LOST.replace(": 79", ": 62") + BOOT + NOISE + LOST + THEN)
    record(gather(tmp_path / "root"), tmp_path / "saved")
    evidence = read_record(tmp_path / "saved")
    assert evidence is not None
    assert told(detect(tmp_path / "saved", matrix)) == told(detect(tmp_path / "root", matrix)).replace(
        " h kernel", " host kernel"
    )
