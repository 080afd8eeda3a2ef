import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.warehouse.delta_log import table_versions
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import (
    MANIFEST,
    SUMS,
    Release,
    checked_weights,
    drop_release,
    keep_weights,
    newest_release,
    older_releases,
    read_release,
    release_names,
    verify_release,
    write_release,
)


def export(warehouse: Warehouse, name: str, rows: int = 3) -> None:
    folder = warehouse.release(name) / "trl"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": list(range(rows))}), folder / "train.parquet")
    (warehouse.release(name) / "README.md").write_text("# card\n")


def release(
    warehouse: Warehouse, name: str, created_at: str = "2026-11-20T00:00:00Z", round: int = 1, run_id: str = "run-a"
) -> Release:
    origin = Origin(run_id=run_id, round=round, code_version="test")
    return write_release(warehouse, name, origin, table_versions(warehouse), created_at)


def export_and_release(warehouse: Warehouse, name: str, round: int = 1, run_id: str = "run-a") -> Release:
    export(warehouse, name)
    return release(warehouse, name, round=round, run_id=run_id)


@pytest.mark.slow
def test_a_manifest_names_files_and_table_versions(warehouse: Warehouse) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    made = export_and_release(warehouse, "first")
    assert [(file.path, file.rows) for file in made.files] == [("README.md", None), ("trl/train.parquet", 3)]
    assert made.tables == {"step_verdicts": 0}
    assert read_release(warehouse, "first") == verify_release(warehouse, "first") == made
    commit_rows(warehouse, stage_run("judge", 2), *step_verdicts(5, stage_run("judge", 2)))
    assert read_table(warehouse, "step_verdicts", version=made.tables["step_verdicts"]).num_rows == 5


def test_a_release_is_there_from_its_manifest_on_and_never_changes(warehouse: Warehouse) -> None:
    export(warehouse, "first")
    assert release_names(warehouse) == []
    with pytest.raises(BadInputError, match="there is no release 'first'; there are none"):
        read_release(warehouse, "first")
    made = export_and_release(warehouse, "first")
    assert release(warehouse, "first", created_at="later") == made
    export(warehouse, "first", rows=4)
    with pytest.raises(BadInputError, match="releases never change"):
        release(warehouse, "first")
    assert read_release(warehouse, "first") == made


def test_changed_files_are_found(warehouse: Warehouse) -> None:
    export_and_release(warehouse, "first")
    (warehouse.release("first") / "README.md").write_text("# cart\n")
    with pytest.raises(BadInputError, match=r"README\.md: changed since release first"):
        verify_release(warehouse, "first")


def test_a_manifest_without_fields_that_were_added_since_is_whole(warehouse: Warehouse) -> None:
    made = export_and_release(warehouse, "first")
    path = warehouse.release("first") / MANIFEST
    stands = Release(**made.model_dump(exclude={"sha256", "shards"}))
    path.write_text(stands.model_copy(update={"sha256": stands.own_hash()}).model_dump_json(exclude_unset=True))
    assert read_release(warehouse, "first").shards == ()
    path.write_text(path.read_text().replace('"round":1', '"round":2'))
    with pytest.raises(BadInputError, match=r"manifest\.json:1: changed since release first"):
        read_release(warehouse, "first")
    path.write_text("{")
    with pytest.raises(BadInputError, match=r"manifest\.json:1: not a release's manifest"):
        read_release(warehouse, "first")


def test_dropping_a_release_and_the_older_ones_of_each_run(warehouse: Warehouse) -> None:
    for number in (1, 2, 10):
        export_and_release(warehouse, f"run-a-{number}", round=number)
    assert older_releases(warehouse, 0) == older_releases(warehouse, 3) == {}
    assert older_releases(warehouse, 1) == {"run-a": ["run-a-1", "run-a-2"]}
    drop_release(warehouse, "run-a-2")
    assert newest_release(warehouse) == "run-a-10"
    assert release_names(warehouse) == ["run-a-1", "run-a-10"] and not warehouse.release("run-a-2").exists()
    with pytest.raises(BadInputError, match="there is no release 'run-a-2'; "):
        drop_release(warehouse, "run-a-2")


@pytest.fixture
def sealed(warehouse: Warehouse) -> Path:
    fresh = warehouse.root / "fresh"
    (fresh / "part").mkdir(parents=True)
    (fresh / "model.safetensors").write_bytes(bytes(1000))
    (fresh / "part" / "config.json").write_text("{}")
    keep_weights(warehouse, fresh, warehouse.model("v1"))
    assert not fresh.exists()
    return warehouse.model("v1")


def test_whole_folders_and_those_of_an_earlier_trajmill_pass(warehouse: Warehouse, sealed: Path) -> None:
    checked_weights(warehouse, sealed)
    subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=sealed, check=True)
    (sealed / SUMS).unlink()
    (sealed / "model.safetensors").write_bytes(b"")
    checked_weights(warehouse, sealed)


@pytest.mark.parametrize("damaged", [b"\xff\x00", b""])
def test_damaged_hashes_are_named(warehouse: Warehouse, sealed: Path, damaged: bytes) -> None:
    (sealed / SUMS).write_bytes(damaged)
    with pytest.raises(BadInputError, match=SUMS):
        checked_weights(warehouse, sealed)
