"""A host in the field: its plan, the repositories that the plan asks for, and a root in which the plan is run."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from tests.integration import catalogue, debs, rpms
from tests.integration.catalogue import Package
from tests.integration.keys import Certificate, SigningKeys
from tests.integration.roots import Root, copy_tree

from gpustack import resources
from gpustack.matrix.index import Matrix, load_matrix
from gpustack.model.places import Repository, System
from gpustack.model.plan import Plan
from gpustack.model.steps import Step
from gpustack.solve.rows import HostRows

ARCHIVE = "archive.gpustack.test"
"""The host name of the distribution's own archive."""

HOSTS = ("developer.download.nvidia.com", "nvidia.github.io", "dl.fedoraproject.org", ARCHIVE)

NOT_RUN = {
    "systemctl": "nothing in a tree was booted: there is no init to ask",
    "update-initramfs": "a tree has no kernel to make an image for",
    "dracut": "a tree has no kernel to make an image for",
    "subscription-manager": "needs a subscription of Red Hat",
    "SUSEConnect": "needs a subscription of SUSE",
}
"""The commands of plans that are not run in a tree, and why."""

NOT_RUN_PHASES = {"verification": "it compiles samples and runs them on the GPU"}
"""The phases of plans that are not run in a tree, and why."""


_PINNED = re.compile(r"([a-zA-Z].*?)-([0-9]+\.[0-9][^-]*(?:-[^-]+)?)")
"""A package and its version as dnf's command line has it."""


@dataclass(frozen=True)
class Workshop:
    """What all tests of a process share."""

    keys: SigningKeys
    certificate: Certificate
    tree: Path
    matrix: Matrix = field(default_factory=load_matrix)


@dataclass(frozen=True)
class Ask:
    """One request for a plan."""

    system: str
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ("--gpu", "L40S", "--method", "network")


@dataclass
class Scene:
    """One host: ``www`` holds a folder for each host name; ``plan`` is made with the overlay of the tests' own keys.

    ``signer`` (current, retired, nobody) is whose key the vendor's folders are signed with; packages that are ``gone``
    are left out of them.
    """

    workshop: Workshop
    ask: Ask
    folder: Path
    signer: str = "current"
    gone: Callable[[Package, Plan], bool] = lambda _package, _plan: False
    system: System = field(init=False)
    folders: dict[str, tuple[Repository, Path]] = field(init=False)
    packages: dict[Path, list[Package]] = field(init=False)
    plan: Plan = field(init=False)
    overlay: Path = field(init=False)

    def __post_init__(self) -> None:
        first = make_plan(self.ask)
        system = self.workshop.matrix.system_of(first.host)
        assert system is not None
        self.system = system
        self.folders = {}
        for component, entry in first.stack.items():
            if entry.method == "network" and component in catalogue.COMPONENTS:
                self.folders[component] = self._repository(first, component)
        self._build(first)
        self._system_archive(first)
        self.overlay = self.folder / "overlay"
        self.overlay.mkdir()
        write_overlay(self, self.overlay)
        self.plan = make_plan(self.ask, "--matrices", str(self.overlay))
        assert self.plan.stack.keys() == first.stack.keys()
        assert all(self.plan.stack[name].version == entry.version for name, entry in first.stack.items())

    @property
    def www(self) -> Path:
        return self.folder / "www"

    @property
    def is_apt(self) -> bool:
        return self.system.family == "apt"

    def versions(self) -> dict[str, str]:
        """The version of every component of the stack."""
        return {name: entry.version for name, entry in self.plan.stack.items()}

    def root(self, address: str, name: str = "root") -> Root:
        """A fresh root that finds every host name at ``address``."""
        root = bare_root(self.workshop, self.folder / name, address)
        if self.is_apt:
            _as_apt_system(root)
        else:
            _as_rpm_system(root, self.system, _switched_on(self.plan))
        root.write("/etc/os-release", f"ID={self.system.id}\nVERSION_ID={self.system.version}\n")
        return root

    def _repository(self, plan: Plan, component: str) -> tuple[Repository, Path]:
        matrix = self.workshop.matrix
        row = HostRows(matrix, plan.host).repository(component)
        assert row is not None
        address = urlsplit(row.url.replace("$(ARCH)", "amd64").replace("$basearch", "x86_64"))
        return row, self.www / (address.hostname or "") / address.path.strip("/")

    def _build(self, plan: Plan) -> None:
        there: dict[Path, list[Package]] = {}
        for component, (row, folder) in self.folders.items():
            picked = (plan.stack[component].version,)
            made = catalogue.packages(self.workshop.matrix, component, self.system.family, row.repo, picked)
            assert made, f"no packages of {component} for {row.repo}"
            there.setdefault(folder, []).extend(package for package in made if not self.gone(package, plan))
        self.packages = there
        keys = self.workshop.keys
        signer = {"current": keys.current, "retired": keys.retired, "nobody": ""}[self.signer]
        for row, folder in set(self.folders.values()):
            if self.is_apt:
                debs.build_repository(folder, there[folder])
                self._keyring(row, folder)
                debs.sign_repository(folder, keys, signer)
            else:
                rpms.build_rpms(folder, there[folder])
                rpms.sign_rpms(folder, keys, signer)
                rpms.index_rpms(folder, keys, signer, streams=self._streams(row, folder))
            self._key_files(row, folder)

    def _streams(self, row: Repository, folder: Path) -> list[catalogue.Stream]:
        return catalogue.streams(self.workshop.matrix, row.repo, self.packages[folder])

    def _keyring(self, row: Repository, folder: Path) -> None:
        if row.keyring:
            public = self.workshop.keys.public(self.workshop.keys.current, armoured=False)
            made = debs.build_deb(debs.keyring_package(row.url, row.repo, row.arch, public), folder)
            made.rename(folder / row.keyring.rpartition("/")[2])

    def _key_files(self, row: Repository, folder: Path) -> None:
        """The key where the vendor has it: an old key lies in the same file."""
        keys = self.workshop.keys
        public = keys.public(keys.retired) + keys.public(keys.current)
        key = next(one for one in self.workshop.matrix.everywhere("keys", dict) if one["id"] == row.key)
        if key.get("sha256_without_version_line") and not key.get("fingerprint"):
            public = keys.public(keys.current)
        place = folder / key["file"]
        if key.get("url"):
            address = urlsplit(key["url"])
            place = self.www / (address.hostname or "") / address.path.strip("/")
        place.write_bytes(public)

    def _system_archive(self, plan: Plan) -> None:
        """What the distribution itself has to offer of all that the plan names and the vendor does not have."""
        vendor = {package.name for there in self.packages.values() for package in there}
        names = sorted(name for name in system_packages(plan) if name not in vendor | {"cuda-keyring"})
        home = self.www / ARCHIVE / "system"
        if self.is_apt:
            there = dpkg_names(self.workshop.tree)
            wanted = [Package(name, "6.0-1") for name in names if name not in there]
            index = home / "dists/stable/main/binary-amd64"
            debs.build_repository(index, wanted, prefix=f"{index.relative_to(home)}/")
            debs.build_repository(home / "dists/stable/contrib/binary-amd64", [])
            head = {"Origin": "Distribution", "Suite": "stable", "Codename": "stable"}
            head |= {"Components": "main contrib", "Architectures": "amd64"}
            debs.sign_repository(home / "dists/stable", self.workshop.keys, "", head=head)
            return
        capabilities = [name for name in names if "(" in name]
        addresses = [name for name in names if "://" in name]
        wanted = [Package(name, "1.0-1") for name in names if name not in {*capabilities, *addresses}]
        wanted += [Package(f"dnf-plugin-{number}", "1.0-1", provides=word) for number, word in enumerate(capabilities)]
        rpms.build_rpms(home, wanted)
        rpms.index_rpms(home, self.workshop.keys, "")
        for name in addresses:
            address = urlsplit(name)
            place = self.www / (address.hostname or "") / address.path.strip("/")
            rpms.build_rpms(place.parent, [Package("epel-release", "9-1")])
            next(place.parent.glob("epel-release-9-1*.rpm")).rename(place)


def bare_root(workshop: Workshop, path: Path, address: str) -> Root:
    """A fresh tree without package sources that finds every host name at ``address`` and trusts the certificate."""
    root = copy_tree(workshop.tree, path)
    for name in ("/etc/apt/sources.list", "/etc/resolv.conf", "/etc/hosts"):
        root.inside(name).unlink(missing_ok=True)
    root.write("/etc/hosts", f"127.0.0.1 localhost\n{address} {' '.join(HOSTS)}\n")
    root.write("/etc/resolv.conf", "")
    bundle = root.inside("/etc/ssl/certs/ca-certificates.crt")
    bundle.write_text(bundle.read_text() + workshop.certificate.authority.read_text())
    return root


def answering(root: Root, plan: Plan) -> Root:
    """The root with stand-ins for nvidia-smi and nvcc that answer as the plan's driver and CUDA: its packages are empty."""
    versions = {name: entry.version for name, entry in plan.stack.items()}
    root.write("/usr/bin/nvidia-smi", f"#!/bin/sh\necho {versions.get('driver', '')}\n", 0o755)
    release = ".".join(versions.get("cuda", "").split(".")[:2])
    root.write("/usr/bin/nvcc", f"#!/bin/sh\necho Cuda compilation tools, release {release}, V{release}.0\n", 0o755)
    return root


def system_packages(plan: Plan) -> set[str]:
    """Every package that a command of the plan installs without saying its version."""
    found = set()
    for step in plan.steps:
        for command in step.commands:
            if "install" in command and command[0] != "install":
                words = command[command.index("install") + 1 :]
                found |= {
                    word
                    for word in words
                    if not word.startswith("-") and "=" not in word and not _PINNED.fullmatch(word)
                }
    return found


def dpkg_names(tree: Path) -> set[str]:
    """The packages that the tree has from the start."""
    lines = (tree / "var/lib/dpkg/status").read_text().splitlines()
    return {line.partition(": ")[2] for line in lines if line.startswith("Package: ")}


def make_plan(ask: Ask, *more: str) -> Plan:
    """The plan as the program prints it."""
    words = ["plan", *ask.requirements, "--os", ask.system, *ask.options, "--format", "json", *more]
    return msgspec.json.decode(call(*words), type=Plan)


def call(*words: str) -> bytes:
    """The program's document; it has to end well."""
    sources = str(resources.folder("matrices").parent / "src")
    command = [sys.executable, "-m", "gpustack", *words]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": sources, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    done = subprocess.run(command, check=False, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def write_overlay(scene: Scene, folder: Path) -> None:
    """Facts that differ from the built-in ones in nothing but the sums and fingerprints of the tests' own keys."""
    keys = scene.workshop.keys
    armoured = hashlib.sha256(keys.public(keys.current)).hexdigest()
    tables: dict[str, dict[str, list[dict[str, object]]]] = {}
    for row, place in set(scene.folders.values()):
        subject = row.repo if row.repo in scene.folders else "repositories"
        rows = tables.setdefault(subject, {"repositories": [], "keys": []})
        for raw in scene.workshop.matrix.rows(subject, "repositories", dict):
            same = (raw["repo"], raw["arch"], raw["family"]) == (row.repo, row.arch, row.family)
            if same and raw.get("keyring_sha256"):
                file = place / raw["keyring"].rpartition("/")[2]
                sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
                rows["repositories"].append({**bare(raw), "keyring_sha256": sha256})
        for raw in scene.workshop.matrix.rows(subject, "keys", dict):
            if raw["id"] != row.key:
                continue
            changed = bare(raw)
            if "armoured" in raw:
                changed["armoured"] = keys.public(keys.current).decode()
            changed |= own_sums(raw, place, armoured)
            if "fingerprint" in raw or "sha256_without_version_line" not in raw:
                changed["fingerprint"] = keys.current
            rows["keys"].append(changed)
    for subject, rows in tables.items():
        content = {name: {"rows": given} for name, given in rows.items() if given}
        document = {"schema": "gpustack/matrix/v1", "subject": subject, "sources": {}, "tables": content}
        (folder / f"{subject}.yaml").write_text(json.dumps(document))


def own_sums(raw: Mapping[str, Any], place: Path, armoured: str) -> dict[str, str]:
    """The sums that the row of a key has, of the tests' own key."""
    found = {"sha256_without_version_line": armoured} if "sha256_without_version_line" in raw else {}
    if "sha256" in raw:
        found["sha256"] = hashlib.sha256((place / raw["file"]).read_bytes()).hexdigest()
    return found


def run_steps(root: Root, plan: Plan) -> list[str]:
    """Run the plan's own commands in order, as an installer does; the commands that are not run in a tree."""
    left_out = []
    for step in plan.steps:
        if step.phase not in NOT_RUN_PHASES:
            left_out += run_step(root, step)
    return left_out


def run_step(root: Root, step: Step) -> list[str]:
    """Fetch, write and run what one step says. Fails when a command does."""
    for artifact in step.artifacts:
        root.must("mkdir", "-p", "--", artifact.path.rpartition("/")[0])
        root.must(
            "curl", "--fail", "--silent", "--show-error", "--proto", "=https", "--output", artifact.path, artifact.url
        )
        found = hashlib.sha256(root.inside(artifact.path).read_bytes()).hexdigest()
        # The tests' own key stands in for the vendor's, whose sum is another.
        is_key = artifact.url.endswith(".pub")
        assert is_key or artifact.sha256 in {"", found}, f"{artifact.url} is not the file that was planned"
    for file in step.files:
        root.write(file.path, file.content, int(file.mode, 8))
    left_out = []
    for command in step.commands:
        program = next(word for word in command if word != "env" and "=" not in word)
        # A described RHEL runs it where its image has no repositories of a cloud.
        program = "subscription-manager" if "subscription-manager" in command else program
        if program in NOT_RUN:
            left_out.append(program)
        else:
            root.must(*command)
    return left_out


def pins(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every package that the plan installs at a version, with that version as the manager's command line has it."""
    for step in plan.steps:
        if step.kind != "install-packages" or not step.component:
            continue
        for word in step.packages:
            match = re.fullmatch(r"([^=]+)=(.+)", word) or _PINNED.fullmatch(word)
            if match:
                yield match.group(1), match.group(2)


def bare(raw: dict[str, object]) -> dict[str, object]:
    """A row as a matrix file has it: its sources without the name of the subject."""
    return {**raw, "src": [str(key).partition("/")[2] for key in raw["src"]]}  # type: ignore[attr-defined]


def _switched_on(plan: Plan) -> list[str]:
    commands = [command for step in plan.steps for command in step.commands]
    return [command[-1] for command in commands if "--set-enabled" in command]


def _as_apt_system(root: Root) -> None:
    root.write(
        "/etc/apt/sources.list.d/debian.sources",
        f"Types: deb\nURIs: https://{ARCHIVE}/system\nSuites: stable\nComponents: main\nTrusted: yes\n",
    )


def _as_rpm_system(root: Root, system: System, more: list[str]) -> None:
    # Debian's rpm keeps its database in the home of the user; rpm systems keep it here.
    root.write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
    sections = [
        f"[{name}]\nname={name}\nbaseurl=https://{ARCHIVE}/system\nenabled={int(name == 'base')}\ngpgcheck=0\n"
        for name in ("base", *more)
    ]
    folder = "/etc/zypp/repos.d" if system.family == "zypper" else "/etc/yum.repos.d"
    root.write(f"{folder}/system.repo", "\n".join(sections))
    # The settings of RHEL and Fedora; Debian's package weakens two of them and switches one plugin more on.
    root.write(
        "/etc/dnf/dnf.conf",
        "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n",
    )
    root.write("/etc/dnf/plugins/local.conf", "[main]\nenabled=0\n")
    root.write("/etc/dnf/vars/releasever", f"{system.version}\n")
