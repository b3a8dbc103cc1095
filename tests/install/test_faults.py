"""What stands in the way of an installation is told in a clear sentence, nothing is half done, and it goes on after it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.by_hand import draft
from tests.install.layers import Layer, packages
from tests.install.test_kills import assert_undisturbed, running, wait_for
from tests.install.world import World, make_plan
from tests.integration import debs
from tests.integration.catalogue import Package
from tests.integration.keys import SigningKeys

from gpustack.model.plan import Plan
from gpustack.model.steps import FileWrite
from gpustack.plan.document import digest_of

step = partial(draft, component="", why="the test asks for it", phase="driver")


def refused(world: World, made: Layer, plan: str, *words: str) -> str:
    """It ends with 1 and changes nothing; what it said."""
    before = made.changes()
    done = world.call(made.root.path, plan, "--yes", *words)
    assert done.code == 1, done.err
    assert made.changes() == before
    return done.err


def goes_on(world: World, made: Layer, plan: str) -> None:
    done = world.call(made.root.path, plan, "--yes")
    assert done.code == 0, done.err
    assert_undisturbed(world, made)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def fill(filler: Path) -> None:
    """Write until nothing goes on the disk any more."""
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(65536))


def test_too_little_room_is_seen_before_the_first_change(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        remount(made.upper.parent, "size=100m")
        told = refused(world, made, plan)
        assert "MiB free, and 160 MiB are needed" in told
        assert "nothing was changed" in told
        remount(made.upper.parent, "size=512m")
        goes_on(world, made, plan)


def test_a_disk_that_fills_up_in_the_middle(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        stall, filler = made.root.inside("/srv/stall-configure"), made.upper.parent / "filler"
        stall.touch()
        process = world.start(made.root.path, plan, "--yes")
        wait_for(made.root.inside("/srv/stalled").exists)
        remount(made.upper.parent, "size=64m")
        fill(filler)
        stall.unlink()
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 1, told
        assert "No space left on device" in told
        filler.unlink()
        remount(made.upper.parent, "size=512m")
        made.root.inside("/srv/stalled").unlink(missing_ok=True)
        goes_on(world, made, plan)


def test_a_tree_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        remount(made.root.path, "ro")
        assert "Read-only file system" in refused(world, made, plan)
        remount(made.root.path, "rw")
        goes_on(world, made, plan)


def test_a_package_database_that_somebody_else_works_on(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        with made.root.inside("/var/lib/dpkg/lock-frontend").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            told = refused(world, made, plan, "--wait", "0.3")
        assert f"(process {os.getpid()}) (/var/lib/dpkg/lock-frontend)" in told
        goes_on(world, made, plan)


def test_a_package_database_that_is_waited_for(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        with made.root.inside("/var/lib/dpkg/lock-frontend").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            process = world.start(made.root.path, world.save(tmp_path), "--yes")
            assert process.stderr is not None
            waiting = next(line for line in process.stderr if line.startswith("waiting"))
            assert f"(process {os.getpid()}), which works on the packages (/var/lib/dpkg/lock-frontend)" in waiting
        told = process.communicate(timeout=120)[1]
        assert process.returncode == 0, told
        assert_undisturbed(world, made)


def test_a_folder_of_settings_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        settings = str(made.root.inside("/etc"))
        subprocess.run(["mount", "--bind", settings, settings], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", settings], check=True)
            told = refused(world, made, plan)
        finally:
            subprocess.run(["umount", settings], check=True)
        assert "is mounted read-only" in told
        assert "/etc" in told
        assert "nothing was changed" in told
        goes_on(world, made, plan)


def test_a_package_that_is_held(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        made.root.must("apt-mark", "hold", "gp-old")
        told = refused(world, made, plan)
        assert "packages that the plan changes are held: gp-old:amd64" in told
        assert "`apt-mark unhold gp-old:amd64`" in told
        made.root.must("apt-mark", "unhold", "gp-old")
        goes_on(world, made, plan)


def offer(made: Layer, *names: str) -> None:
    """Somebody else's repository, whose packages the administrator prefers."""
    other = [Package(name, "9.0", files={f"/usr/share/{name}-other": "9"}) for name in names]
    debs.build_repository(made.root.inside("/srv/other"), other)
    made.root.write(OTHER, "deb [trusted=yes] file:/srv/other ./\n")
    made.root.write(PIN, "Package: gp-*\nPin: version 9.*\nPin-Priority: 700\n")


OTHER, PIN = "/etc/apt/sources.list.d/other.list", "/etc/apt/preferences.d/other"


def test_newer_packages_of_somebody_else_and_pins_change_nothing(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        offer(made, "gp-old", "gp-tool")
        before = made.changes()
        done = world.call(made.root.path, world.save(tmp_path), "--yes")
        assert done.code == 0, done.err
        assert packages(made.root) == world.undisturbed[1]
        back = world.call(made.root.path, "--rollback", "--yes")
        assert back.code == 0, back.err
        assert made.changes() == before
        assert packages(made.root) == world.before


def test_somebody_else_s_dependency_that_does_not_fit(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        offer(made, "gp-lib")
        done = world.call(made.root.path, world.save(tmp_path), "--yes")
        assert done.code == 1
        assert "gp-tool : Depends: gp-lib (= 1.0) but 9.0 is to be installed" in done.err
        for path in (OTHER, PIN):
            made.root.inside(path).unlink()
        made.root.must("rm", "-r", "/srv/other")
        made.root.must("apt-get", "update")
        again = world.call(made.root.path, "--resume", "--yes")
        assert again.code == 0, again.err
        assert packages(made.root) == world.undisturbed[1]


def test_a_package_that_is_installed_half_way(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        made.root.must("dpkg", "--unpack", "/srv/repository/gp-lib_1.0_amd64.deb")
        told = refused(world, made, plan)
        assert "packages are installed half-way: gp-lib:amd64" in told
        assert "`dpkg --configure -a`" in told
        made.root.must("dpkg", "--purge", "gp-lib")
        goes_on(world, made, plan)


HEADS = {
    "signed in the future, for a clock in the past": ("Date: Fri, 01 Oct 2100 00:00:00 UTC", "not valid yet"),
    "signed too long ago": ("Valid-Until: Tue, 01 Oct 2019 00:00:00 UTC", "is expired"),
}


@pytest.mark.parametrize("head", HEADS.values(), ids=list(HEADS))
def test_a_repository(world: World, keys: SigningKeys, tmp_path: Path, head: tuple[str, str]) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        folder = made.root.inside("/srv/repository")
        names = ("Release", "InRelease")
        whole = {name: (folder / name).read_bytes() for name in names}
        name, _, value = head[0].partition(": ")
        release = "\n".join(line for line in whole["Release"].decode().splitlines() if not line.startswith(f"{name}:"))
        signed = keys.clear_sign(f"{name}: {value}\n{release}\n".encode(), keys.current)
        (folder / "InRelease").write_bytes(signed)
        done = world.call(made.root.path, plan, "--yes")
        assert done.code == 1, done.err
        assert head[1] in done.err
        assert "gpustack install --resume" in done.err
        for one in names:
            (folder / one).write_bytes(whole[one])
        goes_on(world, made, plan)


def test_a_repository_with_another_key(world: World, keys: SigningKeys, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        folder = made.root.inside("/srv/repository")
        whole = (folder / "InRelease").read_bytes()
        release = (folder / "Release").read_bytes()
        (folder / "InRelease").write_bytes(keys.clear_sign(release, keys.retired))
        done = world.call(made.root.path, plan, "--yes")
        assert done.code == 1, done.err
        assert "NO_PUBKEY" in done.err
        (folder / "InRelease").write_bytes(whole)
        goes_on(world, made, plan)


def test_two_at_once(world: World, tmp_path: Path) -> None:
    plan = world.save(tmp_path)
    with world.fresh(tmp_path / "layer") as made:
        stall = made.root.inside("/srv/stall-configure")
        stall.touch()
        first = world.start(made.root.path, plan, "--yes")
        wait_for(made.root.inside("/srv/stalled").exists)
        told = refused(world, made, plan, "--wait", "0.3")
        assert f"another gpustack (process {first.pid}) is installing into this tree" in told
        second = world.start(made.root.path, plan, "--yes")
        assert second.stderr is not None
        assert second.stderr.readline() == f"waiting for another gpustack (process {first.pid})\n"
        stall.unlink()
        assert first.communicate(timeout=120)
        assert first.returncode == 0
        assert "nothing to do" in second.communicate(timeout=120)[1]
        assert second.returncode == 0
        made.root.inside("/srv/stalled").unlink()
        assert_undisturbed(world, made)


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_record_and_the_children(world: World, tmp_path: Path, number: int, code: int) -> None:
    plan = make_plan([step("long", kind="run", title="wait", commands=(("sleep", "1000"),))])
    with world.fresh(tmp_path / "layer") as made:
        process = world.start(made.root.path, world.save(tmp_path, plan), "--yes")
        wait_for(lambda: any(record["event"] == "command" for record in records(made)))
        sleeping = next(record["pid"] for record in records(made) if record["event"] == "command")
        process.send_signal(number)
        told = process.communicate(timeout=60)[1]
        assert process.returncode == code, told
        assert f"interrupted by {number.name}" in told
        last = records(made)[-1]
        assert (last["event"], last["outcome"]) == ("end", "interrupted")
        assert sleeping not in dict(running())


def records(made: Layer) -> list[dict[str, object]]:
    runs = made.root.inside("/var/lib/gpustack/runs")
    files = sorted(runs.glob("*/journal.jsonl")) if runs.exists() else []
    # What has no end yet is being written.
    whole = files[-1].read_text().rpartition("\n")[0] if files else ""
    return [json.loads(line) for line in whole.splitlines()]


def test_a_plan_for_another_host_names_the_field(world: World, tmp_path: Path) -> None:
    other = replace(world.plan.host, os=replace(world.plan.host.os, version_id="99"))
    plan = redigested(replace(world.plan, host=other))
    with world.fresh(tmp_path / "layer") as made:
        done = world.call(made.root.path, world.save(tmp_path, plan), "--yes")
        assert done.code == 2
        assert 'the plan is stale: os.version_id of the host was "99" and is now "' in done.err


def redigested(plan: Plan) -> Plan:
    bare = replace(plan, digest="")
    return replace(bare, digest=digest_of(bare))


def test_nobody_to_ask(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        done = world.call(made.root.path, world.save(tmp_path))
        assert done.code == 2
        assert "cannot ask for confirmation" in done.err
        assert made.changes() == {}


def test_a_reboot_is_waited_for(world: World, tmp_path: Path) -> None:
    """On the running system, but for its state and its boot id, which lie in folders of the test."""
    state, boot = tmp_path / "state", tmp_path / "boot_id"
    state.mkdir()
    done_file = tmp_path / "done"
    plan = make_plan(
        [
            step("reboot", kind="reboot", title="reboot", commands=(("systemctl", "reboot"),), reboot_after=True),
            step("after", after=["reboot"], kind="write-file", title="write", files=(FileWrite(path=str(done_file), content="x\n"),)),
        ]
    )  # fmt: skip
    plan = redigested(replace(plan, host=replace(plan.host, os=replace(plan.host.os, id=None, family=None))))

    def call(boot_id: str, *words: str) -> subprocess.CompletedProcess[str]:
        boot.write_text(f"{boot_id}\n")
        mounts = f"mount --bind {state} /var/lib && mount --bind {boot} /proc/sys/kernel/random/boot_id"
        command = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh"]
        command += [sys.executable, "-m", "gpustack", "install", "--yes", "--reboot", "never", *words]
        return subprocess.run(command, env=world.environment(), capture_output=True, text=True, check=False, timeout=60)

    first = call("one", world.save(tmp_path, plan))
    assert first.returncode == 5, first.stderr
    assert "`gpustack install --resume`" in first.stderr
    assert call("one", "--resume").returncode == 5
    assert not done_file.exists()
    last = call("two", "--resume")
    assert last.returncode == 0, last.stderr
    assert done_file.read_text() == "x\n"
