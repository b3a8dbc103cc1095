"""Any file or folder of an image, recognized by its content."""

from __future__ import annotations

from pathlib import Path

from gpustack.errors import UsageError
from gpustack.model.image import ImageContent

LIMIT = 16 << 20
"""The longest configuration or Dockerfile, in bytes."""

DOCKERFILES = ("Dockerfile", "Containerfile")


def is_place(text: str) -> bool:
    """Whether ``--image`` names a file or folder: it exists, or is spelled as a path."""
    if text.startswith(("/", "./", "../", "~")) or text.endswith((".json", ".tar", ".tar.gz", ".tgz")):
        return True
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # a name too long for a file
        return False


def read_image(path: Path, platform: str | None = None) -> ImageContent:
    """The image in a file or folder; of several platforms that of ``platform`` ("x86_64").

    Raises UsageError for what cannot be read, or is no image.
    """
    try:
        return _read(path.expanduser(), platform or "x86_64")
    except OSError as exc:
        msg = f"cannot be read: {exc.strerror or exc}"
        raise UsageError(msg, code="unreadable-file", where=str(path), hint="give a file that you can read") from exc
    except (ValueError, RecursionError) as exc:
        hint = "give an image's configuration (docker inspect), an OCI layout, a saved image, or a Dockerfile"
        raise UsageError(str(exc), code="unreadable-file", where=str(path), hint=hint) from exc


def _read(path: Path, platform: str) -> ImageContent:
    from gpustack.detect.images import configs, dockerfile, saved  # noqa: PLC0415 (names of images need none of it)

    if path.is_dir():
        if (path / "index.json").is_file():
            return saved.read_layout(path, platform)
        file = next((path / name for name in DOCKERFILES if (path / name).is_file()), None)
        if file is None:
            msg = "is a folder without an OCI layout (index.json) and without a Dockerfile"
            raise ValueError(msg)
        path = file
    if not path.is_file():
        if not path.exists():
            msg = "there is no such file"
            raise FileNotFoundError(2, msg)
        msg = "is not a regular file"
        raise ValueError(msg)
    with path.open("rb") as stream:
        head = stream.read(512)
    if head[257:262] == b"ustar" or head[:2] == b"\x1f\x8b" or head[:4] == b"\x28\xb5\x2f\xfd":
        return saved.read_saved(path, platform)
    if path.stat().st_size > LIMIT:
        msg = f"is longer than {LIMIT} bytes, and no saved image"
        raise ValueError(msg)
    data = path.read_bytes()
    if data.lstrip()[:1] in {b"{", b"["}:
        return configs.read_config(str(path), data, platform)
    return dockerfile.read_dockerfile(str(path), data)
