"""A disk that is full in the middle of unpacking: told, nothing is taken for done, and it goes on when there is room.

apt and dnf are in test_faults.py and test_kills_rpm.py. What is unpacked here is much larger than its file, so that
nobody sees it coming.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from functools import partial
from pathlib import Path

import pytest
from tests.by_hand import draft
from tests.downloads.server import Files, serving
from tests.install.test_faults import remount
from tests.install.world import VENDOR, World, make_plan
from tests.integration import runfiles

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact

step = partial(draft, component="", why="the test asks for it", phase="driver")
LARGE = 64 * 2**20
HOME = "/usr/local/gp-large"


def archive() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        entry = tarfile.TarInfo("gp/large")
        entry.size = LARGE
        packed.addfile(entry, io.BytesIO(bytes(LARGE)))
    return content.getvalue()


def plan_of(kind: str, content: bytes) -> Plan:
    path = f"/var/cache/gpustack/gp/gp.{kind}"
    sha256 = hashlib.sha256(content).hexdigest()
    file = Artifact(url=f"{VENDOR}gp.{kind}", path=path, sha256=sha256, size=len(content))
    get = step("get", kind="download", title="download", artifacts=(file,))
    if kind == "tar.gz":
        commands = (
            ("mkdir", "--", HOME),
            ("tar", "--extract", f"--file={path}", f"--directory={HOME}", "--strip-components=1"),
        )
        return make_plan([get, step("unpack", after=["get"], kind="extract", title="unpack", commands=commands)])
    run = (("sh", path, "--silent", "--toolkit"), ("touch", "--", f"{HOME}/done"))
    return make_plan([get, step("run", after=["get"], kind="run", title="run the installer", commands=run)])


@pytest.mark.parametrize("kind", ["tar.gz", "run"])
def test_unpacking(kind: str, world: World, tmp_path: Path) -> None:
    files = Files()
    if kind == "run":
        runfiles.write(tmp_path / "gp.run", runfiles.TOOLKIT_OPTIONS, {f"{HOME.lstrip('/')}/large": bytes(LARGE)})
        content = (tmp_path / "gp.run").read_bytes()
    else:
        content = archive()
    files.content[f"/gp.{kind}"] = content
    plan = world.save(tmp_path, plan_of(kind, content))
    with serving(files, None) as server, world.fresh(tmp_path / "layer") as made:
        more = {"GPUSTACK_MIRRORS": f"{VENDOR}={server}/"}
        remount(made.upper.parent, "size=40m")
        failed = world.call(made.root.path, plan, "--yes", **more)
        assert failed.code == 1
        assert "No space left on device" in failed.err
        assert "`gpustack install --resume` resumes the run" in failed.err
        remount(made.upper.parent, "size=512m")
        done = world.call(made.root.path, "--resume", "--yes", **more)
        assert done.code == 0, done.err
        assert made.root.inside(f"{HOME}/large").stat().st_size == LARGE
        back = world.call(made.root.path, "--rollback", "--yes")
        assert back.code == 0, back.err
        assert made.changes() == {}
