"""Bounds that are read out of the vendor's wheels: each form of the headers, and the differences from the facts."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from gpustack import resources
from gpustack.matrix.index import Matrix
from gpustack.matrix.store import open_store
from gpustack.model.facts import Rule

sys.path.insert(0, str(resources.folder("matrices").parent / "ci"))

import read_bounds as program

COMPILERS = """\
#if defined(__GRCO_CLANG_COMPILER__)
#if (__GRCO_CLANG_COMPILER__ == 1) && ((__clang_major__ < 16) || (__clang_major__ > 21))
#endif
#if __GNUC__ > 15
#endif
#if defined(__HORIZON__)
#if (__clang_major__ >= 19) || (__clang_major__ < 3)
#endif
#if defined(__clang__) && !defined(__HORIZON__)
#if (__clang_major__ >= 22) || (__clang_major__ < 3)
#endif
#if _MSC_VER < 1920 || _MSC_VER >= 1960
"""
BARE, GUARDED = "", " SPECIFIER"
HELP = """\
--gpu-name <gpu>          (-arch)
        Allowed values for this option:  'compute_90','sm_90','sm_90a','sm_100','sm_100f','sm_75'.
        Default value:  'sm_75'.
--another  Allowed values for this option: 'sm_30'. Default value
"""


def functions(pi: str, rsqrt: str) -> str:
    """The three declarations, each with its tail."""
    return "".join(
        f"extern __DEVICE__ __device_builtin__ double {name}(double x){tail};\n"
        for name, tail in (("rsqrt", rsqrt), ("sinpi", pi), ("cospi", pi))
    )


def test_the_compilers_that_a_header_lets_pass() -> None:
    assert program.host_compilers(COMPILERS)[:4] == (15, 21, 1920, 1960)


@pytest.mark.parametrize("cut", ["#if __GNUC__ > 15", "_MSC_VER >= 1960", "#if (__clang_major__ >= 22)"])
def test_a_header_of_another_form_is_an_error_and_no_bound(cut: str) -> None:
    with pytest.raises(ValueError, match="not written as those before it"):
        program.host_compilers(COMPILERS.replace(cut, "#if unheard_of"))


@pytest.mark.parametrize(
    ("pi", "rsqrt", "glibc"), [(BARE, BARE, "2.41"), (GUARDED, BARE, "2.42"), (GUARDED, GUARDED, None)]
)
def test_the_first_glibc_that_declares_a_function_otherwise(pi: str, rsqrt: str, glibc: str | None) -> None:
    assert program.first_clashing_glibc(functions(pi, rsqrt)) == glibc


def test_a_function_that_is_gone_is_an_error_and_no_bound() -> None:
    with pytest.raises(ValueError, match="does not declare rsqrt"):
        program.first_clashing_glibc(functions(GUARDED, GUARDED).replace("rsqrt", "rsqrtl"))


def test_the_compute_capabilities_that_ptxas_lists() -> None:
    assert program.accepted_capabilities(HELP) == ("7.5", "9.0", "10.0")


def wheel(folder: Path, name: str, compilers: str, math_functions: str) -> None:
    with ZipFile(folder / f"{name}-py3-none-manylinux2014_x86_64.whl", "w") as file:
        file.writestr("nvidia/cu13/include/crt/host_config.h", compilers)
        file.writestr("nvidia/cu13/include/crt/math_functions.h", math_functions)


def test_wheels_that_say_what_the_facts_say_make_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(tmp_path, "nvidia_cuda_crt-13.2.51", COMPILERS, functions(GUARDED, GUARDED))
    assert program.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 compiler versions read, 0 differences\n"


def test_each_difference_from_the_facts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel(tmp_path, "nvidia_cuda_crt-13.2.51", COMPILERS.replace("> 15", "> 18"), functions(GUARDED, BARE))
    wheel(tmp_path, "nvidia_cuda_crt-99.0.1", COMPILERS, functions(GUARDED, GUARDED))
    assert program.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "13.2.0: gcc_max 15; the header has 18",
        "13.2.0: the rules refuse gcc 18; the headers do not",
        "13.2.0: the rules accept glibc 2.42; the headers do not",
        "nvcc 99.0.1: no release of the facts has it",
        "2 compiler versions read, 4 differences",
    ]


def test_an_empty_folder_is_no_agreement(tmp_path: Path) -> None:
    assert program.main([str(tmp_path)]) == 2


class WithoutTheFloor(Matrix):
    """The facts without the rule on the oldest C library."""

    def rules(self, component: str) -> tuple[Rule, ...]:
        return tuple(rule for rule in super().rules(component) if rule.id != "cuda-12-8-glibc")


def test_a_missing_rule_on_the_oldest_glibc_is_found() -> None:
    assert not list(program.differences(Matrix(open_store()), {}))
    found = list(program.differences(WithoutTheFloor(open_store()), {}))
    assert "cuda 12.9.1: the rules accept glibc 2.26; its wheels ask for 2.27" in found
