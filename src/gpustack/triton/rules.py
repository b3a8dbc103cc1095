"""Checks a model repository by the rules of a server's release, before a server loads it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

from gpustack.errors import DocumentError
from gpustack.matrix.index import Matrix
from gpustack.triton.engine import judge_engine, read_engine
from gpustack.triton.pbtxt import Message, Name, first, parse
from gpustack.triton.releases import (
    SERVER,
    ModelFile,
    model_kinds,
    needs_config,
    skips_zero_versions,
    why_unsupported,
)
from gpustack.triton.served import tensorrt_of_triton, with_version

_OURS = "create one with gpustack's test network: `gpustack triton model-store DIR --digits`"
_SCHEDULERS = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
_COMPLETED = {"tensorrt_plan", "onnxruntime_onnx", "tensorflow_savedmodel"}
"""Kinds whose configuration a server can complete; others require their inputs and outputs in it."""


class ConfigName(Struct, frozen=True, kw_only=True):
    """A word that config.pbtxt may contain, in its group."""

    group: str
    name: str


class Violation(Struct, frozen=True, kw_only=True):
    """A fault or a warning (``severity`` "error", "warning"), with its place and its fix."""

    severity: str
    place: str
    message: str
    fix: str = ""


class Judgement(Struct, frozen=True, kw_only=True):
    """A checked repository: its models with the versions that would be served, and the findings."""

    models: dict[str, tuple[int, ...]]
    findings: tuple[Violation, ...]

    @property
    def is_good(self) -> bool:
        return not any(one.severity == "error" for one in self.findings)


def judge(matrix: Matrix, repository: Path, release: str, capabilities: tuple[str, ...] = ()) -> Judgement:
    """Check the repository for a server of ``release`` on GPUs of ``capabilities`` (none: unknown).

    Raises DocumentError for a folder that does not exist or cannot be read.
    """
    findings: list[Violation] = []
    models: dict[str, tuple[int, ...]] = {}
    try:
        folders = sorted(path for path in repository.iterdir() if _is_folder(path) and not path.name.startswith("."))
    except OSError as exc:
        msg = f"the model repository cannot be read: {exc.strerror or exc}"
        raise DocumentError(
            msg, code="unreadable-folder", where=str(repository), hint=f"specify an existing folder, or {_OURS}"
        ) from exc
    if not folders:
        fix = f"a model is a folder with config.pbtxt and 1/; {_OURS}"
        findings.append(_error(str(repository), "contains no model", fix))
    for folder in folders:
        judged = _Model(matrix, folder, release, capabilities)
        models[_spelled(folder)] = judged.served()
        findings += judged.findings
    return Judgement(models=models, findings=tuple(findings))


def _error(place: str, message: str, fix: str = "") -> Violation:
    return Violation(severity="error", place=place, message=message, fix=fix)


def _warning(place: str, message: str, fix: str = "") -> Violation:
    return Violation(severity="warning", place=place, message=message, fix=fix)


def _spelled(path: Path) -> str:
    """The name of a file as text: bytes in it that are no UTF-8 are written as escapes."""
    return os.fsencode(path.name).decode("utf-8", "backslashreplace")


def _is_there(path: Path) -> bool:
    """Whether something exists; a name that no file can have, in a configuration or a link, names nothing."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _is_file(path: Path) -> bool:
    return _is_there(path) and path.is_file()


def _is_folder(path: Path) -> bool:
    return _is_there(path) and path.is_dir()


class _Model:
    """The checks of one model's folder."""

    def __init__(self, matrix: Matrix, folder: Path, release: str, capabilities: tuple[str, ...]) -> None:
        self._matrix = matrix
        self._folder = folder
        self._release = release
        self._capabilities = capabilities
        self.findings: list[Violation] = []
        self._config = self._read()
        self._kind = self._kind_of()
        self._versions = self._find_versions()
        if self._config is not None:
            self._check_names()
            self._check_tensors()
            self._check_scheduling()
            self._check_labels()
        self._check_files()

    def served(self) -> tuple[int, ...]:
        """The versions that the server serves by the model's policy."""
        policy = first(self._config, "version_policy") if self._config else None
        known = sorted(self._versions)
        if not isinstance(policy, dict):
            return tuple(known[-1:])
        if "all" in policy:
            return tuple(known)
        specific = first(policy, "specific")
        if isinstance(specific, dict):
            wanted = [one for one in specific.get("versions", []) if isinstance(one, int)]
            for one in wanted:
                if one not in known:
                    self._add(_error, "config.pbtxt", f"version_policy requires version {one}, which does not exist")
            return tuple(one for one in known if one in wanted)
        latest = first(policy, "latest")
        count = first(latest, "num_versions") if isinstance(latest, dict) else 1
        return tuple(known[-count:]) if isinstance(count, int) and count > 0 else tuple(known[-1:])

    def _add(self, make: object, place: str, message: str, fix: str = "") -> None:
        name = _spelled(self._folder)
        where = f"{name}/{place}" if place else name
        self.findings.append((_error if make is _error else _warning)(where, message, fix))

    def _read(self) -> Message | None:
        path = self._folder / "config.pbtxt"
        if not _is_file(path):
            if needs_config(self._release):
                self._add(
                    _error,
                    "config.pbtxt",
                    f"is missing; Triton {self._release} requires it",
                    "write it, or start the server with --strict-model-config=false (18.12 and newer)",
                )
            return None
        try:
            return parse(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as exc:
            self._add(_error, "config.pbtxt", f"cannot be read: {exc}", "fix the text protobuf")
            return None

    def _kind_of(self) -> ModelFile | None:
        if self._config is None:
            return None
        said = {str(first(self._config, name) or "") for name in ("platform", "backend")} - {""}
        if not said:
            if self._completes():
                return None
            self._add(_error, "config.pbtxt", "has neither platform nor backend", "add one: platform or backend")
            return None
        kind = next((one for one in model_kinds(self._matrix) if said & {one.platform, one.backend}), None)
        if kind is None:
            words = " and ".join(sorted(said))
            self._add(_warning, "config.pbtxt", f"{words} is an unknown platform or backend")
            return None
        refused = why_unsupported(kind, self._release)
        if refused:
            self._add(_error, "config.pbtxt", f"{refused}; this server is {self._release}", "convert the model")
        return kind

    def _completes(self) -> bool:
        return not needs_config(self._release)

    def _find_versions(self) -> tuple[int, ...]:
        found: list[int] = []
        for path in sorted(self._folder.iterdir()):
            if not _is_folder(path) or path.name == "configs" or path.name.startswith("."):
                continue
            if not re.fullmatch(r"\d+", path.name):
                self._add(_warning, _spelled(path), "is not a number: servers ignore it as a version")
            elif path.name.startswith("0") and skips_zero_versions(self._release):
                self._add(_warning, _spelled(path), "begins with 0: servers 19.08 and newer ignore it", "rename it")
            else:
                found.append(int(path.name))
        if not found:
            self._add(_error, "", "has no version (a folder whose name is a number)", "move the model's file to 1/")
        return tuple(found)

    def _check_names(self) -> None:
        config = self._config or {}
        said = first(config, "name")
        if said is not None and said != self._folder.name:
            self._add(
                _error,
                "config.pbtxt",
                f"has name: {said!s}, but the folder is {_spelled(self._folder)}",
                "make both equal, or remove the name",
            )
        known = {row.name for row in self._rows("model")}
        for name in config:
            if name not in known:
                self._add(
                    _error, "config.pbtxt", f"{name} is not a field of config.pbtxt: the server rejects the whole file"
                )
        batch = first(config, "max_batch_size")
        if batch is not None and (not isinstance(batch, int) or batch < 0):
            self._add(_error, "config.pbtxt", f"max_batch_size is {batch} instead of a number from 0")

    def _rows(self, group: str) -> list[ConfigName]:
        return [row for row in self._matrix.rows(SERVER, "config_names", ConfigName) if row.group == group]

    def _check_tensors(self) -> None:
        config = self._config or {}
        types = {row.name for row in self._rows("data-type")}
        for side in ("input", "output"):
            entries = [one for one in config.get(side, []) if isinstance(one, dict)]
            if not entries and not self._may_complete():
                self._add(_error, "config.pbtxt", f"has no {side}", f"add every {side} with data_type and dims")
            names = [str(first(one, "name") or "") for one in entries]
            for name in {one for one in names if names.count(one) > 1}:
                self._add(_error, "config.pbtxt", f"defines the {side} {name} twice")
            for entry, name in zip(entries, names, strict=True):
                kind = first(entry, "data_type")
                if not isinstance(kind, Name) or kind not in types:
                    said = kind if kind is not None else "missing"
                    self._add(
                        _error, "config.pbtxt", f"{side} {name}: data_type is {said}", "use a type such as TYPE_FP32"
                    )
                self._check_dims(side, name, entry)

    def _may_complete(self) -> bool:
        return self._completes() and (self._kind is None or self._kind.platform in _COMPLETED)

    def _check_dims(self, side: str, name: str, entry: Message) -> None:
        dims = entry.get("dims", [])
        if not dims:
            self._add(_error, "config.pbtxt", f"{side} {name}: dims are missing", "add the shape without the batch")
        for one in dims:
            if not isinstance(one, int) or isinstance(one, bool) or one == 0 or one < -1:
                self._add(_error, "config.pbtxt", f"{side} {name}: {one} is not a dimension", "use -1 for any size")

    def _check_scheduling(self) -> None:
        config = self._config or {}
        given = [name for name in _SCHEDULERS if name in config]
        if len(given) > 1:
            self._add(_error, "config.pbtxt", f"{' and '.join(given)} exclude each other", "keep one")
        batch = first(config, "max_batch_size") or 0
        if "dynamic_batching" in given and batch == 0:
            self._add(_error, "config.pbtxt", "dynamic_batching requires a max_batch_size above 0")
        kinds = {row.name for row in self._rows("instance-kind")}
        for group in config.get("instance_group", []):
            if not isinstance(group, dict):
                continue
            kind = first(group, "kind")
            if kind is not None and kind not in kinds:
                self._add(_error, "config.pbtxt", f"instance_group: {kind} is not a kind")
            count = first(group, "count")
            if count is not None and (not isinstance(count, int) or count < 1):
                self._add(_error, "config.pbtxt", f"instance_group: count is {count}; at least 1 is required")
            if kind == "KIND_CPU" and group.get("gpus"):
                self._add(_error, "config.pbtxt", "instance_group: KIND_CPU does not allow gpus", "remove gpus")

    def _check_labels(self) -> None:
        for entry in (self._config or {}).get("output", []):
            name = first(entry, "label_filename") if isinstance(entry, dict) else None
            if name is not None and not _is_file(self._folder / str(name)):
                self._add(_error, str(name), "is set as label file, but does not exist", "write one label per line")

    def _check_files(self) -> None:
        if self._kind is None or self._kind.called in {"ensemble", "tensorrtllm"}:
            return
        config = self._config or {}
        own = first(config, "default_model_filename")
        wanted = [str(own)] if own else [word for word in self._kind.file.split() if "." in word][:1]
        mapped = {
            str(first(one, "key")): str(first(one, "value"))
            for one in config.get("cc_model_filenames", [])
            if isinstance(one, dict)
        }
        for number in self._versions:
            folder = self._folder / str(number)
            if self._kind.platform == "tensorrt_plan":
                self._check_engines(folder, {*mapped.values(), *wanted})
            for capability, name in mapped.items():
                if not _is_there(folder / name):
                    self._add(
                        _error, f"{number}/{name}", f"is set for compute capability {capability}, but does not exist"
                    )
            if mapped and all(one in mapped for one in self._capabilities) and self._capabilities:
                continue
            if mapped and self._capabilities:
                lacking = ", ".join(one for one in self._capabilities if one not in mapped)
                if not any(_is_there(folder / name.rstrip("/")) for name in wanted):
                    self._add(
                        _error, f"{number}", f"has neither a file for compute capability {lacking} nor {wanted[0]}"
                    )
                continue
            if not mapped and not any(_is_there(folder / name.rstrip("/")) for name in wanted):
                self._add(_error, f"{number}/{wanted[0]}", "is missing", "add it, or set default_model_filename")

    def _check_engines(self, folder: Path, names: set[str]) -> None:
        """Check the engines' headers: no server loads an engine of another TensorRT."""
        library = tensorrt_of_triton(self._matrix, self._release) or ""
        for name in sorted(names):
            path = folder / name
            if not _is_file(path):
                continue
            place = f"{folder.name}/{name}"
            try:
                engine = with_version(self._matrix, read_engine(path))
            except OSError as exc:
                self._add(_error, place, f"cannot be read: {exc.strerror or exc}", "make it readable for the server")
                continue
            if engine.kind == "tensorrt-rtx":
                self._add(
                    _error, place, f"is an {engine.called}, which Triton does not support", "build it with TensorRT"
                )
                continue
            if not engine.fault and not library:
                continue
            verdict = judge_engine(engine, library, None, f"Triton {self._release}")
            if verdict.fits is False:
                self._add(_error, place, verdict.reason, verdict.fix)
            elif verdict.fits is None:
                self._add(_warning, place, verdict.reason, verdict.fix)
