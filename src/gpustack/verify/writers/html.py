"""The report as one HTML file: readable on a phone, no script, nothing from the network, charts drawn as SVG."""

from __future__ import annotations

import html
import re

from gpustack.model.results import CheckResult, Report
from gpustack.resources import template
from gpustack.verify.frame.report import STATUSES
from gpustack.verify.writers.text import summary

_WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped", "error": "could not run"}
_ORDER = {"fail": 0, "error": 1, "pass": 2, "skip": 3}
_NO_CHARACTERS = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NO_CHARACTERS}]")
"""What HTML cannot hold, not even escaped."""


def write(report: Report, *, colour: bool) -> str:  # noqa: ARG001 (every writer is called alike)
    """A whole document. Failed checks are open; all others open on a click or touch."""
    components = tuple(dict.fromkeys(one.component for one in report.checks))
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>gpustack verify: {_text(summary(report))}</title>",
        f"<style>\n{template('report/style.css')}</style>",
        "</head>",
        "<body>",
        "<header>",
        "<h1>gpustack verify</h1>",
        f"<p>{_text(summary(report))}</p>",
        _about(report),
        "</header>",
        "<main>",
        _worst_first(report),
        _measured(report),
        *(_component(name, report) for name in components),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _about(report: Report) -> str:
    host = report.host
    rows = {
        "Host": " ".join(part for part in (host.os.name or host.os.spelled, host.arch, host.environment) if part),
        "Kernel": host.kernel,
        "GPUs": ", ".join(gpu.called for gpu in host.gpus),
        "Stack": ", ".join(f"{name} {version}" for name, version in report.stack.items() if version),
        "Level": report.level,
        "Started": report.started,
        "gpustack": report.version,
    }
    lines = [f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in rows.items() if value]
    return f"<dl>{''.join(lines)}</dl>"


def _worst_first(report: Report) -> str:
    """The order of importance: failures first."""
    bad = sorted((one for one in report.checks if one.status in {"fail", "error"}), key=lambda one: _ORDER[one.status])
    if not bad:
        return ""
    items = "".join(f"<li>{_text(one.reason or one.title)}</li>" for one in bad)
    return f"<section><h2>To fix</h2><ol>{items}</ol></section>"


def _measured(report: Report) -> str:
    """The charts, visible without opening anything."""
    charts = [(one, _charts(one)) for one in report.checks]
    drawn = [f"<figure>\n<h3>{_text(_title(one))}</h3>\n{chart}\n</figure>" for one, chart in charts if chart]
    return "\n".join(["<section>", "<h2>Measured</h2>", *drawn, "</section>"]) if drawn else ""


def _component(name: str, report: Report) -> str:
    checks = [one for one in report.checks if one.component == name]
    counts = [(status, sum(one.status == status for one in checks)) for status in STATUSES]
    counted = ", ".join(f"{count} {_WORDS[status]}" for status, count in counts if count)
    inner = "\n".join(_check(one) for one in checks)
    return f"<section>\n<h2>{_text(name)}</h2>\n<p>{counted}</p>\n{inner}\n</section>"


def _check(one: CheckResult) -> str:
    is_open = " open" if one.status in {"fail", "error"} else ""
    said = one.reason if one.status != "pass" else one.detail
    lines = [
        f'<details class="{one.status}"{is_open}>',
        f"<summary><b>{one.status}</b> {_text(_title(one))}</summary>",
        f'<p class="id">{_text(one.id)} · {one.level} · {one.duration_s:.3f} s</p>',
        f"<p>{_text(said)}</p>" if said else "",
        f"<p>{_text(one.detail)}</p>" if one.detail and one.status != "pass" else "",
        f"<p>expected: {_text(one.expected)}</p>" if one.expected else "",
        f"<p>found: {_text(one.actual)}</p>" if one.actual and one.status != "pass" else "",
        f'<p class="fix">{_text(one.fix)}</p>' if one.fix else "",
        *(f"<p>{_text(name)}</p><pre>{_text(text)}</pre>" for name, text in one.evidence.items()),
        "</details>",
    ]
    return "\n".join(line for line in lines if line)


def _title(one: CheckResult) -> str:
    return one.title.strip() or one.id


def _charts(one: CheckResult) -> str:
    """A bar chart for each unit, because values of one unit are comparable; texts as a list."""
    by_unit: dict[str, list[tuple[str, float]]] = {}
    texts = []
    for name, measured in one.measurements.items():
        if isinstance(measured.value, str):
            texts.append(f"<dt>{_text(name)}</dt><dd>{_text(f'{measured.value} {measured.unit}'.strip())}</dd>")
        else:
            by_unit.setdefault(measured.unit, []).append((name, float(measured.value)))
    charts = [_chart(unit, values) for unit, values in by_unit.items()]
    return "\n".join([*charts, f"<dl>{''.join(texts)}</dl>" if texts else ""]).strip()


_WIDTH, _BAR = 340, 10


def _chart(unit: str, values: list[tuple[str, float]]) -> str:
    """One bar for each value. Name and value are HTML text, which wraps where an SVG's would be cut off."""
    most = max((value for _, value in values if value > 0), default=0.0)
    # A share of a datasheet's figure is drawn against the whole figure.
    scale = max(most, 1.0) if unit.startswith("of ") else most
    rows = []
    for name, value in values:
        width = _WIDTH * max(value, 0.0) / scale if scale else 0.0
        spelled = _text(f"{_number(value)} {unit}".strip())
        rows.append(
            f"<li><span>{_text(name)}</span> <span>{spelled}</span>"
            f'<svg viewBox="0 0 {_WIDTH} {_BAR}" aria-hidden="true">'
            f'<rect class="track" width="{_WIDTH}" height="{_BAR}" rx="3"></rect>'
            f'<rect class="bar" width="{width:.1f}" height="{_BAR}" rx="3"></rect></svg></li>'
        )
    return f'<ul class="chart">{"".join(rows)}</ul>'


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _text(text: str | None) -> str:
    """Text for element content and quoted attributes; characters that HTML cannot hold are replaced."""
    return html.escape(_CONTROL.sub("\ufffd", text or ""), quote=True)
