"""Screens that become files while their journals grow: each stands once, whoever is killed in between."""

from collections.abc import Sequence

import pytest

from tests.warehouse.samples import observation, png, stage_run
from trajmill.schemas.record import Origin
from trajmill.warehouse import screens as staged_screens
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import NewScreens, ScreenJournal, WarehouseScreens, journal_path
from trajmill.warehouse.shards import DataFile

AT = stage_run()
ORIGIN = Origin(round=AT.round, run_id=AT.run_id, code_version="test")


def new_ones(warehouse: Warehouse) -> NewScreens:
    return NewScreens(warehouse, AT, ORIGIN, "draw-v1")


def see(warehouse: Warehouse, worker: int, shades: Sequence[int]) -> None:
    journal = ScreenJournal(journal_path(warehouse, AT, f"{worker:05d}"))
    journal.append(*map(observation, shades))
    journal.close()


def rows(files: Sequence[DataFile]) -> list[int]:
    return [file.rows for file in files]


def expect_stored(warehouse: Warehouse, shades: Sequence[int]) -> None:
    """Each of the screens is committed once, with its picture."""
    names = {observation(shade).screen.screen_id: png(shade) for shade in shades}
    assert sorted(read_table(warehouse, "screens", ["screen_id"])["screen_id"].to_pylist()) == sorted(names)
    assert dict(WarehouseScreens(warehouse).images(names)) == names


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_screens, "_LEAST_BYTES", 1)


@pytest.mark.usefixtures("small_files")
def test_what_came_since_the_last_file_is_in_the_next_one(warehouse: Warehouse) -> None:
    screens = new_ones(warehouse)
    screens.write_grown()
    see(warehouse, 0, [1, 2])
    screens.write_grown()
    screens.write_grown()
    see(warehouse, 0, [3])
    see(warehouse, 1, [2, 3, 4])
    screens.write_grown()
    see(warehouse, 1, [1, 5])
    files = screens.write()
    assert rows(files) == [2, 2, 1]
    commit_stage(warehouse, AT, {"screens": files})
    expect_stored(warehouse, range(1, 6))


@pytest.mark.usefixtures("small_files")
def test_files_that_a_killed_process_has_left_are_written_again(warehouse: Warehouse) -> None:
    killed = new_ones(warehouse)
    for shade in range(5):
        see(warehouse, 0, [shade])
        killed.write_grown()
    again = new_ones(warehouse)
    again.write_grown()
    see(warehouse, 1, [5])
    files = again.write()
    assert rows(files) == [5, 1]
    commit_stage(warehouse, AT, {"screens": files})
    expect_stored(warehouse, range(6))


@pytest.mark.usefixtures("small_files")
def test_what_is_committed_is_not_written_again(warehouse: Warehouse) -> None:
    screens = new_ones(warehouse)
    for shade in range(3):
        see(warehouse, 0, [shade])
        screens.write_grown()
    commit_stage(warehouse, AT, {"screens": screens.write()})
    # The process was killed between this commit and the stage's next one.
    again = new_ones(warehouse)
    again.write_grown()
    commit_stage(warehouse, AT, {"screens": again.write()})
    expect_stored(warehouse, range(3))


@pytest.mark.usefixtures("small_files")
def test_screens_that_another_run_commits_meanwhile_are_left_out_of_all_files(warehouse: Warehouse) -> None:
    screens = new_ones(warehouse)
    for shade in range(4):
        see(warehouse, 0, [shade])
        screens.write_grown()
    files = screens.write()
    other = stage_run(run_id="run-b")
    journal = ScreenJournal(journal_path(warehouse, other, "00000"))
    journal.append(observation(0), observation(2))
    commit_stage(warehouse, other, {"screens": NewScreens(warehouse, other, ORIGIN, "draw-v1").write()})
    commit_stage(warehouse, AT, {"screens": files})
    expect_stored(warehouse, range(4))
