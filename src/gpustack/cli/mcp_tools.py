"""The tools that ``gpustack mcp`` offers: what an agent sends is data, never a path, an option or a command."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack import __version__, api
from gpustack.errors import GpustackError, UsageError

if TYPE_CHECKING:
    from gpustack.model.host import Host
    from gpustack.model.plan import Plan

_ABOUT = (
    "Facts about NVIDIA GPU software: which driver, CUDA, cuDNN, TensorRT, FFmpeg, Triton and Python framework versions"
    " are compatible with a host and with each other. Without `os`, tools answer for the machine that this server runs"
    " on. `unknown` is not compatible. Requirements are PEP 440: cuda>=12.4,<13 or torch==2.9.1."
)
_INSTALL_LIMIT_S = 3600.0
_MOST = 100
"""Words in one call: no real question has more."""


class Tools:
    """The tools over the built-in facts; ``approved`` are the plans that a person allows to install."""

    def __init__(self, approved: tuple[Plan, ...]) -> None:
        self._approved = {plan.digest: plan for plan in approved}

    def serve(self, kind: Callable[..., Any]) -> None:
        """Answer on standard input and output until the client leaves; ``kind`` is the protocol's server."""
        server = kind("gpustack", instructions=_ABOUT, version=__version__, log_level="ERROR")
        for tool in (self.detect, self.check, self.image, self.plan, self.explain, self.matrix, self.install):
            is_reader = tool != self.install
            hints = {"readOnlyHint": is_reader, "destructiveHint": not is_reader, "openWorldHint": False}
            server.add_tool(_explained(tool), annotations=hints)
        server.run("stdio")

    def detect(self) -> dict[str, Any]:
        """What this machine is: system, kernel, GPUs, what is installed, Python environments, problems with fixes."""
        return api.to_dict(api.detect())

    def check(
        self,
        components: list[str],
        os: str = "",
        arch: str = "",
        gpus: list[str] | None = None,
        driver: str = "",
    ) -> dict[str, Any]:
        """Whether components (cuda==13.0.2, torch==2.9.1, nvenc-av1) are compatible with the host and each other."""
        _demand_few(components)
        return api.to_dict(api.check(*components, host=_host(os, arch, gpus, driver)))

    def image(
        self, name: str, os: str = "", arch: str = "", gpus: list[str] | None = None, driver: str = ""
    ) -> dict[str, Any]:
        """Whether a container image (nvidia/cuda:12.8.1-runtime-ubuntu22.04) runs on the host. Names only, no files."""
        return api.to_dict(api.check(image=name, host=_host(os, arch, gpus, driver)))

    def plan(
        self,
        requirements: list[str],
        os: str = "",
        arch: str = "",
        gpus: list[str] | None = None,
        driver: str = "",
        methods: list[str] | None = None,
    ) -> dict[str, Any]:
        """The stack and the steps that install it, as text, with the digest of the plan. Nothing is changed."""
        _demand_few(requirements)
        made = api.plan(*requirements, host=_host(os, arch, gpus, driver), methods=methods or ())
        return {
            "digest": made.digest,
            "stack": {name: {"version": one.version, "method": one.method} for name, one in made.stack.items()},
            "warnings": list(made.warnings),
            "text": api.render(made, "markdown"),
        }

    def explain(
        self,
        requirements: list[str],
        os: str = "",
        arch: str = "",
        gpus: list[str] | None = None,
        driver: str = "",
    ) -> dict[str, Any]:
        """Why each version was chosen, what refused the newer ones, and the sources."""
        _demand_few(requirements)
        made = api.plan(*requirements, host=_host(os, arch, gpus, driver))
        return {
            "stack": {
                name: {"version": one.version, "reason": one.reason, "sources": list(one.sources)}
                for name, one in made.stack.items()
            },
            "warnings": list(made.warnings),
        }

    def matrix(self, version: str) -> str:
        """What the facts say about one version (cuda==13.0.2), on a screen."""
        from gpustack.cli.matrix_summary import summary
        from gpustack.matrix.index import load_matrix
        from gpustack.matrix.show import everything_about
        from gpustack.solve.requirements import parse_requirement

        asked = parse_requirement(version)
        found = everything_about(load_matrix(), asked.component, asked.versions)
        return summary(found, asked.component, version, 100)

    def install(self, digest: str) -> dict[str, Any]:
        """Install a plan that the person who started this server approved with --approve, by its digest."""
        from gpustack.plan.document import dump
        from gpustack.system.run import LocalRunner

        plan = self._approved.get(digest)
        if plan is None:
            msg = "no person has approved a plan of this digest"
            raise UsageError(
                msg,
                code="not-approved",
                hint="a person reads the plan and starts the server with it: gpustack mcp --approve PLAN.json",
            )
        with tempfile.TemporaryDirectory(prefix="gpustack-mcp-") as folder:
            file = Path(folder) / "plan.json"
            file.write_text(dump(plan), encoding="utf-8")
            # A process of its own: what it prints must not come between the lines of the protocol.
            words = (sys.executable, "-m", "gpustack", "install", str(file), "--yes", "--reboot", "never")
            end = LocalRunner().run(words, timeout=_INSTALL_LIMIT_S)
        return {"exit_code": end.code, "output": end.out[-20_000:], "messages": (end.err or end.error)[-20_000:]}


def _host(os: str, arch: str, gpus: list[str] | None, driver: str) -> Host | None:
    """The host in words, None for this machine. Raises UsageError where words describe none."""
    _demand_few(gpus or [])
    if os:
        return api.describe(os, arch=arch or None, gpus=gpus or (), driver=driver or None)
    if arch or gpus or driver:
        msg = "arch, gpus and driver describe a host together with os"
        raise UsageError(msg, code="missing-argument", hint='name its system, for example os="ubuntu24.04"')
    return None


def _demand_few(words: list[str]) -> None:
    if len(words) > _MOST:
        msg = f"{len(words)} words are more than the {_MOST} that a call takes"
        raise UsageError(msg, code="invalid-value", hint="ask in several calls")


def _explained(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, whose errors reach the agent as on the command line: what is wrong, and the next thing to try."""
    from functools import wraps

    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def run(*args: Any, **named: Any) -> Any:
        try:
            return tool(*args, **named)
        except GpustackError as error:
            hint = f"\nhint: {error.hint}" if error.hint else ""
            text = f"error[{error.code}]: {error.message}{hint}"
            raise ToolError(text[:4000]) from error

    return run
