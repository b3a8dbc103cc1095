"""The files in the version folders of a model: whether each is there, of the right form, and loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.triton.engine import judge_engine, read_engine
from gpustack.triton.pbtxt import Message, first
from gpustack.triton.releases import ModelFile, model_kinds
from gpustack.triton.served import tensorrt_of_triton, with_version
from gpustack.triton.violation import Violation, fault, is_file, is_folder, is_there, spelled, warning

_FREE = {"ensemble", "tensorrtllm"}
"""Kinds without a file of a fixed name."""
_WEIGHTS_OF_NETDEF = "init_"
"""A NetDef's second file has its name with this in front."""


class LaidOut(Struct, frozen=True, kw_only=True):
    """A model's configuration, the kind of its files (None: unknown), and its versions with their folders."""

    config: Message
    kind: ModelFile | None
    versions: dict[int, Path]


def check_files(matrix: Matrix, release: str, capabilities: tuple[str, ...], model: LaidOut) -> Iterator[Violation]:
    """What is wrong with the files of a model for a server of ``release`` on GPUs of ``capabilities``."""
    if model.kind is None:
        yield from _unidentified(matrix, model)
        return
    if model.kind.called in _FREE:
        return
    own = first(model.config, "default_model_filename")
    wanted = str(own) if own else next((word for word in model.kind.file.split() if "." in word), "")
    mapped = {
        str(first(one, "key")): str(first(one, "value"))
        for one in model.config.get("cc_model_filenames", [])
        if isinstance(one, dict)
    }
    for folder in model.versions.values():
        if model.kind.platform == "tensorrt_plan":
            yield from _engines(matrix, release, folder, {*mapped.values(), wanted})
        yield from _of_version(folder, wanted, mapped, capabilities)
        for name in {wanted, *mapped.values()}:
            yield from _form(model.kind, folder, name.rstrip("/"))


def _unidentified(matrix: Matrix, model: LaidOut) -> Iterator[Violation]:
    """Versions without a configuration that names their kind must have a file by which the server identifies it."""
    if model.config:
        return
    names = {word for kind in model_kinds(matrix) for word in kind.file.replace("/", "").split() if "." in word}
    for folder in model.versions.values():
        if not any(path.name in names for path in folder.iterdir()):
            yield fault(
                spelled(folder),
                "has no file of a kind that the server identifies, and the model has no config.pbtxt",
                "add the model's file, or config.pbtxt",
            )


def _of_version(
    folder: Path, wanted: str, mapped: dict[str, str], capabilities: tuple[str, ...]
) -> Iterator[Violation]:
    number = spelled(folder)
    for capability, name in mapped.items():
        if not is_there(folder / name):
            yield fault(f"{number}/{name}", f"is set for compute capability {capability}, but does not exist")
    if is_there(folder / wanted.rstrip("/")):
        return
    lacking = ", ".join(one for one in capabilities if one not in mapped)
    if not mapped:
        yield fault(f"{number}/{wanted}", "is missing", "add it, or set default_model_filename")
    elif lacking:
        yield fault(number, f"has neither a file for compute capability {lacking} nor {wanted}")


def _form(kind: ModelFile, folder: Path, name: str) -> Iterator[Violation]:
    """A SavedModel is a folder with its graph; a NetDef has a second file with its weights."""
    place, path = f"{spelled(folder)}/{name}", folder / name
    if not is_there(path):
        return
    if kind.platform == "tensorflow_savedmodel":
        if not is_folder(path):
            yield fault(place, "is a file; a SavedModel is a folder", "copy the whole folder that TensorFlow saved")
        elif not any(is_file(path / f"saved_model.{ending}") for ending in ("pb", "pbtxt")):
            yield fault(place, "has no saved_model.pb", "copy the whole folder that TensorFlow saved")
    elif kind.platform == "caffe2_netdef" and not is_file(folder / f"{_WEIGHTS_OF_NETDEF}{name}"):
        yield fault(
            f"{spelled(folder)}/{_WEIGHTS_OF_NETDEF}{name}",
            f"is missing: a NetDef has two files, {name} and {_WEIGHTS_OF_NETDEF}{name}",
            "add the network that initializes the weights",
        )


def _engines(matrix: Matrix, release: str, folder: Path, names: set[str]) -> Iterator[Violation]:
    """The engines' headers: no server loads an engine of another TensorRT."""
    library = tensorrt_of_triton(matrix, release) or ""
    for name in sorted(names):
        path = folder / name
        if not is_file(path):
            continue
        place = f"{spelled(folder)}/{name}"
        try:
            engine = with_version(matrix, read_engine(path))
        except OSError as exc:
            yield fault(place, f"cannot be read: {exc.strerror or exc}", "make it readable for the server")
            continue
        if engine.kind == "tensorrt-rtx":
            yield fault(place, f"is an {engine.called}, which Triton does not support", "build it with TensorRT")
            continue
        if not engine.fault and not library:
            continue
        verdict = judge_engine(engine, library, None, f"Triton {release}")
        if verdict.fits is not True:
            make = fault if verdict.fits is False else warning
            yield make(place, verdict.reason, verdict.fix)
