"""The NVENC API of headers and drivers, and whether a driver is new enough for one."""

from __future__ import annotations

import re

from msgspec import Struct

from gpustack.matrix.index import Matrix
from gpustack.verify.declare import Context, Outcome, failed, passed, skipped
from gpustack.versions import version


class HeadersRow(Struct, frozen=True, kw_only=True):
    """The driver that headers of one NVENC API require."""

    version: str
    api: str = ""
    driver_linux: str = ""
    driver_windows: str = ""


def driver_for_api(matrix: Matrix, api: str, system: str = "linux") -> str | None:
    """The first driver that supports the NVENC ``api`` ("13.1"); None where it is not known."""
    rows = [row for row in matrix.rows("nv-codec-headers", "releases", HeadersRow) if row.api == api]
    drivers = [row.driver_windows if system == "windows" else row.driver_linux for row in rows]
    return min((one for one in drivers if one), key=lambda text: version(text).key, default=None)


def api_of_driver(matrix: Matrix, driver: str, system: str = "linux") -> str | None:
    """The newest NVENC API that ``driver`` supports by the tables; None where it is older than all of them."""
    best: tuple[tuple[int, ...], str] | None = None
    for row in matrix.rows("nv-codec-headers", "releases", HeadersRow):
        first = row.driver_windows if system == "windows" else row.driver_linux
        if row.api and first and version(driver) >= version(first):
            best = max(best or ((), ""), (version(row.api).numbers, row.api))
    return best[1] if best else None


def api_of_headers(text: str) -> str:
    """The NVENC API of a version of nv-codec-headers ("13.0.19.0" is 13.0); 8.2 kept the API of 8.1."""
    match = re.match(r"n?(\d+)\.(\d+)", text)
    if match is None:
        return ""
    return "8.1" if (match[1], match[2]) == ("8", "2") else f"{match[1]}.{match[2]}"


def judge_api(context: Context, api: str, called: str, driver: str, older: str = "") -> Outcome:
    """Whether ``driver`` supports the NVENC ``api`` that ``called`` was built for, as the outcome of a check.

    ``older`` is what to use instead where the driver has to stay.
    """
    first = driver_for_api(context.matrix, api)
    if first is None:
        return skipped(f"no driver is known to support NVENC API {api}")
    if version(driver) >= version(first):
        return passed(
            f"NVENC API {api} requires driver {first}; this host has driver {driver}", actual=f"NVENC API {api}"
        )
    offers = api_of_driver(context.matrix, driver)
    supported = f", which supports NVENC API {offers}" if offers else ""
    return failed(
        f"{called} requires driver {first} or newer (NVENC API {api}); this host has driver {driver}{supported}",
        f"`gpustack install 'driver>={first}'`{f', or {older}' if older else ''}",
        expected=f"driver {first} or newer",
        actual=f"driver {driver}",
    )
