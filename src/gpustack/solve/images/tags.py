"""The known container images by tag: those of NGC by month, of nvidia/cuda, and of other makers."""

import re

from msgspec import Struct

from gpustack.solve.images.names import Name, framework_in, named_cuda, named_major
from gpustack.solve.question import Question
from gpustack.versions import is_within, version_key

_CUDA_TAG = re.compile(r"(\d+\.\d+\.\d+)-.+")
_KINDS = {"tritonserver": "triton"}
"""Repositories that the tables know by another name."""

_PUBLIC = {"", "docker.io", "index.docker.io", "nvcr.io", "ghcr.io"}
"""Registries whose images are those of the tables; others may keep copies of them under their full name."""

_MONTHLY = {"cuda-dl-base", "jax", "pytorch", "tensorflow", "tensorrt", "triton"}
"""Images of NGC that are built from one base each month."""

_MONTH = re.compile(r"(\d\d\.\d\d)-(.+)")
_LINE = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?post\d+)?)((?:-.+)?)")


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


class _Line(Struct, frozen=True, kw_only=True):
    """The releases of another maker's image with the same CUDA; ``suffix`` is what follows the release in the tag."""

    repository: str
    versions: str
    suffix: str = ""
    cuda: str
    src: tuple[str, ...] = ()


class _Variant(Struct, frozen=True, kw_only=True):
    """The image of a month that differs from the other images of its month."""

    image: str
    month: str
    suffix: str
    cuda: str
    src: tuple[str, ...] = ()


class Image(Struct, frozen=True, kw_only=True):
    """One image: its repository, its tag, its CUDA and its lowest compute capability.

    ``cc_around`` is what the months before and after it state where nothing states ``cc_min``. ``basis`` says where
    the CUDA of a tag comes from that the facts do not have, "" for known tags. ``holds`` is what answers call its CUDA
    where that is not ``cuda``.
    """

    repository: str = ""
    tag: str
    cuda: str
    cc_min: str = ""
    cc_around: str = ""
    src: tuple[str, ...] = ()
    basis: str = ""
    holds: str = ""


def repository_of(name: Name) -> str:
    """The repository as the tables spell it: those of NVIDIA without their maker."""
    if name.registry not in _PUBLIC and "/" not in name.repository:
        return f"{name.registry}/{name.repository}"
    return name.repository.removeprefix("nvidia/")


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
        listed_ones = (
            Image(repository=repository, tag=name, cuda=cuda, src=src)
            for name, (cuda, src) in found.items()
            if not tag or name == tag
        )
        return tuple(sorted(listed_ones, key=lambda one: keys[one.cuda]))
    hub = tuple(row for row in matrix.rows("ngc", "hub_tags", _HubTag) if row.repository == repository)
    if hub or "/" in repository:
        return tuple(Image(repository=repository, tag=row.tag, cuda=row.cuda, src=row.src) for row in hub)
    months = {row.month: row for row in matrix.rows("ngc", "months", _Row)}
    rows = (*matrix.rows("ngc", "older_rows", _Row), *matrix.rows("ngc", "image_rows", _Row))
    found_rows = [(row, months.get(row.month, row)) for row in rows if row.image == kind]
    images = [
        Image(
            repository=repository,
            tag=f"{row.month}-{suffix}",
            cuda=row.image_cuda or row.cuda or month.cuda,
            cc_min=row.cc_min or month.cc_min,
            cc_around=_cc_around(months, row.month),
            src=tuple(dict.fromkeys((*row.src, *month.src))),
        )
        for row, month in found_rows
        for suffix in ("py3", *(("tf1-py3", "tf2-py3") if kind == "tensorflow" else ()))
    ]
    images += [
        Image(
            repository=repository,
            tag=f"{row.month}-{row.suffix}",
            cuda=row.cuda,
            cc_min=months[row.month].cc_min if row.month in months else "",
            cc_around=_cc_around(months, row.month),
            src=row.src,
        )
        for row in matrix.rows("ngc", "variants", _Variant)
        if row.image == kind
    ]
    return tuple(sorted(images, key=lambda one: one.tag[:5]))


def _cc_around(months: dict[str, _Row], month: str) -> str:
    """The higher of the compute capabilities that the nearest months on both sides state as their lowest."""
    stated = sorted(one for one in months if months[one].cc_min)
    nearest = (*[one for one in stated if one <= month][-1:], *[one for one in stated if one >= month][:1])
    return max((months[one].cc_min for one in nearest), key=version_key, default="")


def find_image(question: Question, name: Name) -> Image | None:
    """The known image of this name, else one made from what its name says; None if it says nothing of its CUDA."""
    repository = repository_of(name)
    known = next((one for one in known_images(question, repository, name.tag) if one.tag == name.tag), None)
    return known or _in_lines(question, repository, name.tag) or _by_name(question, repository, name)


def _in_lines(question: Question, repository: str, tag: str) -> Image | None:
    """The image by the rows about many releases of its maker."""
    found = _LINE.fullmatch(tag)
    rows = question.matrix.rows("ngc", "hub_lines", _Line) if found is not None else ()
    for row in rows:
        if found and (row.repository, row.suffix) == (repository, found[2]) and is_within(found[1], row.versions):
            return Image(repository=repository, tag=tag, cuda=row.cuda, src=row.src)
    return None


def _by_name(question: Question, repository: str, name: Name) -> Image | None:
    """The image by the CUDA, the month or the framework in its name."""
    cuda = named_cuda(name)
    if cuda:
        return Image(repository=repository, tag=name.tag, cuda=cuda, basis=f"its name says CUDA {cuda}")
    month = _MONTH.fullmatch(name.tag)
    if month is not None and _KINDS.get(repository, repository) in _MONTHLY and "igpu" not in month[2]:
        months = {one.month: one for one in question.matrix.rows("ngc", "months", _Row)}
        row = months.get(month[1])
        if row is not None and row.cuda:
            basis = f"images of its month hold CUDA {row.cuda}"
            around = _cc_around(months, row.month)
            return Image(
                repository=repository, tag=name.tag, cuda=row.cuda, cc_min=row.cc_min, cc_around=around, src=row.src,
                basis=basis,
            )  # fmt: skip
    framework = framework_in(name)
    if framework is not None and not named_major(name):
        from gpustack.solve.frameworks.catalog import Catalog, platform_of  # noqa: PLC0415 (few images have one)

        catalog = Catalog(question.matrix, platform_of(question.host))
        rows = (one for one in catalog.builds(framework.name) if (one.version, one.local) == (framework.version, ""))
        build = next(rows, None)
        if build is not None and (cuda := catalog.cuda_of(build)):
            basis = f"its name says {framework.name} {framework.version}, whose wheel is built with CUDA {cuda}"
            return Image(repository=repository, tag=name.tag, cuda=cuda, src=build.src, basis=basis)
    return None


def _natural(tag: str) -> list[tuple[int, str]]:
    """The order of tags by the numbers in them."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", tag)]


def unlisted(known: tuple[Image, ...], name: Name) -> str:
    """Why nothing is known about a tag, with the known ones around it."""
    if name.tag == "latest":
        return "latest is another image every month: give its version as the tag"
    if name.tag == "digest":
        return "a digest does not say which release it is: add the tag, or save the image, and check the file"
    if major := named_major(name):
        return f"its name says CUDA {major} without the minor version: save the image, and check the file"
    if not known:
        return "no image of this name is known, and the name does not say its CUDA: save it, and check the file"
    mine = _natural(name.tag)
    below = [one.tag for one in known if _natural(one.tag) < mine]
    above = [one.tag for one in known if _natural(one.tag) > mine]
    near = [*sorted(below, key=_natural)[-1:], *sorted(above, key=_natural)[:1]]
    return f"this tag is unknown; the nearest known {'is' if len(near) == 1 else 'are'} {' and '.join(near)}"
