"""Phrases of failures that every program uses, and what each means for a GPU stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

from gpustack.detect.scene import Scene
from gpustack.patterns import later

_OPTION = later(
    r"(?i)(?:unknown|unrecognized|invalid) (?:flag|option|shorthand flag)[: ]+'?\\?\"?(?P<name>-{0,2}[\w-]+)"
)


_GROUP = later(r"\(\?P<\w+>")


class Cause(Struct, frozen=True, kw_only=True):
    """What the line says, what to do, and whether this host shows it too (``sure``)."""

    says: str
    fix: str
    sure: bool = False
    src: tuple[str, ...] = ()


class Saying(Struct, frozen=True, kw_only=True):
    """A row of the phrases: the groups of ``like`` stand in ``says`` and ``fix``."""

    id: str
    like: str
    says: str
    fix: str
    sure: bool = False
    early: bool = False
    src: tuple[str, ...] = ()


Phrase = tuple[str, str, str, bool]
"""An expression, what a line with it says, what to do, and whether this host shows it too."""

_NO_NAMES: Mapping[str, str] = MappingProxyType({})

_WORDS: tuple[Phrase, ...] = (
    (r"no space left on device|disk quota exceeded", "a disk, or shared memory, is full",
     "`df -h / /var /tmp /boot /dev/shm` shows which; a container needs --shm-size", True),
    (r"read-only file ?system", "a folder that has to be written is read-only",
     "choose another folder, or the system's own way to install (an image system: layers or extensions)", True),
    (r"oom-?kill|out of memory: killed|exit code:? 137|OOMKilled", "the system had no memory left and ended a program",
     "give the container or machine more memory; build with fewer jobs (MAX_JOBS=2)", True),
    (r"cannot allocate memory|std::bad_alloc|unable to mmap|ulimit|memlock|RLIMIT", ("the system refused memory to a "
        "program"),
     "`free -m`, `ulimit -l` and `ulimit -v` show what is left; a container: --ulimit memlock=-1, more memory", False),
    ((r"(?:cuda|gpu|device|hip|NVML?).{0,60}out of memory|OutOfMemoryError|failed to allocate .{0,40}(?:gpu|device|"
     r"cuda)"),
     "the GPU's memory is full", ("`nvidia-smi` lists the programs that use it; a smaller model, batch or "
                                 "context"), False),
    (r"exec format error", "a program or module was built for another processor",
     "install the one for this machine (`uname -m`); an image of this architecture", True),
    ((r"device or resource busy|resource temporarily unavailable|in use by another client|is in use\b|text file busy|"
     r"failed to unload module|\(ref count: [1-9]"),
     "a GPU, module or file is in use by a program", ("`sudo fuser -v /dev/nvidia*` and `nvidia-smi` name the "
         "programs: stop them first"), False),
    (r"address already in use|bind: .*in use", "another program has the port already",
     ("`sudo ss -ltnp` shows which (a second exporter, host engine or server): stop one of them, or change the "
     "port"), True),
    (r"file too short|invalid ELF header|not a valid shared object",
     "a library is an empty or damaged file, or no library at all",
     ("install the package that owns it again; in a container start it with NVIDIA's runtime, which puts the driver's "
      "libraries in place of empty ones"), True),
    (r"function not implemented|ENOSYS",
     "a call to the system is missing: the kernel, or the sandbox around the program, is too old for this program",
     "a newer kernel (`uname -r`), an older release of the program (crun, runc, pyxis), or another runtime", False),
    (r"connection refused|connect: no such file|failed to connect to|error connecting to|unable to connect",
     "the service at the other end does not run, or listens elsewhere",
     "`systemctl status` of that service and its log; compare socket or port in both configurations", False),
    (r"x509|certificate|TLS handshake|self.signed", "a server's certificate is not trusted",
     "`date` must be right; install the proxy's or registry's certificate authority", False),
    (r"\b(?:401|403)\b.*(?:unauthorized|forbidden)|unauthorized|authentication required|pull access denied",
     "a registry or server refuses the login", ("log in (nvcr.io: user $oauthtoken and an API key), or correct the "
         "name of the image"), False),
    ((r"manifest (?:unknown|for .* not found)|no matching manifest|not found: manifest|\b404\b|"
      r"failed to pull image .*: not found"),
     "an image or file of that name and architecture does not exist", ("look at its tags: `gpustack check --image "
         "NAME`"), False),
    ((r"i/o timeout|context deadline exceeded|timed? ?out|no route to host|temporary failure in name resolution|"
     r"no such host"),
     "another part did not answer in time", "look at the network, DNS and the log of what was asked", False),
    ((r"(?:api|library|driver|kernel module|client|server|nvml|rm).{0,40}version mismatch|mismatched? version|"
     r"version .{0,40}(?:does not match|doesn't match|differs)"),
     "two parts have different versions", ("`gpustack detect` names versions that differ; install both from one "
         "release, then reboot"), False),
    ((r"(?:driver|version).{0,40}(?:too old|is insufficient|insufficient for|not supported by this driver)|"
     r"requires? (?:a )?(?:newer )?driver|driver .{0,30}(?:or newer|or later) (?:is )?required"),
     "the driver is too old for a program", "`gpustack plan driver` installs a newer driver", False),
    (r"failed to initiali[sz]e nvml|nvml (?:is )?not (?:initialized|available)|could not initiali[sz]e nvml",
     "a program cannot start NVML: no driver is loaded where it runs, or its container has no GPUs",
     "`nvidia-smi` must list the GPUs on the host; start the container with them (--gpus all)",
     True),
    ((r"no such device|no devices? (?:was |were )?found|no (?:supported |nvidia |cuda-?capable )?(?:gpu|"
     r"device)s? (?:was |were |is |are )?(?:found|detected|available)|found no (?:nvidia|gpu)"),
     "a program sees no GPU", ("`nvidia-smi -L` lists what the driver has; a container needs its GPUs (--gpus all), "
                              "CUDA_VISIBLE_DEVICES must not hide them"), False),
    (r"segfault|segmentation fault|SIGSEGV|exit(?:ed with)? code:? 139|core dumped|SIGABRT|general protection",
     "a program crashed", ("libraries of different releases together are the most frequent reason; then a newer "
                          "driver"), False),
    ((r"no kernel image|unsupported gpu architecture|sm_\d+ is not compatible|"
     r"compute capability .{0,40}(?:not supported|too low|required)"),
     "a program has no code for this GPU", ("a build for its compute capability: `gpustack check` judges "
         "frameworks"), True),
)  # fmt: skip


def said(rows: Iterable[Phrase], line: str, *, flags: int = 0, names: Mapping[str, str] = _NO_NAMES) -> Cause | None:
    """The cause by the first row that matches the line; the groups, renamed by ``names``, stand in what it says."""
    for text, says, fix, sure in rows:
        match = re.search(text, line, flags)
        if match:
            words = {name: names.get(word or "", word or "") for name, word in match.groupdict().items()}
            return Cause(says=says.format(**words), fix=fix, sure=sure)
    return None


def stated(scene: Scene, line: str) -> Cause | None:
    """What a program's own message says, before a file or error in it is judged."""
    return _longest(scene, line, early=True)


def system(scene: Scene, line: str) -> Cause | None:
    """What an error of the system means."""
    return _longest(scene, line, early=False)


def _longest(scene: Scene, line: str, *, early: bool) -> Cause | None:
    """The cause by the row whose expression finds most of the line."""
    rows = scene.matrix.rows("log-lines", "phrases", Saying)
    if not _any(tuple(row.like for row in rows if row.early == early)).search(line):
        return None
    found = [(match, row) for row in rows if row.early == early and (match := re.search(row.like, line))]
    if not found:
        return None
    match, row = max(found, key=lambda one: len(one[0][0]))
    words = {name: word or "" for name, word in match.groupdict().items()}
    return Cause(says=row.says.format(**words), fix=row.fix.format(**words), sure=row.sure, src=row.src)


@lru_cache(maxsize=4)
def _any(likes: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for all rows: few lines have any. Their groups are of no account, and would clash."""
    return re.compile("|".join(f"(?:{_GROUP.sub('(?:', like.removeprefix('(?i)'))})" for like in likes), re.IGNORECASE)


def plain(_: Scene, line: str) -> Cause | None:
    """What the phrase of a failure in the line means."""
    option = _OPTION.search(line)
    if option is not None:
        return Cause(
            says=f"a program does not know the option {option['name']}: it is older or newer than its configuration",
            fix="compare the versions of the program and of what starts it; remove or rename the option",
        )
    return said(_WORDS, line, flags=re.IGNORECASE)
