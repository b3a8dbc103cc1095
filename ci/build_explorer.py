"""The compatibility explorer: one HTML file that judges by the facts and rules of `gpustack check`, without a network.

.venv/bin/python ci/build_explorer.py EXPLORER.html
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from explorer.facts import export
from gpustack.matrix.index import load_matrix

FOLDER = Path(__file__).resolve().parent / "explorer"
RULES = ("versions", "host", "search", "evidence", "frameworks", "answer")
"""The scripts that judge, in the order in which they need each other."""


def rules() -> str:
    """The scripts that judge, as one text."""
    return "\n".join((FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in RULES)


def page(facts: dict[str, Any]) -> str:
    """The whole page."""
    data = json.dumps(facts, ensure_ascii=True, separators=(",", ":"))
    script = f'"use strict";\n{rules()}\n{(FOLDER / "page.js").read_text(encoding="utf-8")}'
    parts = {
        "style": (FOLDER / "page.css").read_text(encoding="utf-8"),
        "date": facts["date"][:10],
        "facts": data.replace("</", "<\\/"),
        "script": f"(() => {{\n{script}\n}})();",
    }
    text = (FOLDER / "page.html").read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace(f"{{{{{name}}}}}", value, 1)
    return text


def main(place: Path) -> None:
    text = page(export(load_matrix(has_site=False)))
    place.write_text(text, encoding="utf-8")
    print(f"{place}: {len(text.encode()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
