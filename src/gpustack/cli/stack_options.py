"""The options that request a stack, as one value."""

from pathlib import Path

from gpustack.cli.options import HostQuestion, Imex, KernelModule, Policy, Stage


class StackOptions(HostQuestion, frozen=True, kw_only=True):
    """The options that request a stack, from the command line and from gpustack.toml together."""

    requirements: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    strict: bool | None = None
    live: bool | None = None
    policy: Policy | None = None
    upgrades: tuple[str, ...] = ()
    kernel_module: KernelModule | None = None
    deny_vulnerable: bool | None = None
    imex: Imex | None = None
    stage: Stage | None = None
    target: str | None = None
    matrices: Path | None = None
    format: str | None = None
    out: Path | None = None
    is_exit_detailed: bool | None = None
