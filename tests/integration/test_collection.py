"""The collection gpustack.provision as Ansible runs it, and the examples of hooks."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest

from gpustack import resources
from gpustack.model.host import Host
from gpustack.model.results import CheckResult, Report

REPOSITORY = resources.folder("matrices").parent
PROGRAMS = Path(sys.executable).parent
GPUSTACK = str(PROGRAMS / "gpustack")
BOOTSTRAP = """\
import subprocess, sys
subprocess.check_call([sys.executable, "-m", "ensurepip", "--default-pip"])
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", *(one for one in sys.argv[1:] if not one.startswith("--no-"))]))
"""
"""What ansible-test would download to put pip into its environments."""

PLAY = f"""\
- name: Every module
  hosts: all
  gather_facts: false
  tasks:
    - name: Evidence
      gpustack.provision.evidence:
      register: found
    - name: Facts
      ansible.builtin.set_fact:
        known: "{{{{ lookup('gpustack.provision.facts', 'driver==580.95.05', program='{GPUSTACK}') | length }}}}"
    - name: Status
      gpustack.provision.status:
        program: {GPUSTACK}
        lock: /nonexistent/lock.json
      register: drift
      ignore_errors: true
    - name: Keep
      ansible.builtin.copy:
        content: "{{{{ dict(evidence=found.evidence, known=known, drift=drift.msg) | to_json }}}}"
        dest: "{{{{ kept }}}}"
        mode: "0644"
    - name: Verify
      gpustack.provision.verify:
        program: {GPUSTACK}
        components: [imex]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the collection's files and its archive, and the collection installed in ``installed``."""
    folder = tmp_path_factory.mktemp("collection")
    subprocess.run([sys.executable, str(REPOSITORY / "ci/build_collection.py"), str(folder)], check=True)
    (archive,) = folder.glob("*.tar.gz")
    done = ansible(
        folder, "ansible-galaxy", "collection", "install", "--offline", "-p", f"{folder}/installed", str(archive)
    )
    assert done.returncode == 0, done.stdout
    return folder


def ansible(folder: Path, program: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAMS / program), *words],
        env={
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "ANSIBLE_COLLECTIONS_PATH": f"{folder}/installed",
            "ANSIBLE_CALLBACKS_ENABLED": "gpustack.provision.sum",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            **env,
        },
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=580,
        check=False,
    )


@pytest.mark.gate
def test_each_plugin_runs(built: Path) -> None:
    """A verification that requires IMEX, which no machine of tests has, fails, and the sum says so."""
    play, kept = built / "play.yml", built / "kept.json"
    play.write_text(PLAY)
    done = ansible(built, "ansible-playbook", "-i", "this,", "-c", "local", "-e", f"kept={kept}", str(play))
    assert done.returncode == 2, done.stdout
    found = json.loads(kept.read_text())
    evidence = json.loads(zlib.decompress(base64.b64decode(found["evidence"])))
    assert "/etc/os-release" in json.dumps(evidence)
    assert int(found["known"]) > 10
    assert "gpustack gave no status: error[" in found["drift"]
    assert "1 hosts: 0 passed, 1 did not" in done.stdout
    assert "this: " in done.stdout.partition("GPUSTACK")[2]


@pytest.mark.gate
def test_each_plugin_is_documented(built: Path) -> None:
    plugins = {"module": ("evidence", "verify", "status"), "lookup": ("facts",), "callback": ("sum",)}
    for kind, names in plugins.items():
        done = ansible(built, "ansible-doc", "--json", "-t", kind, *(f"gpustack.provision.{name}" for name in names))
        documented = json.loads(done.stdout)
        assert sorted(documented) == sorted(f"gpustack.provision.{name}" for name in names)
        assert all(one["doc"]["short_description"] for one in documented.values())


DRIFT = f"""\
- name: Drift, and a verification that passes
  hosts: all
  gather_facts: false
  tasks:
    - name: Status
      gpustack.provision.status:
        program: {GPUSTACK}
        lock: "{{{{ lock }}}}"
      register: drift
    - name: Verify
      gpustack.provision.verify:
        program: "{{{{ stand_in }}}}"
      register: verified
    - name: Keep
      ansible.builtin.copy:
        content: "{{{{ dict(drift=drift, verified=verified) | to_json }}}}"
        dest: "{{{{ kept }}}}"
        mode: "0644"
    - name: Drift is a failure
      gpustack.provision.status:
        program: {GPUSTACK}
        lock: "{{{{ lock }}}}"
        fail_on_drift: true
"""


@pytest.mark.gate
def test_drift_is_returned_or_a_failure_and_a_report_that_proves_something_passes(built: Path) -> None:
    """The lock is of a plan that nobody has carried out; a recorded report stands in for a host with a GPU."""
    play, kept, lock = built / "drift.yml", built / "drift.json", built / "plan.lock.json"
    play.write_text(DRIFT)
    planned = ("plan", "nccl", "--os", "debian12", "--gpu", "L4", "--driver", "580.95.05", "--lock", str(lock))
    subprocess.run([GPUSTACK, *planned], check=True, capture_output=True)
    stand_in = built / "stand-in"
    check = CheckResult(id="cuda.nvcc", component="cuda", status="pass")
    report = Report(host=Host(), checks=(check,), summary={"pass": 1})
    (built / "report.json").write_bytes(msgspec.json.encode(report))
    stand_in.write_text(f"#!/bin/sh\nexec cat {built}/report.json\n")
    stand_in.chmod(0o755)
    given = json.dumps({"kept": str(kept), "lock": str(lock), "stand_in": str(stand_in)})
    done = ansible(built, "ansible-playbook", "-i", "this,", "-c", "local", "-e", given, str(play))
    found = json.loads(kept.read_text())
    assert found["drift"]["is_drifted"]
    assert any("nccl" in one["message"] for one in found["drift"]["drift"])
    assert not found["drift"]["changed"]
    assert found["verified"]["summary"]["pass"] == 1
    assert done.returncode == 2, done.stdout
    assert found["drift"]["drift"][0]["message"].split()[0] in done.stdout.partition("Drift is a failure")[2]


@pytest.mark.gate
def test_the_hook_of_ansible_stops_at_what_is_not_proven(built: Path) -> None:
    place = built / "path"
    place.mkdir()
    (place / "gpustack").symlink_to(GPUSTACK)
    path = f"{place}:{PROGRAMS}:{os.environ['PATH']}"
    hook = str(REPOSITORY / "examples/ansible/hook.yml")
    asked = json.dumps({"gpustack_components": ["imex"]})
    common = ("ansible-playbook", "-i", "this,", "-c", "local", "-e", asked, hook)
    done = ansible(built, *common, PATH=path)
    assert done.returncode == 2, done.stdout
    assert "TASK [Verify]" in done.stdout
    assert "1 hosts: 0 passed, 1 did not" in done.stdout


@pytest.mark.gate
def test_the_hook_of_cloud_init_leaves_a_report_and_fails_by_it(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics"
    metrics.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "GPUSTACK_PROGRAM": GPUSTACK,
        "GPUSTACK_RETRY": "0",
        "GPUSTACK_REPORTS": str(tmp_path / "reports"),
        "GPUSTACK_METRICS": str(metrics),
    }
    hook = REPOSITORY / "examples/cloud-init/per-boot.sh"
    done = subprocess.run(["sh", str(hook)], env=env, capture_output=True, text=True, check=False)
    report = json.loads((tmp_path / "reports/report.json").read_text())
    bad = report["summary"]["fail"] + report["summary"]["error"]
    assert done.returncode == (1 if bad else 0), done.stderr
    assert bad or report["host"]["gpus"], "a host without a GPU is not proven"
    assert "gpustack_checks" in (metrics / "gpustack.prom").read_text()


@pytest.mark.slow
def test_ansible_lint_finds_nothing_by_its_strictest_profile(built: Path) -> None:
    source = built / "ansible_collections/gpustack/provision"
    options = ("--offline", "--profile", "production", "--project-dir", str(source))
    done = ansible(built, "ansible-lint", *options, str(source))
    assert done.returncode == 0, done.stdout
    done = ansible(built, "ansible-lint", "--offline", "--profile", "production", str(REPOSITORY / "examples/ansible"))
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_ansible_test_finds_nothing(built: Path) -> None:
    cache = built / ".ansible/test/cache"
    cache.mkdir(parents=True)
    (cache / "get_pip_24_2.py").write_text(BOOTSTRAP)
    source = built / "ansible_collections/gpustack/provision"
    shutil.rmtree(source / "tests/output", ignore_errors=True)
    subprocess.run(["git", "init", "-q", "."], cwd=source, check=True)
    subprocess.run(["git", "add", "-A"], cwd=source, check=True)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    done = subprocess.run(
        [str(PROGRAMS / "ansible-test"), "sanity", "--local", "--python", version],
        env={"HOME": str(built), "LC_ALL": "C.UTF-8", "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        cwd=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
