"""Every check of the project, as .ci/run and the README call it: lint, types, layers, spelling, tests.

python3 ci/test.py [--quick | --slow] [arguments of pytest]

--quick runs lint, types, layers, the facts and the tests of the pure parts: three minutes on two cores.
--slow adds the tests that take minutes or gigabytes of downloads each.

The tests run beside the rest, which prints when it ends; each failure is named as it happens, and all at the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

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
    "fish": "fish",
    "gcc": "gcc libc6-dev",
    "gpg": "gnupg",
    "java": "default-jre-headless",  # for the Nu Html Checker
    "/usr/share/lmod/lmod/libexec/lmod": "lmod",
    "make": "make",
    "mandoc": "mandoc",
    "openssl": "openssl",
    "python3-config": "python3-dev",  # for libpython, which Triton's Python backend loads
    "packer": "packer",
    "pgrep": "procps",
    "rpm": "rpm",
    "rpmbuild": "rpm",
    "setfacl": "acl",
    "shellcheck": "shellcheck",
    "xz": "xz-utils",
    "zsh": "zsh",
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


QUICK_PROGRAMS = ("dpkg", "gcc", "g++", "gpg", "python3-config")
"""What --quick needs of them: stand-ins for drivers are compiled, packages are packed, keys are read."""

QUICK = [
    "tests/unit",
    "tests/failures",
    *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("tests/test_*.py"))),
]
"""The tests of the pure parts; those marked ``gate`` among them are left out."""


MOST_WORKERS = 8
"""Each worker builds its own package repositories and trees: more of them than this cost more than they save."""


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
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each of thousands of starts compiles the program again
    run([python, "-m", "compileall", "-q", "src"])
    began = time.monotonic()
    waiting = 0 if QUICK[0] in arguments else 1  # the whole gate waits for downloads and for programs that do not end
    workers = min(MOST_WORKERS, max(2, len(os.sched_getaffinity(0)) + waiting))
    with ThreadPoolExecutor() as pool:
        rest = pool.submit(lambda: [title for title, command in checks(python) if not passes(title, command)])
        say("tests")
        tests = [python, "-m", "pytest", "-n", str(workers), "--dist", "worksteal", *arguments]
        failed = [] if subprocess.run(tests, check=False, cwd=ROOT).returncode == 0 else ["tests"]
        failed = [*rest.result(), *failed]
    say(f"{'failed: ' + ', '.join(failed) if failed else 'all passed'} ({time.monotonic() - began:.0f} s)")
    sys.exit(1 if failed else 0)


def checks(python: str) -> tuple[tuple[str, list[str]], ...]:
    """Everything but the tests: what it is called, and its command."""
    tools = ENVIRONMENT / "bin"
    return (
        ("lint", [str(tools / "ruff"), "check", "src", "tests", "ci"]),
        ("format", [str(tools / "ruff"), "format", "--check", "src", "tests", "ci"]),
        ("layers", [str(tools / "lint-imports")]),
        ("facts", [python, "-m", "gpustack", "matrix", "check"]),
        ("spelling", [str(tools / "codespell"), "src", "tests", "ci", "docs", "README.md", "CHANGELOG.md"]),
        ("types", [str(tools / "mypy")]),
    )


def passes(title: str, command: list[str]) -> bool:
    """Whether a check passes; what it printed is shown in one piece, since the tests print at the same time."""
    done = subprocess.run(command, check=False, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    is_good = done.returncode == 0
    say(f"{title}: {'passed' if is_good else 'FAILED'}" + ("" if is_good else f"\n{done.stdout}"))
    return is_good


if __name__ == "__main__":
    main()
