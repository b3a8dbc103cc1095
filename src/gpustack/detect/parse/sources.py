"""Package sources that apt, dnf or zypper cannot read or use, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpustack.detect.evidence import Evidence
from gpustack.detect.parse.repositories import SourceEntry, key_files, normal_url

_TOOLKIT_FOLDER = (
    r"nvidia\.github\.io/(?:libnvidia-container/(?:stable|experimental)/(?!(?:deb|rpm)(?:/|$))[a-z]+[\d.]+|"
    r"libnvidia-container/(?!stable|experimental)[a-z]+[\d.]+|nvidia-docker/|nvidia-container-runtime/)[^/\s]*"
)
_FLAT = r"/compute/cuda/repos/|nvidia\.github\.io/libnvidia-container/stable/deb"
"""Repositories of NVIDIA's without suites."""

_APT_VARIABLE = r"\$(?!\(ARCH\))(?:\{\w*\}?|\(\w*\)?|\w+)"
"""apt replaces $(ARCH) and nothing else."""

_SHELL_VARIABLE = r"\$(?:\{?distribution\}?|\(\w*\)?)"
"""Left by a shell; dnf has variables of its own, whose names are the administrator's."""

_OPTIONS = r"^(deb(?:-src)?)[ \t]+(?:\[([^\]]*)(\]?)[ \t]*)?(.*)$"


def unreadable(evidence: Evidence) -> Iterator[tuple[str, str, str]]:
    """Entries with which apt reads no source at all: the file, the entry, and what it lacks."""
    for path, text in sorted(evidence.files.items()):
        folder = path.rpartition("/")[0]
        if path == "/etc/apt/sources.list" or (folder == "/etc/apt/sources.list.d" and path.endswith(".list")):
            lines = (line.partition("#")[0].strip() for line in text.splitlines())
            yield from ((path, line, why) for line in lines if line and (why := _line_fault(line)))
        elif folder == "/etc/apt/sources.list.d" and path.endswith(".sources"):
            for stanza in re.split(r"\n[ \t]*\n", text):
                lines_of_it = [line for line in stanza.splitlines() if not line.startswith("#")]
                why = _stanza_fault(lines_of_it)
                if why:
                    yield path, lines_of_it[0], why


def _line_fault(line: str) -> str:
    match = re.match(_OPTIONS, line)
    if match is None:
        return "it begins with neither deb nor deb-src"
    if match[2] is not None and (not match[3] or any("=" not in part for part in match[2].split())):
        return "its options in brackets are not NAME=VALUE, or the bracket is not closed"
    address, *rest = match[4].split() or [""]
    if ":" not in address:
        return "it has no address"
    return _suite_fault(rest[:1], rest[1:])


def _suite_fault(suites: list[str], components: list[str]) -> str:
    if not suites:
        return "it has no suite after the address (NVIDIA's have / as theirs)"
    for suite in suites:
        if suite.endswith("/") and components:
            return f"the suite {suite} is a path, so no components may follow"
        if not suite.endswith("/") and not components:
            return f"the suite {suite} is no path, so components must follow"
    return ""


def _stanza_fault(lines: list[str]) -> str:
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in {" ", "\t"} and name:
            fields[name] += f" {line.strip()}"
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
        elif line.strip():
            return f"{line.strip()[:60]!r} is no field"
    if not fields or fields.get("enabled", "yes").lower() in {"no", "false", "0", "off"}:
        return ""
    missing = [field for field in ("Types", "URIs", "Suites") if not fields.get(field.lower())]
    if missing:
        return f"it has no {missing[0]}"
    return _suite_fault(fields["suites"].split(), fields.get("components", "").split())


def without_address(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Files of dnf and zypper that are NVIDIA's by name, with sections that have no address, or without any section."""
    for path, text in sorted(evidence.files.items()):
        if not re.match(r"/etc/(?:yum\.repos\.d|zypp/repos\.d)/[^/]*(?i:nvidia|cuda)[^/]*\.repo$", path):
            continue
        sections = re.split(r"^\[", text, flags=re.MULTILINE)[1:]
        if not sections and any(line.strip() and line[0] not in "#;" for line in text.splitlines()):
            yield path, ""
        for section in sections:
            is_off = re.search(r"^enabled[ \t]*=[ \t]*(?:0|no|false)\b", section, re.MULTILINE | re.IGNORECASE)
            if not is_off and not re.search(r"^(?:baseurl|mirrorlist|metalink)[ \t]*=\s*\S", section, re.MULTILINE):
                yield path, section.partition("]")[0]


def fault(evidence: Evidence, source: SourceEntry, sources: tuple[SourceEntry, ...], known: tuple[str, ...]) -> str:
    """Why an enabled source of NVIDIA's cannot be used, "" where nothing says so. ``known`` are NVIDIA's keys."""
    apt = source.path.startswith("/etc/apt/")
    left = re.search(_APT_VARIABLE if apt else _SHELL_VARIABLE, f"{source.url} {source.text}")
    if left:
        reads = "apt replaces only $(ARCH)" if apt else "the package manager knows no such variable"
        return f"its address holds {left[0]}: {reads}"
    folder_is_cut = "/compute/cuda/repos/" in source.url and not re.search(r"/repos/[^/]+/[^/]", source.url)
    if folder_is_cut or re.match(r"https?://(?:/|$)", source.url):
        return "a part of its address is empty"
    folder = re.search(_TOOLKIT_FOLDER, source.url)
    if folder:
        return f"{folder[0]} is no folder of the container toolkit any more: they are stable/deb and stable/rpm"
    suite = source.text.split()[:1] if apt and re.search(_FLAT, source.url) else []
    if suite and not suite[0].endswith("/"):
        return f"its suite is {suite[0]}, and this repository has none: / stands in its place"
    keys = re.findall(r"(?:^|[,\s]|file://)(/[^,\s]+)", f"{source.signed_by} {source.key}")
    missing = next((path for path in keys if evidence.marks.get(path) == "missing"), None)
    if missing:
        return f"its key {missing} does not exist"
    if apt and not source.signed_by and _has_no_key(evidence, source, sources, known):
        return "no key is set for it (signed-by), and none of NVIDIA's is in /etc/apt/trusted.gpg.d"
    return ""


def _has_no_key(
    evidence: Evidence, source: SourceEntry, sources: tuple[SourceEntry, ...], known: tuple[str, ...]
) -> bool:
    if any(other.signed_by and normal_url(other.url) == normal_url(source.url) for other in sources):
        return False
    trusted = {path: ids for path, ids in key_files(evidence).items() if path.startswith("/etc/apt/trusted")}
    ends = tuple(text.upper() for text in (*known, "7FA2AF80"))
    return not source.trusted and all(ids and not any(one.endswith(ends) for one in ids) for ids in trusted.values())
