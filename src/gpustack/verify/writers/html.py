"""The report as one HTML file: readable on a phone, no script, nothing from the network, charts drawn as SVG."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from gpustack.model.results import CheckResult, Measurement, Report
from gpustack.resources import template
from gpustack.verify.frame.figures import figure
from gpustack.verify.frame.report import STATUSES
from gpustack.verify.frame.summary import WORDS, not_proven, summary

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
        f"<title>{_text(' '.join(('gpustack verify', *_machine(report))))}: {_text(summary(report))}</title>",
        f"<style>\n{template('report/style.css')}</style>",
        "</head>",
        "<body>",
        "<header>",
        "<h1>gpustack verify</h1>",
        f"<p>{_text(summary(report))}</p>",
        f"<p>{_said(not_proven(report))}</p>" if not_proven(report) else "",
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


def _machine(report: Report) -> list[str]:
    """What the machine calls itself, if that is known: it distinguishes reports of many."""
    name = report.host.name
    return [name] if isinstance(name, str) else []


def _about(report: Report) -> str:
    host = report.host
    rows = {
        "Machine": "".join(_machine(report)),
        "Host": " ".join(part for part in (host.os.called, host.arch, host.environment) if part),
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
    items = "".join(f"<li>{_said(one.reason or one.title)}</li>" for one in bad)
    return f"<section><h2>To fix</h2><ol>{items}</ol></section>"


def _measured(report: Report) -> str:
    """The charts, visible without opening anything."""
    charts = [(one, _charts(one)) for one in report.checks]
    drawn = [f"<figure>\n<h3>{_text(_title(one))}</h3>\n{chart}\n</figure>" for one, chart in charts if chart]
    return "\n".join(["<section>", "<h2>Measured</h2>", *drawn, "</section>"]) if drawn else ""


def _component(name: str, report: Report) -> str:
    checks = [one for one in report.checks if one.component == name]
    counts = [(status, sum(one.status == status for one in checks)) for status in STATUSES]
    counted = ", ".join(f"{count} {WORDS[status]}" for status, count in counts if count)
    inner = "\n".join(_check(one) for one in checks)
    return f"<section>\n<h2>{_text(name)}</h2>\n<p>{counted}</p>\n{inner}\n</section>"


def _check(one: CheckResult) -> str:
    is_open = " open" if one.status in {"fail", "error"} else ""
    said = one.reason if one.status != "pass" else one.detail
    lines = [
        f'<details class="{one.status}"{is_open}>',
        f"<summary><b>{one.status}</b> {_text(_title(one))}</summary>",
        f'<p class="id">{_text(one.id)} · {one.level} · {one.duration_s:.3f} s</p>',
        f"<p>{_said(said)}</p>" if said else "",
        f"<p>{_said(one.detail)}</p>" if one.detail and one.status != "pass" else "",
        f"<p>expected: {_said(one.expected)}</p>" if one.expected else "",
        f"<p>found: {_said(one.actual)}</p>" if one.actual and one.status != "pass" else "",
        f'<p class="fix">{_said(one.fix)}</p>' if one.fix else "",
        *(f"<p>{_text(name)}</p><pre>{_text(text)}</pre>" for name, text in one.evidence.items()),
        "</details>",
    ]
    return "\n".join(line for line in lines if line)


def _title(one: CheckResult) -> str:
    return one.title.strip() or one.id


def _charts(one: CheckResult) -> str:
    """Bars for figures that several GPUs have, or that have a limit; all else as a list."""
    values = {name: measured for name, measured in one.measurements.items() if not isinstance(measured.value, str)}
    rows: list[str] = []
    plain: list[str] = []
    for name, measured in one.measurements.items():
        number = measured.value
        spelled = f"{number if isinstance(number, str) else _number(float(number))} {measured.unit}".strip()
        whole = None if isinstance(number, str) else _whole(name, values)
        if isinstance(number, str) or whole is None:
            plain.append(f"<dt>{_text(name)}</dt><dd>{_text(spelled)}</dd>")
        else:
            rows.append(_bar(name, spelled, float(number), whole))
    chart = f'<ul class="chart">{"".join(rows)}</ul>' if rows else ""
    return "\n".join([chart, f"<dl>{''.join(plain)}</dl>" if plain else ""]).strip()


def _whole(name: str, values: Mapping[str, Measurement]) -> float | None:
    """What a full bar is: the figure's limit, the datasheet's, else the most that a GPU here has; None without any."""
    own = values[name]
    if own.unit.startswith("of "):
        return max(1.0, float(own.value))
    limits = [values[f"{name}-{end}"] for end in ("limit", "max") if f"{name}-{end}" in values]
    if limits:
        return float(limits[0].value)
    told = figure(name)
    alike = [one for other, one in values.items() if figure(other).name == told.name and one.unit == own.unit]
    # What ought to be the same or nothing, or is no amount, says nothing as a bar.
    is_amount = told.gpu and len(alike) > 1 and own.unit.endswith("/s")
    return max(float(one.value) for one in alike) if is_amount else None


_WIDTH, _BAR = 340, 10


def _bar(name: str, spelled: str, value: float, whole: float) -> str:
    """One bar. Name and value are HTML text, which wraps where an SVG's would be cut off."""
    width = min(_WIDTH * max(value, 0.0) / whole, _WIDTH) if whole > 0 else 0.0
    return (
        f"<li><span>{_text(name)}</span> <span>{_text(spelled)}</span>"
        f'<svg viewBox="0 0 {_WIDTH} {_BAR}" aria-hidden="true">'
        f'<rect class="track" width="{_WIDTH}" height="{_BAR}" rx="3"></rect>'
        f'<rect class="bar" width="{width:.1f}" height="{_BAR}" rx="3"></rect></svg></li>'
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _text(text: str | None) -> str:
    """Text for element content and quoted attributes; characters that HTML cannot hold are replaced."""
    return html.escape(_CONTROL.sub("\ufffd", text or ""), quote=True)


def _said(text: str) -> str:
    """A sentence in which commands stand between backquotes."""
    parts = text.split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        return _text(text)
    return "".join(f"<code>{_text(part)}</code>" if number % 2 else _text(part) for number, part in enumerate(parts))
