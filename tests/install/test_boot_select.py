"""``gpustack boot-select`` with the real dpkg and rpm in trees of their own, on recorded PCI buses."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.integration.catalogue import Package
from tests.integration.debs import build_deb
from tests.integration.rpms import build_rpms

from gpustack import resources
from gpustack.boot.module import replaced
from gpustack.cli import main
from gpustack.system.run import LocalRunner

pytestmark = pytest.mark.gate
SOURCES = resources.folder("matrices").parent / "src"
H200 = "pci:v000010DEd00002335sv000010DEsd000018BEbc03sc02i00"
P100 = "pci:v000010DEd000015F8sv000010DEsd0000118Fbc03sc02i00"
SWITCH = "pci:v000010DEd000022A3sv000010DEsd00001796bc06sc80i00"
SETS = {"r580": ("580.95.05", "open"), "r535": ("535.104.05", "proprietary")}

Call = Callable[..., Ended]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(["boot-select", *arguments])
        return Ended(code, *capsys.readouterr())

    return run


def with_bus(root: Path, *aliases: str) -> None:
    """The recorded bus of another machine that boots this image."""
    bus = root / "sys/bus/pci/devices"
    subprocess.run(["rm", "-rf", str(bus)], check=True)
    for number, alias in enumerate(aliases):
        place = bus / f"0000:{number:02x}:00.0"
        place.mkdir(parents=True)
        (place / "modalias").write_text(f"{alias}\n")


@pytest.fixture
def image(tmp_path: Path, call: Call) -> Path:
    """A Debian tree with dpkg's database and two prepared sets that cannot be installed together."""
    root = tmp_path / "image"
    for folder in ("etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text("")
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    for name, (driver, module) in SETS.items():
        branch = driver.partition(".")[0]
        folder = tmp_path / name
        folder.mkdir()
        for stem in ("nvidia-driver", f"nvidia-kernel-{branch}"):
            build_deb(Package(stem, f"{driver}-1", files={f"/usr/lib/{stem}": driver}), folder)
        ended = call(
            "prepare", name, "--driver", driver, "--module", module, "--packages", str(folder), "--root", str(root)
        )
        assert ended.code == 0, ended.err
    return root


def installed(root: Path) -> set[str]:
    done = subprocess.run(
        [
            "dpkg-query",
            f"--admindir={root}/var/lib/dpkg",
            "--show",
            "--showformat=${db:Status-Abbrev}${Package} ${Version}\n",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return {line[3:].strip() for line in done.stdout.splitlines() if line.startswith("ii")}


def journal(root: Path) -> list[tuple[str, str, str]]:
    lines = (root / "var/lib/gpustack/boot/journal").read_text().splitlines()
    return [(one["event"], one["from"], one["to"]) for one in map(json.loads, lines)]


NEW = {"nvidia-driver 580.95.05-1", "nvidia-kernel-580 580.95.05-1"}
OLD = {"nvidia-driver 535.104.05-1", "nvidia-kernel-535 535.104.05-1"}


def test_the_gpus_decide_and_the_database_is_true(call: Call, image: Path) -> None:
    with_bus(image, SWITCH, H200, H200)
    assert call("select", "--root", str(image)).out == "r580 is now installed\n"
    assert installed(image) == NEW
    before = (image / "var/lib/dpkg/status").stat().st_mtime_ns
    assert call("select", "--root", str(image)).out == "r580 is active: nothing to do\n"
    assert (image / "var/lib/dpkg/status").stat().st_mtime_ns == before
    with_bus(image, P100)
    assert call("select", "--root", str(image)).out == "r535 is now installed\n"
    assert installed(image) == OLD
    with_bus(image, H200)
    assert call("select", "--root", str(image)).code == 0
    assert installed(image) == NEW
    assert not (image / "usr/lib/nvidia-kernel-535").exists()
    assert journal(image) == [
        ("begin", "a mixture", "r580"),
        ("end", "", "r580"),
        ("begin", "r580", "r535"),
        ("end", "r580", "r535"),
        ("begin", "r535", "r580"),
        ("end", "r535", "r580"),
    ]


def test_the_override_file_wins(call: Call, image: Path) -> None:
    with_bus(image, H200)
    override = image / "etc/gpustack/boot-set"
    override.parent.mkdir()
    override.write_text("r535\n")
    assert call("select", "--root", str(image)).out == "r535 is now installed\n"
    override.write_text("none\n")
    assert (
        call("select", "--root", str(image)).out == "nothing to select: no NVIDIA GPU, or the override file says none\n"
    )
    assert installed(image) == OLD
    override.write_text("r999\n")
    ended = call("select", "--root", str(image))
    assert ended.is_told(2)
    assert ended.err.startswith("error[boot-set-unknown]: ")
    assert "hint: prepared: r580, r535" in ended.err


def test_without_a_gpu_or_a_set_for_all_nothing_changes(call: Call, image: Path) -> None:
    with_bus(image, SWITCH)
    assert call("select", "--root", str(image)).out == "no NVIDIA GPU on the PCI bus: nothing to select\n"
    with_bus(image, H200, "pci:v000010DEd0000FFFFsv000010DEsd000018BEbc03sc02i00")
    ended = call("select", "--root", str(image))
    assert ended.is_told(4)
    assert "10de:2335, 10de:ffff" in ended.err
    assert installed(image) == set()


def test_what_changed_behind_its_back_is_noticed(call: Call, image: Path) -> None:
    with_bus(image, H200)
    call("select", "--root", str(image))
    subprocess.run(["dpkg", f"--root={image}", "--remove", "nvidia-kernel-580"], check=True, capture_output=True)
    assert json.loads(call("status", "--root", str(image), "--format", "json").out)["active"] == ""
    assert call("select", "--root", str(image)).out == "r580 is now installed\n"
    assert installed(image) == NEW


def test_a_package_that_is_not_the_prepared_one_changes_nothing(call: Call, image: Path) -> None:
    with_bus(image, H200)
    call("select", "--root", str(image))
    with_bus(image, P100)
    broken = next((image / "var/lib/gpustack/boot/sets/r535").glob("nvidia-kernel*.deb"))
    broken.write_bytes(broken.read_bytes()[:-1] + b"?")
    ended = call("select", "--root", str(image))
    assert ended.is_told(1)
    assert ended.err.startswith("error[boot-set-damaged]: ")
    assert installed(image) == NEW


def test_a_set_that_fails_leaves_the_former_one(call: Call, image: Path, tmp_path: Path) -> None:
    """The new set's package breaks off in its own script."""
    with_bus(image, H200)
    call("select", "--root", str(image))
    folder = tmp_path / "bad"
    folder.mkdir()
    build_deb(Package("nvidia-driver", "535.104.05-2", files={"/DEBIAN/preinst": "#!/bin/false\n"}), folder)
    options = ("--driver", "535.104.05", "--module", "proprietary", "--packages", str(folder), "--root", str(image))
    assert call("prepare", "r535", *options).code == 0
    with_bus(image, P100)
    ended = call("select", "--root", str(image))
    assert ended.is_told(1)
    assert ended.err.startswith("error[boot-set-failed]: ")
    assert "the former set r580 is installed again" in ended.err
    assert installed(image) == NEW


def test_a_package_that_others_require_is_not_taken_away(call: Call, image: Path, tmp_path: Path) -> None:
    with_bus(image, H200)
    call("select", "--root", str(image))
    user = build_deb(Package("site-tool", "1", (("nvidia-kernel-580", "", ""),), {"/usr/bin/site": ""}), tmp_path)
    subprocess.run(["dpkg", f"--root={image}", "--install", str(user)], check=True, capture_output=True)
    with_bus(image, P100)
    ended = call("select", "--root", str(image))
    assert ended.is_told(1)
    assert "site-tool" in ended.err
    assert installed(image) == {*NEW, "site-tool 1"}


def test_nothing_but_the_interpreter_is_imported_when_all_is_right(call: Call, image: Path) -> None:
    with_bus(image, H200)
    call("select", "--root", str(image))
    code = (
        "import sys; before = set(sys.modules); from gpustack.boot.fast import told;"
        "print(told(sys.argv[1])); print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(image)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=True,
    )
    said, modules = done.stdout.splitlines()
    assert said == "r580 is active: nothing to do"
    own = {"gpustack", "gpustack.boot", "gpustack.boot.fast"}
    free = {"__future__", "types", "warnings", "importlib", "importlib._bootstrap", "importlib._bootstrap_external"}
    assert set(ast.literal_eval(modules)) <= own | free


def test_wrong_words_are_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "note.deb").write_text("no package")
    for words in (
        ("select-all",),
        ("prepare", "r580"),
        ("prepare", "NONE!", "--driver", "1"),
        ("select", "--root", str(tmp_path)),
    ):
        ended = call(*words)
        assert ended.code in {0, 2, 4}, words
        assert ended.code == 0 or ended.is_told(ended.code)


MODPROBE = """\
#!/bin/sh
# Stands in for modprobe: no machine of tests has the module. It knows who holds it, and the driver on the disk.
echo "$*" >>"$MODULES/../called"
case $1 in
--remove)
  shift
  test ! -e "$MODULES/../held" || exit 1
  for name; do rm -r "$MODULES/$name" || exit 1; done ;;
nvidia) mkdir "$MODULES/nvidia" && echo 580.95.05 >"$MODULES/nvidia/version" ;;
esac
"""


def test_the_module_of_another_driver_is_replaced_unless_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as on a machine: modprobe and the folder of loaded modules are stand-ins."""
    modules = tmp_path / "module"
    for name in ("nvidia", "nvidia_uvm"):
        (modules / name).mkdir(parents=True)
    (modules / "nvidia/version").write_text("535.104.05\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/modprobe").write_text(MODPROBE)
    (tmp_path / "bin/modprobe").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("MODULES", str(modules))
    runner = LocalRunner()
    (tmp_path / "held").write_text("")
    assert not replaced(runner, "580.95.05", modules)
    assert (modules / "nvidia/version").read_text() == "535.104.05\n"
    (tmp_path / "held").unlink()
    assert replaced(runner, "580.95.05", modules)
    assert (modules / "nvidia/version").read_text() == "580.95.05\n"
    called = (tmp_path / "called").read_text()
    assert called == "--remove nvidia_uvm nvidia\n" * 2 + "nvidia\n"
    assert replaced(runner, "580.95.05", modules)
    assert (tmp_path / "called").read_text() == called, "the right module is loaded: nothing is called"


def test_the_unit_is_whole(call: Call) -> None:
    text = call("status", "--unit").out
    assert "Before=sysinit.target" in text
    assert " boot-select select\n" in text


def test_rpm_says_the_same(call: Call, tmp_path: Path) -> None:
    """A tree with rpm's database; the sets are real packages, built here."""
    root = tmp_path / "image"
    (root / "usr/lib/sysimage/rpm").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text('ID="rocky"\nVERSION_ID="9.4"\n')
    subprocess.run(["rpm", f"--root={root}", "--initdb"], check=True)
    for name, (driver, module) in SETS.items():
        folder = tmp_path / name
        build_rpms(folder, [Package("nvidia-driver", f"{driver}-1", files={f"/usr/lib/nvidia-{name}": driver})])
        options = ("--driver", driver, "--module", module, "--packages", str(folder), "--root", str(root))
        assert call("prepare", name, *options).code == 0
    for alias, name in ((H200, "r580"), (P100, "r535"), (H200, "r580")):
        with_bus(root, alias)
        assert call("select", "--root", str(root)).out == f"{name} is now installed\n"
        assert call("select", "--root", str(root)).out == f"{name} is active: nothing to do\n"
        done = subprocess.run(["rpm", f"--root={root}", "-qa"], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [f"nvidia-driver-{SETS[name][0]}-1.x86_64"]
