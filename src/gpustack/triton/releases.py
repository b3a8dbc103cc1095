"""A Triton release by its month: its image, its TensorRT, and the kinds of models that it supports."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.errors import UsageError
from gpustack.matrix.index import Matrix
from gpustack.versions import version

SERVER = "triton-server"


class ReleaseRow(Struct, frozen=True, kw_only=True):
    """A month's release."""

    version: str
    server: str = ""
    api: str = ""
    tensorrt: str = ""
    cuda: str = ""
    image: str = ""


class ModelFile(Struct, frozen=True, kw_only=True):
    """A kind of model, its file, and the months between which servers support it."""

    file: str
    platform: str = ""
    backend: str = ""
    first: str = ""
    last: str = ""

    @property
    def called(self) -> str:
        return self.platform or self.backend


def release_row(matrix: Matrix, release: str) -> ReleaseRow:
    """The release of the month ``release`` ("25.03"). Raises UsageError with the known months near it."""
    rows = matrix.rows("triton", "releases", ReleaseRow)
    # The guide of the beta calls its release 0.5.
    found = next((row for row in rows if row.version in {release, f"{release}.0"}), None)
    if found is None:
        known = [row.version for row in rows]
        near = [one for one in known if one.partition(".")[0] == release.partition(".")[0]] or known[-6:]
        msg = f"{release!r} is not a release of Triton"
        raise UsageError(msg, code="unknown-version", where="--release", hint=f"known: {', '.join(near)}")
    return found


def newest(matrix: Matrix) -> ReleaseRow:
    """The newest release whose server version is known."""
    rows = [row for row in matrix.rows("triton", "releases", ReleaseRow) if row.server]
    return max(rows, key=lambda row: version(row.version).key)


def model_kinds(matrix: Matrix) -> tuple[ModelFile, ...]:
    """Every kind of model."""
    return matrix.rows(SERVER, "model_files", ModelFile)


def why_unsupported(kind: ModelFile, release: str) -> str:
    """Why servers of ``release`` do not support this kind of model; "" where they do."""
    month = version(release)
    begin = re.search(r"\d\d\.\d\d", kind.first)
    end = re.search(r"\d\d\.\d\d", kind.last)
    if begin and month < version(begin[0]):
        return f"{kind.called} is supported from {begin[0]} on"
    if end and month > version(end[0]):
        return f"{kind.called} is supported up to {end[0]}"
    return ""


def refuse_unsupported(matrix: Matrix, platform: str, row: ReleaseRow) -> None:
    """Raise UsageError (exit 2) where servers of that release do not serve models of ``platform``."""
    kind = next(one for one in model_kinds(matrix) if one.platform == platform)
    why = why_unsupported(kind, row.version)
    if why:
        library = f"TensorRT {row.tensorrt}" if row.tensorrt else "the TensorRT of that release"
        msg = f"{why}; this server is {row.version}"
        raise UsageError(
            msg,
            code="nothing-for-release",
            where="--release",
            hint=f"build an engine with {library} and use `--engine FILE`",
        )


def when_seen(release: str) -> str:
    """When a running server of ``release`` notices a model that is new in its repository."""
    if version(release) < version("18.11"):
        return "a running server notices new versions of its models, but no new models: restart it"
    if version(release) < version("20.06"):
        return "a running server notices it by itself"
    return "a running server notices it with --model-control-mode=poll; else restart it, or load the model"


def needs_config(release: str) -> bool:
    """Whether every model needs a config.pbtxt: from 22.07 on the server completes it."""
    return version(release) < version("22.07")


def skips_zero_versions(release: str) -> bool:
    """Whether version folders that begin with 0 are ignored, as documented from 19.08 on."""
    return version(release) >= version("19.08")
