"""Staged lists: what travels through Beam names a range, and the work gets the items of that range in their order."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.work.lists import fan_out_listed, list_work, read_range
from trajmill.warehouse.layout import StageRun, create_warehouse

AT = StageRun("run", 1, "stage")
ITEMS = [f"item {number:05d}" for number in range(25)]


@dataclass(frozen=True)
class NoteItems:
    """Notes the items of each shard in a file of its own."""

    folder: Path

    def identity(self, items: Sequence[str]) -> object:
        return list(items)

    def __call__(self, shard: str, items: Sequence[str]) -> WrittenFiles:
        (self.folder / shard).write_text("\n".join(items))
        return WrittenFiles({}, {"noted": len(items)})


@pytest.mark.slow
def test_each_item_is_done_once_in_order_and_a_second_call_does_nothing(tmp_path: Path) -> None:
    warehouse, notes = create_warehouse(tmp_path / "warehouse"), tmp_path / "notes"
    notes.mkdir()
    made = fan_out_listed(warehouse, AT, ITEMS, NoteItems(notes), BeamSettings(), workers=2, most=10, decode=str)
    assert made.dropped == {"noted": len(ITEMS)}
    written = sorted(notes.iterdir())
    assert [path.read_text().split("\n") for path in written] == [ITEMS[:9], ITEMS[9:17], ITEMS[17:]]
    for path in written:
        path.unlink()
    again = fan_out_listed(warehouse, AT, ITEMS, NoteItems(notes), BeamSettings(), workers=2, most=10, decode=str)
    assert again.dropped == made.dropped and not list(notes.iterdir())


def test_the_name_of_a_range_does_not_grow_with_its_items(tmp_path: Path) -> None:
    warehouse, work = create_warehouse(tmp_path / "warehouse"), NoteItems(tmp_path)
    [small] = list_work(warehouse, AT, ITEMS[:1], work.identity, workers=1)
    [large] = list_work(warehouse, AT, ITEMS, work.identity, workers=1)
    assert len(pickle.dumps(small)) == len(pickle.dumps(large)) < 300
    assert read_range(warehouse, AT, small) == ITEMS[:1] and read_range(warehouse, AT, large) == ITEMS


def test_ranges_divide_by_what_lies_near_and_keep_the_order_of_the_items(tmp_path: Path) -> None:
    warehouse, work = create_warehouse(tmp_path / "warehouse"), NoteItems(tmp_path)
    ranges = list_work(warehouse, AT, ["b3", "a1", "b1", "a3"], work.identity, workers=2, near=lambda item: item[1])
    assert [read_range(warehouse, AT, one) for one in ranges] == [["a1", "b1"], ["b3", "a3"]]


def test_nothing_to_do_needs_no_list(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    assert list_work(warehouse, AT, [], NoteItems(tmp_path).identity, workers=3) == []
    assert not AT.staging(warehouse).exists()
