"""Build hook: put the compiled matrices, the templates and the root of trust into the wheel.

An editable install gets none of them: it reads the checkout's own folders (src/gpustack/resources.py).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is not typed for strict use
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        try:
            from gpustack.matrix.compile import compile_folder
            from gpustack.matrix.layout import matrix_files
            from gpustack.matrix.packed import pack
        finally:
            sys.path.pop(0)
        matrices = root / "matrices"
        # Stamps only matter to a checkout; constant ones keep the wheel reproducible.
        stamps = {name: (0, path.stat().st_size) for name, path in matrix_files(matrices).items()}
        index, blobs = compile_folder(matrices, stamps)
        folder = Path(tempfile.mkdtemp(prefix="gpustack-compiled-"))
        for name, content in {"index.msgpack": msgspec.msgpack.encode(index), **pack(blobs)}.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o644)
        build_data["force_include"][str(folder)] = "gpustack/compiled"
        for name in ("templates", "trusted"):
            if (root / name).is_dir():
                build_data["force_include"][str(root / name)] = f"gpustack/{name}"
