"""A small Debian with a past, a signed repository beside it, and a plan with a step of every kind that a tree can have."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from msgspec.structs import replace
from tests.by_hand import draft
from tests.downloads.server import Files, serving
from tests.install.layers import Layer, layer, packages
from tests.integration import debs
from tests.integration.catalogue import Package
from tests.integration.keys import SigningKeys
from tests.integration.roots import Root

from gpustack import resources
from gpustack.model import actions as do
from gpustack.model.host import Host, OperatingSystem
from gpustack.model.plan import Plan
from gpustack.model.request import Request
from gpustack.model.steps import Artifact, FileWrite
from gpustack.plan.document import digest_of, dump
from gpustack.plan.draft import Draft, assemble, sha256_of

VENDOR = "https://vendor.gpustack.test/"
GET = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300")
CACHE = "/var/cache/gpustack"
KEYRING = "/usr/share/keyrings/gp-archive-keyring.gpg"
REPOSITORY = "/etc/apt/sources.list.d/gp.sources"

STALL = "while [ -e /srv/stall-{0} ]; do touch /srv/stalled; sleep 0.02; done\n"
"""A package's script stops here as long as a test wants it to."""


def ended(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A command that nobody answers, to its end."""
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
    )


def script(name: str, *lines: str) -> str:
    return f"#!/bin/sh\nset -e\n{STALL.format(name)}{''.join(lines)}"


ADD_USER = "id gp-tool >/dev/null 2>&1 || useradd --system --no-create-home gp-tool\n"
"""As packages of services do: the databases of users belong to a step from then on."""

PACKAGES = [
    Package("gp-dep", "1.0", depends=(("gp-tool", "", ""),), files={"/usr/share/gp-dep/version": "1.0"}),
    Package("gp-lib", "1.0", files={"/usr/lib/gp/lib.so": "library"}),
    Package("gp-tool", "1.0", depends=(("gp-lib", "=", "1.0"),), files={
        "/etc/gp-tool.conf": "default = 1\n", "/usr/bin/gp-tool": "#!/bin/sh\n", "/DEBIAN/conffiles": "/etc/gp-tool.conf\n",
        "/DEBIAN/preinst": script("unpack"),
        "/DEBIAN/postinst": script("configure", ADD_USER, "update-alternatives --install /usr/bin/gp gp /usr/bin/gp-tool 90\n"),
        "/DEBIAN/prerm": script("unconfigure", "update-alternatives --remove gp /usr/bin/gp-tool\n"),
    }),
    Package("gp-old", "1.0", files={"/usr/share/gp-old/version": "1.0"}),
    Package("gp-old", "2.0", files={"/usr/share/gp-old/version": "2.0"}),
    Package("gp-gone", "1.0", files={
        "/usr/share/gp-gone/version": "1.0", "/etc/gp-gone.conf": "gone = 1\n", "/DEBIAN/conffiles": "/etc/gp-gone.conf\n",
        "/DEBIAN/prerm": script("remove"), "/DEBIAN/postrm": script("removed"),
    }),
]  # fmt: skip


@dataclass(frozen=True)
class World:
    """``below`` is the tree before anything is installed; fresh layers over it come from ``fresh``."""

    lowers: tuple[Path, ...]
    below: Path
    plan: Plan
    files: Files
    server: str
    scratch: Path

    @contextmanager
    def fresh(self, folder: Path) -> Iterator[Layer]:
        with layer(self.lowers, self.below, folder) as made:
            yield made

    def environment(self, **more: str) -> dict[str, str]:
        """That of a gpustack which has the vendor's host on loopback."""
        sources = str(resources.folder("matrices").parent / "src")
        tests = str(resources.folder("matrices").parent)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.scratch),
            "PYTHONPATH": f"{sources}:{tests}",
            "GPUSTACK_MIRRORS": f"{VENDOR}={self.server}/",
            "GPUSTACK_CACHE": str(self.scratch / "cache"),
            **more,
        }

    def call(self, tree: Path, *words: str, **more: str) -> Done:
        """``gpustack install WORDS`` into a tree; with DIE_AT among the variables it is killed at that point."""
        process = self.start(tree, *words, **more)
        out, err = process.communicate(timeout=300)
        return Done(process.returncode, out, err)

    def start(self, tree: Path, *words: str, **more: str) -> subprocess.Popen[str]:
        """The same, while it runs."""
        program = ("-m", "tests.install.launcher") if "DIE_AT" in more else ("-m", "gpustack")
        command = [sys.executable, *program, "install", *words, "--root", str(tree)]
        environment = self.environment(**more)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    @cached_property
    def before(self) -> dict[str, str]:
        """The packages of a fresh tree."""
        with self.fresh(self.scratch / "before") as made:
            return packages(made.root)

    @cached_property
    def undisturbed(self) -> tuple[dict[str, str], dict[str, str]]:
        """What a run changes that nothing disturbs, and the packages behind it."""
        with self.fresh(self.scratch / "undisturbed") as made:
            done = self.call(made.root.path, self.save(self.scratch), "--yes")
            assert done.code == 0, done.err
            return made.changes(), packages(made.root)

    def save(self, folder: Path, plan: Plan | None = None) -> str:
        path = folder / "plan.json"
        path.write_text(dump(plan or self.plan))
        return str(path)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def make_plan(drafts: list[Draft], family: str = "apt") -> Plan:
    """The plan of these drafts for a described Debian."""
    system = OperatingSystem(id="debian", version_id=None, family=family)
    host = Host(os=replace(system, family=None) if family != "apt" else system, arch="x86_64", described=True)
    host = replace(host, os=replace(host.os, family=family))
    plan = Plan(
        host=host,
        host_digest=sha256_of(host),
        request=Request(requirements=()),
        facts="0" * 64,
        steps=assemble(drafts),
    )
    return replace(plan, digest=digest_of(plan))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def every_kind(www: Path, keys: SigningKeys) -> list[Draft]:
    """A step of every kind that a tree without a system, GPU and compiler can carry out; some say no more than words."""
    archive, key = f"{CACHE}/gp/gp.tar.gz", f"{CACHE}/keys/gp.pub"
    step = partial(draft, component="", why="the test asks for it")
    return [
        step("edit", kind="run", title="switch a setting", phase="preflight", commands=(("cp", "--preserve", "--", "/etc/gp-old.list", "/etc/gp-old.list.saved"), ("sed", "-i", "-e", "s/^/# off: /", "--", "/etc/gp-old.list"))),
        step("note", kind="note", title="a remark", phase="preflight", needs_root=False),
        step("archive", kind="download", title="download gp", phase="repositories", artifacts=(Artifact(url=f"{VENDOR}gp.tar.gz", path=archive, sha256=sha256(www / "gp.tar.gz"), size=(www / "gp.tar.gz").stat().st_size),), done_when=f"file {archive} {sha256(www / 'gp.tar.gz')}"),
        step("key-file", kind="download", title="download the key", phase="repositories", artifacts=(Artifact(url=f"{VENDOR}gp.pub", path=key, sha256=sha256(www / "gp.pub"), fingerprint=keys.current),)),
        step("key", after=["key-file"], kind="run", title="check the key", phase="repositories", actions=(do.TakeKey(source=key, wanted=keys.current, target=KEYRING, home=f"{CACHE}/keys/gp-gnupg"),)),
        step("repository", after=["key"], kind="add-repository", title="add the repository", phase="repositories", files=(FileWrite(path=REPOSITORY, content=f"Types: deb\nURIs: file:/srv/repository\nSuites: ./\nSigned-By: {KEYRING}\n"),)),
        step("index", after=["repository"], kind="refresh-index", title="read the index", phase="repositories", commands=((*GET, "update"),)),
        step("remove", kind="remove-packages", title="remove gp-gone", phase="driver", commands=((*GET, "purge", "-y", "gp-gone"),), packages=("gp-gone",)),
        step("install", kind="install-packages", title="install gp-tool and gp-old", phase="driver", actions=(do.InstallPackages(manager="apt", packages=(do.Package(name="gp-tool", pin="1.0"), do.Package(name="gp-old", pin="2.0"))),), done_when="package gp-tool 1.0"),
        step("hold", after=["install"], kind="hold-packages", title="hold gp-old", phase="driver", actions=(do.HoldPackages(manager="apt", names=("gp-old",)),)),
        step("settings", kind="write-file", title="write settings", phase="driver", files=(FileWrite(path="/etc/gp.conf", content="new = 1\n", mode="0600"), FileWrite(path="/etc/gp.d/more.conf", content="more = 1\n"))),
        step("initramfs", kind="rebuild-initramfs", title="rebuild the boot image", phase="driver", commands=(("update-initramfs", "-u", "-k", "all"),)),
        step("service", kind="enable-service", title="enable the service", phase="driver", actions=(do.EnableService(unit="gp.service"),)),
        step("reboot", kind="reboot", title="reboot", phase="reboot", commands=(("systemctl", "reboot"),), reboot_after=True),
        step("unpack", after=["archive"], kind="extract", title="unpack gp", phase="toolkit", actions=(do.MakeFolders(paths=("/usr/local/gp-1.0",)), do.Unpack(archive=archive, folder="/usr/local/gp-1.0"))),
        step("link", after=["unpack"], kind="make-link", title="link gp", phase="toolkit", actions=(do.Link(path="/usr/local/gp", target="/usr/local/gp-1.0"),)),
        step("build", after=["unpack"], kind="build", title="build gp", phase="libraries", commands=(("cp", "-R", "-P", "--", "/usr/local/gp-1.0/share/.", "/opt/gp"),)),
        step("environment", kind="set-environment", title="set the environment", phase="libraries", files=(FileWrite(path="/etc/profile.d/gp.sh", content="PATH=/usr/local/gp/bin:$PATH"),)),
        step("verify", kind="run", title="verify", phase="verification", commands=(("gpustack", "verify"),), needs_root=False),
    ]  # fmt: skip


KEYS = ("edit", "note", "archive", "key-file", "key", "repository", "index", "remove", "install", "hold", "settings", "initramfs", "service", "reboot", "unpack", "link", "build", "environment", "verify")  # fmt: skip
"""The steps of that plan, as ``every_kind`` names them, in their order."""


def give_a_past(root: Root, repository: Path) -> None:
    """What an installation meets on a used machine: packages, settings, links, a folder with files in it."""
    for name in ("gp-old_1.0", "gp-gone_1.0"):
        root.write("/root/one.deb", "")
        root.inside("/root/one.deb").write_bytes((repository / f"{name}_amd64.deb").read_bytes())
        root.must("dpkg", "-i", "/root/one.deb")
    root.inside("/root/one.deb").unlink()
    root.write("/etc/gp-gone.conf", "changed by the administrator\n")
    root.write("/etc/gp.conf", "old = 1\n", 0o640)
    os.chown(root.inside("/etc/gp.conf"), 12, 34)
    root.write("/etc/gp-old.list", "entry\n")
    unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
    root.write("/usr/lib/systemd/system/gp.service", unit)
    root.write("/usr/bin/gp-before", "#!/bin/sh\n", 0o755)
    root.must("update-alternatives", "--install", "/usr/bin/gp", "gp", "/usr/bin/gp-before", "50")
    root.write("/usr/local/gp-0.9/version", "0.9")
    root.inside("/usr/local/gp").symlink_to("/usr/local/gp-0.9")
    root.write("/opt/gp/one", "of somebody else\n", 0o600)
    root.write("/opt/gp/two", "shared, old\n", 0o604)
    for path in ("/etc/apt/sources.list", "/etc/resolv.conf"):
        root.inside(path).unlink(missing_ok=True)
    root.write("/etc/resolv.conf", "")


def fill(www: Path, keys: SigningKeys) -> None:
    """The files that the vendor offers for download."""
    content = www / "content" / "gp"
    many = [(f"many/{number:04}", f"{number}\n") for number in range(1000)]
    for path, text in (
        ("bin/gp", "#!/bin/sh\n"),
        ("share/two", "shared, new\n"),
        ("share/deep/three", "three\n"),
        *many,
    ):
        (content / path).parent.mkdir(parents=True, exist_ok=True)
        (content / path).write_text(text)
    with tarfile.open(www / "gp.tar.gz", "w:gz") as archive:
        archive.add(content, arcname="gp")
    (www / "gp.pub").write_bytes(keys.public(keys.current))


@contextmanager
def make_world(tree: Path, keys: SigningKeys, folder: Path) -> Iterator[World]:
    """The world, until the tests end."""
    www = folder / "www"
    www.mkdir()
    fill(www, keys)
    with layer([tree], tree, folder / "past") as past:
        repository = past.root.inside("/srv/repository")
        debs.build_repository(repository, PACKAGES)
        debs.sign_repository(repository, keys, keys.current, head={"Origin": "gp", "Label": "gp", "Suite": "./"})
        give_a_past(past.root, repository)
        files = Files()
        files.content = {f"/{one.name}": one.read_bytes() for one in www.iterdir() if one.is_file()}
        with serving(files, None) as server:
            plan = make_plan(every_kind(www, keys))
            yield World((past.upper, tree), past.root.path, plan, files, server, folder)
