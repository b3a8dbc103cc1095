"""A second opinion on a stack: the rules straight from the matrix files, without the solver."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.reading import yaml_of

from gpustack.model.host import Host
from gpustack.versions import is_within, version

FOLDER = Path(__file__).parents[2] / "matrices"


@lru_cache(maxsize=1)
def rule_rows() -> tuple[dict[str, Any], ...]:
    """Every row of every table of rules that is more than advice."""
    bounds = read((FOLDER / "bounds.yaml").read_text(encoding="utf-8"))["bounds"]["rows"]
    named = {f"@{row['name']}": str(row["version"]) for row in bounds}
    texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))]
    texts = [re.sub(r"@[a-z0-9-]+", lambda match: named.get(match.group(), match.group()), text) for text in texts]
    tables = [read(text)["rules"]["rows"] for text in texts if "\n  rules:\n" in text]
    return tuple(row for rows in tables for row in rows if row.get("strength") != "advised")


def read(text: str) -> dict[str, Any]:
    """The tables of a matrix file."""
    tables: dict[str, Any] = yaml_of(text)["tables"]
    return tables


def breaches(stack: dict[str, str], methods: dict[str, str], host: Host) -> list[str]:
    """The rules that a stack breaks on a host, or whose object is missing in it."""
    found = []
    for rule in rule_rows():
        subject = rule["of"].rstrip("0123456789.*=<>!~|, ")
        span = rule["of"].removeprefix(subject)
        if subject not in stack or (span and not is_within(stack[subject], span)):
            continue
        if not holds(rule.get("when", {}), methods.get(subject, ""), host):
            continue
        for name in rule.get("equal") or [rule["needs"]]:
            values = [stack[name]] if name in stack else properties(host, name)
            if not values and rule.get("strength") in {"required", "only-if"} and is_missed(name, methods):
                found.append(f"{rule['id']}: no {name}")
            found += [f"{rule['id']}: {name} {value}" for value in values if not fits(rule, stack[subject], value)]
    return found


def fits(rule: dict[str, Any], own: str, value: str) -> bool:
    if "equal" in rule:
        return version(own) == version(value)
    if "none" in rule:
        return not any(is_within(value, span) for span in rule["none"])
    return any(is_within(value, span) for span in rule["any"])


def properties(host: Host, name: str) -> list[str]:
    numbers = re.match(r"\d+(\.\d+)*", {"glibc": host.glibc, "kernel": host.kernel, "gcc": host.gcc}.get(name) or "")
    if name == "compute-capability":
        return [gpu.compute_capability for gpu in host.gpus if gpu.compute_capability]
    return [numbers.group()] if numbers else []


def holds(when: dict[str, Any], method: str, host: Host) -> bool:
    """Whether the conditions hold: on a host with several GPUs, one that meets all of them is enough."""
    plain = {"os": "linux", "arch": host.arch, "environment": host.environment or "bare-metal", "method": method}
    if any(value not in _listed(when[name]) for name, value in plain.items() if name in when):
        return False
    if when.get("fabric") is False and any(gpu.fabric == "nvswitch" for gpu in host.gpus):
        return False  # a host that has NVSwitches for some of its GPUs is one with NVSwitches
    asked = [name for name in ("gpu_class", "compute_capability", "gpu", "fabric", "mig") if name in when]
    return not asked or any(
        ("gpu_class" not in when or gpu.kind in when["gpu_class"])
        and ("gpu" not in when or gpu.name in when["gpu"])
        and ("mig" not in when or (gpu.part or "").startswith("MIG") == when["mig"])
        and ("fabric" not in when or (gpu.fabric == "nvswitch") == when["fabric"])
        and ("compute_capability" not in when or is_within(gpu.compute_capability or "0", when["compute_capability"]))
        for gpu in host.gpus
    )


def is_missed(name: str, methods: dict[str, str]) -> bool:
    """Whether an absent object is a fault: properties that a host does not tell are none."""
    return name not in {"compute-capability", "glibc", "kernel", "gcc", "clang", "msvc"} and name not in methods


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
