"""The known container images by tag: those of NGC by month, of nvidia/cuda, and of other makers."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.solve.question import Question
from gpustack.versions import version_key

_NVIDIAS = re.compile(r"(?:(?:nvcr|docker)\.io/)?(?:nvidia/)?([a-z0-9-]+):([A-Za-z0-9][\w.-]*)")
_OTHERS = re.compile(r"(?:(?:docker|ghcr)\.io/)?((?:pytorch|vllm)/[a-z-]+):([A-Za-z0-9][\w.-]*)")
_CUDA_TAG = re.compile(r"(\d+\.\d+\.\d+)-.+")
PYTORCH = "pytorch/pytorch"
"""The images of PyTorch's makers. Their tags name release, CUDA and cuDNN; not all have cuda-compat."""

_KINDS = {"tritonserver": "triton"}
"""Repositories that the tables know by another name."""


class _Row(Struct, frozen=True, kw_only=True):
    """The content of a month's image; ``image_cuda`` was read inside the image, ``cuda`` in its release notes."""

    month: str
    image: str = ""
    cuda: str = ""
    image_cuda: str = ""
    cc_min: str = ""
    src: tuple[str, ...] = ()


class _Tag(Struct, frozen=True, kw_only=True):
    """A tag of NVIDIA's CUDA images that was seen."""

    tag: str
    src: tuple[str, ...] = ()


class _Listed(Struct, frozen=True, kw_only=True):
    """The tags of a CUDA release for one system, as NVIDIA's documents list them."""

    cuda: str
    system: str
    kinds: tuple[str, ...]
    src: tuple[str, ...] = ()


class _HubTag(Struct, frozen=True, kw_only=True):
    """A tag of another maker's image, with the CUDA that a source states of it."""

    repository: str
    tag: str
    cuda: str
    src: tuple[str, ...] = ()


class Image(Struct, frozen=True, kw_only=True):
    """One known image: its repository, its tag, its CUDA and its lowest compute capability."""

    repository: str = ""
    tag: str
    cuda: str
    cc_min: str = ""
    src: tuple[str, ...] = ()


def reference(name: str) -> re.Match[str] | None:
    """Repository and tag of an image's name, without its registry; None for a name without a tag, and for others."""
    return _NVIDIAS.fullmatch(name) or _OTHERS.fullmatch(name)


def known_images(question: Question, repository: str, tag: str = "") -> tuple[Image, ...]:
    """The known images of a repository, oldest first; of nvidia/cuda, which has a thousand, only ``tag`` if given."""
    matrix, kind = question.matrix, _KINDS.get(repository, repository)
    if kind == "cuda":
        tags = matrix.rows("ngc", "cuda_image_tags", _Tag)
        listed = matrix.rows("cuda-image-tags", "tags", _Listed)
        found = {
            f"{row.cuda}-{kind}-{row.system}": (row.cuda, row.src)
            for row in listed
            for kind in row.kinds
            if not tag or tag.startswith(row.cuda)
        }
        found |= {
            one.tag: (match[1], one.src)
            for one in tags
            if (not tag or one.tag == tag) and (match := _CUDA_TAG.fullmatch(one.tag))
        }
        keys = {cuda: version_key(cuda) for cuda, _ in found.values()}
        images = (
            Image(repository=repository, tag=name, cuda=cuda, src=src)
            for name, (cuda, src) in found.items()
            if not tag or name == tag
        )
        return tuple(sorted(images, key=lambda one: keys[one.cuda]))
    if "/" in repository:
        hub = (row for row in matrix.rows("ngc", "hub_tags", _HubTag) if row.repository == repository)
        return tuple(Image(repository=repository, tag=row.tag, cuda=row.cuda, src=row.src) for row in hub)
    months = {row.month: row for row in matrix.rows("ngc", "months", _Row)}
    rows = (*matrix.rows("ngc", "older_rows", _Row), *matrix.rows("ngc", "image_rows", _Row))
    found_rows = [(row, months.get(row.month, row)) for row in rows if row.image == kind]
    return tuple(
        Image(
            repository=repository,
            tag=f"{row.month}-{suffix}",
            cuda=row.image_cuda or row.cuda or month.cuda,
            cc_min=row.cc_min or month.cc_min,
            src=tuple(dict.fromkeys((*row.src, *month.src))),
        )
        for row, month in sorted(found_rows, key=lambda one: one[0].month)
        for suffix in ("py3", *(("tf1-py3", "tf2-py3") if kind == "tensorflow" else ()))
    )


def find_image(question: Question, repository: str, tag: str) -> Image | None:
    """The known image of this tag, None if none is known."""
    return next((one for one in known_images(question, repository, tag) if one.tag == tag), None)


def unlisted(known: tuple[Image, ...], tag: str) -> str:
    """Why nothing is known about a tag, with the known ones around it."""
    if not known:
        return "no image of this name is known"
    below = [one.tag for one in known if one.tag < tag]
    above = [one.tag for one in known if one.tag > tag]
    near = [*below[-1:], *above[:1]]
    return f"this tag is unknown; the nearest known {'is' if len(near) == 1 else 'are'} {' and '.join(near)}"
