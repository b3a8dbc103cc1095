"""A POSIX shell script: one function a step, everything quoted, guarded where a step sees that it is done."""

from __future__ import annotations

import shlex
import textwrap

from gpustack.model.plan import Plan
from gpustack.model.steps import Artifact, FileWrite, Step
from gpustack.render.commands import changes, command_line, fetch, is_manual, one_line

_HEAD = """\
set -eu
umask 022
LC_ALL=C.UTF-8
export LC_ALL

dry_run=no
case "${1:-}" in
    '') ;;
    --dry-run) dry_run=yes ;;
    *) printf 'usage: %s [--dry-run]\\n' "$0" >&2; exit 2 ;;
esac

say() { printf '%s\\n' "$*" >&2; }

run() {
    if [ "$dry_run" = yes ]; then
        printf '+'
        for word in "$@"; do printf ' %s' "$word"; done
        printf '\\n'
    else
        "$@"
    fi
}

# has_package NAME VERSION: whether NAME is installed in VERSION (any packaging revision of it).
has_package() {
    if command -v dpkg-query >/dev/null 2>&1; then
        found=$(dpkg-query --show --showformat '${Status}|${Version}' "$1" 2>/dev/null) || return 1
        case "$found" in 'install ok installed|'*|'hold ok installed|'*) ;; *) return 1 ;; esac
        found=${found#*|}
    elif command -v rpm >/dev/null 2>&1; then
        found=$(rpm -q --queryformat '%{VERSION}' "$1" 2>/dev/null) || return 1
    else
        return 1
    fi
    found=${found#*:}
    case "$found" in "$2"|"$2"[-+.~]*) return 0 ;; *) return 1 ;; esac
}

# has_sum FILE SHA256
has_sum() {
    [ -f "$1" ] && [ "$(sha256sum -- "$1" | cut -d ' ' -f 1)" = "$2" ]
}

# check_sum FILE SHA256: remove the file and stop when it is another one.
check_sum() {
    [ "$dry_run" = yes ] || has_sum "$1" "$2" || {
        rm -f -- "$1"
        say "error: $1 is not the file that was planned: its sha256 differs"
        exit 1
    }
}

# put FILE MODE: write standard input to FILE, whole or not at all.
put() {
    if [ "$dry_run" = yes ]; then
        printf '+ write %s\\n' "$1"
        cat >/dev/null
        return 0
    fi
    mkdir -p -- "$(dirname -- "$1")"
    cat >"$1.gpustack-new"
    chmod "$2" "$1.gpustack-new"
    mv -f -- "$1.gpustack-new" "$1"
}
"""
_ROOT = """
if [ "$dry_run" = no ] && [ "$(id -u)" -ne 0 ]; then
    say "error: this script changes the system: run it as root"
    exit 1
fi
"""
_GATE = """\
# The steps after a reboot run when this script is started again after it.
state=/var/lib/gpustack/script-{digest}
boot_id() {{ cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo unknown; }}
reboot_done() {{ [ -f "$state" ] && [ "$(cat -- "$state")" != "$(boot_id)" ]; }}
"""


def render(plan: Plan) -> str:
    """The plan as a script for /bin/sh; ``--dry-run`` shows what it would run."""
    blocks = [_title(plan), _HEAD]
    if any(step.needs_root for step in plan.steps):
        blocks.append(_ROOT.lstrip("\n"))
    if any(step.reboot_after for step in plan.steps):
        blocks.append(_GATE.format(digest=plan.digest[:12]))
    names = [f"step_{number:02}" for number in range(1, len(plan.steps) + 1)]
    blocks += [_function(name, step) for name, step in zip(names, plan.steps, strict=True)]
    blocks.append(_main(plan, names))
    return "\n".join(blocks)


def _title(plan: Plan) -> str:
    host = plan.host
    system = one_line(f"{host.os.name or host.os.spelled}, {host.arch or 'unknown architecture'}")
    lines = ["#!/bin/sh", f"# {system}: plan {plan.digest}"]
    for name, entry in plan.stack.items():
        flavour = f", {entry.flavour} kernel modules" if entry.flavour else ""
        lines.append(f"# {entry.state:<9} {name} {one_line(entry.version)} ({entry.method}{flavour})")
    for text in plan.warnings:
        lines += _comment(f"warning: {text}")
    return "\n".join([*lines, ""])


def _function(name: str, step: Step) -> str:
    lines = [f"{name}() {{", *(f"    {line}" for line in _comment(f"{step.title}: {step.why}"))]
    body = _guard(step)
    body.append(f"say {shlex.quote('--- ' + one_line(step.title))}")
    if step.reboot_after:
        body += _reboot()
    elif is_manual(step):
        body += _by_hand(step)
    else:
        for artifact in step.artifacts:
            body += _download(artifact)
        for file in step.files:
            body += _file(file)
        for argv in step.commands:
            body += _command(argv)
    return "\n".join([*lines, *_indented(body), "}", ""])


def _command(argv: tuple[str, ...]) -> list[str]:
    if argv[0] != "gpustack":
        return [f"run {command_line(argv)}"]
    # The script has to end well on a host that has it, but not gpustack itself.
    return [
        "if command -v gpustack >/dev/null 2>&1; then",
        f"    run {command_line(argv)}",
        "else",
        f"    say {shlex.quote('gpustack is not installed here; to check the result: ' + command_line(argv))}",
        "fi",
    ]


def _guard(step: Step) -> list[str]:
    words = step.done_when.split(" ")
    match words:
        case ["package", name, wanted]:
            test = f"has_package {shlex.quote(name)} {shlex.quote(wanted)}"
        case ["file", path, digest]:
            test = f"has_sum {shlex.quote(path)} {shlex.quote(digest)}"
        case ["path", path]:
            test = f"[ -e {shlex.quote(path)} ]"
        case _:
            return []
    done = shlex.quote(f"--- {one_line(step.title)}: done already")
    return [f"if {test}; then", f"    say {done}", "    return 0", "fi"]


def _download(artifact: Artifact) -> list[str]:
    lines = [f"run {command_line(argv)}" for argv in fetch(artifact)]
    if artifact.sha256:
        lines.append(f"check_sum {shlex.quote(artifact.path)} {artifact.sha256}")
    return lines


def _file(file: FileWrite) -> list[str]:
    end = "GPUSTACK_END"
    while end in file.content.splitlines():
        end += "_"
    content = file.content if file.content.endswith("\n") else file.content + "\n"
    return [f"put {shlex.quote(file.path)} {shlex.quote(file.mode)} <<'{end}'\n{content}{end}"]


def _by_hand(step: Step) -> list[str]:
    lines = [f"say {shlex.quote('by hand: ' + one_line(step.why))}"]
    lines += [f"say {shlex.quote('    ' + one_line(command_line(argv)))}" for argv in step.commands]
    return lines


def _reboot() -> list[str]:
    return [
        "if reboot_done; then return 0; fi",
        'if [ "$dry_run" = yes ]; then say "here the script stops: reboot, then start it again"; return 0; fi',
        'mkdir -p -- "$(dirname -- "$state")"',
        'boot_id >"$state"',
        'say "reboot now, then start this script again: it goes on with the next step"',
        "exit 5",
    ]


def _main(plan: Plan, names: list[str]) -> str:
    reboot = next((number for number, step in enumerate(plan.steps) if step.reboot_after), None)
    lines = []
    acting = [(name, step) for name, step in zip(names, plan.steps, strict=True)]
    if reboot is None:
        lines += [name for name, step in acting if changes(step) or is_manual(step) or step.kind == "note"]
    else:
        lines += ["if ! reboot_done; then", *(f"    {name}" for name, _ in acting[: reboot + 1]), "fi"]
        lines += [name for name, _ in acting[reboot + 1 :]]
        lines += ['[ "$dry_run" = yes ] || rm -f -- "$state"']
    return "\n".join([*lines, 'say "done"', ""])


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        one_line(text), 110, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    )


def _indented(lines: list[str]) -> list[str]:
    """Indent the lines of a body; the text of a here-document stays as it is, or its content would change."""
    return [f"    {line}" for line in lines]
