"""Source files of apt through their Ansible module."""

from __future__ import annotations

import re

from gpustack.model.steps import FileWrite
from gpustack.render.ansible_use import Use
from gpustack.render.yaml_text import Value

_PATH = re.compile(r"/etc/apt/sources\.list\.d/([a-z0-9-]+)\.sources")
_WORD = re.compile(r"[A-Za-z0-9/][A-Za-z0-9:/._+~-]*")
_LISTS = {
    "Architectures": "architectures",
    "Components": "components",
    "Suites": "suites",
    "Types": "types",
    "URIs": "uris",
}
_ORDER = ("Architectures", "Components", "X-Repolib-Name", "Signed-By", "Suites", "Types", "URIs")
"""The order in which the module writes its arguments."""


def deb822(file: FileWrite) -> list[Use]:
    """The tasks that write this file byte for byte with deb822_repository; [] if the module cannot do that."""
    named = _PATH.fullmatch(file.path)
    if named is None or not file.content.endswith("\n"):
        return []
    fields = dict(line.partition(": ")[::2] for line in file.content.splitlines())
    same = "".join(f"{key}: {fields[key]}\n" for key in _ORDER if key in fields)
    words = {key: text.split(" ") for key, text in fields.items()}
    safe = all(_WORD.fullmatch(word) for texts in words.values() for word in texts)
    if same != file.content or not safe or fields.get("X-Repolib-Name") != named[1]:
        return []
    arguments: dict[str, Value] = {"name": named[1]}
    arguments |= {_LISTS[key]: texts for key, texts in words.items() if key in _LISTS}
    arguments |= {"signed_by": fields["Signed-By"]} if "Signed-By" in fields else {}
    arguments["mode"] = file.mode
    needs: dict[str, Value] = {"name": "python3-debian", "state": "present", "lock_timeout": 300}
    return [
        Use("what the next task needs", "ansible.builtin.apt", needs, "early"),
        Use(f"repository {named[1]}", "ansible.builtin.deb822_repository", arguments, "early"),
    ]
