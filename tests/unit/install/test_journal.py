"""The journal: what a crash cuts off is ignored, what is damaged stops whoever reads it, and a full disk leaves it whole."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpustack.errors import GpustackError
from gpustack.install.journal.file import RESERVE, DamagedJournalError, Journal, read
from gpustack.install.journal.records import (
    CommandBegun,
    Entry,
    Origin,
    OriginNoted,
    PolicySet,
    Record,
    RollbackBegun,
    RolledBack,
    RunBegun,
    RunFinished,
    StepBegun,
    StepEnded,
    UndoBegun,
    UndoFailed,
    Undone,
)

FILE = Entry(kind="file", mode=0o644, size=3, mtime=5, inode=7, kept="0+3")
RECORDS: list[Record] = [
    OriginNoted(origin=Origin(mirrors={"https://a": "https://b"})),
    RunBegun(packages={"gp:amd64": "1.0 install installed"}),
    PolicySet(),
    StepBegun(step="one", before={"/etc/a": FILE, "/etc/b": Entry()}, packages={}),
    CommandBegun(step="one", argv=("true", "ä\n"), pid=3, born=4),
    StepEnded(step="one", outcome="done", changed={"/etc/b": FILE}, packages={"gp:amd64": ""}),
    RunFinished(),
    RollbackBegun(found={"/etc/a": FILE}),
    UndoBegun(step="one"),
    UndoFailed(step="one", reason="no", changed={"/etc/b": Entry()}),
    UndoBegun(step="one"),
    Undone(step="one"),
    RolledBack(left=("something",)),
]


def written(folder: Path, records: list[Record] = RECORDS) -> Path:
    journal = Journal(folder / "journal.jsonl", folder / "reserve")
    journal.open()
    append_all(journal, records)
    journal.close()
    return journal.path


def test_every_line_is_a_json_document_with_its_number(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in written(tmp_path).read_text().splitlines()]
    assert [line["number"] for line in lines] == list(range(1, len(RECORDS) + 1))
    assert lines[3]["event"] == "start"
    assert lines[3]["before"]["/etc/a"]["kept"] == "0+3"


@pytest.mark.parametrize("number", range(1, len(RECORDS) + 1))
def test_a_flipped_bit_is_seen_wherever_it_is(tmp_path: Path, number: int) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    line = lines[number - 1]
    for bit in range(len(line) * 8):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(b"".join([*lines[: number - 1], bytes(flipped), *lines[number:]]))
        with pytest.raises(DamagedJournalError, match=rf"record {number} of the journal ") as damaged:
            read(path)
        assert damaged.value.history.count == number - 1
        assert "--abandon" in damaged.value.hint


def test_records_that_are_missing_twice_or_in_another_order(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for changed, told in (
        ([*lines[:4], *lines[5:]], "record 5 of the journal is missing"),
        (lines[1:], "record 1 of the journal is missing"),
        ([*lines[:4], lines[3], *lines[4:]], "record 5 of the journal is record 4 again"),
        ([*lines[:4], lines[5], lines[4], *lines[6:]], "record 5 of the journal is missing"),
        ([b"nonsense\n", *lines], "record 1 of the journal is damaged"),
        ([*lines[:4], b"\n", *lines[4:]], "record 5 of the journal is damaged"),
    ):
        path.write_bytes(b"".join(changed))
        with pytest.raises(DamagedJournalError, match=told):
            read(path)


@pytest.mark.parametrize("behind", [b"", b"\0", b"\0" * 4096])
def test_what_a_crash_cut_off_is_ignored_and_the_next_record_takes_its_place(tmp_path: Path, behind: bytes) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(len(whole) - len(lines[-1]), len(whole), 9):
        path.write_bytes(whole[:length] + behind)
        assert read(path).count == len(RECORDS) - 1
        journal = Journal(path, tmp_path / "reserve")
        journal.open()
        journal.append(RECORDS[-1])
        journal.close()
        assert read(path).rollback == "done"


def append_all(journal: Journal, records: list[Record]) -> None:
    for record in records:
        journal.append(record)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root: only root mounts a small file system")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "-o", f"size={size}", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return filler


def test_a_disk_that_is_full_at_any_record(tmp_path: Path) -> None:
    """The reserve brings the run to a record that ends what was begun; then nothing begins; then it goes on."""
    large: list[Record] = [StepEnded(step="one", outcome="done", tail="x" * 6000) for _ in range(300)]
    with small_disk(tmp_path / "disk", RESERVE + 2**18) as disk:
        for number in range(len(RECORDS)):
            path = written(disk, RECORDS[:number])
            journal = Journal(path, disk / "reserve")
            journal.open()
            journal.demand_room()
            filler = fill(disk)
            append_all(journal, RECORDS[number:])
            with pytest.raises(GpustackError, match="the journal cannot be written: No space left on device"):
                append_all(journal, large)
            assert len(RECORDS) < read(path).count == journal.history.count
            with pytest.raises(GpustackError, match="progress cannot be recorded: No space left on device"):
                journal.demand_room()
            filler.unlink()
            journal.append(RunFinished())
            assert read(path).is_finished
            journal.close()
            path.unlink()


def test_a_disk_without_room_for_the_reserve_is_told_before_anything_begins(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", RESERVE // 2) as disk:
        journal = Journal(disk / "journal.jsonl", disk / "reserve")
        journal.open()
        with pytest.raises(GpustackError, match="No space left on device") as full:
            journal.demand_room()
        assert str(disk) in full.value.hint
        journal.close()
