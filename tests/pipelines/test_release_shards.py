from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

from tests.stages.export.stored import EXPORTERS, StoredScreens, examples
from tests.stages.export.test_release import CONTENTS
from trajmill.pipelines.reading.examples import StoredExamples
from trajmill.pipelines.release import ReleaseRows, SharedRows, share_rows
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.stages.curate.training_set import digests_of
from trajmill.stages.export.card import dataset_card
from trajmill.stages.export.exporter import SFT_FILE
from trajmill.stages.export.release import compare_releases, released_rows
from trajmill.warehouse.layout import Warehouse, create_warehouse, sole_worker
from trajmill.warehouse.releases import (
    MANIFEST,
    drop_release,
    named_shards,
    release_folder,
    verify_release,
    write_release,
)
from trajmill.warehouse.upkeep import vacuum

SUPERVISED = [each for each in EXPORTERS if each.table == "examples"]
STORED = examples([3, 2, 4])
OFFERED = digests_of(STORED)
FAR = 4_000_000_000.0


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.setattr("trajmill.pipelines.release.WarehouseScreens", lambda warehouse: StoredScreens())
    return create_warehouse(tmp_path / "root")


def chosen(rows: Sequence[int], weight: float = 0.5) -> pa.Table:
    taken = OFFERED.take(pa.array(rows, pa.int64()))
    weights = pa.array([weight + row for row in rows], pa.float64())
    return taken.set_column(taken.schema.get_field_index("loss_weight"), "loss_weight", weights)


class Examples(StoredExamples):
    def _read(self, digests: pa.Table) -> list[pa.RecordBatch]:
        taken = STORED.take(pc.index_in(digests["example_id"], STORED["example_id"].combine_chunks()))
        batches: list[pa.RecordBatch] = taken.to_batches()
        return batches

    def screens(self) -> set[str]:
        return set()


def made(
    warehouse: Warehouse, number: int, rows: pa.Table, before_manifest: Callable[[], object] = lambda: None
) -> SharedRows:
    name, folder = f"r{number}", warehouse.release(f"r{number}")
    shared = share_rows(warehouse, "run", number, folder, ReleaseRows(Examples(warehouse, "run", {}, rows), SUPERVISED))
    contents = CONTENTS._replace(left_out={"sft": shared.left_out})
    (folder / "README.md").write_text(dataset_card(contents, SUPERVISED, shared.exported(warehouse, folder)))
    before_manifest()
    origin = Origin(run_id="run", round=number, code_version="c")
    write_release(warehouse, name, origin, {}, "t", shards=shared.files)
    return shared


def shards(warehouse: Warehouse) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in warehouse.shards("run").rglob("*.parquet")}


def test_a_row_is_written_once_and_releases_keep_their_own_order_and_weights(warehouse: Warehouse) -> None:
    releases = {1: chosen([0, 1, 2, 3]), 2: chosen([5, 0, 4, 1], 0.25), 3: chosen([8, 4, 2])}
    made(warehouse, 1, releases[1])
    first = shards(warehouse)
    for number in (2, 3):
        made(warehouse, number, releases[number])
    assert first.items() <= shards(warehouse).items()
    stored = [path for path in shards(warehouse) if path.name == "sft.parquet"]
    written = pa.concat_tables([pq.read_table(path, columns=["example_id"]) for path in stored])
    assert len(stored) == 3 and len(set(written["example_id"].to_pylist())) == written.num_rows == 7
    for number, rows in releases.items():
        found = released_rows(warehouse.release(f"r{number}"), SFT_FILE, ["example_id", "loss_weight"])
        assert found.to_pydict() == rows.select(["example_id", "loss_weight"]).to_pydict()


def test_a_folder_loads_as_one_data_set(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made(warehouse, 1, chosen(range(5)))
    made(warehouse, 2, chosen([0, 6, 7]))
    moved = warehouse.root.rename(tmp_path / "moved")
    data = load_dataset(str(moved / "releases/r2"), "sft", split="train", cache_dir=str(tmp_path / "cache"))
    wanted = OFFERED["example_id"].take([0, 6, 7]).to_pylist()
    assert sorted(data["example_id"]) == sorted(wanted) and data[0]["images"][0].size


def test_shards_stay_while_a_release_names_them(warehouse: Warehouse) -> None:
    made(warehouse, 1, chosen([0, 1]))
    made(warehouse, 2, chosen([0, 2]))
    drop_release(warehouse, "r1")
    assert vacuum(warehouse, older_than_days=1, now=FAR) == []
    verify_release(warehouse, "r2")
    made(warehouse, 3, chosen([3]))
    drop_release(warehouse, "r2")
    assert len(vacuum(warehouse, older_than_days=1, now=FAR)) == 4
    verify_release(warehouse, "r3")
    assert pc.all(pc.is_valid(released_rows(warehouse.release("r3"), SFT_FILE, ["images"])["images"])).as_py()


def test_a_vacuum_before_the_manifest_leaves_the_shard(warehouse: Warehouse, caplog: pytest.LogCaptureFixture) -> None:
    with sole_worker(warehouse, "run"):
        made(warehouse, 1, chosen([0, 1]), lambda: vacuum(warehouse, older_than_days=0, now=FAR))
    verify_release(warehouse, "r1")
    assert "run run in " in caplog.text and "its files stay" in caplog.text


def test_a_manifest_that_comes_meanwhile_keeps_its_shard(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    made(warehouse, 1, chosen([0, 1]))
    manifest = warehouse.release("r1") / MANIFEST
    waiting = manifest.rename(warehouse.root / "runs" / MANIFEST)

    def named_a_moment_ago(warehouse: Warehouse) -> object:
        named = named_shards(warehouse)
        if waiting.exists():
            waiting.rename(manifest)
        return named

    monkeypatch.setattr("trajmill.warehouse.upkeep.named_shards", named_a_moment_ago)
    vacuum(warehouse, older_than_days=0, now=FAR)
    verify_release(warehouse, "r1")


@pytest.mark.parametrize("lost", ["sft.parquet", "screens.parquet"])
def test_a_missing_shard_is_named_and_not_written_beside_it(warehouse: Warehouse, lost: str) -> None:
    [missing] = [path for path in made(warehouse, 1, chosen([0, 1])).files if path.name == lost]
    kept = missing.rename(warehouse.root / "kept")
    before = shards(warehouse)
    with pytest.raises(BadInputError, match=f"{missing}: missing, with rows of r1; restore it from a copy, or"):
        made(warehouse, 2, chosen([0, 1]))
    assert shards(warehouse) == before
    kept.rename(missing)
    made(warehouse, 2, chosen([0, 1]))
    assert verify_release(warehouse, "r1").shards == verify_release(warehouse, "r2").shards


def test_rows_of_a_missing_shard_are_written_again_when_nothing_names_it(warehouse: Warehouse) -> None:
    for path in made(warehouse, 1, chosen([0, 1])).files:
        path.unlink()
    drop_release(warehouse, "r1")
    made(warehouse, 2, chosen([0, 2]))
    verify_release(warehouse, "r2")


def test_a_damaged_shard_is_named(warehouse: Warehouse) -> None:
    [cut] = [path for path in made(warehouse, 1, chosen([0, 1])).files if path.name == "sft.parquet"]
    cut.write_bytes(cut.read_bytes()[:1000])
    with pytest.raises(BadInputError, match=f"{cut}: a committed file is missing or damaged"):
        made(warehouse, 2, chosen([0, 2]))
    with pytest.raises(BadInputError, match=f"releases/r1: a committed file is missing or damaged .*{cut.name}"):
        compare_releases(*[release_folder(warehouse, "r1")] * 2)
