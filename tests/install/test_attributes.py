"""A whole installation and its rollback leave files with all that they had: attributes, names, odd neighbours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.install.layers import packages
from tests.install.world import World

LABEL = "security.selinux"
ACCESS = "system.posix_acl_access"
LABELS = {
    "/etc/shadow": b"system_u:object_r:shadow_t:s0\0",
    "/etc/passwd": b"system_u:object_r:passwd_file_t:s0\0",
    "/etc/gp.conf": b"system_u:object_r:etc_t:s0\0",
    "/etc/gp-old.list": b"system_u:object_r:etc_t:s0\0",
    "/etc/apt": b"system_u:object_r:etc_t:s0\0",
}


def test_attributes_and_names_after_a_rollback(world: World, tmp_path: Path) -> None:
    with world.fresh(tmp_path / "layer") as made:
        root = made.root
        for path, label in LABELS.items():
            os.setxattr(root.inside(path), LABEL, label)
        settings, twin = root.inside("/etc/gp.conf"), root.inside("/etc/gp-twin.conf")
        subprocess.run(["setfacl", "-m", "u:12:r", str(settings)], check=True)
        os.setxattr(settings, "trusted.owner", b"the administrator")
        twin.hardlink_to(settings)
        odd = root.inside("/etc") / os.fsdecode(b"caf\xe9\n.conf")
        odd.write_text("odd\n")
        public = str(root.inside("/usr/bin/gp").readlink())
        access, before, there = os.getxattr(settings, ACCESS), made.changes(), packages(root)
        done = world.call(root.path, world.save(tmp_path), "--yes")
        assert done.code == 0, done.err
        assert "internal fault" not in done.err
        assert ACCESS not in os.listxattr(settings)
        assert not settings.samefile(twin)
        back = world.call(root.path, "--rollback", "--yes")
        assert back.code == 0, back.err
        assert made.changes() == before
        assert packages(root) == there
        assert {path: os.getxattr(root.inside(path), LABEL) for path in LABELS} == LABELS
        assert os.getxattr(settings, ACCESS) == access
        assert os.getxattr(settings, "trusted.owner") == b"the administrator"
        assert settings.samefile(twin)
        assert odd.read_text() == "odd\n"
        assert str(root.inside("/usr/bin/gp").readlink()) == public
