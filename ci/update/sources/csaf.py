"""Security bulletins as CSAF documents: the releases that each calls fixed. A document counts with its .sha256."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from update.form import DATE, json_of, keys, listing, mapping, text_of
from update.record import Body, Found, Given, Row, refuse
from update.sources.guests import guests

HAND_OUT = "YEAR/NUMBER/NUMBER.json and NUMBER.json.sha256 of NVIDIA/product-security"
_HOME = "https://raw.githubusercontent.com/NVIDIA/product-security/main/"
ADDRESS = _HOME + "{year}/{number}/{number}.json"
INDEX = _HOME + "{year}/CVE_index.csv"
_ADDRESS = re.compile(re.escape(_HOME) + r"(\d{4})/(\d+)/\2\.json")
_COLUMNS = ("CVE", "CVSS", "Severity", "Vector", "CWE", "Bulletin", "Affected Product", "Affected Version", "Fixed In")
_PRODUCT = re.compile(r"GeForce.*|Tesla.*|NVIDIA Container Toolkit")
_TOP = ("document", "product_tree", "vulnerabilities")
_VULNERABILITY = (
    *("acknowledgments", "cve", "cwe", "notes", "product_status", "references", "release_date", "scores"),
    *("title", "remediations", "threats", "ids", "flags", "discovery_date", "involvements"),
)
_SEVERITIES = ("low", "medium", "high", "critical")
_CLASS = re.compile(r"(linux|windows)r(\d+)_([a-z0-9_]+)")
_FIXED = re.compile(r"(linux|windows)r(\d+)_([a-z_]+?)_(\d{3}_\d+(?:_\d+)?)")
_TOOLKIT = re.compile(r"(?:linux|all)_nvidia_container_toolkit_v?(\d+(?:_\d+)+)")


def rows(bodies: Sequence[Body]) -> Given:
    """Bulletins and fixed releases of the driver and the container toolkit."""
    sums = {body.address.removesuffix(".sha256"): body for body in bodies if body.address.endswith(".sha256")}
    found: list[Found] = []
    documents: list[Body] = []
    covers: list[tuple[str, str, Row]] = []
    for body in bodies:
        if body.address in {one.address for one in sums.values()}:
            continue
        place = _ADDRESS.fullmatch(body.address)
        if place is None:
            raise refuse(body.address, "is not the address of a bulletin")
        if body.address not in sums or text_of(sums[body.address]).split() != [hashlib.sha256(body.data).hexdigest()]:
            raise refuse(body.address, "is not the document that its .sha256 names")
        fixed = list(_fixed(body, place[2]))
        documents.append(body)
        if fixed:
            found += [Found("security", "bulletins", _bulletin(body, place[1], place[2])), *fixed]
            covers.append(("security", "fixed", {"bulletin": place[2], "src": ["psirt"]}))
    found += guests(documents)
    return Given(tuple(found), tuple(covers))


def listed(index: Body) -> list[str]:
    """The numbers of the bulletins in a year's index that are about the driver or the container toolkit."""
    head, *lines = text_of(index).splitlines() or [""]
    if tuple(head.split(";")) != _COLUMNS:
        raise refuse(index.address, f"has the columns {head[:150]!r}")
    found = set()
    for line in lines:
        cells = line.split(";")
        if len(cells) != len(_COLUMNS) or not cells[5].isdigit():
            raise refuse(index.address, f"has the line {line[:80]!r}")
        if _PRODUCT.fullmatch(cells[6]):
            found.add(cells[5])
    return sorted(found)


def _bulletin(body: Body, year: str, number: str) -> Row:
    document = mapping(json_of(body).get("document"), body.address)
    tracking = mapping(document.get("tracking"), body.address)
    day = str(tracking.get("initial_release_date", ""))[:10]
    severity = str(mapping(document.get("aggregate_severity"), body.address).get("text", "")).lower()
    if tracking.get("id") != number or not DATE.fullmatch(day) or severity not in _SEVERITIES:
        raise refuse(body.address, f"has the number {tracking.get('id')!r}, the day {day!r}, the severity {severity!r}")
    page = f"https://github.com/NVIDIA/product-security/tree/main/{year}/{number}"
    return {"bulletin": number, "date": day, "severity": severity, "page": page, "src": ["psirt"]}


def _fixed(body: Body, number: str) -> Iterator[Found]:
    document = json_of(body)
    keys(document, _TOP, body.address, needed=_TOP)
    names = dict(_classes(document["product_tree"], body.address))
    products: dict[tuple[str, str, str], set[str]] = {}
    toolkits: set[str] = set()
    for one in listing(document["vulnerabilities"], body.address):
        about = mapping(one, body.address)
        keys(about, _VULNERABILITY, body.address)
        for product in listing(mapping(about.get("product_status"), body.address).get("fixed", []), body.address):
            toolkit = _TOOLKIT.fullmatch(str(product))
            known = _FIXED.fullmatch(str(product))
            if toolkit:
                toolkits.add(toolkit[1].replace("_", ".") + ".0" * (2 - toolkit[1].count("_")))
            elif known and (name := names.get((known[1], known[2], known[3]))):
                products.setdefault((known[1], known[2], known[4].replace("_", ".")), set()).add(name)
    for (system, branch, fixed), classes in products.items():
        place = {"bulletin": number, "component": "driver", "os": system, "branch": branch, "fixed": fixed}
        yield Found("security", "fixed", {**place, "products": sorted(classes), "src": ["psirt"]})
    for fixed in sorted(toolkits):
        place = {"bulletin": number, "component": "container-toolkit", "os": "linux", "fixed": fixed}
        yield Found("security", "fixed", {**place, "src": ["psirt"]})


def _classes(tree: object, where: str) -> Iterator[tuple[tuple[str, str, str], str]]:
    """The classes of products in the tree: system, branch and word, with the name for people; no guests of vGPU."""
    for branch in listing(mapping(tree, where).get("branches", []), where):
        about = mapping(branch, where)
        product = about.get("product")
        known = _CLASS.fullmatch(str(product.get("product_id"))) if isinstance(product, dict) else None
        if known and "guest" not in known[3] and "vgpu" not in known[3]:
            yield (known[1], known[2], known[3]), str(about.get("name"))
        yield from _classes(about, where)
