import shutil
from pathlib import Path

import pytest

from tests.warehouse.samples import stage_run
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.staging import (
    Journal,
    JournalParts,
    Progress,
    ShardProgress,
    mark_done,
    plan_items,
    progress_of,
    read_marker,
    stage_key,
    sweep,
)
from trajmill.warehouse.store.base import StoreError


@pytest.mark.parametrize("whole", [b'{"n":0}\n', b""])
@pytest.mark.parametrize("torn", [b"", b"{", b'{"n":9}', b"x" * 200_000])
def test_a_torn_last_record_is_not_there_and_is_cut_off_at_the_next_append(
    tmp_path: Path, whole: bytes, torn: bytes
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(whole + torn)
    assert list(Journal(path).read()) == whole.splitlines()
    assert path.read_bytes().endswith(torn), "reading must not change a file that another process may be writing"
    Journal(path).append(b'{"n":1}')
    assert path.read_bytes() == whole + b'{"n":1}\n'


def test_a_marker_holds_for_its_key_alone(warehouse: Warehouse) -> None:
    key, folder = stage_key("judge", {"floor": 0.8}, ["t1", "t2"]), stage_run("judge").staging(warehouse)
    assert read_marker(warehouse, folder, key) is None
    mark_done(warehouse, folder, key, {"rows": 3})
    assert read_marker(warehouse, folder, key) == {"rows": 3}
    assert read_marker(warehouse, folder, stage_key("judge", {"floor": 0.9}, ["t1", "t2"])) is None
    assert [path.name for path in folder.iterdir()] == ["done.json"]


def test_only_a_finished_stage_is_swept_and_its_marker_stays(warehouse: Warehouse) -> None:
    folder = stage_run("judge").staging(warehouse)
    (folder / "shard-00000").mkdir(parents=True)
    Journal(folder / "shard-00000" / "episodes.jsonl").append(b"{}")
    Journal(folder / "episodes.jsonl").append(b"{}")
    sweep(warehouse, folder)
    assert len(list(folder.iterdir())) == 2
    mark_done(warehouse, folder, "key", {})
    sweep(warehouse, folder)
    assert [path.name for path in folder.iterdir()] == ["done.json"]


def test_shards_count_side_by_side_and_one_that_is_done_anew_begins_at_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    assert progress_of(folder) == Progress(0, None)
    plan_items(folder, 7)
    first, second = ShardProgress(folder, "00000-a"), ShardProgress(folder, "00001-b")
    first.add()
    second.add(2)
    assert progress_of(folder) == Progress(3, 7)
    halves = first.counted("xy")
    next(halves)
    assert progress_of(folder).done == 3, "what is worked on is not done"
    assert list(halves) == ["y"]
    assert progress_of(folder).done == 5
    again = ShardProgress(folder, "00000-a")
    assert progress_of(folder).done == 2
    again.fill(5)
    assert progress_of(folder) == Progress(7, 7)


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan_items(tmp_path / "file", 3)
    ShardProgress(tmp_path / "file", "00000").add()
    assert progress_of(tmp_path / "file") == Progress(0, None)


def test_another_machine_goes_on_with_the_parts_of_a_killed_worker(bucket_url: str) -> None:
    warehouse, at = create_warehouse(bucket_url), stage_run("rollout")
    path = at.staging(warehouse) / "episodes-00000.jsonl"

    def append(record: bytes) -> None:
        journal = Journal(path)
        journal.append(record)
        journal.close()

    first = JournalParts(warehouse, at, [path])
    append(b'{"n":0}')
    first.publish(first.sizes())
    append(b'{"n":1}')
    first.publish(first.sizes())
    append(b'{"n":"not stored"}')
    shutil.rmtree(warehouse.root / "staging")

    second = JournalParts(warehouse, at, [path])
    assert list(Journal(path).read()) == [b'{"n":0}', b'{"n":1}']
    append(b'{"n":2}')
    second.publish(second.sizes())
    # The first worker was not dead: it comes back with what it has done meanwhile.
    path.write_bytes(b'{"n":0}\n{"n":1}\n{"n":"late"}\n')
    with pytest.raises(StoreError, match="another process works on this shard"):
        first.publish(first.sizes())
    JournalParts(warehouse, at, [path])
    assert list(Journal(path).read()) == [b'{"n":0}', b'{"n":1}', b'{"n":2}']
