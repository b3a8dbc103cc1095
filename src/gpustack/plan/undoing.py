"""How an installer undoes an action: from kept files, or by running a command."""

from __future__ import annotations

from typing import Literal

from gpustack.model import actions as do
from gpustack.plan.former import way_back_of_words

WayBack = Literal["files", "packages", "command", "at the end", "person"]
"""Kept files and settings are restored; packages return to their former versions; a command runs with its step, or
once for all steps; or a person does it."""


def way_back(action: do.AnyAction) -> WayBack:  # noqa: PLR0911 (one for each way)
    """How one action of an undo is carried out. Kept files are better than any command: they are the former state."""
    match action:
        case do.EnableRepository() | do.DisableRepository() | do.IncludePackages() | do.ExcludePackages():
            return "files"
        case do.EnableStream() | do.ResetStream() | do.TrustLocalKeys():
            return "files"
        case do.PackageAction():
            return "packages"
        case do.EnableSource(needs_account=needs_account):
            return "command" if needs_account else "files"
        case do.RebuildInitramfs():
            return "at the end"
        case do.ByHand() | do.Reboot():
            return "person"
        case do.Words(argv=argv):
            return way_back_of_words(argv)
        case (
            do.EnableService()
            | do.DisableService()
            | do.RestartService()
            | do.RunInstaller()
            | do.Run()
            | do.PullImage()
            | do.RemoveImage()
            | do.StartContainer()
            | do.RemoveContainer()
            | do.BuildModules()
            | do.AwaitServer()
            | do.Look()
            | do.Verify()
            | do.WindowsAction()
        ):
            return "command"
        case _:
            return "files"
