"""A small tree of rpm's kind with a past, a signed repository in it, and a plan that adds, changes and removes packages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec.structs import replace
from tests.by_hand import draft
from tests.downloads.server import Files
from tests.install.layers import layer
from tests.install.test_faults import redigested
from tests.install.world import STALL, World, make_plan
from tests.integration import rpms
from tests.integration.catalogue import Package
from tests.integration.keys import SigningKeys
from tests.integration.roots import Root

from gpustack.model.steps import FileWrite
from gpustack.plan.draft import Draft

Family = Literal["dnf", "zypper"]
FRONT = {"dnf": ("dnf", "-y"), "zypper": ("zypper", "--non-interactive")}
FOLDER = {"dnf": "/etc/yum.repos.d", "zypper": "/etc/zypp/repos.d"}
SYSTEM = {
    "dnf": 'ID=rocky\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\n',
    "zypper": 'ID=opensuse-leap\nVERSION_ID="15.6"\nID_LIKE="suse opensuse"\n',
}
KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-gp"
LINK = "ln -sfn /usr/bin/gp-tool /usr/bin/gp\n"


def script(name: str, *lines: str) -> str:
    return STALL.format(name) + "".join(lines)


PACKAGES = [
    Package("gp-shell", "1.0-1", provides="/bin/sh"),
    Package("gp-lib", "1.0-1", files={"/usr/lib/gp-lib.so": "library"}),
    Package("gp-tool", "1.0-1", depends=(("gp-lib", "=", "1.0"),), files={
        "/etc/gp-tool.conf": "default = 1\n", "/usr/bin/gp-tool": "#!/bin/sh\n",
        "/RPM/pre": script("unpack"), "/RPM/post": script("configure", LINK),
        "/RPM/postun": '[ "$1" -gt 0 ] || rm -f /usr/bin/gp\n',
    }),
    Package("gp-old", "1.0-1", files={"/usr/share/gp-old/version": "1.0"}),
    Package("gp-old", "2.0-1", files={"/usr/share/gp-old/version": "2.0", "/RPM/post": script("upgrade")}),
    Package("gp-gone", "1.0-1", files={
        "/usr/share/gp-gone/version": "1.0", "/etc/gp-gone.conf": "gone = 1\n",
        "/RPM/preun": script("remove"), "/RPM/postun": script("removed"),
    }),
]  # fmt: skip

KEYS = ("repository", "index", "remove", "install", "settings")


def steps(family: Family) -> list[Draft]:
    step = partial(draft, component="", why="the test asks for it")
    entry = (
        f"[gp]\nname=gp\nbaseurl=file:///srv/repository\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://{KEY}\n"
    )
    refresh = ("makecache",) if family == "dnf" else ("--gpg-auto-import-keys", "refresh")
    names = ("gp-tool-1.0", "gp-old-2.0") if family == "dnf" else ("gp-tool=1.0", "gp-old=2.0")
    front = FRONT[family]
    return [
        step("repository", kind="add-repository", title="add the repository", phase="repositories", files=(FileWrite(path=f"{FOLDER[family]}/gp.repo", content=entry),)),
        step("index", after=["repository"], kind="refresh-index", title="read the index", phase="repositories", commands=((*front, *refresh),)),
        step("remove", kind="remove-packages", title="remove gp-gone", phase="driver", commands=((*front, "remove", "gp-gone"),), packages=("gp-gone",)),
        step("install", kind="install-packages", title="install gp-tool and gp-old", phase="driver", commands=((*front, "install", *names),), packages=names),
        step("settings", kind="write-file", title="write settings", phase="driver", files=(FileWrite(path="/etc/gp.conf", content="new = 1\n"),)),
    ]  # fmt: skip


def give_a_past(root: Root, repository: Path, family: Family) -> None:
    # Debian's rpm keeps its database in the home of the user; rpm systems keep it here.
    root.write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
    root.write("/etc/os-release", SYSTEM[family])
    root.write("/etc/dnf/plugins/local.conf", "[main]\nenabled=0\n")
    root.must("rm", "-r", "/var/lib/dpkg")
    root.must("rpm", "--import", KEY)
    for name in ("gp-shell", "gp-old", "gp-gone"):
        root.must("rpm", "--install", f"/srv/repository/{next(repository.glob(f'{name}-1.0*.rpm')).name}")
    root.write("/etc/gp-gone.conf", "changed by the administrator\n")
    root.write("/etc/gp.conf", "old = 1\n", 0o640)
    root.inside("/etc/resolv.conf").unlink(missing_ok=True)
    root.write("/etc/resolv.conf", "")
    # Python's caches are made now, and no other repository is asked.
    for folder in FOLDER.values():
        for place in root.inside(folder).glob("*"):
            place.unlink()
    root.run([*FRONT[family], "repolist" if family == "dnf" else "repos"])


@contextmanager
def make_rpm_world(tree: Path, keys: SigningKeys, folder: Path, family: Family) -> Iterator[World]:
    """The world, until the tests end."""
    with layer([tree], tree, folder / "past") as past:
        repository = past.root.inside("/srv/repository")
        rpms.build_rpms(repository, PACKAGES)
        rpms.sign_rpms(repository, keys, keys.current)
        rpms.index_rpms(repository, keys, keys.current)
        past.root.write(KEY, keys.public(keys.current).decode())
        give_a_past(past.root, repository, family)
        plan = make_plan(steps(family))
        system = replace(plan.host.os, id=SYSTEM[family].partition("\n")[0].removeprefix("ID="), family=family)
        plan = redigested(replace(plan, host=replace(plan.host, os=system)))
        yield World((past.upper, tree), past.root.path, plan, Files(), "http://localhost:1", folder)
