"""Checks a model repository by the rules of a server's release, before a server loads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from gpustack.errors import DocumentError
from gpustack.matrix.index import Matrix
from gpustack.triton.model_files import LaidOut, check_files
from gpustack.triton.pbtxt import Message, Name, first, parse
from gpustack.triton.releases import (
    SERVER,
    ModelFile,
    model_kinds,
    needs_config,
    skips_zero_versions,
    why_unsupported,
)
from gpustack.triton.scheduling import check_scheduling
from gpustack.triton.violation import Violation, fault, is_file, is_folder, spelled, warning
from gpustack.versions import version

_OURS = "create one with gpustack's test network: `gpustack triton model-store DIR --digits`"
_COMPLETED = {"tensorrt_plan", "onnxruntime_onnx", "tensorflow_savedmodel"}
"""Kinds whose configuration a server can complete; others require their inputs and outputs in it."""


class ConfigName(Struct, frozen=True, kw_only=True):
    """A word that config.pbtxt may contain, in its group; ``first`` and ``last`` are the months that know it."""

    group: str
    name: str
    first: str = ""
    last: str = ""

    def why_unknown(self, release: str) -> str:
        """Why servers of ``release`` do not know it, as the end of a sentence; "" where they do."""
        if self.first and version(release) < version(self.first):
            return f"is known from {self.first} on; this server is {release}"
        if self.last and version(release) > version(self.last):
            return f"is known up to {self.last}; this server is {release}"
        return ""


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
        folders = sorted(path for path in repository.iterdir() if is_folder(path) and not path.name.startswith("."))
    except OSError as exc:
        msg = f"the model repository cannot be read: {exc.strerror or exc}"
        raise DocumentError(
            msg, code="unreadable-folder", where=str(repository), hint=f"specify an existing folder, or {_OURS}"
        ) from exc
    if not folders:
        fix = f"a model is a folder with config.pbtxt and 1/; {_OURS}"
        findings.append(fault(str(repository), "contains no model", fix))
    for folder in folders:
        judged = _Model(matrix, folder, release, capabilities)
        models[spelled(folder)] = judged.served()
        findings += judged.findings
    return Judgement(models=models, findings=tuple(findings))


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
            self._check_labels()
        self._check_rest()

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
                    self._add(fault, "config.pbtxt", f"version_policy requires version {one}, which does not exist")
            return tuple(one for one in known if one in wanted)
        latest = first(policy, "latest")
        count = first(latest, "num_versions") if isinstance(latest, dict) else 1
        return tuple(known[-count:]) if isinstance(count, int) and count > 0 else tuple(known[-1:])

    def _check_rest(self) -> None:
        """The rules that do not change what is known of the model: its schedulers and its files."""
        config = self._config or {}
        kinds = {row.name for row in self._rows("instance-kind") if not row.why_unknown(self._release)}
        is_unread = self._config is None and (needs_config(self._release) or is_file(self._folder / "config.pbtxt"))
        laid_out = LaidOut(config=config, kind=self._kind, versions={} if is_unread else self._versions)
        for one in (
            *check_scheduling(config, self._folder.parent, kinds, self._release),
            *check_files(self._matrix, self._release, self._capabilities, laid_out),
        ):
            place = f"{spelled(self._folder)}/{one.place}"
            self.findings.append(msgspec.structs.replace(one, place=place))

    def _add(self, make: Callable[[str, str, str], Violation], place: str, message: str, fix: str = "") -> None:
        name = spelled(self._folder)
        self.findings.append(make(f"{name}/{place}" if place else name, message, fix))

    def _read(self) -> Message | None:
        path = self._folder / "config.pbtxt"
        if not is_file(path):
            if needs_config(self._release):
                self._add(
                    fault,
                    "config.pbtxt",
                    f"is missing; Triton {self._release} requires it",
                    "write it, or start the server with --strict-model-config=false (18.12 and newer)",
                )
            return None
        try:
            return parse(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as exc:
            self._add(fault, "config.pbtxt", f"cannot be read: {exc}", "fix the text protobuf")
            return None

    def _kind_of(self) -> ModelFile | None:
        if self._config is None:
            return None
        said = {str(first(self._config, name) or "") for name in ("platform", "backend")} - {""}
        if not said:
            if self._completes():
                return None
            self._add(fault, "config.pbtxt", "has neither platform nor backend", "add one: platform or backend")
            return None
        kind = next((one for one in model_kinds(self._matrix) if said & {one.platform, one.backend}), None)
        if kind is None:
            words = " and ".join(sorted(said))
            self._add(warning, "config.pbtxt", f"{words} is an unknown platform or backend")
            return None
        refused = why_unsupported(kind, self._release)
        if refused:
            self._add(fault, "config.pbtxt", f"{refused}; this server is {self._release}", "convert the model")
        return kind

    def _completes(self) -> bool:
        return not needs_config(self._release)

    def _find_versions(self) -> dict[int, Path]:
        """The versions and their folders; several names may be one number ("7", "007")."""
        found: dict[int, Path] = {}
        for path in sorted(self._folder.iterdir()):
            if not is_folder(path) or path.name == "configs" or path.name.startswith("."):
                continue
            if not re.fullmatch(r"\d+", path.name):
                self._add(warning, spelled(path), "is not a number: servers ignore it as a version")
            elif path.name.startswith("0") and skips_zero_versions(self._release):
                self._add(warning, spelled(path), "begins with 0: servers 19.08 and newer ignore it", "rename it")
            elif int(path.name) in found:
                other = found[int(path.name)].name
                self._add(fault, path.name, f"is the same version as {other}", "keep one of them")
            else:
                found[int(path.name)] = path
        if not found:
            self._add(fault, "", "has no version (a folder whose name is a number)", "move the model's file to 1/")
        return found

    def _check_names(self) -> None:
        config = self._config or {}
        said = first(config, "name")
        if said is not None and said != self._folder.name:
            self._add(
                fault,
                "config.pbtxt",
                f"has name: {said!s}, but the folder is {spelled(self._folder)}",
                "make both equal, or remove the name",
            )
        known = {row.name: row for row in self._rows("model")}
        for name in config:
            why = known[name].why_unknown(self._release) if name in known else "is not a field of config.pbtxt"
            if why:
                self._add(fault, "config.pbtxt", f"{name} {why}: the server rejects the whole file")
        batch = first(config, "max_batch_size")
        if batch is not None and (not isinstance(batch, int) or batch < 0):
            self._add(fault, "config.pbtxt", f"max_batch_size is {batch} instead of a number from 0")

    def _rows(self, group: str) -> list[ConfigName]:
        return [row for row in self._matrix.rows(SERVER, "config_names", ConfigName) if row.group == group]

    def _check_tensors(self) -> None:
        config = self._config or {}
        types = {row.name for row in self._rows("data-type") if not row.why_unknown(self._release)}
        for side in ("input", "output"):
            entries = [one for one in config.get(side, []) if isinstance(one, dict)]
            if not entries and not self._may_complete():
                self._add(fault, "config.pbtxt", f"has no {side}", f"add every {side} with data_type and dims")
            names = [str(first(one, "name") or "") for one in entries]
            for name in {one for one in names if names.count(one) > 1}:
                self._add(fault, "config.pbtxt", f"defines the {side} {name} twice")
            for entry, name in zip(entries, names, strict=True):
                kind = first(entry, "data_type")
                if not isinstance(kind, Name) or kind not in types:
                    said = kind if kind is not None else "missing"
                    self._add(
                        fault, "config.pbtxt", f"{side} {name}: data_type is {said}", "use a type such as TYPE_FP32"
                    )
                self._check_dims(side, name, entry)

    def _may_complete(self) -> bool:
        return self._completes() and (self._kind is None or self._kind.platform in _COMPLETED)

    def _check_dims(self, side: str, name: str, entry: Message) -> None:
        dims = entry.get("dims", [])
        if not dims:
            self._add(fault, "config.pbtxt", f"{side} {name}: dims are missing", "add the shape without the batch")
        for one in dims:
            if not isinstance(one, int) or isinstance(one, bool) or one == 0 or one < -1:
                self._add(fault, "config.pbtxt", f"{side} {name}: {one} is not a dimension", "use -1 for any size")

    def _check_labels(self) -> None:
        for entry in (self._config or {}).get("output", []):
            name = first(entry, "label_filename") if isinstance(entry, dict) else None
            if name is not None and not is_file(self._folder / str(name)):
                self._add(fault, str(name), "is set as label file, but does not exist", "write one label per line")
