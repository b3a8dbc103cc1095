"""Throw-away roots: a small Debian tree with apt, dnf and zypper, unpacked anew for each test and entered by chroot."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INCLUDED = (
    *("ca-certificates", "cloud-init", "python3-cffi-backend", "curl", "gnupg"),
    *("dnf", "zypper", "rpm", "python3-dateutil", "python3-dbus", "xz-utils"),
    *("python3-apt", "python3-debian", "systemd"),
)
UNPACKED = ("dnf-plugins-core",)
"""Debian does not let this stand beside zypper, so its files are unpacked beside the packages."""
_UNREAD = ("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


@dataclass(frozen=True)
class Root:
    """One tree. Nothing in it knows a name server, so that nothing beyond loopback is reached from it."""

    path: Path

    def run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program inside; its output comes back as one text."""
        return subprocess.run(
            ["chroot", str(self.path), *argv],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    def must(self, *argv: str) -> str:
        """Run a program that has to succeed; what it printed."""
        done = self.run(argv)
        assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"
        return done.stdout

    def inside(self, path: str) -> Path:
        return self.path / path.lstrip("/")

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        target = self.inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        # A new file: an old one may be shared with the other copies of the tree.
        target.unlink(missing_ok=True)
        target.write_text(content)
        target.chmod(mode)

    def settings(self) -> dict[str, str]:
        """The sums of all files under /etc: what a second run must leave alone."""
        return {
            str(path.relative_to(self.path)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.inside("/etc").rglob("*"))
            if path.is_file() and not path.is_symlink()
        }


def copy_tree(base: Path, target: Path) -> Root:
    """A fresh copy. Files under /usr are shared by hard links: package managers replace them and never write in them."""
    target.mkdir()
    for path in sorted(base.iterdir()):
        share = ["--link"] if path.name == "usr" and path.stat().st_dev == target.stat().st_dev else []
        subprocess.run(["cp", "--archive", *share, str(path), str(target)], check=True)
    return Root(target)


def own_release() -> str:
    """The code name of this machine's release, of which the tree with all package managers is made."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def base_tree(codename: str, included: tuple[str, ...] = INCLUDED, unpacked: tuple[str, ...] = UNPACKED) -> Path:
    """The tree that roots are copies of, made once for this machine in its folder for temporary files."""
    folder = own_folder(Path(tempfile.gettempdir()) / f"gpustack-tests-{os.getuid()}")
    words = hashlib.sha256(" ".join((*included, *unpacked, *_UNREAD)).encode()).hexdigest()[:12]
    tree = folder / f"{codename}-{words}"
    with (folder / f"{tree.name}.lock").open("w") as lock:
        # Of several test processes one makes it, and the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            _make(codename, tree, included, unpacked)
    return tree


def mirror() -> str:
    """Where this machine's own apt sources have its distribution from."""
    codename = own_release()
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for line in told.splitlines():
        release, component, address = line.split()
        if (release, component) == (codename, "main"):
            return address
    msg = f"the apt sources of this machine have no {codename} main: the tests take their trees from there"
    raise LookupError(msg)


def apt_settings(*prefixes: str) -> list[str]:
    """The lines of this machine's apt configuration below these names, such as proxies."""
    told = subprocess.run(["apt-config", "dump"], check=True, capture_output=True, text=True).stdout
    return [line for line in told.splitlines() if line.startswith(prefixes)]


def _make(codename: str, tree: Path, included: tuple[str, ...], unpacked: tuple[str, ...]) -> None:
    environment = dict(os.environ)
    for line in apt_settings("Acquire::http::Proxy ", "Acquire::https::Proxy "):
        name, _, value = line.partition(" ")
        environment[f"{name.split('::')[1]}_proxy"] = value.strip('";')
    new = tree.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    settings = new / "etc/dpkg/dpkg.cfg.d/tests"
    settings.parent.mkdir(parents=True)
    settings.write_text("force-unsafe-io\n" + "".join(f"path-exclude=/{path}/*\n" for path in _UNREAD))
    commands = [["debootstrap", "--variant=minbase", f"--include={','.join(included)}", codename, str(new), mirror()]]
    for name in unpacked:
        commands += [
            ["chroot", str(new), "sh", "-c", f"cd /root && exec apt-get download {name}"],
            ["chroot", str(new), "sh", "-c", "dpkg-deb -x /root/*.deb / && rm /root/*.deb"],
        ]
    for command in commands:
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    for path in (*_UNREAD, "var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(new / path, ignore_errors=True)
    for path in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (new / path).mkdir(parents=True)
    new.rename(tree)


def own_folder(path: Path) -> Path:
    """A folder for temporary files that nobody else can write to."""
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    assert found.st_uid == os.getuid(), f"{path} belongs to somebody else"
    assert not found.st_mode & 0o077, f"{path} can be changed by others"
    return path
