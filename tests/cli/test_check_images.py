"""`check --image` with files, as a pull request uses it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Call

HOST = ("--os", "ubuntu24.04", "--gpu", "RTX 4090", "--driver", "550.144.03")


def test_a_dockerfile_is_annotated_where_it_names_its_base(call: Call, tmp_path: Path) -> None:
    place = tmp_path / "Dockerfile"
    place.write_text("# comment\nFROM nvidia/cuda:12.8.1-runtime-ubuntu22.04\n", encoding="utf-8")
    done = call("check", "--image", str(place), *HOST, "--format", "github")
    first, last = done.out.strip().splitlines()[0], done.out.strip().splitlines()[-1]
    assert first.startswith(f"::error file={place},line=2,title=image%3A ")
    assert "%0Ahint: the nearest tag that runs here is 12.4.1-runtime-ubuntu22.04" in first
    assert (done.code, last) == (3, "incompatible")


def test_without_a_dockerfile_the_job_is_annotated(call: Call) -> None:
    done = call("check", "--image", "nvidia/cuda:12.8.1-runtime-ubuntu22.04", *HOST, "--format", "github")
    assert (done.code, done.out.startswith("::error title=image%3A nvidia/cuda")) == (3, True)


def test_a_file_that_is_no_image_is_wrong_usage(call: Call, tmp_path: Path) -> None:
    for place in (tmp_path / "missing.json", tmp_path):
        done = call("check", "--image", str(place), *HOST)
        assert (done.code, done.out) == (2, "")
        assert str(place) in done.err


def test_a_name_that_no_fact_knows_is_unknown(call: Call) -> None:
    assert call("check", "--image", "nobody/knows:this", *HOST).code == 7
