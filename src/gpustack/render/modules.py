"""Several releases side by side, installed without root, with files for Lmod and for Environment Modules."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from gpustack.errors import UnsupportedError, UsageError
from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact
from gpustack.render.commands import command_line, fetch
from gpustack.render.comments import comment
from gpustack.render.settings import Settings
from gpustack.resources import template

_OFFERED = ("cuda", "cudnn", "nccl", "tensorrt")
_PREFIX = re.compile(r"/[A-Za-z0-9._/+-]*[A-Za-z0-9_+-]")
_INSIDE = re.compile(r"(?:^|/)\.\.?(?:/|$)|//")


class _Module(NamedTuple):
    """One folder below the prefix: its files, and the toolkits that it is used with."""

    name: str
    version: str
    archives: tuple[Artifact, ...]
    toolkits: tuple[str, ...]
    driver: str

    @property
    def path(self) -> str:
        return f"{self.name}/{self.version}"


def render(plan: Plan, settings: Settings) -> str:
    """Raise UsageError: module files are several files."""
    _ = (plan, settings)
    msg = "module files are several files"
    raise UsageError(
        msg,
        code="format-unsupported",
        where="--format",
        hint="render A.json B.json --format modules --prefix /shared/nvidia --out DIR",
    )


def tree(plans: Mapping[str, Plan], settings: Settings) -> dict[str, str]:
    """The files by path: ``install.sh``, and a module file for each release in both languages.

    Raises UsageError for an invalid prefix or plans of different hosts, UnsupportedError for a plan without archives.
    """
    prefix = settings.prefix
    if not _PREFIX.fullmatch(prefix) or _INSIDE.search(prefix):
        msg = (
            f"{prefix!r} cannot be the folder of modules"
            if prefix
            else "module files need the folder of the installation"
        )
        raise UsageError(
            msg,
            code="invalid-value" if prefix else "missing-argument",
            where="--prefix",
            hint="an absolute path of letters, digits and ._+-, as --prefix /shared/nvidia",
        )
    modules = _modules(plans)
    files = {}
    for one in modules:
        files[f"modulefiles/lmod/{one.path}.lua"] = _lua(one, prefix)
        files[f"modulefiles/tcl/{one.path}"] = _tcl(one, prefix)
    return {"install.sh": _install(plans, modules, prefix, sorted(files)), **files}


def _modules(plans: Mapping[str, Plan]) -> list[_Module]:
    """Each release once, with every toolkit that a plan has it next to."""
    found: dict[tuple[str, str], _Module] = {}
    first = next(iter(plans.values())).host
    for file, plan in plans.items():
        if (plan.host.os.system, plan.host.arch) != (first.os.system, first.arch):
            msg = "the plans are for different systems"
            raise UsageError(msg, code="conflicting-options", where=f"{file}.json", hint="make one folder of each")
        offered = [name for name in _OFFERED if name in plan.stack]
        wrong = [name for name in offered if not _archives(plan, name)]
        if wrong or not offered:
            what = f"{wrong[0]} by {plan.stack[wrong[0]].method}" if wrong else "none of " + ", ".join(_OFFERED)
            msg = f"only archives can be unpacked without root, and this plan has {what}"
            raise UnsupportedError(msg, code="not-renderable", where=f"{file}.json", hint="plan it with --method tar")
        toolkit = plan.stack["cuda"].version if "cuda" in plan.stack else ""
        driver = plan.stack["driver"].version if "driver" in plan.stack else ""
        for name in offered:
            version = plan.stack[name].version
            if name != "cuda" and toolkit:
                version += f"-cuda{toolkit.partition('.')[0]}"
            own = (toolkit,) if name != "cuda" and toolkit else ()
            before = found.get((name, version))
            toolkits = tuple(dict.fromkeys((*(before.toolkits if before else ()), *own)))
            found[name, version] = _Module(name, version, _archives(plan, name), toolkits, driver)
    return list(found.values())


def _archives(plan: Plan, name: str) -> tuple[Artifact, ...]:
    """The archives of a component, each with its checksum; none where it is installed in another way."""
    if plan.stack[name].method != "tar":
        return ()
    steps = (step for step in plan.steps if step.component == name and step.kind == "download")
    found = tuple(one for step in steps for one in step.artifacts)
    return found if all(one.sha256 for one in found) else ()


def _about(one: _Module) -> str:
    driver = f", planned with driver {one.driver}" if one.driver else ""
    return f"{one.name} {one.version}{driver}"


def _variables(one: _Module, root: str) -> tuple[dict[str, str], dict[str, str]]:
    """The variables that a module sets, and the paths that it adds; CMake looks in NAME_ROOT."""
    words = {f"{one.name.upper()}_ROOT": root}
    if one.name == "cuda":
        words |= {"CUDA_HOME": root, "CUDA_PATH": root}
    paths = {"CPATH": f"{root}/include", "LIBRARY_PATH": f"{root}/lib64", "LD_LIBRARY_PATH": f"{root}/lib64"}
    return words, {"PATH": f"{root}/bin", **paths} if one.name in {"cuda", "tensorrt"} else paths


def _lua(one: _Module, prefix: str) -> str:
    words, paths = _variables(one, f"{prefix}/{one.path}")
    lines = ["-- Written by gpustack", f'whatis("{_about(one)}")', f'help("{_about(one)}")', f'family("{one.name}")']
    if one.toolkits:
        toolkits = ", ".join(f'"cuda/{version}"' for version in one.toolkits)
        lines.append(f"prereq_any({toolkits})")
    lines += [f'setenv("{name}", "{value}")' for name, value in words.items()]
    lines += [f'prepend_path("{name}", "{value}")' for name, value in paths.items()]
    return "\n".join([*lines, ""])


def _tcl(one: _Module, prefix: str) -> str:
    words, paths = _variables(one, f"{prefix}/{one.path}")
    lines = ["#%Module1.0", "## Written by gpustack", f"module-whatis {{{_about(one)}}}", f"conflict {one.name}"]
    if one.toolkits:
        lines.append(f"prereq {' '.join(f'cuda/{version}' for version in one.toolkits)}")
    lines += [f"setenv {name} {value}" for name, value in words.items()]
    lines += [f"prepend-path {name} {value}" for name, value in paths.items()]
    return "\n".join([*lines, ""])


def _install(plans: Mapping[str, Plan], modules: list[_Module], prefix: str, files: list[str]) -> str:
    head = ["#!/bin/sh", *comment(f"Written by gpustack: installs into {prefix}, without root")]
    for name, plan in plans.items():
        head += comment(f"{name}: plan {plan.digest}")
        for text in plan.warnings:
            head += comment(f"warning: {text}")
    body = [f"prefix={shlex.quote(prefix)}", "", template("shell/modules.sh")]
    for one in modules:
        body.append(f"if begin {shlex.quote(one.path)}; then")
        for archive in one.archives:
            here = replace(archive, path=f"CACHE/{archive.path.rpartition('/')[2]}")
            body += [f"    {_in_cache(argv)}" for argv in fetch(here)[1:]]
            body.append(f"    {_in_cache(('add', here.path, archive.sha256))}")
        body += ["    end", "fi"]
    body += [f"offer {shlex.quote(path)}" for path in files]
    return "\n".join([*head, *body, "finish", ""])


def _in_cache(argv: tuple[str, ...]) -> str:
    """A command whose words that begin with CACHE/ are files of the script's own folder."""
    words = []
    for word in argv:
        inside = word.removeprefix("CACHE/")
        words.append(f'"$cache"/{shlex.quote(inside)}' if inside != word else command_line((word,)))
    return " ".join(words)
