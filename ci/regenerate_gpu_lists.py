"""Write matrices/generated/gpu-lists.yaml again: which driver releases NVIDIA lists each GPU in.

    .venv/bin/python ci/regenerate_gpu_lists.py OPEN UBUNTU SUSE

The three are git directories (bare or not) of the repositories that the sources of the file name: the releases of the
open kernel modules with their table of GPUs, and copies of supported-gpus.json, the driver's own list.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from facts_form import ROOT, canonical, flow
from gpustack.matrix.load import parse_yaml
from gpustack.versions import version

TABLE = ROOT / "matrices" / "generated" / "gpu-lists.yaml"
Lists = dict[str, set[str]]
"""The device ids of each release."""

_ROW = re.compile(r"\|\s*.+?\s*\|\s*([0-9A-Fa-f]{4})(?:\s+[0-9A-Fa-f]{4}\s+[0-9A-Fa-f]{4})?\s*\|\s*")
_NAMED_BY_BRANCH = re.compile(r"[a-z]+-nvidia-driver-(\d+)(?:-open)?-supported-gpus\.json")
_NAMED_BY_RELEASE = re.compile(r"supported-gpus-(\d+(?:\.\d+)+)\.json")


def released() -> dict[str, str]:
    """The releases for Linux that the facts know, with their dates; developer releases have lists of their own."""
    document: Any = parse_yaml((ROOT / "matrices" / "driver.yaml").read_text(encoding="utf-8"))
    return {
        row["version"]: row.get("date", "")
        for row in document["tables"]["releases"]["rows"]
        if "linux" in row["os"] and row["status"] == "released"
    }


def open_lists(repository: Path, releases: dict[str, str]) -> Lists:
    """The table in the README of each release of the open modules."""
    return {
        tag: {
            found[1].lower() for line in _git(repository, "show", f"{tag}:README.md") if (found := _ROW.fullmatch(line))
        }
        for tag in _git(repository, "tag")
        if tag in releases
    }


def own_lists(ubuntu: Path, suse: Path, releases: dict[str, str]) -> Lists:
    """The driver's own lists. A copy of which branch and day are known counts for the newest release of that day."""
    found: Lists = {}
    for commit, day, path in _files(ubuntu, "gh-pages"):
        if branch := _NAMED_BY_BRANCH.fullmatch(path):
            before = [text for text, date in releases.items() if _branch(text) == branch[1] and "" < date <= day]
            if before:
                found.setdefault(max(before, key=lambda text: version(text).key), set()).update(
                    _chips(ubuntu, commit, path)
                )
    for commit, _, path in _files(suse, "HEAD"):
        if (release := _NAMED_BY_RELEASE.fullmatch(path)) and release[1] in releases:
            found.setdefault(release[1], set()).update(_chips(suse, commit, path))
    return found


def _files(repository: Path, branch: str) -> Iterator[tuple[str, str, str]]:
    for line in _git(repository, "log", branch, "--format=%H %cs"):
        commit, day = line.split()
        yield from ((commit, day, path) for path in _git(repository, "ls-tree", "-r", "--name-only", commit))


def _chips(repository: Path, commit: str, path: str) -> set[str]:
    chips: Any = json.loads("\n".join(_git(repository, "show", f"{commit}:{path}")))["chips"]
    return {chip["devid"].lower().removeprefix("0x") for chip in chips if "legacybranch" not in chip}


def _git(repository: Path, *arguments: str) -> list[str]:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _branch(release: str) -> str:
    return release.partition(".")[0]


def firsts(lists: Lists) -> dict[str, dict[str, str]]:
    """For each device the first release of each branch from which on every later list of the branch names it."""
    found: dict[str, dict[str, str]] = {}
    for release in sorted(lists, key=lambda text: version(text).key, reverse=True):
        branch = _branch(release)
        for device in lists[release]:
            later = [text for text in lists if _branch(text) == branch and version(text) > version(release)]
            if all(device in lists[text] for text in later):
                found.setdefault(device, {})[branch] = release
    return found


def regenerate(opened: Lists, own: Lists) -> str:
    """The file with what these lists say."""
    first_open, first_own = firsts(opened), firsts(own)
    head, _, _ = TABLE.read_text(encoding="utf-8").partition("  branches:\n")
    branches = [
        {"list": name, "branch": branch, "first": of[0], "last": of[-1], "src": src}
        for name, lists, src in (("open", opened, ["openreadme"]), ("own", own, ["ubuntu", "suse"]))
        for branch in sorted({_branch(text) for text in lists})
        if (of := _sorted(text for text in lists if _branch(text) == branch))
    ]
    devices = [
        {"device": f"0x{device}"}
        | ({"open": _sorted(first_open[device].values())} if device in first_open else {})
        | ({"own": _sorted(first_own[device].values())} if device in first_own else {})
        | {"src": ["openreadme"] * (device in first_open) + ["ubuntu", "suse"] * (device in first_own)}
        for device in sorted({*first_open, *first_own})
    ]
    return canonical(head + _table("branches", _BRANCHES, branches) + _table("devices", _DEVICES, devices))


_BRANCHES = (
    "Of which branches a list was read: open is the table of the open kernel modules, own the list in the driver.",
    "[list, branch]",
    "{list: word, branch: word, first: version, last: version}",
)
_DEVICES = (
    "The first release of each branch from which on the list names the device.",
    "[device]",
    "{device: word, open: list of version, own: list of version}",
)


def _table(name: str, head: tuple[str, str, str], rows: list[dict[str, Any]]) -> str:
    about, key, fields = head
    lines = [f"  {name}:", f'    about: "{about}"', f"    key: {key}", f"    fields: {fields}", "    rows:"]
    return "\n".join([*lines, *(f"      - {flow(row)}" for row in rows)]) + "\n"


def _sorted(releases: Iterable[str]) -> list[str]:
    return sorted(releases, key=lambda text: version(text).key)


def main(arguments: list[str]) -> int:
    """Write the file; 2 where a repository is missing."""
    try:
        modules, ubuntu, suse = (Path(text) for text in arguments)
        releases = released()
        text = regenerate(open_lists(modules, releases), own_lists(ubuntu, suse, releases))
    except (ValueError, subprocess.CalledProcessError) as exc:
        print(f"{exc}\n{__doc__}", file=sys.stderr)
        return 2
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
