"""The files of a run: downloaded in parallel before the first change, and found by their artifacts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gpustack.install.options import Downloader, Reporter
from gpustack.model.steps import Artifact


class Files:
    """The verified files of a run by their artifacts. ``check`` raises to stop the run."""

    def __init__(self, download: Downloader, report: Reporter, check: Callable[[], None]) -> None:
        self._download = download
        self._report = report
        self._check = check
        self._there: dict[Artifact, Path] = {}

    def fetch(self, artifacts: Iterable[Artifact]) -> None:
        """Download all of them into the cache. Raises GpustackError with everything that is not available."""
        missing = [one for one in artifacts if one not in self._there]
        if missing:
            from gpustack.install.supply.downloads import fetch_all  # noqa: PLC0415 (it loads the HTTP client)

            self._there |= fetch_all(missing, self._download, self._report.transfer, check=self._check)

    def get(self, artifact: Artifact) -> Path:
        """The file in the cache, downloaded if missing. Raises GpustackError."""
        self.fetch([artifact])
        return self._there[artifact]
