"""``gpustack verify``."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gpustack.cli import frame
from gpustack.cli.declare import Argument, Option, command
from gpustack.cli.options import Anonymous, DenyVulnerable, HostFile, HostQuestion, Interpreter, Root, absolute, host_of
from gpustack.cli.outputs import STANDARD, save

if TYPE_CHECKING:
    from gpustack.matrix.index import Matrix
    from gpustack.model.results import CheckResult, Report

_FORMAT_HELP = (
    "text, json, junit, tap, github, sarif, html, prometheus, markdown, ctrf. Repeatable, one for each --output."
)
_ENDINGS = {
    ".txt": "text", ".log": "text", ".json": "json", ".xml": "junit", ".tap": "tap", ".sarif": "sarif",
    ".html": "html", ".htm": "html", ".prom": "prometheus", ".md": "markdown",
}  # fmt: skip


_Lock = Annotated[
    Path | None,
    Option("--lock", metavar="FILE", help="Also check that the host matches this lock file (see gpustack status)."),
]


_Ffmpeg = Annotated[
    Path | None, Option("--ffmpeg", metavar="FILE", help="The FFmpeg to test, if several are installed.")
]
_Engine = Annotated[
    Path | None, Option("--engine", metavar="FILE", help="A TensorRT engine to inspect without running it.")
]
_Url = Annotated[str | None, Option("--url", metavar="URL", help="The Triton server to test: http://localhost:8000.")]
_Artifacts = Annotated[
    Path | None,
    Option("--artifacts", metavar="DIR", help="Keep the ONNX file and the engines that checks build in DIR."),
]


# An internal error must not look like a failed check, which is 1.
@command("verify", example="gpustack verify cuda --level smoke --output r.html", fault_code=2)
def verify(
    components: Annotated[
        list[str] | None,
        Argument(metavar="COMPONENT...", help="driver, cuda, cudnn, ...; each must be installed (default: all)."),
    ] = None,
    level: Annotated[
        str,
        Option("--level", metavar="LEVEL", help="quick: reads only; smoke: builds and runs; full: measures."),
    ] = "quick",
    require: Annotated[
        list[str] | None,
        Option("--require", metavar="NAME", help="A component or check that may not be skipped, or gpu. Repeatable."),
    ] = None,
    checks: Annotated[
        list[Path] | None,
        Option("--checks", metavar="FILE", help="TOML file with site checks. Repeatable."),
    ] = None,
    format: Annotated[list[str] | None, Option("--format", metavar="FORMAT", help=_FORMAT_HELP)] = None,
    output: Annotated[
        list[Path] | None,
        Option("--output", metavar="FILE", help="Write a report to FILE; - is standard output. Repeatable."),
    ] = None,
    lock: _Lock = None,
    retry_timeout: Annotated[
        float,
        Option("--retry-timeout", metavar="SECONDS", min=0, help="While checks fail, retry for this time."),
    ] = 0.0,
    ffmpeg: _Ffmpeg = None,
    engine: _Engine = None,
    release: Annotated[
        str | None,
        Option("--release", metavar="YY.MM", help="Check --engine for this release of Triton."),
    ] = None,
    artifacts: _Artifacts = None,
    url: _Url = None,
    model: Annotated[str | None, Option("--model", metavar="NAME", help="The model on that server to test.")] = None,
    deny_vulnerable: DenyVulnerable = None,
    python: Interpreter = None,
    root: Root = None,
    host: HostFile = None,
    anonymous: Anonymous = None,
) -> int:
    """Check that the stack works on this host: exit 1 if a check fails."""
    reports = paired(tuple(format or ()), tuple(output or ()))
    matrix = frame.matrix()
    _load_own(tuple(checks or ()))
    asked = (tuple(components or ()), level, tuple(require or ()))
    _validate_url(url)
    named = {"ffmpeg": ffmpeg, "engine": engine, "release": release, "url": url, "model": model}
    named["python"] = absolute(python) if python else None
    given = {name: str(value) for name, value in named.items() if value is not None} | _folder_for(artifacts)
    if deny_vulnerable:
        given["deny-vulnerable"] = "yes"
    question = HostQuestion(root=root, host=host, interpreter=python, anonymous=anonymous)
    again = _with_lock(_verifier(matrix, asked, given, question), lock, matrix, root, host)
    return _verify_and_report(again, retry_timeout, reports)


def _verify_and_report(again: "_Verifier", seconds: float, reports: tuple[tuple[str, Path], ...]) -> int:
    """Verify, write the reports, and return the exit code."""
    from gpustack.verify.api import Interrupted, exit_code, verify_until

    try:
        report = verify_until(again, seconds)
    except Interrupted as stopped:
        # The results until then are useful; the exit code and the errors in the report show that it is incomplete.
        _write(stopped.report, reports)
        raise
    _write(report, reports)
    return exit_code(report)


def _validate_url(url: str | None) -> None:
    """Raise UsageError unless ``url`` is the address of a server."""
    if url is not None:
        from gpustack.triton.client import server_at

        server_at(url)


def _folder_for(given: Path | None) -> dict[str, str]:
    """The folder as an absolute path: checks run in folders of their own. Raises UsageError if it is not writable."""
    if given is None:
        return {}
    import os

    from gpustack.errors import UsageError

    try:
        given.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        msg = f"the folder cannot be created: {exc.strerror or exc}"
        raise UsageError(msg, code="not-writable", where=str(given), hint="use another folder for --artifacts") from exc
    if not os.access(given, os.W_OK):
        msg = "the folder is not writable"
        raise UsageError(msg, code="not-writable", where=str(given), hint="use another folder for --artifacts")
    return {"artifacts": str(given.resolve())}


_Selection = tuple[tuple[str, ...], str, tuple[str, ...]]


def _verifier(
    matrix: "Matrix", asked: _Selection, given: dict[str, str], question: HostQuestion
) -> "Callable[[Iterable[CheckResult]], Report]":
    from gpustack.cli.check_progress import note
    from gpustack.system.run import LocalRunner
    from gpustack.verify.api import verify as run

    components, level, require = asked
    runner = LocalRunner() if question.root is None and question.host is None else None

    def again(kept: "Iterable[CheckResult]") -> "Report":
        found = host_of(matrix, question)
        return run(components, level, found, matrix, runner, require, kept=kept, note=note(), given=given)

    return again


_Verifier = Callable[[Iterable[Any]], Any]


def _with_lock(
    again: _Verifier, path: Path | None, matrix: "Matrix", root: Path | None, host: Path | None
) -> _Verifier:
    """The same verification plus, if there is a lock, a check of it for each component of its stack."""
    if path is None:
        return again
    from gpustack.errors import UsageError

    if host is not None:
        msg = "a saved host has no list of packages"
        raise UsageError(
            msg, code="conflicting-options", where="--lock", hint="verify the machine itself, or a tree: --root DIR"
        )
    from gpustack.detect.api import detect_with_packages
    from gpustack.install.lock.checks import lock_checks
    from gpustack.install.lock.document import load
    from gpustack.install.lock.drift import status_of
    from gpustack.verify.frame.report import build_report

    lock = load(path)

    def both(kept: "Iterable[CheckResult]") -> "Report":
        report = again(kept)
        found, packages = detect_with_packages(root, matrix, (one.name for one in lock.packages))
        checks = lock_checks(lock, status_of(lock, found, packages, name=str(path)))
        return build_report(report.host, (*report.checks, *checks), report.level, started=report.started)

    return both


def paired(
    formats: tuple[str, ...], outputs: tuple[Path, ...], known: tuple[str, ...] = ()
) -> tuple[tuple[str, Path], ...]:
    """The format and file of each report; a file may be `STANDARD`. Raises UsageError if their numbers differ.

    ``known`` are the formats, if not those of `gpustack verify`.
    """
    from gpustack.errors import UsageError
    from gpustack.verify.writers import MODULES

    known = known or tuple(MODULES)
    for name in formats:
        if name not in known:
            message = f"unknown report format {name!r}"
            raise UsageError(message, code="unknown-format", where="--format", hint=f"known: {', '.join(known)}")
    if len(formats) > len(outputs) + 1:
        message = f"{len(formats)} formats, but {len(outputs)} files: standard output takes one report only"
        raise UsageError(
            message, code="unknown-format", where="--format", hint="add an --output for every --format but the last"
        )
    pairs: list[tuple[str, Path]] = list(zip(formats, outputs, strict=False))
    for path in outputs[len(formats) :]:
        ending = "text" if path == STANDARD else _ENDINGS.get(path.suffix.lower())
        ending = ending if ending in known else None
        if ending is None and len(outputs) > 1:
            message = "the report's format is unknown: neither its name nor a --format sets it"
            raise UsageError(
                message,
                code="unknown-format",
                where=str(path),
                hint=f"add a --format, or end the name in {', '.join(_ENDINGS)}",
            )
        pairs.append((ending or "text", path))
    pairs += [(name, STANDARD) for name in formats[len(outputs) :]]
    for name, path in pairs:
        if [other for _, other in pairs].count(path) > 1:
            where = "standard output" if path == STANDARD else str(path)
            message = f"{where} is set for more than one report"
            raise UsageError(
                message,
                code="conflicting-options",
                where=f"--format {name}",
                hint="use a separate file for each report",
            )
    return tuple(pairs) or (("text", STANDARD),)


def _load_own(files: tuple[Path, ...]) -> None:
    from gpustack.verify.frame.site_checks import load_entry_points

    load_entry_points()
    for path in files:
        from gpustack.cli.requestfile import read_toml
        from gpustack.verify.frame.site_checks import load_file

        load_file(path, read_toml(path, 'a check is a table: [[check]] with id = "site.name"'))


def _write(report: "Report", reports: tuple[tuple[str, Path], ...]) -> None:
    """Write every report that can be written. Raises UsageError if any could not."""
    from gpustack.errors import GpustackError, UsageError
    from gpustack.verify.api import write

    faults: list[GpustackError] = []
    for name, path in reports:
        is_coloured = path == STANDARD and frame.wants_color()
        columns = frame.width() if path == STANDARD and frame.is_shown() else 0
        try:
            # Not exit code 1, which means that a check failed.
            save(write(report, name, colour=is_coloured, columns=columns), path, "--output", fault=UsageError)
        except UsageError as fault:
            faults.append(fault)
    if faults:
        raise faults[0]
    if any(name == "github" for name, _ in reports):
        _summarize(report)
    if ("text", STANDARD) not in reports and not frame.settings().is_quiet:
        from gpustack.verify.frame.summary import not_proven, summary

        frame.say("\n".join(filter(None, (summary(report), not_proven(report)))))


def _summarize(report: "Report") -> None:
    """Add the report to the page that GitHub shows of a job, where it names a file for that."""
    import os

    place = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not place:
        return
    from gpustack.verify.api import write

    try:
        with Path(place).open("a", encoding="utf-8", errors="backslashreplace") as page:
            page.write(write(report, "markdown"))
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the name
        # The report itself is written: a page that cannot be shown makes no check fail.
        frame.warn(f"GITHUB_STEP_SUMMARY: {place}: cannot be written: {getattr(exc, 'strerror', None) or exc}")
