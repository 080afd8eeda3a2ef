"""The slots of a rollout, as its worker writes them and `trajmill status --live` shows them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from pathlib import Path

from rich.console import Console

from tests.flows.small_run import small_config
from trajmill.flows.stage import RoundContext
from trajmill.flows.status.live import live_page, watch
from trajmill.pipelines.reading.slots import read_slots, shown_slots
from trajmill.stages.rollout.base import SlotBoard, SlotState
from trajmill.warehouse.layout import create_warehouse


def page_of(context: RoundContext) -> str:
    words = io.StringIO()
    Console(file=words, width=100).print(live_page(context))
    return words.getvalue()


def test_the_slots_of_a_worker_are_cells_until_it_ends(tmp_path: Path) -> None:
    context = RoundContext(small_config(tmp_path), create_warehouse(tmp_path), 1)
    folder = context.at("rollout").staging(context.warehouse)
    folder.mkdir(parents=True)

    async def work() -> str:
        board = SlotBoard()
        slots = [board.add() for _ in range(3)]
        slots[0].step = 12
        with slots[0].waiting(SlotState.MODEL), slots[1].waiting(SlotState.ENVIRONMENT):
            async with shown_slots(board, folder / "episodes-00000.jsonl"):
                await asyncio.sleep(0.05)
                (folder / "episodes-00009.slots").write_text('{"slots": [["model"')
                return page_of(context)

    page = asyncio.run(work())
    assert "3 slots of 1 worker" in page
    assert "12 model" in page and "0 env" in page and "0 idle" in page
    assert "model" in page and page.count("1 now") == 3
    after = page_of(context)
    assert "no rollout is at work" in after


def test_a_worker_that_was_killed_has_no_slots(tmp_path: Path) -> None:
    context = RoundContext(small_config(tmp_path), create_warehouse(tmp_path), 1)
    file = context.at("rollout").staging(context.warehouse) / "episodes-00000.slots"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"slots": [["model", 3, 1.5]], "spent": {"model": 1.5}}))
    assert read_slots(context.warehouse, context.run_id).workers == 1
    os.utime(file, (time.time() - 60, time.time() - 60))
    assert read_slots(context.warehouse, context.run_id).workers == 0


def test_without_a_terminal_the_slots_are_shown_once(tmp_path: Path) -> None:
    words = io.StringIO()
    watch(small_config(tmp_path), create_warehouse(tmp_path), Console(file=words, width=100))
    assert "round 1, generate is next" in words.getvalue()
