"""The bounds that a commit keeps: read instead of the log, and never when they are not those of the newest version."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts, trajectory
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.bounds import kept as kept_bounds
from trajmill.warehouse.bounds.conditions import Among, StartsWith, origin_conditions
from trajmill.warehouse.bounds.kept import newest_bounds
from trajmill.warehouse.delta_log import committed_files, delta_table, file_bounds
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.lookup import RowLookup
from trajmill.warehouse.store.folder import FolderStore
from trajmill.warehouse.upkeep.compact import compact_table

TABLE = "step_verdicts"
FIRST, SECOND, THIRD = (stage_run("judge", number) for number in (1, 2, 3))
KEPT, SIZES = "_file_bounds.arrow", "_log_sizes.json"

pytestmark = pytest.mark.slow


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "root")
    for at in (FIRST, SECOND):
        commit_rows(warehouse, at, *step_verdicts(5, at))
    return warehouse


def entry(warehouse: Warehouse, version: int) -> Path:
    return warehouse.table(TABLE) / "_delta_log" / f"{version:020d}.json"


def rows(warehouse: Warehouse) -> int:
    return int(RowLookup(warehouse).read(TABLE, run_id=FIRST.run_id).num_rows)


@pytest.mark.parametrize("compacted", [False, True])
def test_they_choose_the_files_that_the_log_chooses(warehouse: Warehouse, compacted: bool) -> None:
    if compacted:
        compact_table(warehouse, TABLE, fewest=1)
    kept, delta = newest_bounds(warehouse, TABLE), delta_table(warehouse, TABLE)
    assert kept is not None and delta is not None and kept.newest.version == delta.version()
    log = file_bounds(delta)
    wheres = (("run_id", FIRST.run_id), ("run_id", "other"), ("trajectory_id", "a"), ("trajectory_id", "~"))
    for column, value in wheres:
        for rounds in (None, [1], [2, 7], [3]):
            wanted = [Among(column, [value]), *origin_conditions(rounds, None)]
            assert kept.bounds.names(wanted) == log.names(wanted)
    assert len(kept.bounds.names(origin_conditions(None, FIRST.run_id))) == len(committed_files(warehouse, TABLE))


def names(warehouse: Warehouse, condition: Among | StartsWith) -> list[str]:
    kept = newest_bounds(warehouse, "trajectories")
    assert kept is not None
    return kept.bounds.names([condition])


@pytest.fixture
def ids(warehouse: Warehouse) -> list[str]:
    """The ids of the trajectories in four files whose bounds overlap, by file."""
    found = []
    for number in range(4):
        at = stage_run("rollout", number)
        rows = sorted((trajectory(each, at, "q") for each in range(20)), key=lambda row: row.trajectory_id)
        commit_rows(warehouse, at, *rows)
        found.append(rows[10].trajectory_id)
    return found


def test_the_file_of_an_id_is_found_by_its_first_letters(warehouse: Warehouse, ids: list[str]) -> None:
    for number, trajectory_id in enumerate(ids):
        expected = [stage_run("rollout", number).shard_name()]
        assert names(warehouse, Among("trajectory_id", [trajectory_id])) == expected
        assert names(warehouse, StartsWith("trajectory_id", trajectory_id[:12])) == expected
        found = RowLookup(warehouse).read("trajectories", ["round"], starts={"trajectory_id": trajectory_id[:12]})
        assert found["round"].to_pylist() == [number]
    assert len(names(warehouse, Among("trajectory_id", ids[:2]))) == 2
    assert len(names(warehouse, StartsWith("trajectory_id", ""))) == 4
    assert names(warehouse, Among("trajectory_id", [ids[0][:6] + "!"])) == names(
        warehouse, Among("trajectory_id", ids[:1])
    )


def test_first_letters_are_kept_while_files_come_and_go(
    warehouse: Warehouse, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    fetch = FolderStore.fetch

    def fetched(store: FolderStore, name: str) -> Path:
        read.append(Path(name).name)
        return fetch(store, name)

    monkeypatch.setattr(FolderStore, "fetch", fetched)
    at = stage_run("rollout", 9)
    commit_rows(warehouse, at, trajectory(0, at, "q"))
    assert read == [at.shard_name()]
    compact_table(warehouse, "trajectories", fewest=1)
    assert len(read) == 2
    for number, trajectory_id in enumerate(ids):
        found = RowLookup(warehouse).read("trajectories", ["round"], where={"trajectory_id": trajectory_id})
        assert found["round"].to_pylist() == [number]


def test_a_file_whose_first_letters_are_not_known_is_read(
    warehouse: Warehouse, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_bounds, "rows_per_group", lambda table: 1)
    (warehouse.table("trajectories") / KEPT).unlink()
    large, small = stage_run("rollout", 8), stage_run("rollout", 9)
    commit_rows(warehouse, large, trajectory(0, large, "q"), trajectory(1, large, "q"))
    commit_rows(warehouse, small, trajectory(0, small, "q"))
    found = names(warehouse, Among("trajectory_id", ids[:1]))
    assert stage_run("rollout", 0).shard_name() in found and small.shard_name() not in found
    assert RowLookup(warehouse).read("trajectories", where={"trajectory_id": ids[2]}).num_rows == 1


def test_a_page_reads_no_log_and_sees_the_commit_of_another_process(warehouse: Warehouse) -> None:
    hidden = entry(warehouse, 0).read_bytes()
    entry(warehouse, 0).write_bytes(b"x" * len(hidden))
    lookup = RowLookup(warehouse)
    assert lookup.read(TABLE, run_id=FIRST.run_id).num_rows == 10
    entry(warehouse, 0).write_bytes(hidden)
    commit_rows(open_warehouse(warehouse.root), THIRD, *step_verdicts(5, THIRD))
    assert lookup.read(TABLE, run_id=FIRST.run_id).num_rows == 15
    compact_table(open_warehouse(warehouse.root), TABLE, fewest=1)
    assert lookup.read(TABLE, run_id=FIRST.run_id).num_rows == 15


def test_a_copied_warehouse_keeps_them_and_one_made_anew_at_its_place_is_another(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    shutil.copytree(warehouse.root, tmp_path / "copy", copy_function=shutil.copyfile)
    assert newest_bounds(open_warehouse(tmp_path / "copy"), TABLE) == newest_bounds(warehouse, TABLE)
    lookup = RowLookup(warehouse)
    assert lookup.read(TABLE, run_id=FIRST.run_id).num_rows == 10
    shutil.rmtree(warehouse.root)
    anew = create_warehouse(warehouse.root)
    for at in (FIRST, SECOND):
        commit_rows(anew, at, *step_verdicts(3, at))
    assert lookup.read(TABLE, run_id=FIRST.run_id).num_rows == 6


def before_the_last_commit(warehouse: Warehouse) -> None:
    """As if the process had been killed after the log's new entry."""
    kept = (warehouse.table(TABLE) / KEPT).read_bytes()
    commit_rows(warehouse, THIRD, *step_verdicts(5, THIRD))
    (warehouse.table(TABLE) / KEPT).write_bytes(kept)


def by_another_program(warehouse: Warehouse) -> None:
    commit_rows(warehouse, THIRD, *step_verdicts(5, THIRD))
    DeltaTable(str(warehouse.table(TABLE))).optimize.compact()


def flipped(warehouse: Warehouse) -> None:
    commit_rows(warehouse, THIRD, *step_verdicts(5, THIRD))
    path = warehouse.table(TABLE) / KEPT
    data = path.read_bytes()
    path.write_bytes(data[:-400] + bytes([data[-400] ^ 1]) + data[-399:])


def lost(warehouse: Warehouse) -> None:
    commit_rows(warehouse, THIRD, *step_verdicts(5, THIRD))
    (warehouse.table(TABLE) / KEPT).unlink()


@pytest.mark.parametrize("damage", [before_the_last_commit, by_another_program, flipped, lost])
def test_without_those_of_the_newest_version_the_log_is_read(
    warehouse: Warehouse, damage: Callable[[Warehouse], None]
) -> None:
    damage(warehouse)
    assert newest_bounds(warehouse, TABLE) is None
    assert rows(warehouse) == 15


@pytest.mark.parametrize("kept_before", [False, True])
def test_a_newest_entry_that_is_lost_is_named(warehouse: Warehouse, kept_before: bool) -> None:
    if kept_before:
        before_the_last_commit(warehouse)
        entry(warehouse, 3).unlink()
    else:
        entry(warehouse, 2).unlink()
    with pytest.raises(BadInputError, match="missing; its rows would not be read"):
        rows(warehouse)


def test_a_newest_entry_that_was_emptied_is_named(warehouse: Warehouse) -> None:
    entry(warehouse, 2).write_bytes(b"")
    with pytest.raises(BadInputError, match="empty; its rows would not be read"):
        rows(warehouse)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("left", [None, b"", b"{}"])
def test_an_older_entry_that_was_lost_or_cut_is_named(warehouse: Warehouse, version: int, left: bytes | None) -> None:
    damaged = entry(warehouse, version)
    damaged.unlink()
    if left is not None:
        damaged.write_bytes(left)
    with pytest.raises(BadInputError, match=f"{damaged}: (missing|empty|has 2 of the )"):
        rows(warehouse)
