"""Plans for package managers carried out by the program itself in a tree, looked at again, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.field import Ask, Scene
from tests.integration.managers import installed, missing
from tests.integration.roots import Root
from tests.integration.test_bundles import as_system, gpustack, local, mirror

from gpustack.plan.document import dump

__all__ = ["local", "mirror"]

ASKED = {
    "debian12": Ask("debian12", ("driver", "cuda", "cudnn")),
    "rocky9": Ask("rocky9", ("driver", "cuda")),
    "leap15": Ask("opensuse-leap15.6", ("driver", "cuda", "cudnn")),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_plan_is_carried_out_once_and_taken_back(
    ask: Ask,
    scene: Callable[..., Scene],
    enter: Callable[..., Root],
    mirror: Callable[[Scene], dict[str, str]],
    tmp_path: Path,
) -> None:
    host = scene(ask)
    root = enter(host)
    as_system(root, host)
    family = host.system.family
    before, settings = installed(root, family), root.settings()
    plan = tmp_path / "plan.json"
    plan.write_text(dump(host.plan))
    environment = mirror(host)
    words = ("--root", root.path, "--yes")
    done = gpustack("install", plan, *words, environment=environment)
    assert done.returncode == 0, done.stderr
    there = installed(root, family)
    assert not missing(host.plan, there)
    changed = root.settings()
    again = gpustack("install", plan, *words, environment=environment)
    assert again.returncode == 0, again.stderr
    assert "nothing to do" in again.stderr
    assert (installed(root, family), root.settings()) == (there, changed)
    back = gpustack("install", "--rollback", *words, environment=environment)
    assert back.returncode == 0, back.stderr
    assert installed(root, family) == before
    now = root.settings()
    assert {path for path in {*now, *settings} if now.get(path) != settings.get(path)} <= {"etc/ld.so.cache"}
