"""How the tests read files of YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def yaml_of(text: str) -> Any:
    """What a text says; by libyaml where PyYAML has it, since its own loader takes ten times as long."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (both are safe)


def cases_in(path: Path) -> Any:
    """What a file says."""
    return yaml_of(path.read_text(encoding="utf-8"))
