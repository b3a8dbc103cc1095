"""Proofs of libraries that need no compiler: cuBLAS, cuDNN and NCCL, of the system or of a Python environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from gpustack.system.run import Finished
from gpustack.verify.cuda.errors import explain
from gpustack.verify.cuda.toolchain import find_site_folders, library_in, select_toolkit
from gpustack.verify.declare import Context, Outcome, failed, passed, skipped
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.commands import describe_end, evidence_of
from gpustack.verify.frame.probes import parse_lines, python_probe

_TITLES = {"cublas": "cuBLAS", "cudnn": "cuDNN", "nccl": "NCCL"}
_ONE_S = 60.0

Explain = Callable[[str, str, dict[str, str]], Outcome]
"""A library's own failure, by the name of its status and the call that returned it."""


def of_programs(context: Context, component: str) -> tuple[Path, ...]:
    """The library that programs load, and those of the Python environments that were found."""
    mine = host_facts.loaded_copies(context.host, component)[:1]
    sites = _sites(context)
    mine += tuple(
        copy
        for copy in host_facts.copies_of(context.host, component)
        if not copy.wins and any(Path(copy.path).is_relative_to(site) for site in sites)
    )
    return _distinct(Path(copy.path) for copy in mine)


def of_cublas(context: Context) -> tuple[Path, ...]:
    """CuBLAS of the toolkit, of the loader's folders, and of Python environments."""
    kit = select_toolkit(context)
    roots = [kit.root] if kit else []
    roots += [Path("/usr/local/cuda")]
    folders = [folder for root in roots for folder in (root / "lib64", root / "lib", *root.glob("targets/*/lib"))]
    folders += [Path(f"/usr/lib/{context.host.arch or 'x86_64'}-linux-gnu"), Path("/usr/lib64")]
    wheels = [folder for site in _sites(context) for folder in sorted(site.glob("nvidia/*/lib"))]
    first = library_in(folders, "libcublas")
    own = [library for folder in wheels if (library := library_in([folder], "libcublas"))]
    return _distinct([*([first] if first else []), *own])


def _sites(context: Context) -> tuple[Path, ...]:
    """The folders of packages of every known environment; as root, only those that no other user can write."""
    others = (Path(one.site) for one in context.host.environments or ())
    found = (*find_site_folders(context), *(site for site in others if site.is_dir()))
    return tuple(dict.fromkeys(site for site in found if os.geteuid() or not site.stat().st_uid))


def _distinct(found: Iterable[Path]) -> tuple[Path, ...]:
    return tuple({path.resolve(): path for path in reversed(list(found)) if path.is_file()}.values())[::-1]


def prove(
    context: Context, kind: str, libraries: tuple[Path, ...], install: str, own: Explain | None = None
) -> Outcome:
    """Use each of ``libraries`` on every GPU: the first that fails, or all that held."""
    if not libraries:
        return skipped(f"no {_TITLES[kind]} was found", install)
    held: list[str] = []
    evidence: dict[str, str] = {}
    for library in libraries:
        end = python_probe(
            context, "library_proofs.py", kind, str(library), timeout=_ONE_S, libraries=_folders_of(library)
        )
        evidence |= evidence_of(end, work=context.work)
        wrong = _failure(context, kind, library, end, own)
        if wrong is not None:
            return wrong
        held.append(str(library))
    gpus = len(host_facts.own_gpus(context.host))
    return passed(
        f"{', '.join(held)}: correct on {gpus} GPU{'s' if gpus > 1 else ''}, without a compiler", evidence=evidence
    )


def _folders_of(library: Path) -> str:
    """The folders of the library's own parts: its folder and, in a Python environment, those of the other wheels."""
    wheels = library.parent.parent.parent
    others = sorted(str(folder) for folder in wheels.glob("*/lib")) if wheels.name == "nvidia" else []
    return ":".join(dict.fromkeys((str(library.parent), *others)))


def _failure(context: Context, kind: str, library: Path, end: Finished, own: Explain | None) -> Outcome | None:
    """What is wrong by the program's output; None where every GPU computed correctly."""
    evidence = evidence_of(end, work=context.work)
    lines = parse_lines(end.out)
    broken = next((line for line in lines if "step" in line), None)
    called = f"{_TITLES[kind]} ({library})"
    if broken is not None and "error" in broken:
        how = "cannot be loaded" if broken["step"] == "load" else "is not what it is called"
        return failed(
            f"{called} {how}: {broken['error']}",
            f"install all of its parts from one release: `gpustack install {kind if kind != 'cublas' else 'cuda'}`",
            evidence=evidence,
        )
    if broken is not None:
        step, code, name = str(broken["step"]), int(broken["code"]), str(broken["name"])
        if step.startswith("cuda "):
            cause, fix = explain(code, context, name)
            return failed(f"CUDA fails before {called} is used: {cause}", fix, evidence=evidence)
        call = f"{step.partition(' ')[2]} of {called}"
        return own(name, call, evidence) if own else failed(f"{call} fails with {name}", evidence=evidence)
    done = [line for line in lines if "wrong" in line]
    bad = next((line for line in done if line["wrong"]), None)
    if bad is not None:
        return failed(
            f"{called} computed wrong results on GPU {bad['gpu']}: {bad['wrong']:,} of {bad['of']:,} numbers",
            "`gpustack verify driver --level full` checks the GPU's memory; reinstall the library",
            evidence=evidence,
        )
    if end.code is None:
        return failed(f"{called} does not end: {end.error}", "check `sudo dmesg` for Xid messages", evidence=evidence)
    return None if end.code == 0 and done else failed(f"the proof of {called} {describe_end(end)}", evidence=evidence)
