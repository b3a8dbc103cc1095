"""Any journal can be read up to any record, and any run of steps, crashes and failed undoings can be undone."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from gpustack.install.changes.backups import Backups
from gpustack.install.changes.watch import Watch
from gpustack.install.journal.file import Journal, read
from gpustack.install.journal.history import History
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
from gpustack.install.root import InstallRoot

NAMES = st.sampled_from(["one", "two", "three"])
PATHS = ("/etc/a", "/etc/b", "/etc/c", "/etc/d/e", "/etc/d/f", "/opt/g/h")
ENTRIES = st.builds(Entry, kind=st.sampled_from(["", "file", "dir"]), mode=st.integers(0, 0o777))
PLACES = st.dictionaries(st.sampled_from(PATHS), ENTRIES, max_size=3)
STATES = st.none() | st.dictionaries(
    st.sampled_from(["gp:amd64", "gq:amd64"]), st.sampled_from(["", "1 install installed"])
)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(OriginNoted, origin=st.builds(Origin, bundle=st.text(max_size=3))),
    st.builds(RunBegun, packages=st.just({"gq:amd64": "2 install installed"})),
    st.just(PolicySet()),
    st.builds(StepBegun, step=NAMES, before=PLACES, packages=STATES),
    st.builds(CommandBegun, step=NAMES, argv=st.tuples(st.text(max_size=5)), pid=st.just(1), born=st.just(1)),
    st.builds(StepEnded, step=NAMES, outcome=st.sampled_from(["done", "failed", "interrupted", "paused", "skipped"]), changed=PLACES, packages=STATES),
    st.just(RunFinished()),
    st.builds(RollbackBegun, found=PLACES),
    st.builds(UndoBegun, step=NAMES, found=PLACES),
    st.builds(UndoFailed, step=NAMES, changed=PLACES),
    st.builds(Undone, step=NAMES, changed=PLACES),
    st.just(RolledBack()),
)  # fmt: skip


def holds(history: History) -> None:
    """What is true of a run whatever happened in it."""
    assert history.owner.keys() <= history.base.keys()
    assert history.owner.keys() <= history.now.keys()
    assert history.owner.keys() <= history.touched
    assert history.found.keys() <= history.now.keys()
    assert history.base.keys() <= history.now.keys()
    assert set(history.owner.values()) <= set(history.begun())
    assert set(history.begun()) == {name for name, step in history.steps.items() if step.state != "undone"}


@given(st.lists(RECORDS, max_size=25))
def test_any_prefix_of_any_journal_folds(records: list[Record]) -> None:
    history = History()
    known: set[str] = set()
    for number, record in enumerate(records, 1):
        history.fold(record)
        holds(history)
        assert history.count == number
        assert known <= history.base.keys(), "what was there before is never forgotten"
        known = set(history.base)
        if isinstance(record, Undone):
            assert not history.owned_by(record.step)
            assert record.step not in history.begun()
        if isinstance(record, RolledBack):
            assert history.is_over


@given(st.lists(RECORDS, max_size=8))
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_history_is_that_of_its_file(records: list[Record]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal.jsonl", Path(folder) / "reserve")
        journal.open()
        for record in records:
            journal.append(record)
        journal.close()
        again = read(journal.path)
        assert (again.base, again.now, again.owner, again.begun()) == (
            journal.history.base,
            journal.history.now,
            journal.history.owner,
            journal.history.begun(),
        )


class Tree:
    """A small tree, and a run in it that is done by hand: as the executor and the undoing do it, without commands."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state = folder / "root", folder / "state"
        for path in ("/etc/a", "/etc/b", "/etc/d/e"):
            self.write(path, f"first {path}")
        self.state.mkdir()
        self.crash()

    def crash(self) -> None:
        """A new process, which knows what is on the disk."""
        self.journal = Journal(self.state / "journal.jsonl", self.state / "reserve")
        self.journal.open()
        self.history = self.journal.history
        self.watch = Watch(InstallRoot(self.root), Backups(self.state / "kept"), self.history)

    def write(self, path: str, content: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if content:
            place.write_text(content)
        else:
            place.unlink(missing_ok=True)

    def content(self) -> dict[str, str]:
        return {
            f"/{path.relative_to(self.root)}": path.read_text() if path.is_file() else ""
            for path in self.root.rglob("*")
        }

    ROOTS = ("/etc", "/opt/g")

    def step(self, name: str, changes: dict[str, str], *, is_cut: bool) -> None:
        self.journal.append(StepBegun(step=name, before=self.watch.before(self.ROOTS)))
        for path, content in changes.items():
            self.write(path, content)
        if is_cut:
            self.journal.close()
            self.crash()
        outcome = "interrupted" if is_cut else "done"
        self.journal.append(StepEnded(step=name, outcome=outcome, changed=self.watch.after(self.ROOTS)))

    def roll_back(self, mess: dict[str, str], fails: str, cut: str) -> bool:
        """An attempt, in which undoing makes a ``mess``, one step fails, and the process may be cut off in one."""
        if not self.history.is_being_undone():
            self.journal.append(RollbackBegun(found=self.watch.since(self.ROOTS)))
        for name in reversed(self.history.begun()):
            if self.history.steps[name].state != "undoing":
                self.journal.append(UndoBegun(step=name))
            for path, content in mess.items():
                self.write(path, content)
            if name == cut:
                self.journal.close()
                self.crash()
                return False
            changed = self.watch.after(self.ROOTS)
            if name == fails:
                self.watch.restore_found(changed)
                self.journal.append(UndoFailed(step=name, changed=self.watch.after(self.ROOTS)))
                continue
            assert not self.watch.restore(name, changed)
            others = {path: one for path, one in changed.items() if self.history.owner.get(path, name) != name}
            self.journal.append(Undone(step=name, changed=others))
        return not self.history.begun()


CONTENTS = st.sampled_from(["", "x", "another"])
CHANGES = st.dictionaries(st.sampled_from(PATHS), CONTENTS, max_size=4)
STEPS = st.lists(st.tuples(CHANGES, st.booleans()), min_size=1, max_size=3)
ATTEMPTS = st.lists(st.tuples(CHANGES, st.sampled_from(["", "0", "1", "2"]), st.sampled_from(["", "0", "1", "2"])), max_size=3)  # fmt: skip
OWN = st.dictionaries(st.sampled_from(["/etc/mine", "/etc/d/mine", "/etc/c"]), st.sampled_from(["mine", "mine too"]))


@given(STEPS, ATTEMPTS, CHANGES, OWN, OWN)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_fails_or_is_cut_off_a_rollback_ends_where_the_run_began(
    steps: list[tuple[dict[str, str], bool]],
    attempts: list[tuple[dict[str, str], str, str]],
    mess: dict[str, str],
    earlier: dict[str, str],
    later: dict[str, str],
) -> None:
    """What the user wrote before a step, and after the last one, is there at the end; all else is as it was."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        for path, content in earlier.items():
            tree.write(path, content)
        before = tree.content()
        for number, (changes, is_cut) in enumerate(steps):
            tree.step(str(number), changes, is_cut=is_cut)
        # Folders that the run made go with what is in them, and so they are left out here.
        mine = {path: content for path, content in later.items() if path != "/etc/d/mine" or "/etc/d" in before}
        for path, content in mine.items():
            tree.write(path, content)
        for attempt in attempts:
            tree.roll_back(*attempt)
        assert tree.roll_back(mess, "", "")
        assert tree.content() == before | mine
        assert set(tree.watch.differences(tree.ROOTS)) <= set(mine)
