"""What TAB offers: in the words of the line, and in real shells by the scripts that typer installs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack.cli import COMMANDS
from gpustack.cli.completion import answer, offers
from gpustack.matrix.index import load_matrix

OFFERED = [
    ("pl", "plan"),
    ("--ver", "--version"),
    ("plan cu", "cuda|cuda-compat|cudnn|cupy-cuda11x|cupy-cuda12x|cupy-cuda13x"),
    ("plan cuda==13.0.", "cuda==13.0.3 cuda==13.0.2 cuda==13.0.1 cuda==13.0.0"),
    ("check cuda==13.0.2 nccl>=2.9.", "nccl>=2.9.9 nccl>=2.9.8 nccl>=2.9.6"),
    ("check torch==2.9", "torch==2.9.1 torch==2.9.0"),
    ("check nothing==1", ""),
    ("plan --os ubuntu24", "ubuntu24.04 ubuntu24.10"),
    ("plan cuda --os=ubuntu24.1", "--os=ubuntu24.10"),
    ("plan --driver 580.95", "580.95.05"),
    ("plan --gpu H20", "H200|H200 NVL|H20"),
    ("plan --method cudnn=t", "cudnn=tar"),
    ("plan --method zi", "zip"),
    ("plan --policy ", "newest production minimal"),
    ("plan --format req", "requirements"),
    ("check --format j", "json"),
    ("verify --format j", "json junit"),
    ("verify --level s", "smoke"),
    ("verify nv-", "nv-codec-headers"),
    ("verify cuda --require cud", "cuda cuda-compat cudnn"),
    ("matrix sh", "show"),
    ("matrix show sec", "security"),
    ("matrix show cuda==13.0.2", "cuda==13.0.2"),
    ("matrix show cuda more", ""),
    ("schema pl", "plan"),
    ("bench ten", "tensorrt"),
    ("detect --root ", ""),
    ("detect --ro", "--root"),
    ("plan --os ubuntu24.04 --o", "--out"),
    ("install --reboot n", "never now"),
]


@pytest.mark.parametrize(("line", "offered"), OFFERED, ids=[line for line, _ in OFFERED])
def test_offers(line: str, offered: str) -> None:
    *words, last = line.split(" ")
    found = {str(one) for one in offers(words, last, COMMANDS) if one.startswith(last)}
    expected = set(offered.split("|") if "|" in offered else offered.split())
    assert found >= expected if "|" in offered else found == expected


def test_every_system_gpu_and_framework_has_an_offer() -> None:
    facts = load_matrix()
    assert {str(one) for one in offers(["plan", "--os"], "", COMMANDS)} == {row.key for row in facts.systems}
    gpus = {str(one) for one in offers(["plan", "--gpu"], "", COMMANDS)}
    assert {"GeForce RTX 4090", "RTX 4090", "L4", "A100-SXM4-80GB"} <= gpus


def test_what_is_not_a_question_about_words_is_typers() -> None:
    assert answer({"_GPUSTACK_COMPLETE": "source_bash"}, COMMANDS) is None
    assert answer({"_GPUSTACK_COMPLETE": "complete_powershell"}, COMMANDS) is None


FOLDER = Path(sys.executable).parent


def shell(*argv: str, home: Path) -> list[str]:
    given = {"PATH": f"{FOLDER}:/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8", "SHELL": f"/usr/bin/{argv[0]}"}
    done = subprocess.run(argv, env=given, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()


def script(name: str, home: Path) -> Path:
    """The script that `gpustack --show-completion` prints for a shell."""
    path = home / f"script.{name}"
    given = {"PATH": "/usr/bin:/bin", "HOME": str(home), "_GPUSTACK_COMPLETE": f"source_{name}"}
    made = subprocess.run(
        [str(FOLDER / "gpustack")], env=given, capture_output=True, text=True, check=True, timeout=120
    )
    path.write_text(made.stdout, encoding="utf-8")
    return path


@pytest.mark.gate
def test_bash(tmp_path: Path) -> None:
    """Bash splits words at "=", and takes only what follows it."""
    text = f"source {script('bash', tmp_path)}\n"
    for words in (["gpustack", "plan", "cuda", "==", "13.0.2"], ["gpustack", "plan", "--gpu", "RTX\\ 4090\\ L"]):
        listed = " ".join(f"'{word}'" for word in words)
        text += (
            f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _gpustack_completion gpustack\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
    assert shell("bash", "-c", text, home=tmp_path) == ["13.0.2", "RTX\\ 4090\\ Laptop\\ GPU"]


@pytest.mark.gate
def test_fish(tmp_path: Path) -> None:
    ask = f"source {script('fish', tmp_path)}; complete -C 'gpustack plan cuda==13.0.'; complete -C 'gpustack matr'"
    found = [line.partition("\t")[0] for line in shell("fish", "--no-config", "-c", ask, home=tmp_path)]
    assert found == ["cuda==13.0.0", "cuda==13.0.1", "cuda==13.0.2", "cuda==13.0.3", "matrix"]


@pytest.mark.gate
def test_zsh(tmp_path: Path) -> None:
    assert shutil.which("zsh")
    ask = (
        f"compdef() {{ : }}; source {script('zsh', tmp_path)}; _arguments() {{ print -r -- $2 $1 }}\n"
        "words=(gpustack plan --os ubuntu24.1); CURRENT=4; _gpustack_completion\n"
    )
    (line,) = shell("zsh", "-f", "-c", ask, home=tmp_path)
    assert line.strip() == '*: :(("ubuntu24.10":"Ubuntu 24.10"))'
