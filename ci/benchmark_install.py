"""What an installation costs beside its own commands, measured in one run in a small Debian tree. Needs root.

    python3 ci/benchmark_install.py

Prints CPU time (user + system, of all processes): a second run of a plan that is done beside dpkg's own query, and
what a step adds to a run, also with 100,000 files more in /etc. No verdict: machines differ.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bootstrap import ROOT

RUNS = 5
MANY = 100_000
STEPS = 11
QUERY = ("dpkg-query", "--show", "--showformat", "${Package}:${Architecture}\\t${Version} ${Status}\\n")


def cpu_ms(command: list[str], environment: dict[str, str]) -> float:
    """CPU milliseconds of a command that has to succeed, with all that it waits for."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        msg = f"{' '.join(command)} ended with {process.returncode}"
        raise RuntimeError(msg)
    return (usage.ru_utime + usage.ru_stime) * 1000


def median(measure: Callable[[int], float]) -> float:
    return statistics.median(measure(number) for number in range(RUNS))


def fill(folder: Path, count: int) -> None:
    """So many small files, a thousand in a folder."""
    for number in range(count):
        place = folder / f"{number // 1000:03}" / f"{number:06}.conf"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"setting = {number}\n" * 6)


def main() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    from tests.install.layers import layer
    from tests.install.world import make_plan, make_world
    from tests.integration.keys import make_signing_keys
    from tests.integration.roots import base_tree, own_release

    from gpustack.model.steps import FileWrite
    from gpustack.plan.draft import draft

    step = partial(draft, component="", why="measured", phase="driver")
    kinds = {
        "writes a file": lambda number: step(
            f"s{number}", kind="write-file", title="file", files=(FileWrite(path=f"/opt/b/{number}", content="x\n"),)
        ),
        "runs a command": lambda number: step(
            f"s{number}", kind="run", title=f"command {number}", commands=(("true", str(number)),)
        ),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = make_signing_keys(folder / "gnupg")
        with make_world(base_tree(own_release()), keys, folder) as world:
            environment = world.environment()

            def install(tree: Path, plan: str) -> float:
                words = [sys.executable, "-m", "gpustack", "install", plan, "--yes", "--root", str(tree)]
                return cpu_ms(words, environment)

            with world.fresh(folder / "done") as made:
                plan = world.save(folder)
                install(made.root.path, plan)
                again = median(lambda _: install(made.root.path, plan))
                query = median(lambda _: cpu_ms(["chroot", str(made.root.path), *QUERY], environment))
            print(f"{'a second run, all is done':40} {again:8.1f} ms  {again - query:8.1f} ms above dpkg's query")
            for title, make in kinds.items():
                spent = {}
                for count in (1, 60):
                    path = world.save(folder, make_plan([make(number) for number in range(count)]))

                    def fresh(number: int, path: str = path) -> float:
                        with world.fresh(folder / f"layer{number}") as made:
                            return install(made.root.path, path)

                    spent[count] = median(fresh)
                print(f"{'a step that ' + title:40} {(spent[60] - spent[1]) / 59:8.2f} ms")
            commands = kinds["runs a command"]
            spent = {}
            for files in (0, MANY):
                for count in (1, STEPS):
                    with layer(world.lowers, world.below, folder / f"many{files}-{count}", 2048) as made:
                        fill(made.root.inside("/etc/many"), files)
                        path = world.save(folder, make_plan([commands(number) for number in range(count)]))
                        spent[files, count] = install(made.root.path, path)
            once = spent[MANY, 1] - spent[0, 1]
            each = (spent[MANY, STEPS] - spent[0, STEPS] - once) / (STEPS - 1)
            print(f"{f'{MANY} files more in /etc: the first step':40} {once:8.0f} ms")
            print(f"{'  each further step':40} {each:8.0f} ms")
            true = median(lambda _: cpu_ms(["chroot", str(world.below), "true"], environment))
            print(f"{'  the command itself, in the tree':40} {true:8.2f} ms")
        keys.stop()


if __name__ == "__main__":
    main()
