"""The command line, as the tests of it call it."""

from tests.cli.conftest import call, environment, program

__all__ = ["call", "environment", "program"]
