"""A lock as a bill of materials: CycloneDX 1.6 in JSON."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any
from urllib.parse import quote

from gpustack import __version__
from gpustack.model.facts import normalized
from gpustack.model.lock import Lock, LockedPackage
from gpustack.model.steps import Artifact
from gpustack.visible import visible_json

_TYPES = {"ffmpeg": "application", "triton": "application", "driver": "device-driver"}
"""The type of each component that is not a library."""

_NAMESPACE = uuid.UUID("6f0d6f0e-6f57-5a1c-9d56-9a0f8f8f1d11")


def cyclonedx(lock: Lock) -> str:
    """The document. The same lock yields the same bytes: it contains no creation time."""
    stack = [_component(lock, name) for name in lock.stack]
    parts = [*map(_file, dict.fromkeys(lock.artifacts)), *(_package(lock, one) for one in lock.packages)]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, lock.digest)}",
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": "gpustack", "version": __version__}]},
            "component": {
                "type": "operating-system",
                "bom-ref": "host",
                "name": lock.plan.host.os.id or "unknown",
                "version": lock.plan.host.os.version_id or "unknown",
            },
            "properties": [
                {"name": "gpustack:lock", "value": lock.digest},
                {"name": "gpustack:plan", "value": lock.plan.digest},
                {"name": "gpustack:facts", "value": lock.facts},
            ],
        },
        "components": [*stack, *parts],
        "dependencies": _dependencies(lock),
    }
    return visible_json(json.dumps(document, indent=2)) + "\n"


def _component(lock: Lock, name: str) -> dict[str, Any]:
    entry = lock.stack[name]
    return {
        "type": _TYPES.get(name, "library"),
        "bom-ref": f"stack:{name}",
        "name": name,
        "version": entry.version,
        "properties": [{"name": "gpustack:method", "value": entry.method}],
    }


def _package(lock: Lock, package: LockedPackage) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": _ref(package),
        "name": package.name,
        "version": package.version,
        "purl": _purl(lock, package),
    }
    return made | _origin(package.url, package.sha256)


def _file(artifact: Artifact) -> dict[str, Any]:
    made = {"type": "file", "bom-ref": f"file:{artifact.url}", "name": artifact.path.rpartition("/")[2]}
    return made | _origin(artifact.url, artifact.sha256)


def _origin(url: str, sha256: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if sha256:
        made["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    if re.match(r"https?://", url):
        made["externalReferences"] = [{"type": "distribution", "url": quote(url, safe=":/?&=%+,;@~#")}]
    return made


def _purl(lock: Lock, package: LockedPackage) -> str:
    version = quote(package.version, safe=".-~")
    if package.kind == "wheel":
        return f"pkg:pypi/{normalized(package.name)}@{version}"
    os = lock.plan.host.os
    vendor = quote(os.id or "unknown", safe="")
    epoch, _, plain = package.version.rpartition(":")
    words = {"arch": package.arch, "distro": f"{os.id}-{os.version_id}" if os.id and os.version_id else ""}
    if package.kind == "rpm":
        version, words["epoch"] = quote(plain, safe=".-~"), epoch
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in sorted(words.items()) if value)
    return f"pkg:{package.kind}/{vendor}/{quote(package.name, safe='.-+')}@{version}" + (f"?{query}" if query else "")


def _ref(package: LockedPackage) -> str:
    return f"{package.kind}:{package.name}@{package.version}:{package.arch}"


def _dependencies(lock: Lock) -> list[dict[str, Any]]:
    """The host depends on the stack, and a component of it on the packages of its steps."""
    owners = {step.id: step.component for step in lock.plan.steps}
    files = {artifact.url: step.component for step in lock.plan.steps for artifact in step.artifacts}
    of: dict[str, list[str]] = {name: [] for name in lock.stack}
    for package in lock.packages:
        if owners.get(package.step) in of:
            of[owners[package.step]].append(_ref(package))
    for artifact in dict.fromkeys(lock.artifacts):
        if files.get(artifact.url) in of:
            of[files[artifact.url]].append(f"file:{artifact.url}")
    return [
        {"ref": "host", "dependsOn": [f"stack:{name}" for name in lock.stack]},
        *({"ref": f"stack:{name}", "dependsOn": refs} for name, refs in of.items()),
    ]
