"""Another branch of the driver, up and down: locks lifted first, the old branch gone, the new one locked."""

from __future__ import annotations

import pytest
from tests.unit.plan.making import commands, contents, host, pick, plan, words

from gpustack.model.host import Host, Installed, KernelModule
from gpustack.model.plan import Plan


def changed(system: str, there: str, wanted: str, packages: tuple[str, ...], *, state: str, **fields: object) -> Plan:
    installed = {"driver": Installed(version=there, method="network", packages=packages)}
    module = KernelModule(version=there, flavour="open", loaded=True)
    machine: Host = host(system, installed=installed, module=module, **fields)
    return plan(machine, pick("driver", wanted, flavour="open", state=state))


def place(made: Plan, text: str) -> int:
    found = [number for number, argv in enumerate(commands(made)) if text in " ".join(argv)]
    assert found, text
    return found[0]


@pytest.mark.parametrize(
    ("there", "wanted", "state", "package"),
    [
        ("580.95.05", "595.91.07", "upgrade", "nvidia-open=595.91.07-*"),
        ("595.91.07", "580.95.05", "downgrade", "nvidia-open-580=580.95.05-*"),
    ],
)
def test_apt_changes_the_branch_in_one_run(there: str, wanted: str, state: str, package: str) -> None:
    made = changed("ubuntu24.04", there, wanted, ("nvidia-open-580",), state=state, holds=("nvidia-open-580",))
    assert place(made, "apt-mark unhold nvidia-open-580") < place(made, package)
    line = " ".join(commands(made)[place(made, package)])
    assert "--autoremove --purge" in line
    assert ("--allow-downgrades" in line) is (state == "downgrade")
    assert f"Pin: version {wanted}*" in contents(made)["/etc/apt/preferences.d/gpustack-nvidia-driver"]
    assert f"nvidia-driver-pinning-{wanted.partition('.')[0]}" in words(made)


@pytest.mark.parametrize(
    ("there", "wanted", "state"), [("575.57.08", "580.95.05", "upgrade"), ("595.91.07", "580.95.05", "downgrade")]
)
def test_dnf_lifts_the_lock_before_the_stream_is_switched(there: str, wanted: str, state: str) -> None:
    branch = there.partition(".")[0]
    held = (f"*nvidia*{there}*",)
    made = changed(
        "rhel9", there, wanted, ("nvidia-driver",), state=state, holds=held, streams=(f"nvidia-driver:{branch}-open",)
    )
    order = [
        place(made, f"versionlock delete {held[0]}"),
        place(made, "module switch-to nvidia-driver:580-open --allowerasing"),
        place(made, f"versionlock add *nvidia*{wanted}*"),
        place(made, f"install --allowerasing nvidia-open-{wanted}"),
    ]
    assert order == sorted(order)


def test_zypper_names_every_part_and_may_take_the_old_ones_away() -> None:
    made = changed(
        "sles15.7", "580.95.05", "595.91.07", ("nvidia-open-580",), state="upgrade", holds=("nvidia-open-580",)
    )
    install = " ".join(commands(made)[place(made, "nvidia-open-595=595.91.07")])
    assert "--force-resolution" in install
    assert "nvidia-compute-utils-G07=595.91.07" in install
    assert place(made, "removelock nvidia-open-580") < place(made, "nvidia-open-595=595.91.07") < place(made, "addlock")


def test_tdnf_drops_the_plans_own_lock_first() -> None:
    made = changed("azurelinux3.0", "580.95.05", "595.91.07", ("nvidia-open",), state="upgrade")
    assert place(made, "rm -f -- /etc/tdnf/locks.d/gpustack-driver.conf") < place(
        made, "tdnf -y install nvidia-open-595"
    )


def test_a_hold_of_dnf_is_lifted_by_the_name_of_its_package() -> None:
    there = {"cudnn": Installed(version="9.8.0.87", method="network", packages=("libcudnn9-cuda-12",))}
    machine = host("rhel9", installed=there, holds=("libcudnn9-cuda-12-0:9.8.0.87-1.*",))
    made = plan(machine, pick("cuda", "12.9.1", state="keep"), pick("cudnn", "9.14.0.64", state="upgrade"))
    assert "versionlock delete libcudnn9-cuda-12" in words(made)


def test_secure_boot_is_a_step_for_a_person_between_installation_and_reboot() -> None:
    made = plan(host("ubuntu24.04", secure_boot=True), pick("driver", "580.95.05", flavour="open"))
    kinds = [step.kind for step in made.steps]
    assert kinds.index("manual") < kinds.index("reboot")
    manual = made.steps[kinds.index("manual")]
    assert manual.commands == (("mokutil", "--import", "/var/lib/shim-signed/mok/MOK.der"),)
    assert any("mokutil" in step.packages for step in made.steps)


def test_secure_boot_that_is_not_known_is_told() -> None:
    made = plan(host("debian12"), pick("driver", "580.95.05", flavour="open"))
    (note,) = [step for step in made.steps if step.id.startswith("secure-boot")]
    assert note.kind == "note"
    assert "/var/lib/dkms/mok.pub" in note.why


@pytest.mark.parametrize(
    ("system", "kernel", "follows"),
    [
        ("ubuntu24.04", "6.8.0-60-generic", "linux-headers-generic"),
        ("ubuntu24.04", "6.17.0-5-generic", "linux-headers-generic-hwe-24.04"),
        ("ubuntu22.04", "6.8.0-1015-aws", "linux-headers-aws"),
        ("linuxmint22", "6.8.0-51-generic", "linux-headers-generic"),
        ("debian12", "6.1.0-40-cloud-amd64", "linux-headers-cloud-amd64"),
    ],
)
def test_headers_come_for_the_kernel_and_for_those_after_it(system: str, kernel: str, follows: str) -> None:
    made = plan(host(system, kernel=kernel), pick("driver", "580.95.05", flavour="open"))
    (headers,) = [step for step in made.steps if step.title == "install the kernel headers"]
    assert headers.packages == (f"linux-headers-{kernel}", follows)
    assert follows in headers.why
