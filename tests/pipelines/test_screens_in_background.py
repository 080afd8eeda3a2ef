from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.warehouse.samples import observation, stage_run
from trajmill.pipelines import drawing
from trajmill.pipelines.drawing import screens_in_background
from trajmill.schemas.record import Origin
from trajmill.warehouse import screens
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.screens import NewScreens, ScreenJournal, journal_path

AT = stage_run()
ORIGIN = Origin(round=AT.round, run_id=AT.run_id, code_version="test")
PATIENCE_SECONDS = 30.0


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    monkeypatch.setattr(screens, "_LEAST_BYTES", 1)
    monkeypatch.setattr(drawing, "_LOOK_SECONDS", 0.01)
    return create_warehouse(tmp_path / "warehouse")


def wait_for_files(warehouse: Warehouse, count: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while len(list(warehouse.table("screens").glob("*.parquet"))) < count:
        assert time.monotonic() < end, f"{count} files were not written beside the block"
        time.sleep(0.01)


def test_files_are_written_while_the_block_goes_on(warehouse: Warehouse) -> None:
    screens = NewScreens(warehouse, AT, ORIGIN, "draw-v1")
    journal = ScreenJournal(journal_path(warehouse, AT, "00000"))
    with screens_in_background(screens) as write_now:
        journal.append(observation(1))
        wait_for_files(warehouse, 1)
        journal.append(observation(2))
        wait_for_files(warehouse, 2)
        write_now()
        journal.append(observation(3))
    assert sum(file.rows for file in screens.write()) == 3


def test_an_error_of_the_writing_is_told(warehouse: Warehouse) -> None:
    warehouse.table("screens").write_text("no folder")
    screens = NewScreens(warehouse, AT, ORIGIN, "draw-v1")
    ScreenJournal(journal_path(warehouse, AT, "00000")).append(observation(1))
    with pytest.raises(OSError, match="screens"), screens_in_background(screens) as write_now:
        write_now()
