"""How old the facts are: releases appear every few days, so that facts of months ago refuse what everybody runs."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from gpustack.errors import GpustackError, UsageError

WARN_AFTER = timedelta(days=45)
"""The age from which commands warn."""
NO_LIMIT = "none"
"""The limit that also silences the warning."""
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_CLOCKS = timedelta(days=1)
"""What clocks and time zones may differ by."""


class OldFactsError(GpustackError):
    """The facts are older than they may be, or an update of them cannot be trusted."""

    exit_code = 8


def limit_of(text: str) -> timedelta | None:
    """The limit of ``--max-facts-age``: "30d", "12h", "4w"; None for "none". Raises UsageError."""
    if text == NO_LIMIT:
        return None
    found = re.fullmatch(r"([0-9]{1,5})([hdw])", text)
    if found is None:
        msg = f"{text!r} is not an age"
        raise UsageError(
            msg, code="invalid-age", where="--max-facts-age", hint="hours, days or weeks: 12h, 30d, 4w; or none"
        )
    return int(found[1]) * _UNITS[found[2]]


def time_of(date: str) -> datetime:
    """The time of a date of facts: a day ("2026-11-21") or a time ("2026-11-21T05:00:00Z"), in UTC."""
    return datetime.fromisoformat(date.removesuffix("Z")).replace(tzinfo=timezone.utc)


def age_of(date: str) -> timedelta:
    """The age of facts of ``date``; negative if the clock is behind it."""
    return datetime.now(timezone.utc) - time_of(date)


def demand_age(date: str, limit: timedelta) -> None:
    """Raise OldFactsError if the facts of ``date`` are older than ``limit``, or if the clock cannot tell."""
    age = age_of(date)
    if age > limit:
        msg = f"the facts are {in_words(age)} old (of {date}); at most {in_words(limit)} are allowed"
        raise OldFactsError(msg, code="facts-too-old", hint="`gpustack matrix update` gets newer ones")
    if age < -_CLOCKS:
        msg = f"the age of the facts is unknown: they are of {date}, and this machine's clock is before that"
        raise OldFactsError(msg, code="facts-too-old", hint="set the clock")


def in_words(age: timedelta) -> str:
    """An age for people: days, or hours below two days."""
    hours = max(0, int(age.total_seconds() // 3600))
    amount, unit = (hours // 24, "day") if hours >= 48 else (hours, "hour")
    return f"{amount} {unit}{'' if amount == 1 else 's'}"
