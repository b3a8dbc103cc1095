"""How many simultaneous encode sessions a system with these GPUs and this driver allows."""

from __future__ import annotations

from msgspec import Struct

from gpustack.model.resolution import Conflict, Findings, Unknown
from gpustack.solve.engines import names_of, rows_of, versions_of
from gpustack.solve.question import Question
from gpustack.versions import is_within


class _Limit(Struct, frozen=True, kw_only=True):
    """A number of sessions that a system allows, and the first drivers known to allow it."""

    limit: int
    driver_linux: str = ""
    driver_windows: str = ""
    src: tuple[str, ...] = ()


def session_findings(question: Question, word: str, count: int) -> Findings:
    """Whether a system with this GPU and driver allows that many encode sessions at once."""
    gpus = question.host.gpus
    if not gpus:
        return Findings(unknown=(Unknown(reason=f"{word}: no GPU is given", needs="gpu", option="--gpu"),))
    between = (word, f"gpu: {names_of(gpus)}")
    if all(gpu.nvenc == 0 for gpu in gpus):
        conflict = Conflict(kind="video-engine", between=between, reason=f"{names_of(gpus)} has no NVENC.")
        return Findings(conflicts=(conflict,))
    rows = [row for gpu in gpus for row in rows_of(question.matrix, gpu)]
    kinds = {row.sessions for row in rows} - {"", "n/a", "0"}
    sources = question.matrix.addresses(tuple(dict.fromkeys(key for row in rows for key in row.src)))
    if "unrestricted" in kinds and kinds == {"unrestricted"} and not any(gpu.part for gpu in gpus):
        return Findings()
    most = [int(kind) for kind in kinds if kind.isdigit()]
    if not most or "unrestricted" in kinds or any(gpu.part for gpu in gpus):
        reason = f"{word}: it is unknown how many encode sessions {names_of(gpus)} allows"
        return Findings(unknown=(Unknown(reason=reason, needs="gpu", option="--gpu", sources=sources),))
    if count > max(most):
        reason = f"A system with {names_of(gpus)} holds {max(most)} encode sessions at most, whatever its driver."
        return Findings(conflicts=(Conflict(kind="session-limit", between=between, reason=reason, sources=sources),))
    return _by_driver(question, word, count)


def _by_driver(question: Question, word: str, count: int) -> Findings:
    """The limit of the driver, if the first driver of each limit is known."""
    limits = question.matrix.rows("nvenc", "session_limits", _Limit)
    column = "driver_windows" if question.view.system("driver") == "windows" else "driver_linux"
    firsts = {row.limit: getattr(row, column) for row in limits if getattr(row, column)}
    always = min(row.limit for row in limits)
    versions = versions_of(question, "driver")
    of_driver = [
        limit for limit, first in firsts.items() if versions and all(is_within(one, f">={first}") for one in versions)
    ]
    if count <= max([always, *of_driver]):
        return Findings()
    sources = question.matrix.addresses(tuple(dict.fromkeys(key for row in limits for key in row.src)))
    # Releases of older branches got a higher limit later than newer branches: only the drivers seen with one refuse.
    seen = [limit for limit, first in firsts.items() if versions and all(one == first for one in versions)]
    if seen:
        between = (word, f"driver=={versions[0]}")
        reason = f"A system with driver {versions[0]} holds {seen[0]} encode sessions at most."
        return Findings(conflicts=(Conflict(kind="session-limit", between=between, reason=reason, sources=sources),))
    known = ", ".join(f"{limit} from driver {first} on" for limit, first in sorted(firsts.items()))
    reason = f"{word}: the limit depends on the driver; known are {always} with any, {known}"
    return Findings(unknown=(Unknown(reason=reason, needs="driver", option="--driver", sources=sources),))
