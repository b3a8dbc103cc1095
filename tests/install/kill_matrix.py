"""Installations, resumptions and rollbacks that are killed at random instants, or fail; after each it is all new or all old.

`python -m tests.install.kill_matrix --instants 200 --seed 1` prints the table; the tests take a share of it.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.install.layers import Layer, mounted, packages
from tests.install.rpm_world import make_rpm_world
from tests.install.test_kills import KILLED, kill
from tests.install.world import World, make_world
from tests.integration.keys import SigningKeys, make_signing_keys
from tests.integration.managers import installed
from tests.integration.roots import base_tree, own_release

Manager = Literal["apt", "dnf", "zypper"]
Phase = Literal["install", "resume", "rollback", "repeated rollback", "failed rollback"]
MANAGERS: tuple[Manager, ...] = ("apt", "dnf", "zypper")
PHASES: tuple[Phase, ...] = ("install", "resume", "rollback", "repeated rollback", "failed rollback")
State = tuple[dict[str, str], dict[str, str]]

NOT_OURS = ("/tmp/", "/var/tmp/")  # noqa: S108 (of the tree: files that a killed rpm left)


@dataclass
class Bench:
    """One package manager's world, with the states that a run may end in."""

    manager: Manager
    world: World
    folder: Path
    ends: dict[str, State] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def state(self, made: Layer) -> State:
        """What differs from the tree below, but for Python's caches and what a killed rpm left; the packages."""
        changes = {
            path: text
            for path, text in made.changes().items()
            if "__pycache__" not in path and not path.startswith(NOT_OURS)
        }
        return changes, packages(made.root) if self.manager == "apt" else installed(made.root, "dnf")

    @contextmanager
    def fresh(self) -> Iterator[Layer]:
        self.count += 1
        with self.world.fresh(self.folder / f"{self.count}") as made:
            yield made

    def prepare(self) -> None:
        """One run and one rollback that nothing disturbs."""
        self.plan = self.world.save(self.folder)
        with self.fresh() as made:
            self.ends["--rollback"] = self.state(made)
            self.must(made, self.plan)
            self.ends["--resume"] = self.state(made)
            self.lines["install"] = self.lines["resume"] = len(journal(made).splitlines())
            self.must(made, "--rollback")
            self.lines["rollback"] = len(journal(made).splitlines()) - self.lines["install"]
            assert self.state(made) == self.ends["--rollback"]

    def must(self, made: Layer, *words: str) -> None:
        done = self.world.call(made.root.path, *words, "--yes")
        assert done.code == 0, done.err


def journal(made: Layer) -> bytes:
    files = sorted(made.root.inside("/var/lib/gpustack/runs").glob("*/journal.jsonl"))
    return files[-1].read_bytes() if files else b""


def killed(bench: Bench, made: Layer, chance: random.Random, lines: int, *words: str) -> None:
    """Start a command, and end it by SIGKILL when so many records more are written, or a little later."""
    here = len(journal(made).splitlines())
    wanted, later = here + chance.randrange(lines), chance.uniform(0, 0.2)
    with_children = chance.random() < 0.6
    process = bench.world.start(made.root.path, *words, "--yes")
    while process.poll() is None and len(journal(made).splitlines()) < wanted:
        waited(process, 0.002)
    waited(process, later)
    kill(process, with_children=with_children)


def waited(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return


def one(bench: Bench, phase: Phase, chance: random.Random) -> str:
    """One instant; "" where everything was new or old, or what was not."""
    with bench.fresh() as made:
        how = "--rollback"
        if phase == "install":
            killed(bench, made, chance, bench.lines["install"], bench.plan)
            how = chance.choice(["--resume", "--rollback"])
        elif phase == "resume":
            step = chance.choice(["remove", "install"])
            first = bench.world.call(made.root.path, bench.plan, "--yes", DIE_AT=f"before end {step}")
            assert first.code == KILLED, first.err
            killed(bench, made, chance, bench.lines["install"] // 2, "--resume")
            how = chance.choice(["--resume", "--rollback"])
        elif phase == "failed rollback":
            bench.must(made, bench.plan)
            # The packages that are to come back are out of reach: it fails, is killed, and fails again.
            with mounted(made.root.inside("/srv/repository"), "tmpfs", "size=64k"):
                for number in range(3):
                    if number == 1:
                        killed(bench, made, chance, bench.lines["rollback"] // 2, "--rollback")
                    elif bench.world.call(made.root.path, "--rollback", "--yes").code != 1:
                        return "it did not fail without the packages that are to come back"
        else:
            bench.must(made, bench.plan)
            for _ in range(1 if phase == "rollback" else 3):
                killed(bench, made, chance, bench.lines["rollback"], "--rollback")
        return ended(bench, made, how)


def ended(bench: Bench, made: Layer, how: str) -> str:
    if not journal(made):
        return "" if bench.state(made) == bench.ends["--rollback"] else "changed without a journal"
    done = bench.world.call(made.root.path, how, "--yes")
    nothing = {"--resume": "there is no run to resume", "--rollback": "there is no run to roll back"}[how]
    if done.code == 2 and nothing in done.err:
        # The kill came after the last record, or before the first change.
        states = list(bench.ends.values())
    elif done.code != 0:
        return f"{how} ended with {done.code}: {done.err[-1500:]}"
    else:
        states = [bench.ends[how]]
    changes, there = bench.state(made)
    if (changes, there) in states:
        return ""
    was, packages_were = states[0]
    paths = sorted(path for path in {*changes, *was} if changes.get(path) != was.get(path))
    names = sorted(name for name in {*there, *packages_were} if there.get(name) != packages_were.get(name))
    return f"after {how}: {paths[:20]} {names[:20]}"


@contextmanager
def make_bench(manager: Manager, keys: SigningKeys, folder: Path) -> Iterator[Bench]:
    folder.mkdir(parents=True, exist_ok=True)
    tree = base_tree(own_release())
    made = make_world(tree, keys, folder) if manager == "apt" else make_rpm_world(tree, keys, folder, manager)
    with made as world:
        bench = Bench(manager, world, folder / "runs")
        bench.folder.mkdir()
        bench.prepare()
        yield bench


def matrix(
    bench: Bench, instants: int, seed: int, tell: Callable[[str], None] = print
) -> Counter[tuple[Manager, Phase, bool]]:
    """So many instants for each phase; a line for each that did not end well, and the counts."""
    found: Counter[tuple[Manager, Phase, bool]] = Counter()
    for phase in PHASES:
        for number in range(instants):
            name = f"{seed} {bench.manager} {phase} {number}"
            why = one(bench, phase, random.Random(name))  # noqa: S311 (instants, not secrets)
            found[bench.manager, phase, not why] += 1
            if why:
                tell(f"{name}: {why}")
    return found


def table(found: Counter[tuple[Manager, Phase, bool]]) -> str:
    lines = [f"{'':8} {'killed in':18} {'instants':>8} {'new or old':>10} {'a mix':>6}"]
    for manager in MANAGERS:
        for phase in PHASES:
            good, bad = found[manager, phase, True], found[manager, phase, False]
            if good + bad:
                lines.append(f"{manager:8} {phase:18} {good + bad:8} {good:10} {bad:6}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instants", type=int, default=200, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--manager", choices=MANAGERS, action="append")
    given = parser.parse_args()
    managers = given.manager or MANAGERS
    found: Counter[tuple[Manager, Phase, bool]] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        keys = make_signing_keys(Path(scratch) / "gnupg")
        try:
            for manager in managers:
                with make_bench(manager, keys, Path(scratch) / manager) as bench:
                    found += matrix(bench, -(-given.instants // len(managers) // len(PHASES)), given.seed)
        finally:
            keys.stop()
    print(table(found))  # noqa: T201 (a program)
    raise SystemExit(any(not good for _, _, good in found))


if __name__ == "__main__":
    main()
