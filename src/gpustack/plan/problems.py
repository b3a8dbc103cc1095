"""What a plan does about each known bad state of a host: refuse, fix, or warn."""

from __future__ import annotations

import re

from gpustack.errors import UnsupportedError
from gpustack.model import actions as do
from gpustack.model.host import Problem
from gpustack.model.resolution import Pick
from gpustack.plan import done
from gpustack.plan.components.driver import enrol_key
from gpustack.plan.context import Context
from gpustack.plan.draft import Draft, draft
from gpustack.plan.headers import kernel_headers
from gpustack.plan.managers import manager
from gpustack.plan.managers.rpm import exclusion
from gpustack.plan.preparation import FixCommand, find_fixes, refresh_system

REPO_FILE = re.compile(r"/etc/(?:yum\.repos|zypp/repos)\.d/[\w.@+-]+\.repo")
_CLASHING = ("mft*", "kernel-mft*")
ANY = "any"
REPOSITORY = "repository"

REFUSED: dict[str, tuple[str, ...]] = {
    "detect-source-unreadable": (),
    "other_vfio": ("driver",),
    "vgpu_guest": ("driver",),
    "vgpu_host_cc": ("driver",),
    "immutable_os": (),
    "container_driver": ("driver",),
    "wsl_driver": ("driver",),
    "jetson": ("driver",),
    "suse_kmp_mix": ("driver",),
    "almalinux_signed_vs_nvidia": ("driver",),
    "rpmfusion_vs_nvidia_repo": ("driver",),
}
"""Blocking states and the components that must not change then (none named: every package)."""

REMOVABLE = frozenset({"rpmfusion_vs_nvidia_repo", "debian_archive_vs_nvidia_repo", "ubuntu_archive_vs_nvidia_repo"})
"""States that end when the driver's packages of another origin are removed, which a plan does if it knows them."""

DEALT_WITH = {
    "eol_distro": ANY,
    "held_packages": ANY,
    "no_repo_for_distro": ANY,
    "detect-source-unusable": REPOSITORY,
    "signed_by_conflict": REPOSITORY,
    "machine_learning_repo": REPOSITORY,
    "keyring_wrong_distro": REPOSITORY,
    "distro_upgraded": REPOSITORY,
    "sha1_key_debian13": REPOSITORY,
    "arch_dir_mismatch": REPOSITORY,
    "nouveau_loaded": "driver",
    "dnf_module_filter": "driver",
    "headers_missing": "driver",
    "kernel_too_new": "driver",
    "running_kernel_old": "driver",
    "secure_boot_unsigned": "driver",
    "driver_library_mismatch": "driver",
    "mix_driver_runfile_packages": "driver",
    "branch_eol": "driver",
    "proprietary_on_blackwell": "driver",
    "old_distro_driver_new_gpu": "driver",
    "ubuntu_590_rename": "driver",
    "detect-reboot-pending": "driver",
    "detect-mixed-origins": "driver",
    "detect-gpu-driver-window": "driver",
    "detect-next-kernel-module": "driver",
    "fabric_manager_missing": "fabric-manager",
    "fabric_manager_mismatch": "fabric-manager",
    "mix_toolkit_runfile_packages": "cuda",
    "stale_cuda_symlink": "cuda",
    "ubuntu2604_same_named_cuda": "cuda",
}
"""States that a plan's own steps, choices or warnings handle once they change this component."""

PYTHON = "environment-"
"""How ids of problems in Python environments begin: a plan changes none of those environments."""


def refuse(ctx: Context, picks: list[Pick]) -> None:
    """Raise UnsupportedError if a state of the host forbids one of these changes."""
    names = {pick.component for pick in picks}
    for problem in ctx.host.problems:
        ruled_out = REFUSED.get(problem.id)
        if problem.severity != "block" or ruled_out is None or (ruled_out and names.isdisjoint(ruled_out)):
            continue
        if not _is_removed(ctx, problem):
            raise UnsupportedError(
                problem.message, code="blocking-problem", where=f"problem {problem.id}", hint=problem.fix
            )
    driver = next((pick for pick in picks if pick.component == "driver"), None)
    for problem in ctx.host.problems:
        if problem.id == "old_distro_driver_new_gpu" and driver is not None and driver.method == "distro":
            raise UnsupportedError(
                problem.message, code="blocking-problem", where=f"problem {problem.id}", hint=problem.fix
            )


def problem_steps(ctx: Context, picks: list[Pick]) -> list[Draft]:
    """The steps for every state that the rest of the plan does not handle: fixes, steps by hand, or warnings."""
    changed = {pick.component for pick in picks} | {ANY}
    if any(pick.method == "network" for pick in picks):
        changed.add(REPOSITORY)
    drafts: list[Draft] = []
    for problem in ctx.host.problems:
        if DEALT_WITH.get(problem.id) in changed or _is_removed(ctx, problem) or problem.id.startswith(PYTHON):
            continue
        drafts += _fix(ctx, problem, repository=REPOSITORY in changed) or [_report(ctx, problem)]
    return drafts


def _is_removed(ctx: Context, problem: Problem) -> bool:
    """Whether the plan removes the other origin's packages."""
    there, pick = ctx.host.installed.get("driver"), ctx.changes("driver")
    if problem.id not in REMOVABLE or there is None or pick is None:
        return False
    return bool(there.packages) and there.method not in {None, "unknown", pick.method}


def _fix(ctx: Context, problem: Problem, *, repository: bool) -> list[Draft]:
    if problem.id == "headers_missing":
        return _headers(ctx)
    if problem.id == "secure_boot_unsigned" and ctx.host.secure_boot:
        return enrol_key(ctx, ())
    if problem.id == "mft_doca_clash" and repository:
        return _exclude_mft(ctx, problem)
    row = next(iter(find_fixes(ctx, problem.id)), None)
    return [_fix_by_command(ctx, problem, row)] if row is not None and repository else []


def _headers(ctx: Context) -> list[Draft]:
    """The headers, and the modules for them, of a driver that stays."""
    headers = kernel_headers(ctx)
    there = ctx.host.installed.get("driver")
    if headers is None:
        return []
    if ctx.system.family == "apt":
        # The package of headers makes dkms build the missing modules for them.
        return [refresh_system(ctx), headers]
    if there is None or there.method not in {"network", "local"} or ctx.system.family == "zypper" or not ctx.kernels:
        return []
    built = draft(
        "fix:modules",
        after=[headers.key],
        component="driver",
        kind="run",
        title="build the driver's modules for the kernels that have none",
        why="dkms builds them when the driver or a kernel is installed, which failed without headers",
        actions=(do.BuildModules(kernels=ctx.kernels),),
        undo_note="modules that are not loaded are harmless",
        phase="prerequisites",
        sources=headers.step.sources,
    )
    return [headers, built]


def _exclude_mft(ctx: Context, problem: Problem) -> list[Draft]:
    """Exclude DOCA packages from NVIDIA's CUDA repository, in the files that define it."""
    paths = tuple(
        sorted(
            entry.path
            for entry in ctx.host.repositories
            if entry.enabled and "/compute/cuda/repos/" in entry.url and REPO_FILE.fullmatch(entry.path)
        )
    )
    if not paths:
        return []
    tool, line = manager(ctx.system.family), exclusion(_CLASHING)
    return [
        draft(
            f"fix:{problem.id}",
            component="",
            kind="run",
            title="keep mft packages of the CUDA repository from replacing those of DOCA",
            why=problem.message,
            actions=(do.ExcludePackages(manager=tool.name, paths=paths, patterns=_CLASHING),),
            undo=(do.IncludePackages(manager=tool.name, paths=paths, patterns=_CLASHING),),
            done_when=done.succeeds("grep", "--quiet", "--line-regexp", "--fixed-strings", line, "--", *paths),
            phase="preflight",
            sources=problem.sources or ctx.addresses(ctx.matrix.conflicts.get(problem.id)),
        )
    ]


def _fix_by_command(ctx: Context, problem: Problem, row: FixCommand) -> Draft:
    return draft(
        f"fix:{problem.id}",
        component="",
        kind="run",
        title=row.title,
        why=problem.message,
        actions=(do.Run(argv=row.command, settings=True, packages=True),),
        undo_note="the problem is not restored",
        phase="preflight",
        sources=problem.sources or ctx.addresses(row),
    )


def _report(ctx: Context, problem: Problem) -> Draft:
    """A state that no step fixes: a step by hand if it blocks, otherwise a warning."""
    row = ctx.matrix.conflicts.get(problem.id)
    return draft(
        f"problem:{problem.id}",
        component="",
        kind="manual" if problem.severity == "block" else "note",
        title=problem.message,
        why=problem.fix or "found on this host; nothing in this plan changes it",
        needs_root=problem.severity == "block",
        undo_note="nothing is changed",
        phase="preflight",
        sources=problem.sources or ctx.addresses(row),
    )
