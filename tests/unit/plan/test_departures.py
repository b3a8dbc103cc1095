"""Where the vendor's guides are wrong, the step that does otherwise says so; distributions' drivers are kept still."""

from __future__ import annotations

from tests.unit.plan.making import CUDA, host, pick, plan, words

from gpustack.model.host import Installed, KernelModule, Problem
from gpustack.model.plan import Plan


def whys(made: Plan) -> str:
    return "\n".join(step.why for step in made.steps)


def test_the_withdrawn_key_is_told_of_where_the_old_guide_names_it() -> None:
    old = plan(host("ubuntu18.04"), pick("cuda", "11.1.1"), pick("cudnn", "8.0.5.39"))
    assert (
        "fetches the repository's first key, with a tool that newer systems no longer have: that key was withdrawn"
        in whys(old)
    )
    assert "7fa2af80" not in words(old)
    assert "departs" not in whys(plan(host("ubuntu24.04"), CUDA))


def test_yums_way_to_name_a_version_is_told_of() -> None:
    made = plan(host("rhel8.10"), pick("cuda", "11.1.1"), pick("cudnn", "8.0.5.39"))
    assert "joins name and version with an equals sign: that is apt's way" in whys(made)
    assert "libcudnn8-8.0.5.39-1.cuda11.1" in words(made)


def test_ffmpeg_tells_of_the_obsolete_switch_and_does_not_use_it() -> None:
    made = plan(host(), CUDA, pick("nv-codec-headers", "13.0.19.0", "source"), pick("ffmpeg", "8.1.2", "source"))
    assert "departs from NVIDIA's guide, which prints the switch of the CUDA SDK" in whys(made)
    assert "--enable-cuda-sdk" not in words(made)
    assert "typographic dash" in whys(made)


def test_a_driver_of_the_distribution_is_left_alone_by_unattended_upgrades() -> None:
    made = plan(host("ubuntu24.04"), pick("driver", "615.71.09", "distro", flavour="open"))
    [lock] = [step for step in made.steps if step.title == "exclude the driver from unattended upgrades"]
    [file] = lock.files
    assert '"^libnvidia-";' in file.content
    titles = [step.title for step in made.steps]
    assert titles.index("read the package indexes of the system") < titles.index("install the kernel headers")
    assert "nvidia-driver-615-open" in words(made)


def test_a_lock_is_lifted_once() -> None:
    machine = host(
        "rhel9.4",
        installed={"driver": Installed(version="580.95.05", method="network", packages=("nvidia-driver",))},
        module=KernelModule(version="580.95.05", flavour="open", loaded=True),
        holds=("nvidia-driver-3:580.95.05-1.el9.*",),
    )
    made = plan(machine, pick("driver", "570.211.01", flavour="open", state="downgrade"))
    assert words(made).count("versionlock delete") == 1


def test_the_withdrawn_key_goes_from_the_rpm_database() -> None:
    told = Problem(id="old_key_7fa2af80", message="the key 7fa2af80 is trusted", fix="", severity="warn")
    made = plan(host("rhel9.4", problems=(told,)), CUDA)
    assert "rpm --erase --allmatches gpg-pubkey-7fa2af80" in words(made)
