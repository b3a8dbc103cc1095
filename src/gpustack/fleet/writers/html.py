"""The report as one HTML page that needs no network: a row a host, a column a component, each cell opens its cause.

Equal hosts share one entry of the data, and the page's script makes only the rows that are shown: ten thousand hosts
are a page of some hundred kilobytes, and open at once.
"""

from __future__ import annotations

import html
from typing import Any

import msgspec

from gpustack.fleet.causes import HOST_ITSELF, causes, summary
from gpustack.model.fleet_report import FleetCheck, FleetHost, FleetReport
from gpustack.resources import template
from gpustack.visible import visible, visible_json

_WORST = ("fail", "error", "pass", "skip")

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Only what is in the file itself: the browser refuses anything else."""


def write(report: FleetReport) -> str:
    """A whole document."""
    data = visible_json(msgspec.json.encode(_data(report)).decode())
    title = html.escape(summary(report))
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>gpustack fleet report: {title}</title>",
            f"<style>\n{template('report/fleet.css')}</style>",
            "</head>",
            "<body>",
            "<header>",
            "<h1>gpustack fleet report</h1>",
            f"<p>{title}</p>",
            "</header>",
            template("report/fleet.html").rstrip("\n"),
            _worst(report),
            # "<" would end the element, or begin a comment in it.
            f'<script type="application/json" id="data">{data.replace("<", chr(92) + "u003c")}</script>',
            f"<script>\n{template('report/fleet.js')}</script>",
            "</body>",
            "</html>",
            "",
        )
    )


def _worst(report: FleetReport) -> str:
    """What a reader without scripts gets: the causes."""
    rows = "".join(
        f"<li>{html.escape(visible(f'{one.check}: {one.reason} ({len(one.hosts)} hosts)'))}</li>"
        for one in causes(report)[:100]
    )
    return f"<noscript><p>The table needs scripts. What is wrong:</p><ul>{rows}</ul></noscript>"


def _data(report: FleetReport) -> dict[str, Any]:
    """``hosts`` are name and class; a class has status, system, GPUs, level, reason and a cell for each component.

    A cell is empty, or status, version and the checks that did not pass, as places in ``checks``.
    """
    components = list(dict.fromkeys(one.component for host in report.hosts for one in host.checks))
    components.sort(key=lambda name: (name != "driver", name))
    kinds: dict[bytes, int] = {}
    checks: dict[bytes, int] = {}
    hosts = []
    for host in report.hosts:
        cells = [_cell(host, name, checks) for name in components]
        kind = [
            host.status,
            host.system,
            host.kernel,
            host.gpus,
            host.level,
            ", ".join(host.groups),
            host.reason,
            cells,
        ]
        hosts.append([host.name, _place(kinds, kind)])
    return {
        "components": components,
        "hosts": hosts,
        "kinds": [msgspec.Raw(one) for one in kinds],
        "checks": [msgspec.Raw(one) for one in checks],
        "causes": [[one.check, one.status, one.reason, one.fix, len(one.hosts)] for one in causes(report)[:500]],
        "self": HOST_ITSELF,
    }


def _cell(host: FleetHost, component: str, checks: dict[bytes, int]) -> list[Any]:
    own = [one for one in host.checks if one.component == component]
    if not own:
        return []
    status = min((one.status for one in own), key=_WORST.index)
    told = [_place(checks, _told(one)) for one in own if one.status != "pass"]
    return [status, host.stack.get(component) or "", sum(one.status == "pass" for one in own), told]


def _told(one: FleetCheck) -> list[str]:
    return [one.id, one.status, one.reason, one.fix]


def _place(places: dict[bytes, int], value: list[Any]) -> int:
    """The place of a value among those seen so far, which it joins if it is new."""
    return places.setdefault(msgspec.json.encode(value), len(places))
