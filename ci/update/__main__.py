"""Read what the vendors publish, and propose rows of the facts.

    .venv/bin/python ci/update daily [--write] [--kept FOLDER]    read what is published every day
    .venv/bin/python ci/update read SOURCE ADDRESS... [--write]   fetch bodies, show what they would change
    .venv/bin/python ci/update read SOURCE FILE... --home ADDRESS the same with files that lie below an address
    .venv/bin/python ci/update read SOURCE --from FILE [--write]  the same with recorded bodies
    .venv/bin/python ci/update record SOURCE FILE ADDRESS...      fetch bodies and keep them in FILE
    .venv/bin/python ci/update reproduce [FOLDER] [--lacking]     which rows come out of recorded bodies alone

``--write`` writes the rows that no person has to decide, and shows what they change in the golden plans. Exit codes:
0 nothing waits, 1 rows or cells wait for a person, 2 a source is not what it was, and nothing of it is used.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from package_index import index_address
from update import report
from update.daily import NAMES, Servers
from update.daily import given as given_today
from update.fetch import fetch
from update.folders import folders, is_given_back
from update.merge import merge
from update.record import Body, Given, SourceError, joined, load, save
from update.reproduce import given_by, shares, sums, total
from update.sources import ALL, source
from update.tables import MATRICES, Facts, declined
from update.witnesses import Witnesses

BODIES = Path(__file__).resolve().parents[2] / "tests" / "update" / "bodies"


def main(words: list[str]) -> int:
    asked = _parser().parse_args(words)
    try:
        if asked.action == "reproduce":
            return reproduce(asked.folder, is_asked=asked.lacking)
        if asked.action == "record":
            save(asked.file, [fetch(address) for address in asked.addresses])
            return 0
        if asked.action == "daily":
            servers = Servers(asked.index or index_address(), asked.mirror, asked.kept)
            return daily(Facts(asked.facts), servers, asked.day, is_written=asked.write)
        return read(Facts(asked.facts), asked.source, bodies_of(asked), is_written=asked.write)
    except (SourceError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def bodies_of(asked: argparse.Namespace) -> tuple[Body, ...]:
    """The bodies that a command line names: recorded ones, files, or what servers answer."""
    if asked.bodies:
        return load(asked.bodies)
    if asked.home:
        today = _today().isoformat()
        paths = [Path(text) for text in asked.addresses]
        return tuple(Body(f"{asked.home.rstrip('/')}/{path.name}", today, path.read_bytes()) for path in paths)
    return tuple(fetch(address) for address in asked.addresses)


def daily(facts: Facts, servers: Servers, day: dt.date, *, is_written: bool) -> int:
    """Read every source of the daily run; one that stops does not keep the others from being read."""
    code, given = 0, {}
    for name in NAMES:
        parts, stops = given_today(name, facts, servers, day)
        for why in stops:
            print(f"{name}: STOPPED: {why}")
            code = 2
        if parts:
            given[name] = joined(parts)
    return max(code, apply(facts, given, is_written=is_written))


def read(facts: Facts, name: str, bodies: tuple[Body, ...], *, is_written: bool) -> int:
    """Show what bodies of one source would change, and write it if nothing stops the source."""
    return apply(facts, {name: source(name).rows(bodies)}, is_written=is_written)


def apply(facts: Facts, given: dict[str, Given], *, is_written: bool) -> int:
    """Show what sources would change, each a witness for the others, and write what no person has to decide."""
    witnesses = Witnesses(facts)
    for name, one in given.items():
        witnesses.add(name, one)
    diffs = {name: merge(name, one, facts, witnesses, declined()) for name, one in given.items()}
    for name, diff in diffs.items():
        print(*report.lines(name, diff, facts), sep="\n")
    changes = [found for diff in diffs.values() for found in diff.changes] if is_written else []
    for found in changes:
        facts.put(found.subject, found.table, [found.row])
    if changes:
        print(*report.consequences(facts.write(), facts.folder), sep="\n", flush=True)
    if any(diff.stops for diff in diffs.values()):
        return 2
    return 1 if any(diff.waiting for diff in diffs.values()) else 0


def reproduce(folder: Path, *, is_asked: bool) -> int:
    """Print the share of each table that the recorded bodies give, and of all facts; ``is_asked``: sums they lack."""
    facts = Facts()
    bodies = {path.stem: load(path) for path in sorted(folder.glob("*.xz"))}
    given = given_by(ALL, bodies).values()
    found = list(shares(given, facts))
    for one in found:
        print(f"{one.subject}.{one.table}: {one.whole} of {one.rows} rows whole, {one.partly} in part")
    whole, partly, rows = sum(one.whole for one in found), sum(one.partly for one in found), total(facts)
    known, own, lacking = sums(given, facts)
    for line in lacking if is_asked else ():
        print(line)
    print(
        f"{known - len(own) - len(lacking)} of {known} checksums come out, {len(own)} are of files that were made here"
    )
    read = [is_given_back(one, facts) for one in folders(facts)]
    print(f"{sum(read)} of {len(read)} folders come back from indexes composed in their form (NVIDIA's are not public)")
    print(f"of {rows} rows {whole} ({whole / rows:.1%}) come out whole, {partly} ({partly / rows:.1%}) in part")
    return 0


def _today() -> dt.date:
    return dt.datetime.now(tz=dt.timezone.utc).date()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    names = [one.name for one in ALL]
    reading = actions.add_parser("read", help="show what bodies of a source would change")
    reading.add_argument("source", choices=names)
    reading.add_argument("addresses", nargs="*", help="; ".join(f"{one.name}: {one.hand_out}" for one in ALL))
    reading.add_argument("--home", default="", help="the addresses are files, which lie below this address")
    reading.add_argument("--from", dest="bodies", type=Path, help="recorded bodies instead of addresses")
    every_day = actions.add_parser("daily", help="read what is published every day")
    every_day.add_argument("--index", default="", help="the package index (default: that of pip)")
    every_day.add_argument("--mirror", default="", help="a server with copies of the others, below their hosts' names")
    every_day.add_argument("--kept", type=Path, help="a folder for bodies: what has not changed is not read again")
    every_day.add_argument(
        "--day", type=dt.date.fromisoformat, default=_today(), help="whose year's bulletins are read"
    )
    for one in (reading, every_day):
        one.add_argument("--write", action="store_true", help="write what no person has to decide")
        one.add_argument("--facts", type=Path, default=MATRICES, help="the folder of the facts")
    recording = actions.add_parser("record", help="keep bodies in a file")
    recording.add_argument("source", choices=names)
    recording.add_argument("file", type=Path)
    recording.add_argument("addresses", nargs="+")
    reproducing = actions.add_parser("reproduce", help="the share of the facts that recorded bodies give")
    reproducing.add_argument("folder", nargs="?", type=Path, default=BODIES)
    reproducing.add_argument("--lacking", action="store_true", help="name each checksum that no body gives")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
