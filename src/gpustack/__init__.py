"""Provision and verify NVIDIA GPU software stacks."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

__version__ = "0.1.0"

_FUNCTIONS = ("check", "describe", "image_content", "to_dict")
_PACKAGES = ("detect", "plan", "render", "verify")
"""Functions of the Python API whose names packages have too: those are called like the functions."""


class _Callable(ModuleType):
    """A package that is called as the function of the Python API with its name."""

    def __call__(self, *arguments: object, **options: object) -> object:
        return getattr(importlib.import_module("gpustack.api"), self.__name__.rpartition(".")[2])(*arguments, **options)


class _Package(ModuleType):
    """The package itself: what the import of a package below binds here becomes callable."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _PACKAGES and isinstance(value, ModuleType):
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name in _FUNCTIONS:
        return getattr(importlib.import_module("gpustack.api"), name)
    if name in _PACKAGES:
        return importlib.import_module(f"gpustack.{name}")
    msg = f"module 'gpustack' has no attribute {name!r}"
    raise AttributeError(msg)
