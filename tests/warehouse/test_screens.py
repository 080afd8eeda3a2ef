import json
import os
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.warehouse.samples import SIZE, observation, png, stage_run
from trajmill.schemas.record import Origin
from trajmill.warehouse import screens as staged_screens
from trajmill.warehouse.commit import commit, commit_stage
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import NewScreens, ScreenJournal, WarehouseScreens, journal_path

ORIGIN = Origin(round=1, run_id="run-a", code_version="test")


def screen_id(shade: int) -> str:
    return observation(shade).screen.screen_id


def journal_of(path: Path, *shades: int) -> ScreenJournal:
    journal = ScreenJournal(path)
    for shade in shades:
        journal.append(observation(shade))
    return journal


def commit_screens(warehouse: Warehouse, number: int, *seen: Sequence[int]) -> int:
    """Commit what the workers of a stage have seen, each the shades that are given for it."""
    at = stage_run(number=number)
    for worker, shades in enumerate(seen):
        see(warehouse, worker, *shades, at=at)
    [file] = new_ones(warehouse, at).write()
    commit(warehouse, "screens", [file], at)
    return file.rows


def expect(reader: WarehouseScreens | ScreenJournal, *shades: int) -> None:
    for shade in shades:
        assert reader.image(screen_id(shade)) == png(shade)
        seen = observation(shade).elements
        if isinstance(reader, ScreenJournal):
            assert reader.tree(screen_id(shade)) == list(map(tuple, json.loads(json.dumps(seen))))
        else:
            assert reader.elements(screen_id(shade)) == seen
        assert reader.size(screen_id(shade)) == SIZE


def test_a_journal_keeps_each_screen_once_and_draws_it_once(tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "screens", 1)

    def undrawable() -> bytes:
        raise AssertionError("drawn again")

    again = observation(1)
    again = replace(again, screen=replace(again.screen, encode=undrawable))
    journal.append(again)
    journal.append(again, observation(2), observation(2))
    assert list(journal.ids()) == [screen_id(1), screen_id(2)]
    expect(journal, 1, 2)


def test_a_journal_is_read_while_it_is_written_and_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "screens"
    writer = journal_of(path, 1, 2)
    expect(ScreenJournal(path), 1, 2)
    writer.append(observation(3))
    writer.close()
    reopened = ScreenJournal(path)
    reopened.append(observation(4))
    expect(reopened, 1, 2, 3, 4)
    assert [reopened.image(name) for name in reopened.ids()] == [png(shade) for shade in (1, 2, 3, 4)]


def test_a_torn_screen_is_not_there_wherever_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "screens"
    journal_of(path, 1).close()
    first = path.stat().st_size
    journal_of(path, 2).close()
    whole = path.read_bytes()
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        torn = ScreenJournal(path)
        assert list(torn.ids()) == [screen_id(1)]
        torn.append(observation(2))
        torn.close()
        assert path.read_bytes() == whole


def test_a_screen_without_a_tree_and_with_text_that_is_not_unicode(tmp_path: Path) -> None:
    journal = ScreenJournal(tmp_path / "screens")
    bare, odd = replace(observation(1), elements=None), observation(2)
    assert odd.elements is not None
    journal.append(bare)
    journal.append(replace(odd, elements=(odd.elements[0]._replace(text="\ud83d!"),)))
    assert journal.tree(screen_id(1)) == []
    assert journal.tree(screen_id(2))[0][1] == "?!"


def test_a_screen_is_committed_once_however_often_it_is_seen(warehouse: Warehouse) -> None:
    first = commit_screens(warehouse, 1, [1, 2], [2, 3])
    second = commit_screens(warehouse, 2, [3, 4])
    third = commit_screens(warehouse, 3, [1, 4])
    assert (first, second, third) == (3, 1, 0)
    expect_stored(warehouse, (1, 2, 3, 4))


def test_committed_screens_by_id(warehouse: Warehouse) -> None:
    commit_screens(warehouse, 1, range(150))
    screens = WarehouseScreens(warehouse)
    assert screen_id(200) not in screens
    commit_screens(warehouse, 2, [200, 201])
    screens.refresh()
    expect(screens, 0, 63, 64, 149, 200, 201)
    wanted = {screen_id(shade): png(shade) for shade in (201, 140, 3, 77)}
    assert dict(screens.images(wanted)) == wanted
    with pytest.raises(KeyError):
        screens.image("unknown")


def test_images_lie_uncompressed_in_small_row_groups_without_statistics(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_screens(warehouse, 1, range(100))
    footer = pq.read_metadata(committed_files(warehouse, "screens")[0])
    assert [footer.row_group(group).num_rows for group in range(footer.num_row_groups)] == [64, 36]
    columns = {footer.row_group(0).column(i).path_in_schema: footer.row_group(0).column(i) for i in range(5)}
    assert columns["image.bytes"].compression == "UNCOMPRESSED" and not columns["image.bytes"].is_stats_set
    assert columns["screen_id"].compression == "ZSTD" and columns["screen_id"].is_stats_set
    monkeypatch.setattr("trajmill.warehouse.shards._BYTES_OF_SCREENS", footer.row_group(0).total_byte_size // 8)
    commit_screens(warehouse, 2, range(100, 200))
    few, many = sorted(pq.read_metadata(path).num_row_groups for path in committed_files(warehouse, "screens"))
    assert few == 2 and many > 8
    expect(WarehouseScreens(warehouse), *range(200))


def test_datasets_decodes_images_offline(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    commit_screens(warehouse, 1, range(70))
    files = [str(path) for path in committed_files(warehouse, "screens")]
    rows = load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert isinstance(rows[69]["image"], Image.Image)
    assert sorted(rows["screen_id"]) == sorted(screen_id(shade) for shade in range(70))
    by_id = {row["screen_id"]: row["image"] for row in rows}
    assert by_id[screen_id(5)].tobytes() == Image.open(BytesIO(png(5))).tobytes()


AT = stage_run()


def new_ones(warehouse: Warehouse, at: StageRun = AT) -> NewScreens:
    return NewScreens(warehouse, at, ORIGIN, "draw-v1")


def see(warehouse: Warehouse, worker: int, *shades: int, at: StageRun = AT) -> None:
    journal_of(journal_path(warehouse, at, f"{worker:05d}"), *shades).close()


def expect_stored(warehouse: Warehouse, shades: Sequence[int]) -> None:
    names = {screen_id(shade): png(shade) for shade in shades}
    assert sorted(read_table(warehouse, "screens", ["screen_id"])["screen_id"].to_pylist()) == sorted(names)
    assert dict(WarehouseScreens(warehouse).images(names)) == names


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_screens, "_LEAST_BYTES", 1)


@pytest.mark.usefixtures("small_files")
def test_files_that_a_killed_process_has_left_are_written_again(warehouse: Warehouse) -> None:
    killed = new_ones(warehouse)
    for shade in range(5):
        see(warehouse, 0, shade)
        killed.write_grown()
    again = new_ones(warehouse)
    again.write_grown()
    see(warehouse, 1, 5)
    files = again.write()
    assert [file.rows for file in files] == [5, 1]
    commit_stage(warehouse, AT, {"screens": files})
    expect_stored(warehouse, range(6))
    # The process was killed between this commit and the stage's next one.
    again = new_ones(warehouse)
    again.write_grown()
    commit_stage(warehouse, AT, {"screens": again.write()})
    expect_stored(warehouse, range(6))


@pytest.mark.usefixtures("small_files")
def test_screens_that_another_run_commits_meanwhile_are_left_out_of_all_files(warehouse: Warehouse) -> None:
    screens = new_ones(warehouse)
    for shade in range(4):
        see(warehouse, 0, shade)
        screens.write_grown()
    files = screens.write()
    other = stage_run(run_id="run-b")
    see(warehouse, 0, 0, 2, at=other)
    commit_stage(warehouse, other, {"screens": new_ones(warehouse, other).write()})
    commit_stage(warehouse, AT, {"screens": files})
    expect_stored(warehouse, range(4))
