"""The watch, in process: what a step changes is seen, journaled and put back, whatever files are called and have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.errors import GpustackError
from gpustack.install.changes.backups import Backups
from gpustack.install.changes.watch import Watch
from gpustack.install.journal.file import Journal, read
from gpustack.install.journal.history import History
from gpustack.install.journal.records import RollbackBegun, StepBegun, StepEnded, UndoBegun, Undone
from gpustack.install.root import InstallRoot
from gpustack.install.run.touched_paths import SETTINGS

ETC = ("/etc",)


class Tree:
    """A tree with a journal of its own, in which steps are Python functions."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        for name in ("etc", "usr/bin", "var/lib/dpkg/alternatives", "etc/alternatives"):
            (self.root / name).mkdir(parents=True)
        self.folder = folder
        self.again()

    def again(self) -> None:
        """As another process, which knows what the journal tells and nothing else."""
        self.journal = Journal(self.folder / "journal.jsonl", self.folder / "reserve")
        self.journal.open()
        self.watch = Watch(InstallRoot(self.root), Backups(self.folder / "kept"), self.journal.history)

    @property
    def history(self) -> History:
        return self.journal.history

    def step(self, name: str, act: Callable[[], object], roots: tuple[str, ...] = ETC) -> set[str]:
        """Carry out a step; the places that it changed."""
        self.journal.append(StepBegun(step=name, before=self.watch.before(roots)))
        act()
        changed = self.watch.after(roots)
        self.journal.append(StepEnded(step=name, outcome="done", changed=changed))
        return set(changed)

    def rolled_back(self, *steps: str, roots: tuple[str, ...] = ETC) -> list[GpustackError]:
        self.again()
        self.journal.append(RollbackBegun(found=self.watch.since(roots)))
        troubles = []
        for name in steps:
            self.journal.append(UndoBegun(step=name))
            troubles += self.watch.restore(name)
            self.journal.append(Undone(step=name))
        return troubles

    def listing(self) -> str:
        """All that lies in the tree with modes, owners, sizes, links, times of files, and contents, as find says it."""
        form = "%p %y %m %U:%G %n %l "
        words = ["find", ".", "-printf", form, "(", "-type", "f", "-printf", "%s %T@ ", "-exec", "md5sum", "{}", ";", ")", "-o", "-printf", "\\n"]  # fmt: skip
        return subprocess.run(words, cwd=self.root, capture_output=True, check=True).stdout.decode("latin-1")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def in_order(text: str) -> list[str]:
    return sorted(text.split("\n"))


ODD = {
    "not UTF-8": b"caf\xe9",
    "not UTF-8 at all": bytes(range(128, 256)),
    "half a character": b"\xe2\x98",
    "a newline": b"two\nlines",
    "an escape": b"\x1b[2J",
    "a NUL's writing": b"\\0ff",
    "percent": b"%ff",
    "255 bytes": b"x" * 255,
    "255 bytes of snowmen": "\N{SNOWMAN}".encode() * 85,
    "255 bytes that are no text": b"\xff" * 255,
    "a bidirectional override": "\N{RIGHT-TO-LEFT OVERRIDE}cod.exe".encode(),
    "a blank": b" ",
    "a dash": b"-rf",
}


@pytest.mark.parametrize("raw", ODD.values(), ids=list(ODD))
def test_names_come_back(tree: Tree, raw: bytes) -> None:
    etc, name = tree.root / "etc", os.fsdecode(raw)
    (etc / "folder").mkdir()
    (etc / "folder" / name).write_text("old\n")
    (etc / "link").symlink_to(name)
    (etc / "other").write_text("stays\n")
    before = in_order(tree.listing())

    def act() -> None:
        (etc / "folder" / name).write_text("new, and longer\n")
        (etc / "link").unlink()
        (etc / "link").symlink_to("elsewhere")
        (etc / name).write_text("brought\n")

    assert len(tree.step("one", act)) == 3
    assert tree.rolled_back("one") == []
    assert tree.watch.differences(ETC) == {}
    assert in_order(tree.listing()) == before


def test_two_names_that_look_alike_are_two_places(tree: Tree) -> None:
    names = [b"a\xff", "a\N{LATIN SMALL LETTER Y WITH DIAERESIS}".encode(), b"a\\xff", b"a%ff"]
    for name in names:
        (tree.root / "etc" / os.fsdecode(name)).write_bytes(name)
    before = in_order(tree.listing())
    assert len(tree.step("one", lambda: shutil.rmtree(tree.root / "etc"))) == 6
    assert tree.rolled_back("one") == []
    assert in_order(tree.listing()) == before


@pytest.mark.slow  # the kernel follows a thousand names a thousand times a thousand times
def test_a_folder_as_deep_as_a_path_may_be(tree: Tree) -> None:
    deep = tree.root / "etc" / "/".join(["d"] * 1010)
    subprocess.run(["mkdir", "-p", str(deep)], check=True)
    try:
        (deep / "file").write_text("old\n")
        changed = tree.step("one", lambda: (deep / "file").write_text("new, longer\n"))
        assert changed == {"/" + str((deep / "file").relative_to(tree.root))}
        assert tree.rolled_back("one") == []
        assert (deep / "file").read_text() == "old\n"
    finally:
        subprocess.run(["rm", "-r", str(tree.root / "etc" / "d")], check=True)


def test_a_path_that_is_too_long_is_refused_before_the_step(tree: Tree) -> None:
    here = os.open(tree.root / "etc", os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    with pytest.raises(GpustackError, match="cannot be backed up: File name too long") as raised:
        tree.watch.before(ETC)
    assert raised.value.hint == "move it to a shorter path"


HIDDEN: dict[str, Callable[[Path], object]] = {
    "same size and time": lambda place: subprocess.run(
        ["sh", "-c", 'touch -r "$0" "$0.t"; printf OLD1 > "$0"; touch -r "$0.t" "$0"; rm "$0.t"', str(place)],
        check=True,
    ),
    "replaced by one of the same size and time": lambda place: subprocess.run(
        ["sh", "-c", 'printf OLD1 > "$0.n"; touch -r "$0" "$0.n"; mv "$0.n" "$0"', str(place)], check=True
    ),
    "mode only": lambda place: place.chmod(0o600),
    "an attribute only": lambda place: os.setxattr(place, "user.note", b"1"),
}


@pytest.mark.parametrize("harm", HIDDEN)
@pytest.mark.parametrize("is_killed", [False, True], ids=["", "killed"])
def test_changes_that_hide(tree: Tree, harm: str, is_killed: bool) -> None:
    place = tree.root / "etc" / "file"
    place.write_text("old1")
    tree.journal.append(StepBegun(step="one", before=tree.watch.before(ETC)))
    HIDDEN[harm](place)
    if is_killed:
        tree.again()
    tree.journal.append(StepEnded(step="one", outcome="done", changed=tree.watch.after(ETC)))
    assert tree.history.owner == {"/etc/file": "one"}
    assert tree.watch.differences(ETC).keys() == {"/etc/file"}
    assert tree.rolled_back("one") == []
    assert place.read_text() == "old1"
    assert os.listxattr(place) == []
    assert place.stat().st_mode & 0o777 == 0o644
    assert tree.watch.differences(ETC) == {}


def test_what_was_not_changed_is_not_written(tree: Tree) -> None:
    (tree.root / "etc" / "one").write_text("1")
    (tree.root / "etc" / "two").write_text("2")
    inode = (tree.root / "etc" / "two").stat().st_ino
    assert tree.step("one", lambda: (tree.root / "etc" / "one").write_text("other")) == {"/etc/one"}
    assert tree.step("two", lambda: None) == set()
    assert tree.rolled_back("two", "one") == []
    assert (tree.root / "etc" / "two").stat().st_ino == inode
    assert (tree.root / "etc" / "one").read_text() == "1"


def test_a_content_is_kept_once(tree: Tree) -> None:
    (tree.root / "etc" / "one").write_text("1" * 1000)
    for number in range(5):
        tree.step(f"{number}", lambda: (tree.root / "etc" / "two").write_text("2"))
        tree.again()
    assert (tree.folder / "kept" / "contents").stat().st_size == 1000


def test_one_file_of_two_names(tree: Tree) -> None:
    one, two = tree.root / "etc" / "one", tree.root / "etc" / "two"
    one.write_text("old\n")
    two.hardlink_to(one)
    backup = tree.folder / "backup"
    backup.hardlink_to(one)
    changed = tree.step("one", lambda: subprocess.run(["sed", "-i", "s/old/new/", str(one)], check=True))
    assert changed == {"/etc/one"}
    backup.unlink()
    assert tree.watch.differences(ETC) == {"/etc/one": "content, hard links"}
    assert tree.rolled_back("one") == []
    assert one.samefile(two)
    assert one.read_text() == "old\n"
    assert tree.watch.differences(ETC) == {}


def test_names_elsewhere_are_nobody_s_change(tree: Tree) -> None:
    one, backup = tree.root / "etc" / "one", tree.folder / "backup"
    one.write_text("old\n")
    backup.hardlink_to(one)
    assert tree.step("one", backup.unlink) == set()
    assert tree.step("two", lambda: backup.hardlink_to(one)) == set()
    assert tree.rolled_back("two", "one") == []
    assert tree.watch.differences(ETC) == {}


GROUP = "auto\n/usr/bin/gp\n\n/usr/bin/gp-before\n50\n\n"
SLAVES = "auto\n/usr/bin/gp\ngp.1\n/usr/share/gp.1\n\n/usr/bin/gp-before\n50\n/usr/share/gp-before.1\n\n"


def alternatives(tree: Tree, text: str = GROUP) -> Path:
    """A group of alternatives; its public link."""
    (tree.root / "var/lib/dpkg/alternatives/gp").write_text(text)
    (tree.root / "etc/alternatives/gp").symlink_to("/usr/bin/gp-before")
    link = tree.root / "usr/bin/gp"
    link.symlink_to("/etc/alternatives/gp")
    return link


def test_public_links_of_alternatives(tree: Tree) -> None:
    link = alternatives(tree, SLAVES)
    slave = tree.root / "usr/share/gp.1"
    slave.parent.mkdir()
    slave.symlink_to("/etc/alternatives/gp.1")

    def act() -> None:
        link.unlink()
        slave.unlink()
        (tree.root / "var/lib/dpkg/alternatives/gp").unlink()

    gone = {"/usr/bin/gp", "/usr/share/gp.1", "/var/lib/dpkg/alternatives/gp"}
    assert tree.step("one", act, SETTINGS) == gone
    assert tree.rolled_back("one", roots=SETTINGS) == []
    assert str(link.readlink()) == "/etc/alternatives/gp"
    assert str(slave.readlink()) == "/etc/alternatives/gp.1"


def test_a_public_link_that_came(tree: Tree) -> None:
    assert "/usr/bin/gp" in tree.step("one", lambda: alternatives(tree), SETTINGS)
    assert tree.rolled_back("one", roots=SETTINGS) == []
    assert not os.path.lexists(tree.root / "usr/bin/gp")


def test_what_a_group_names_newly_and_is_no_link_of_its_own_is_not_removed(tree: Tree) -> None:
    """Nobody knows what lay there before the step."""
    (tree.root / "usr/bin/gp").write_text("a program of the administrator\n")
    assert "/usr/bin/gp" not in tree.step(
        "one", lambda: (tree.root / "var/lib/dpkg/alternatives/gp").write_text(GROUP), SETTINGS
    )
    assert tree.rolled_back("one", roots=SETTINGS) == []
    assert (tree.root / "usr/bin/gp").read_text() == "a program of the administrator\n"


def test_diverted_files_and_overridden_modes(tree: Tree) -> None:
    (tree.root / "var/lib/dpkg/diversions").write_text("/usr/bin/tool\n/usr/bin/tool.real\n:\n")
    (tree.root / "var/lib/dpkg/statoverride").write_text("root root 4750 /usr/bin/helper\n")
    tool, real, helper = (tree.root / "usr/bin" / name for name in ("tool", "tool.real", "helper"))
    tool.write_text("wrapper")
    real.write_text("real")
    helper.write_text("helper")
    helper.chmod(0o4750)

    def act() -> None:
        real.replace(tool)
        (tree.root / "var/lib/dpkg/diversions").write_text("")
        (tree.root / "var/lib/dpkg/statoverride").write_text("")
        helper.chmod(0o755)

    changed = tree.step("one", act, SETTINGS)
    assert changed >= {"/usr/bin/tool", "/usr/bin/tool.real", "/usr/bin/helper"}
    assert tree.rolled_back("one", roots=SETTINGS) == []
    assert (tool.read_text(), real.read_text()) == ("wrapper", "real")
    assert helper.stat().st_mode & 0o7777 == 0o4750


def test_named_places_that_are_none_to_watch(tree: Tree) -> None:
    names = ("/proc/1/mem", "/dev/sda", "/run/x", "relative", "", "/", "/usr")
    (tree.root / "var/lib/dpkg/statoverride").write_text("".join(f"root root 644 {name}\n" for name in names))
    assert not set(names) & set(tree.watch.before(SETTINGS))


def test_the_journal_of_odd_names_is_read_again(tree: Tree) -> None:
    Path(os.fsdecode(os.fsencode(tree.root) + b"/etc/caf\xe9")).touch()
    tree.step("one", lambda: None)
    assert read(tree.folder / "journal.jsonl").base.keys() == tree.history.base.keys()
    assert "/etc/caf\0e9" in tree.history.base


RELABELLED = """
import sys
from pathlib import Path
from gpustack.install.journal.history import History
from gpustack.install.changes.backups import Backups
from gpustack.install.journal.records import StepBegun, StepEnded
from gpustack.install.root import InstallRoot
from gpustack.install.changes.watch import Watch
from gpustack.system.mounts import mount

folder = Path(sys.argv[1])
root, history = str(folder / "etc"), History()
watch = Watch(InstallRoot(), Backups(folder / "kept"), history)
history.fold(StepBegun(step="one", before=watch.before((root,))))
# From here on a file system lies there that takes no labels.
mount("ramfs", folder / "etc")
history.fold(StepEnded(step="one", outcome="done", changed=watch.after((root,))))
for error in watch.restore("one"):
    print(error.where, error.message, error.hint, sep="|")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("enforce", ["1", "0"])
def test_a_label_that_cannot_be_set_is_left_to_restorecon_where_selinux_is_enforced(
    tmp_path: Path, enforce: str
) -> None:
    place = tmp_path / "etc" / "shadow"
    place.parent.mkdir()
    place.write_text("root:*:\n")
    try:
        os.setxattr(place, "security.selinux", b"system_u:object_r:shadow_t:s0\0")
    except OSError as exc:
        pytest.skip(f"the folder for temporary files is on a file system without labels: {exc}")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "restorecon").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n')
    (tools / "restorecon").chmod(0o755)
    enforcing = f"mount -t tmpfs none /sys/fs && mkdir /sys/fs/selinux && echo {enforce} > /sys/fs/selinux/enforce"
    source = Path(__file__).parents[3] / "src"
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'{enforcing} && exec "$@"',
            "sh",
            sys.executable,
            "-c",
            RELABELLED,
            str(tmp_path),
        ],
        env={"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{place}|its attributes cannot be restored (SELinux label: Operation not supported)|" in done.stdout
    called = tmp_path / "called"
    assert (called.read_text() if called.exists() else "") == (f"-F -- {place}\n" if enforce == "1" else "")
