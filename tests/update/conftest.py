"""The updater's modules, importable as ``update``."""

from __future__ import annotations

import sys

from gpustack import resources

sys.path.insert(0, str(resources.folder("matrices").parent / "ci"))
