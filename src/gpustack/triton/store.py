"""A model repository on disk: model folder, config.pbtxt, labels, and a folder per version with the model's file."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from msgspec import Struct

from gpustack.errors import UsageError
from gpustack.system.files import write_atomically
from gpustack.triton.pbtxt import Message, Name, write
from gpustack.versions import version

_NAME = re.compile(r"^[A-Za-z0-9][\w.-]*$")
_CAPABILITY = re.compile(r"^\d+\.\d+$")


class NewModel(Struct, frozen=True, kw_only=True):
    """A model to lay out. ``files`` maps a compute capability ("8.9") to its file, "" to the one for every GPU.

    ``inputs`` and ``outputs`` are (name, type as TYPE_FP32, dims without the batch). ``keep`` is how many of the newest
    versions are served (0: all); ``copies`` how many instances run, on ``gpus`` or on all; ``on_cpu`` on the CPU.
    """

    name: str
    platform: str
    files: dict[str, Path]
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    number: int = 1
    max_batch: int = 0
    labels: tuple[str, ...] = ()
    keep: int = 1
    copies: int = 1
    gpus: tuple[int, ...] = ()
    on_cpu: bool = False


_FILE = {"tensorrt_plan": "model.plan", "onnxruntime_onnx": "model.onnx"}


def create_version(repository: Path, model: NewModel, release: str) -> Path:
    """Write ``model`` into the repository in the form of ``release``, and return its folder.

    An existing version is never overwritten. Raises UsageError (exit 2) for what no server supports.
    """
    _refuse(model)
    folder = repository / model.name
    versioned = folder / str(model.number)
    if versioned.exists():
        msg = f"version {model.number} of {model.name} already exists"
        raise UsageError(
            msg,
            code="model-exists",
            where=str(versioned),
            hint="use the next number: an existing version is never overwritten",
        )
    folder.mkdir(parents=True, exist_ok=True)
    # The version appears whole: a polling server never sees half of it.
    staged = folder / f".{model.number}.partial"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    for capability, source in model.files.items():
        shutil.copyfile(source, staged / file_name(model.platform, capability))
    for place, (name, _, _) in enumerate(model.outputs):
        if model.labels and place == 0:
            write_atomically(folder / f"{name}_labels.txt", "".join(f"{label}\n" for label in model.labels))
    write_atomically(folder / "config.pbtxt", write(configuration(model, release)))
    staged.rename(versioned)
    return folder


def file_name(platform: str, capability: str) -> str:
    """The name of a model's file; one for a single compute capability includes it."""
    plain = _FILE[platform]
    if not capability:
        return plain
    stem, _, ending = plain.rpartition(".")
    return f"{stem}_cc{capability.replace('.', '_')}.{ending}"


def _refuse(model: NewModel) -> None:
    if not _NAME.match(model.name):
        msg = f"{model.name!r} is not a valid name of a model"
        raise UsageError(
            msg, code="invalid-model", hint="use letters, digits, '.', '_' and '-', and begin with a letter or digit"
        )
    if model.platform not in _FILE:
        msg = f"platform {model.platform} is not supported"
        raise UsageError(msg, code="invalid-model", hint=f"supported: {', '.join(_FILE)}")
    if model.number < 1:
        msg = f"version {model.number} is not valid: versions begin at 1"
        raise UsageError(msg, code="invalid-model", hint="servers 19.08 and newer ignore folders that begin with 0")
    if not model.files:
        msg = "a model requires a file"
        raise UsageError(msg, code="invalid-model", hint="specify an engine or an ONNX file")
    for capability, source in model.files.items():
        if capability and not _CAPABILITY.match(capability):
            msg = f"{capability!r} is not a compute capability"
            raise UsageError(msg, code="invalid-model", hint="for example 8.9=model.plan")
        if not os.access(source, os.R_OK):
            msg = "the file does not exist or cannot be read"
            raise UsageError(msg, code="invalid-model", where=str(source), hint="build the engine first")


def configuration(model: NewModel, release: str) -> Message:
    """The config.pbtxt of a model, with what a server of ``release`` would complete itself."""
    found: Message = {
        "name": [model.name],
        "platform": [model.platform],
        "max_batch_size": [model.max_batch],
        "input": [_tensor(*one) for one in model.inputs],
        "output": [_output(model, place, *one) for place, one in enumerate(model.outputs)],
    }
    named = {capability: file_name(model.platform, capability) for capability in model.files if capability}
    if named:
        found["cc_model_filenames"] = [{"key": [key], "value": [value]} for key, value in named.items()]
    if model.keep != 1:
        policy: Message = {"all": [{}]} if model.keep == 0 else {"latest": [{"num_versions": [model.keep]}]}
        found["version_policy"] = [policy]
    group: Message = {"count": [model.copies]}
    if version(release) >= version("18.11"):
        # The 0.5 beta had no kind: setting gpus selected the GPU.
        group["kind"] = [Name("KIND_CPU" if model.on_cpu else "KIND_GPU")]
    if model.gpus and not model.on_cpu:
        group["gpus"] = list(model.gpus)
    found["instance_group"] = [group]
    return found


def _tensor(name: str, kind: str, dims: tuple[int, ...]) -> Message:
    return {"name": [name], "data_type": [Name(kind)], "dims": list(dims)}


def _output(model: NewModel, place: int, name: str, kind: str, dims: tuple[int, ...]) -> Message:
    found = _tensor(name, kind, dims)
    if model.labels and place == 0:
        found["label_filename"] = [f"{name}_labels.txt"]
    return found
