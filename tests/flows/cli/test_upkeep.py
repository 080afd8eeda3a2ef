import os
import shutil
from pathlib import Path

import pytest

from tests.warehouse.samples import commit_rounds
from tests.warehouse.test_releases import export, release
from trajmill.flows.cli.app import run
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse, sole_worker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a warehouse with twelve rounds and a release; to be copied."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("released") / "root")
    commit_rounds(warehouse, 12, 2)
    export(warehouse, "first")
    release(warehouse, "first")
    return warehouse.root


@pytest.fixture
def warehouse(released: Path, tmp_path: Path) -> Warehouse:
    return open_warehouse(Path(shutil.copytree(released, tmp_path / "root")))


def said(warehouse: Warehouse, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run([*arguments, "--root", str(warehouse.root)]) == 0
    return capsys.readouterr().out


def test_unused_files_are_listed_then_deleted(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    left = warehouse.table("step_verdicts") / "r0099-run-a-judge-00000.parquet"
    left.write_bytes(bytes(100_000))
    os.utime(left, (0, 0))
    listed = "tables/step_verdicts/r0099-run-a-judge-00000.parquet\n1 unused files, 0.1 MB"
    assert said(warehouse, capsys, "vacuum", "--dry-run") == f"{listed}\n" and left.exists()
    assert said(warehouse, capsys, "vacuum") == f"{listed}: deleted\n" and not left.exists()
    assert said(warehouse, capsys, "vacuum", "--days", "0") == "0 unused files, 0.0 MB: deleted\n"


def test_small_files_are_joined_once(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(warehouse, capsys, "compact") == "step_verdicts: 12 files are 1\n"
    assert said(warehouse, capsys, "compact") == "no table has small files to join\n"


def test_each_damaged_file_is_named(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(warehouse, capsys, "verify") == "everything is whole\n"
    (warehouse.release("first") / "README.md").write_text("# cart\n")
    next(warehouse.table("step_verdicts").glob("*.parquet")).unlink()
    assert run(["verify", "--root", str(warehouse.root)]) == 1
    *lines, total = capsys.readouterr().out.splitlines()
    assert total == "2 files are damaged" and any("(2 rows of step_verdicts)" in line for line in lines)
    assert any("README.md: changed since release first was made" in line for line in lines)


def test_releases_are_listed_and_dropped(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(warehouse, capsys, "releases", "list").startswith("first  2026-11-20T00:00:00Z  round 1  ")
    with sole_worker(warehouse, "run-a"):
        assert run(["releases", "drop", "first", "--root", str(warehouse.root)]) == 1
    assert "is at work on it" in capsys.readouterr().err
    assert "first is dropped" in said(warehouse, capsys, "releases", "drop", "first")
    assert said(warehouse, capsys, "releases", "list") == ""
    assert run(["releases", "drop", "first", "--root", str(warehouse.root)]) == 1
    assert capsys.readouterr().err.startswith("release first: there is none in ")


def test_a_release_with_a_damaged_manifest_is_dropped(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    name = "run-a-r0001"
    export(warehouse, name)
    release(warehouse, name)
    (warehouse.release(name) / "manifest.json").write_text("{")
    assert run(["releases", "list", "--root", str(warehouse.root)]) == 1
    assert f"or drop the release (`trajmill releases drop {name}`)" in capsys.readouterr().err
    with sole_worker(warehouse, "run-a"):
        assert run(["releases", "drop", name, "--root", str(warehouse.root)]) == 1
    assert f"{name} is dropped" in said(warehouse, capsys, "releases", "drop", name)
    assert said(warehouse, capsys, "releases", "list").startswith("first  ")
