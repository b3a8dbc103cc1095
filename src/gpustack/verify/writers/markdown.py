"""The report as Markdown for the summary page of a CI job."""

from __future__ import annotations

import re

from gpustack.model.results import CheckResult, Report
from gpustack.verify.frame.summary import WORDS, not_proven, summary
from gpustack.visible import one_line

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~@:&$])")
_LONGEST = 1000
"""Characters of one text: GitHub refuses a summary of more than 1 MiB as a whole."""


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """The sum, what is not proven, a table of failures, and one of everything."""
    host = report.host
    where = [
        host.name if isinstance(host.name, str) else "",
        host.os.called,
        ", ".join(gpu.called for gpu in host.gpus),
    ]
    about = ", ".join(_text(part) for part in where if part)
    blocks = [
        "## gpustack verify",
        f"**{summary(report)}** at level {report.level}" + (f" on {about}" if about else ""),
    ]
    open_question = not_proven(report)
    if open_question:
        blocks.append(f"> {_text(open_question)}")
    bad = [one for one in report.checks if one.status in {"fail", "error"}]
    if bad:
        rows = [f"| {_text(one.id)} | {_text(one.reason or one.title)} | {_text(one.fix)} |" for one in bad]
        blocks.append("\n".join(["| failed | why | fix |", "| --- | --- | --- |", *rows]))
    if report.checks:
        rows = [f"| {WORDS[one.status]} | {_text(one.id)} | {_text(_said(one))} |" for one in report.checks]
        table = "\n".join(["| result | check | |", "| --- | --- | --- |", *rows])
        blocks.append(f"<details><summary>All checks</summary>\n\n{table}\n\n</details>")
    return "\n\n".join(blocks) + "\n"


def _said(one: CheckResult) -> str:
    return (one.detail if one.status == "pass" else one.reason) or one.title


def _text(text: str) -> str:
    """Text in which Markdown and HTML find nothing to interpret but commands between backquotes, on one line."""
    line = one_line(text)
    parts = (line if len(line) <= _LONGEST else line[:_LONGEST] + "...").split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        return _SPECIAL.sub(r"\\\1", "`".join(parts))
    return "".join(
        "`" + part.replace("|", "\\|") + "`" if number % 2 else _SPECIAL.sub(r"\\\1", part)
        for number, part in enumerate(parts)
    )
