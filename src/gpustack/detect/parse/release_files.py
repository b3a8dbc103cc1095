"""Systems from before os-release, by their release files (/etc/redhat-release and the like)."""

from __future__ import annotations

from pathlib import Path

from gpustack.detect.evidence import Evidence

PATTERNS = ("/etc/*-release", "/etc/*_version", "/etc/*-version", "/etc/*_release")
"""The paths of release files; the names before the suffix differ by distribution."""

_OF_BOARDS = "nv_tegra_release"
"""Names the release of a Jetson's L4T, and no system."""

_OS_RELEASE_ID = {"oracle": "ol", "suse": "sles"}
"""IDs in os-release of distributions that `distro` names by their release file."""


def by_release_files(evidence: Evidence) -> dict[str, str]:
    """ID, VERSION_ID and NAME in the form of os-release; empty if no release file identifies the system.

    `distro` reads a folder: it gets one with only these files, so that no link or pipe of a tree is followed.
    """
    files = {path: text for path, text in evidence.files.items() if path.startswith("/etc/") and path.count("/") == 2}
    ends = ("release", "version")
    names = [path for path in files if Path(path).name.endswith(ends) and Path(path).name != _OF_BOARDS]
    if not names:
        return {}
    import tempfile  # noqa: PLC0415 (every system of the last ten years has os-release)

    import distro  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="gpustack-") as folder:
        (Path(folder) / "etc").mkdir()
        for path in names:
            (Path(folder) / "etc" / Path(path).name).write_text(files[path], encoding="utf-8")
        release = distro.LinuxDistribution(
            root_dir=folder, include_lsb=False, include_uname=False, include_oslevel=False
        )
        identity = release.id()
        found = {
            "ID": _OS_RELEASE_ID.get(identity, identity),
            "VERSION_ID": release.version(),
            "NAME": release.name(),
            "PRETTY_NAME": release.name(pretty=True),
        }
    return {key: value for key, value in found.items() if value and value.isprintable()}
