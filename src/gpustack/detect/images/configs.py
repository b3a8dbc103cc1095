"""An image's configuration: as `docker inspect`, `skopeo inspect` or an OCI blob has it."""

from __future__ import annotations

from typing import Any

import msgspec

from gpustack.model.architectures import architecture
from gpustack.model.image import ImageContent

MAX_VARIABLES = 5000


def read_config(name: str, data: bytes, platform: str, *, form: str = "configuration") -> ImageContent:
    """The content of a configuration. Raises ValueError for another document."""
    try:
        document: Any = msgspec.json.decode(data)
    except msgspec.DecodeError as exc:
        msg = f"is not JSON: {exc}"
        raise ValueError(msg) from exc
    if isinstance(document, list):
        images = [one for one in document if isinstance(one, dict)]
        document = next((one for one in images if arch_of(one) == platform), images[0] if images else None)
    if not isinstance(document, dict):
        msg = "is JSON, but no image configuration"
        raise ValueError(msg)  # noqa: TRY004 (the caller reports all of them alike)
    return of_document(name, document, form=form)


def of_document(name: str, document: dict[str, Any], *, form: str) -> ImageContent:
    """The content of a decoded configuration. Raises ValueError for another document."""
    inner = next((document[key] for key in ("config", "Config") if isinstance(document.get(key), dict)), None)
    if "layers" in document or "manifests" in document or "fsLayers" in document:
        msg = "is a manifest, which does not say what is in the image: give its configuration"
        raise ValueError(msg)
    inner = inner if inner is not None else document if "Env" in document else None
    if inner is None or not ({"rootfs", "RootFS", "architecture", "Architecture", "Id"} & document.keys()):
        msg = "is JSON, but no image configuration"
        raise ValueError(msg)
    return ImageContent(
        name=name,
        form=form,
        environment=_variables(inner.get("Env")),
        labels=_strings(inner.get("Labels")),
        arch=arch_of(document),
        os=os_of(document),
    )


def arch_of(document: dict[str, Any]) -> str:
    """The architecture as the kernel spells it, "" if not stated; unknown ones as they are."""
    word = document.get("architecture") or document.get("Architecture")
    if not isinstance(word, str):
        return ""
    found = architecture(word.lower())
    return found.name if found is not None else word


def os_of(document: dict[str, Any]) -> str:
    """The operating system that an image is for, in small letters; "" if not stated."""
    word = document.get("os") or document.get("Os")
    return word.lower() if isinstance(word, str) else ""


def _variables(value: object) -> dict[str, str]:
    if value is None:
        return {}
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not isinstance(value, list) or not is_list or len(value) > MAX_VARIABLES:
        msg = "is no image configuration: Env is not a list of variables"
        raise ValueError(msg)
    pairs = (one.partition("=") for one in value)
    return {name: text for name, _, text in pairs if name}


def _strings(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: text for name, text in value.items() if isinstance(name, str) and isinstance(text, str)}
