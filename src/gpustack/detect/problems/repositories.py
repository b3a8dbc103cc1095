"""Package sources, keys, pins and holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.parse import repositories as parse
from gpustack.detect.parse import sources
from gpustack.detect.parse.repositories import SourceEntry, normal_url
from gpustack.detect.problems import cures
from gpustack.detect.problems.registry import Finding, detects
from gpustack.detect.scene import Scene
from gpustack.model.architectures import architecture
from gpustack.patterns import later

_FOLDER = later(r"/compute/cuda/repos/([\w-]+)/([\w-]+)")
_OLD_KEY = later(r"7fa2af80|A4B469963BF863CC", re.IGNORECASE)
_OLD_KEY_SYSTEMS = {"ubuntu1604", "ubuntu1810", "sles113"}
"""Folders that still use the old key."""

_SHA1_FOLDERS = {"debian11", "debian12", "ubuntu2004", "ubuntu2204", "ubuntu2404", "wsl-ubuntu"}
"""Folders whose key carries a signature of SHA-1."""

_SHOWN = 120
"""The most characters of an entry that are shown."""

_MOST_NAMES = 6
"""The most packages that are named."""


def _cuda_sources(scene: Scene) -> list[tuple[SourceEntry, str, str]]:
    """The enabled sources of NVIDIA's CUDA repository with their distribution and architecture folders."""
    return [
        (source, match[1], match[2])
        for source in scene.sources
        if source.enabled and (match := _FOLDER.search(source.url))
    ]


@detects("detect-source-unreadable")
def unreadable(scene: Scene) -> Iterator[Finding]:
    """An entry with which apt or dnf reads no source at all."""
    for path, section in sources.without_address(scene.evidence):
        if section and path.startswith("/etc/yum.repos.d/"):
            yield Finding(
                message=f"{path} has no address (baseurl) for the repository {section}: dnf stops with 'Cannot find a"
                " valid baseurl for repo'",
                fix=f"{cures.drop_sources(scene, [path])}, then {cures.plan(_component_of(path))}",
                reboot=False,
                severity="block",
            )
    for path, entry, why in sources.unreadable(scene.evidence):
        ours = re.search(r"/sources\.list\.d/.*(?:nvidia|cuda)", path)
        yield Finding(
            message=f"apt cannot read {path} ({entry[:_SHOWN]!r}: {why}), so it reads no source at all "
            "(The list of sources could not be read)",
            fix=f"{cures.drop_sources(scene, [path])}, then {cures.plan(_component_of(path))}"
            if ours
            else f"correct or delete that entry in {path}; `sudo apt-get update` must end without an error",
            reboot=False,
            severity="block",
        )


@detects("detect-source-unusable")
def unusable(scene: Scene) -> Iterator[Finding]:
    """Sources of NVIDIA's that are read, and from which nothing can come, such as a page saved in their place."""
    for path, section in sources.without_address(scene.evidence):
        if not section or path.startswith("/etc/zypp/"):
            what = f"has no address (baseurl) for the repository {section}" if section else "has no [section]"
            yield Finding(
                message=f"{path} {what}: it names no repository",
                fix=f"{cures.drop_sources(scene, [path])}, then {cures.plan(_component_of(path))} sets up the"
                " repository",
                reboot=False,
                severity="warn",
            )
    unread = {path for path, _, _ in sources.unreadable(scene.evidence)}
    for source, why in scene.source_faults.items():
        component = "container-toolkit" if "nvidia.github.io" in source.url else "cuda"
        if source.path not in unread:
            yield Finding(
                message=f"{source.path} names {source.url}, which cannot be used: {why}",
                fix=f"{cures.drop_sources(scene, [source.path])}, then {cures.plan(component)} sets up the "
                "repository with its key",
                reboot=False,
                severity="warn",
            )


def _component_of(path: str) -> str:
    return "container-toolkit" if "container" in path or "docker" in path else "cuda"


@detects("signed_by_conflict")
def signed_by(scene: Scene) -> Iterator[Finding]:
    """One address in two entries: with different keys apt stops, with the same one it warns."""
    is_apt = scene.os.family == "apt"
    by_url: dict[tuple[str, str], list[SourceEntry]] = {}
    for source in scene.sources:
        if source.enabled and source.is_nvidia:
            suite = source.text.partition(" ")[0] if is_apt else ""
            by_url.setdefault((normal_url(source.url), suite), []).append(source)
    for entries in by_url.values():
        places = tuple(dict.fromkeys(entry.path for entry in entries))
        keys = {entry.signed_by for entry in entries}
        if len(places) < 2 and len(keys) < 2:
            continue
        url = entries[0].url
        if len(keys) > 1 and is_apt:
            what = (
                f"apt stops with 'Conflicting values set for option Signed-By': {url} is named in "
                f"{' and '.join(places)} with different keys"
            )
        else:
            what = f"the repository {url} is configured twice: in {' and '.join(places)}"
        keep = next((e.path for e in entries if "keyring" in e.signed_by), places[-1])
        drop = [path for path in places if path != keep]
        cure = f"{cures.drop_sources(scene, drop)} leaves {keep}" if drop else f"delete the duplicate entry in {keep}"
        yield Finding(message=what, fix=cure, reboot=False)


@detects("old_key_7fa2af80")
def old_key(scene: Scene) -> Iterator[Finding]:
    """The key that NVIDIA retired in 2022."""
    if scene.os.repo in _OLD_KEY_SYSTEMS:
        return
    places = [key for key in scene.keys if _OLD_KEY.search(key)]
    places += [s.path for s in scene.sources if s.is_nvidia and _OLD_KEY.search(f"{s.key} {s.signed_by}")]
    logs = [
        path
        for path, text in scene.evidence.files.items()
        if path.startswith("/var/log/") and "A4B469963BF863CC" in text
    ]
    if places:
        yield Finding(
            message=f"the retired NVIDIA repository key 7fa2af80 is still in use: {places[0]}; since 2022-04-27 "
            f"the repositories are "
            "signed by other keys (apt says NO_PUBKEY A4B469963BF863CC)",
            fix=f"{_forget_old_key(scene, places[0])}, then {cures.plan('cuda')}, which installs the current key",
            reboot=False,
        )
    elif logs:
        yield Finding(
            message=f"{logs[0]} holds NO_PUBKEY A4B469963BF863CC: the repository's new key is missing, only the "
            f"retired key 7fa2af80 was found",
            fix=f"{cures.plan('cuda')} installs the current key",
            reboot=False,
        )


def _forget_old_key(scene: Scene, place: str) -> str:
    """The command that removes the retired key from the place where it was found."""
    path, *prints = place.split()
    if path.startswith("gpg-pubkey-"):
        return cures.command("rpm", "--erase", "--allmatches", "gpg-pubkey-7fa2af80")
    if path == "/etc/apt/trusted.gpg" or len(prints) > 1:
        # That file contains keys of others too.
        return cures.command("apt-key", "del", "7fa2af80")
    if any(source.path == path for source in scene.sources):
        return cures.drop_sources(scene, [path])
    return cures.command("rm", "--", path)


@detects("machine_learning_repo")
def machine_learning(scene: Scene) -> Iterator[Finding]:
    """The frozen machine-learning repository."""
    for source in scene.sources:
        if source.enabled and "compute/machine-learning" in source.url:
            yield Finding(
                message=f"{source.path} still names the frozen machine-learning repository {source.url}",
                fix=f"{cures.drop_sources(scene, [source.path])}; cuDNN and NCCL are in the CUDA repository",
                reboot=False,
            )


@detects("sha1_key_debian13")
def sha1_key(scene: Scene) -> Iterator[Finding]:
    """A repository with a key that apt's new verifier refuses."""
    sqv = "/usr/bin/sqv" in scene.evidence.marks or bool(scene.installed("sqv"))
    new_apt = any(package.version.startswith("3.") for package in scene.installed("apt"))
    trixie = scene.os.codename == "trixie" or scene.os.base == "debian13"
    if scene.os.family != "apt" or not ((sqv and new_apt) or trixie):
        return
    for source, folder, _ in _cuda_sources(scene):
        if folder in _SHA1_FOLDERS and folder != scene.os.repo:
            yield Finding(
                message=f"{source.path} uses the folder {folder}, whose key 3bf863cc carries a SHA-1 signature: "
                "apt with sqv refuses it from 2026-02-01 (SHA1 is not considered secure)",
                fix=_set_up(scene, source),
                reboot=False,
            )


def _set_up(scene: Scene, source: SourceEntry) -> str:
    """The replacement of a source that is not for this host; the keyring package has its own source."""
    keyring = scene.installed("cuda-keyring")
    first = f"{cures.remove(scene, keyring)}, " if keyring else ""
    own = f" sets up {scene.os.repo}" if scene.os.repo else ""
    if scene.system is not None and not scene.os.repo:
        own = " chooses another way: NVIDIA has no repository for it"
    return f"{first}{cures.drop_sources(scene, [source.path])}, then {cures.plan('cuda')}{own}"


@detects("distro_upgraded")
def upgraded(scene: Scene) -> Iterator[Finding]:
    """A source of the previous release."""
    own = scene.os.repo or ""
    stem = re.sub(r"\d+$", "", own)
    for source, folder, _ in _cuda_sources(scene):
        if folder != own and re.fullmatch(rf"{re.escape(stem)}\d+", folder):
            yield Finding(
                message=f"{source.path} names NVIDIA's repository for {folder}, but this is {scene.os.called} ({own})",
                fix=_set_up(scene, source),
                reboot=False,
            )
    left = [
        n
        for n in scene.evidence.listings.get("/etc/apt/sources.list.d", ())
        if re.search(r"(cuda|nvidia).*\.(distUpgrade|save)$", n)
    ]
    if left:
        yield Finding(
            message=f"a release upgrade left /etc/apt/sources.list.d/{left[0]} behind: NVIDIA's source was "
            f"switched off then",
            fix="set up the repository of this release, then delete the leftover file",
            reboot=False,
            severity="info",
        )


@detects("keyring_wrong_distro")
def wrong_distro(scene: Scene) -> Iterator[Finding]:
    """A source of another distribution."""
    own = scene.os.repo or ""
    stem = re.sub(r"\d+$", "", own)
    for source, folder, _ in _cuda_sources(scene):
        if own and folder != own and not re.fullmatch(rf"{re.escape(stem)}\d+", folder):
            if {folder, own} == {"opensuse15", "sles15"}:
                continue
            yield Finding(
                message=f"{source.path} names NVIDIA's repository for {folder}, but this host's is {own}",
                fix=_set_up(scene, source),
                reboot=False,
            )


@detects("arch_dir_mismatch")
def wrong_arch(scene: Scene) -> Iterator[Finding]:
    """A folder of another architecture, such as Jetson's arm64 instead of the servers' sbsa."""
    jetson = scene.environment == "jetson"
    known = architecture(scene.arch)
    is_board = jetson and not (scene.system is not None and "sbsa" in scene.system.arch)
    wanted = set((known.boards if is_board else (*known.folders, *known.retired)) if known is not None else ())
    for source, folder, arch in _cuda_sources(scene):
        if wanted and arch not in wanted and arch != "cross-linux-sbsa":
            yield Finding(
                message=f"{source.path} names the folder {folder}/{arch}, which is not for this machine ({scene.arch}"
                f"{', Jetson' if jetson else ''}): its folder is {' or '.join(sorted(wanted))}",
                fix=_set_up(scene, source),
                reboot=False,
            )


@detects("azure_linux_names")
def azure(scene: Scene) -> Iterator[Finding]:
    """The repository of Microsoft and NVIDIA on Azure Linux."""
    files = [source.path for source in scene.sources if source.enabled]
    microsoft = any("azurelinux-nvidia" in path for path in files)
    nvidia = any(path.endswith("cuda-azl3.repo") for path in files)
    if scene.os.id == "azurelinux" and microsoft and nvidia:
        yield Finding(
            message="Microsoft's driver repository and NVIDIA's CUDA repository are both active, with packages of "
            "the same names"
        )


@detects("held_packages")
def held(scene: Scene) -> Iterator[Finding]:
    """Holds and locks, which prevent changes."""
    names = parse.holds(scene.evidence, scene.packages)
    if names:
        others = len(names[_MOST_NAMES:])
        more = f" and {others} more" if others else ""
        lift = cures.unlock(scene, names) or "take their names out of the files"
        yield Finding(
            message=f"held or locked packages will not be changed: {', '.join(names[:_MOST_NAMES])}{more}",
            fix=f"a plan releases the holds it has to and sets them again; by hand: {lift}",
            severity="info",
        )


@detects("dnf_module_filter")
def module_stream(scene: Scene) -> Iterator[Finding]:
    """An enabled module stream that hides the installed driver's branch."""
    for stream in parse.streams(scene.evidence):
        branch = re.match(r"nvidia-driver:(\d{3})", stream)
        version = scene.driver_version
        if branch and version and not version.startswith(f"{branch[1]}."):
            yield Finding(
                message=f"the module stream {stream} is enabled but driver {version} is installed: dnf hides "
                f"other versions",
                fix=f"{cures.command('dnf', 'module', 'reset', 'nvidia-driver')}, and "
                f"{cures.plan(f'driver=={version}')} enables the stream of the installed version",
                reboot=False,
            )


@detects("foreign_architecture_404")
def foreign_architecture(scene: Scene) -> Iterator[Finding]:
    """A source without an architecture on a host with several."""
    known = (scene.evidence.text("/var/lib/dpkg/arch") or "").split()
    bare = [source for source, _, _ in _cuda_sources(scene) if not source.arches]
    if len(known) > 1 and bare:
        yield Finding(
            message=f"{bare[0].path} names no architecture while dpkg also knows {', '.join(known[1:])}: apt asks "
            f"for indexes that do not exist",
            fix=_with_architecture(bare[0], known[0]),
            severity="info",
            reboot=False,
        )


def _with_architecture(source: SourceEntry, arch: str) -> str:
    """The command that limits a source to one architecture."""
    if source.path.endswith(".sources"):
        return cures.command("sed", "-i", f"/^Types:/a Architectures: {arch}", source.path)
    line = r"\#developer.download.nvidia.com#"
    edits = f"{line}s#^deb \\[#deb [arch={arch} #; {line}s#^deb ([^[])#deb [arch={arch}] \\1#"
    return cures.command("sed", "-i", "-E", edits, source.path)


@detects("mft_doca_clash")
def mft_doca(scene: Scene) -> Iterator[Finding]:
    """DOCA's packages, overridden by the CUDA repository."""
    mine = scene.installed(r"mlnx-.*|doca-.*")
    mine_sources = [source for source, _, _ in _cuda_sources(scene)]
    if (
        mine
        and mine_sources
        and scene.os.family in {"dnf", "yum", "tdnf"}
        and not any("mft" in source.text for source in mine_sources)
    ):
        yield Finding(
            message=f"{mine[0].name} is installed and {mine_sources[0].path} does not exclude mft and dkms packages",
            fix=cures.command("sed", "-i", r"/^\[/a excludepkgs=mft* kernel-mft*", mine_sources[0].path),
            severity="info",
        )
