"""A plan as a text that a person reviews, and how one plan differs from another: what lies under tests/golden.

What every plan has in common is left out: helper functions of scripts, digests, the hashes in the ids of steps. A step
names only the steps that it waits for directly.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from gpustack.model.plan import Plan
from gpustack.render.api import render

_FOLDER = re.compile(r"compute/cuda/repos/([\w.]+)/")
_HASH = re.compile(r"-[0-9a-f]{12}\b")


def plan_lines(plan: Plan) -> list[str]:
    """The plan line by line, by its document; the system's own name and folder as ``{system}`` and ``{folder}``."""
    document = json.loads(render(plan, "json"))
    text = "\n".join([*_stack(document), *_steps(document["steps"]), *_sources(document)])
    folder = _FOLDER.search(text)
    if folder:
        text = text.replace(folder[1], "{folder}")
    return text.replace(document["host"]["os"]["name"], "{system}").split("\n")


def _stack(document: Mapping[str, Any]) -> Iterator[str]:
    for name, entry in document["stack"].items():
        flavour = f", {entry['flavour']} kernel modules" if entry["flavour"] else ""
        yield f"{name} {entry['version']} ({entry['method']}{flavour}) {entry['state']}"
        yield from (f"  {part}" for part in entry["reason"].split("; "))
    for warning in document["warnings"]:
        yield f"warning: {warning}"


def _steps(steps: list[dict[str, Any]]) -> Iterator[str]:
    waits_for = {step["id"]: set(step["depends_on"]) for step in steps}
    for step in steps:
        direct = [one for one in step["depends_on"] if not any(one in waits_for[other] for other in step["depends_on"])]
        marks = [step["component"], step["phase"]]
        marks += [
            text for text, is_set in (("no root", not step["needs_root"]), ("reboot", step["reboot_after"])) if is_set
        ]
        yield ""
        yield f"{_plain(step['id'])}: {step['kind']} ({', '.join(mark for mark in marks if mark)})"
        yield f"  {step['title']}"
        yield from _said("why", step["why"])
        if direct:
            yield f"  after {' '.join(map(_plain, direct))}"
        yield from _work(step)
        yield from _said("undo", step["undo_note"])
        yield from _said("done when", step["done_when"])


def _work(step: Mapping[str, Any]) -> Iterator[str]:
    for artifact in step["artifacts"]:
        yield f"  get {artifact['url']}"
        yield f"    to {artifact['path']}"
        yield from (
            f"    {key} {artifact[key]}" for key in ("sha256", "size", "fingerprint", "md5") if artifact.get(key)
        )
    for file in step["files"]:
        yield f"  file {file['path']} {file['mode']}"
        yield from (f"    | {line}" for line in file["content"].splitlines())
    for mark, commands in (("$", step["commands"]), ("undo $", step["undo"])):
        yield from (line for argv in commands for line in _said(mark, shlex.join(argv)))


def _said(key: str, text: str) -> Iterator[str]:
    """A text behind its key, further lines of it indented; nothing of no text."""
    if text:
        first, *rest = text.split("\n")
        yield f"  {key} {first}"
        yield from (f"    {line}" for line in rest)


def _sources(document: Mapping[str, Any]) -> Iterator[str]:
    every = {source for step in document["steps"] for source in step["sources"]}
    every |= {source for entry in document["stack"].values() for source in entry["sources"]}
    yield ""
    yield from (f"source {source}" for source in sorted(every))


def _plain(identity: str) -> str:
    return _HASH.sub("", identity)


def differences(base: list[str], other: list[str]) -> list[str]:
    """What ``other`` has not of ``base`` and has besides, each group below the head of the step that it stands in."""
    found: list[str] = []
    last = ""
    matcher = difflib.SequenceMatcher(a=base, b=other, autojunk=False)
    for tag, begin, end, from_, to in matcher.get_opcodes():
        if tag == "equal":
            continue
        head = next((line for line in reversed(base[: begin + 1]) if line and not line.startswith(" ")), "")
        if head != last:
            found.append(f"@ {head}")
            last = head
        found += [f"- {line}".rstrip() for line in base[begin:end]]
        found += [f"+ {line}".rstrip() for line in other[from_:to]]
    return found


def without_repeats(texts: list[list[str]]) -> str:
    """Texts one behind the other; a step that stands above word for word already is named only."""
    seen: set[str] = set()
    found = []
    for lines in texts:
        for block in "\n".join(lines).split("\n\n"):
            head, _, rest = block.partition("\n")
            found.append(block if not rest or block not in seen else f"{head}\n  as above")
            seen.add(block)
    return "\n\n".join(found) + "\n"
