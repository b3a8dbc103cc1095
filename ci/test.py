"""Every check of the project, as .ci/run and the README call it: lint, types, layers, spelling, tests.

python3 ci/test.py [--quick | --slow] [arguments of pytest]

--quick runs lint, types, layers, the facts and the tests of the pure parts: a minute on two cores.
--slow adds the tests that take minutes or gigabytes of downloads each.
"""

from __future__ import annotations

import shutil
import sys

from bootstrap import ENVIRONMENT, ROOT, environment, install_packages, run, say

PROGRAMS = {
    "busybox": "busybox",
    "buildah": "buildah",
    "cloud-init": "cloud-init",
    "createrepo_c": "createrepo-c",
    "debootstrap": "debootstrap",
    "dpkg": "dpkg",
    "g++": "g++",
    "ffmpeg": "ffmpeg",
    "gcc": "gcc libc6-dev",
    "gpg": "gnupg",
    "java": "default-jre-headless",  # for the Nu Html Checker
    "make": "make",
    "openssl": "openssl",
    "python3-config": "python3-dev",  # for libpython, which Triton's Python backend loads
    "pgrep": "procps",
    "rpm": "rpm",
    "rpmbuild": "rpm",
    "setfacl": "acl",
    "shellcheck": "shellcheck",
    "xz": "xz-utils",
    "zstd": "zstd",
}
"""Programs that the tests run for real, and the Debian packages that bring them."""

SLOW_PROGRAMS = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "chromedriver": "chromium chromium-driver fonts-dejavu-core",
    "podman": "podman",
    "unshare": "util-linux",
}
"""What --slow needs besides."""


QUICK_PROGRAMS = ("gcc", "g++", "python3-config")
"""What --quick needs of them: stand-ins for drivers are compiled."""

QUICK = [
    "tests/unit",
    "tests/failures",
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("tests/test_*.py"))),
]
"""The tests of the pure parts; those marked ``gate`` among them are left out."""


def main() -> None:
    arguments = sys.argv[1:]
    programs = PROGRAMS
    if "--quick" in arguments:
        programs = {name: PROGRAMS[name] for name in QUICK_PROGRAMS}
        arguments = [word for word in arguments if word != "--quick"] + ["-m", "not slow and not gate", *QUICK]
    elif "--slow" in arguments:
        programs = {**PROGRAMS, **SLOW_PROGRAMS}
        arguments = [word for word in arguments if word != "--slow"] + ["-m", "slow or not slow"]
    missing = {name for program, names in programs.items() if not shutil.which(program) for name in names.split()}
    install_packages(sorted(missing))
    python = str(environment(for_tests=True))
    tools = ENVIRONMENT / "bin"
    for title, command in (
        ("lint", [str(tools / "ruff"), "check", "src", "tests", "ci"]),
        ("format", [str(tools / "ruff"), "format", "--check", "src", "tests", "ci"]),
        ("types", [str(tools / "mypy")]),
        ("layers", [str(tools / "lint-imports")]),
        ("spelling", [str(tools / "codespell"), "src", "tests", "ci", "docs", "README.md", "CHANGELOG.md"]),
        ("facts", [python, "-m", "gpustack", "matrix", "check"]),
        ("tests", [python, "-m", "pytest", "-n", "2", "--dist", "worksteal", *arguments]),
    ):
        say(title)
        run(command)


if __name__ == "__main__":
    main()
