"""What disturbs programs from outside: environment variables, the folder for temporary files, limits of the system."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from gpustack.model.facts import CHECKED_FRAMEWORKS
from gpustack.verify.declare import Check, Context, Outcome
from gpustack.verify.frame import host_facts
from gpustack.verify.frame.scratch import folder_fault

SUBJECT = "environment"
FRAMEWORKS = "frameworks"
"""The word of the table for the checks of every framework."""
_SHM = "/dev/shm"  # noqa: S108 (its size is asked)
_SMALLEST_SHM = 64 << 20
_SMALLEST_MEMLOCK = 64 << 20
_FEWEST_FILES = 256
_NODES = ("nvidiactl", "nvidia-uvm", "nvidia[0-9]*")
_ON_GPU = frozenset({"driver", "cuda", "cudnn", "nccl", "tensorrt", "ffmpeg", *CHECKED_FRAMEWORKS})
"""The components whose checks open the GPU's device files."""


class Variable(Struct, frozen=True, kw_only=True):
    """How a variable disturbs checks; see the table."""

    name: str
    test: str
    checks: tuple[str, ...]
    says: str
    value: str = ""
    blocks: bool = False
    container: bool = False

    def is_about(self, check: Check) -> bool:
        named = {check.id, check.component, *([FRAMEWORKS] if check.component in CHECKED_FRAMEWORKS else [])}
        return not named.isdisjoint(self.checks)


class Disturbance(Struct, frozen=True, kw_only=True):
    """What disturbs: its name, a sentence, the fix, and whether it alone makes a check fail."""

    name: str
    says: str
    fix: str
    blocks: bool


def with_surroundings(outcome: Outcome, check: Check, context: Context) -> Outcome:
    """The outcome of a check that failed, with what disturbs it from outside."""
    told = f"{outcome.reason} {outcome.actual}"
    found = list(_disturbances(check, context))
    if outcome.status == "skip":  # for want of a GPU, which only the container's own variables explain
        found = [one for one in found if one.name.startswith("NVIDIA_")]
    # A check that names a variable of the container knows it, and has its own fix.
    blocking = [one for one in found if one.blocks and not (one.name in told and one.name.startswith("NVIDIA_"))]
    said = "; ".join(one.says for one in found if one.name not in told)
    if not blocking:
        if not said:
            return outcome
        detail = "; ".join(part for part in (outcome.detail, said) if part)
        return msgspec.structs.replace(outcome, detail=detail)
    old = outcome.fix or check.fix
    fix = "; ".join(dict.fromkeys(one.fix for one in blocking))
    if old and not any(f"unset {one.name}" in old for one in blocking):
        fix += f"; if that does not help: {old}"
    return msgspec.structs.replace(outcome, reason="; ".join(filter(None, (outcome.reason, said))), fix=fix)


def set_here(context: Context) -> list[str]:
    """A sentence for each variable that is set here and disturbs anything."""
    return [_sentence(row, found) for row in _rows(context) if (found := _judged(row, context)) is not None]


def _rows(context: Context) -> tuple[Variable, ...]:
    return context.matrix.rows(SUBJECT, "variables", Variable)


def _disturbances(check: Check, context: Context) -> Iterator[Disturbance]:
    for row in _rows(context):
        found = _judged(row, context) if row.is_about(check) else None
        if found is not None:
            yield Disturbance(name=row.name, says=_sentence(row, found), fix=_fix(row, found), blocks=row.blocks)
    if context.work is not None:
        fault = folder_fault(context.work)
        if fault is not None:
            yield Disturbance(name="TMPDIR", says=fault[0], fix=fault[1], blocks=True)
    if os.name == "posix" and check.component in _ON_GPU:
        yield from _of_process(check.component)


def _of_process(component: str) -> Iterator[Disturbance]:
    """What disturbs a program that uses a GPU, by this user's permissions and this process's limits."""
    import resource  # noqa: PLC0415 (only where a check fails)

    limit = resource.getrlimit
    yield from closed(sorted(node for pattern in _NODES for node in Path("/dev").glob(pattern)))
    yield from process_limits(limit(resource.RLIMIT_AS)[0], limit(resource.RLIMIT_NOFILE)[0])
    if component == "nccl":
        shared = os.statvfs(_SHM) if Path(_SHM).is_dir() else None
        locked = limit(resource.RLIMIT_MEMLOCK)[0] if Path("/sys/class/infiniband").is_dir() else -1
        yield from limits(shared.f_blocks * shared.f_frsize if shared else 0, locked)


def limits(size: int, locked: int) -> Iterator[Disturbance]:
    """What NCCL needs of the system besides its variables: shared memory, and locked memory (-1: any)."""
    if size <= _SMALLEST_SHM:
        yield Disturbance(
            name=_SHM,
            says=f"{_SHM} has only {size >> 20} MiB, in which NCCL exchanges data between processes",
            fix="enlarge /dev/shm: start the container with `--shm-size=1g` or `--ipc=host`",
            blocks=True,
        )
    if 0 <= locked < _SMALLEST_MEMLOCK:
        yield Disturbance(
            name="ulimit",
            says=f"`ulimit -l` allows only {locked >> 10} KiB of locked memory, which InfiniBand needs",
            fix="start the container with `--ulimit memlock=-1`, or raise memlock in /etc/security/limits.conf",
            blocks=True,
        )


def closed(nodes: list[Path]) -> Iterator[Disturbance]:
    """Device files that this user cannot open."""
    found = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK, effective_ids=True)]
    if found:
        yield Disturbance(
            name="/dev/nvidia*",
            says=f"this user cannot open {', '.join(map(str, found))} ({stat.filemode(found[0].stat().st_mode)})",
            fix="run it with `sudo`, or as a user of the group that `ls -l /dev/nvidia*` shows",
            blocks=True,
        )


def process_limits(address_space: int, files: int) -> Iterator[Disturbance]:
    """What CUDA needs of the limits of a process (-1: any), in bytes and open files."""
    if address_space >= 0:
        yield Disturbance(
            name="ulimit -v",
            says=f"`ulimit -v` allows only {address_space >> 20} MiB of addresses; CUDA reserves more than that",
            fix="`ulimit -v unlimited`, then verify again",
            blocks=True,
        )
    if 0 <= files < _FEWEST_FILES:
        yield Disturbance(
            name="ulimit -n",
            says=f"`ulimit -n` allows only {files} open files",
            fix="`ulimit -n 1024`, then verify again",
            blocks=True,
        )


def _sentence(row: Variable, found: str) -> str:
    about = f" ({found})" if found else ""
    return f"{row.name} is {os.environ[row.name]!r}: {row.says}{about}"


def _fix(row: Variable, found: str) -> str:
    if row.container:
        return "start the container with `--gpus all`, and with the capabilities in NVIDIA_DRIVER_CAPABILITIES"
    if row.test in {"holds", "stub", "other-driver"}:
        return f"take {Path(found).parent} out of {row.name}"
    return f"`unset {row.name}`, then verify again"


def _judged(row: Variable, context: Context) -> str | None:
    """What the variable's value disturbs here, "" where the table says it all; None where it disturbs nothing."""
    value = os.environ.get(row.name)
    if value is None or (row.container and context.host.environment != "container"):
        return None
    return _TESTS[row.test](value, row, context)


def _matches(value: str, row: Variable, _: Context) -> str | None:
    return "" if re.fullmatch(row.value, value) else None


def _hides(value: str, _: Variable, context: Context) -> str | None:
    """How many GPUs are left: CUDA reads the list up to the first entry that names none."""
    gpus = host_facts.own_gpus(context.host)
    seen: set[int] = set()
    for entry in (part.strip() for part in value.split(",")):
        if entry.startswith("MIG-"):
            return "the first MIG instance that it names"
        places = [n for n, gpu in enumerate(gpus) if str(n) == entry or (entry[4:] and _is_uuid(entry, gpu.uuid))]
        if len(places) != 1:
            return f"{len(seen)} of {len(gpus)} here, because {entry!r} names none"
        seen.add(places[0])
    return None if len(seen) == len(gpus) else f"{len(seen)} of {len(gpus)} here"


def _is_uuid(entry: str, uuid: str | None) -> bool:
    return entry.startswith("GPU-") and (uuid or "").startswith(entry)


def _holds(value: str, row: Variable, _: Context) -> str | None:
    """The library in the first of the folders that has one."""
    return next((str(found) for folder in _folders(value) for found in _named(folder, row.value)), None)


def _stub(value: str, row: Variable, _: Context) -> str | None:
    found = (one for folder in _folders(value) if folder.name == "stubs" for one in _named(folder, row.value))
    return next((str(one) for one in found), None)


def _other_driver(value: str, row: Variable, context: Context) -> str | None:
    """The driver's library of another release than the kernel module, as cuda-compat has it."""
    driver = host_facts.driver_version(context.host)
    named = (folder / one.resolve().name for folder in _folders(value) for one in _named(folder, row.value))
    first = next(named, None)
    number = first.name.partition(".so.")[2] if first is not None else ""
    return str(first) if "." in number and driver not in {None, number} else None


def _folders(value: str) -> list[Path]:
    return [Path(part) for part in value.split(":") if part.startswith("/")]


def _named(folder: Path, stem: str) -> list[Path]:
    """The library under the names that programs load it by; what has no number in its name is for linkers."""
    try:
        return sorted(folder.glob(f"{stem}.so.[0-9]*"))
    except OSError:
        return []


def _absent(value: str, _: Variable, __: Context) -> str | None:
    return None if Path(value).exists() else ""


def _unwritable(value: str, _: Variable, __: Context) -> str | None:
    """Whether nothing can be made in the folder, or in the first above it that exists: the driver makes the rest."""
    there = next((one for one in (Path(value), *Path(value).parents) if one.exists()), Path("/"))
    # root may write everywhere, but file systems of the kernel, as /proc, hold no files
    can_write = os.access(there, os.W_OK | os.X_OK) and there.is_dir() and os.statvfs(there).f_blocks > 0
    return None if can_write else ""


def _no_interface(value: str, _: Variable, __: Context) -> str | None:
    return _none_named(value, Path("/sys/class/net"))


def _no_adapter(value: str, _: Variable, __: Context) -> str | None:
    return _none_named(value, Path("/sys/class/infiniband"))


def _none_named(value: str, folder: Path) -> str | None:
    """Which names there are, where NCCL's list (prefixes; `=` exact; `^` all but these) leaves none of them."""
    names = sorted(path.name for path in folder.glob("*"))
    is_excluding, listed = value.startswith("^"), value.lstrip("^")
    is_exact = listed.startswith("=")
    wanted = [part.partition(":")[0] for part in listed.lstrip("=").split(",") if part]
    hit = [name for name in names if any(name == one if is_exact else name.startswith(one) for one in wanted)]
    left = [name for name in names if name not in hit] if is_excluding else hit
    return None if left or not wanted else f"here are {', '.join(names) or 'none'}"


_TESTS: dict[str, Callable[[str, Variable, Context], str | None]] = {
    "matches": _matches,
    "hides": _hides,
    "holds": _holds,
    "stub": _stub,
    "other-driver": _other_driver,
    "absent": _absent,
    "unwritable": _unwritable,
    "no-interface": _no_interface,
    "no-adapter": _no_adapter,
}
