import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.warehouse.samples import observation, stage_run, step_verdicts
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.warehouse.commit import commit
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.screens import ScreenJournal
from trajmill.warehouse.shards import write_shard
from trajmill.warehouse.staging import Journal

ONE_LINE = r"\Adisk full while writing [^\n]+ run the same command again\Z"


@contextmanager
def room_for(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(b"1" * 900)
    with room_for(1000), pytest.raises(TrajmillError, match=ONE_LINE):
        journal.append(b"2" * 200)
    assert list(Journal(journal.path).read()) == [b"1" * 900]
    journal.append(b"3" * 200)
    assert list(journal.read()) == [b"1" * 900, b"3" * 200]


def test_a_journal_of_screens(tmp_path: Path) -> None:
    journal = ScreenJournal(tmp_path / "screens")
    journal.append(observation(1))
    with room_for(journal.path.stat().st_size + 50), pytest.raises(TrajmillError, match=ONE_LINE):
        journal.append(observation(2))
    journal.append(observation(3))
    assert list(ScreenJournal(journal.path).ids()) == [observation(shade).screen.screen_id for shade in (1, 3)]


def test_a_shard_that_meets_a_full_disk_leaves_no_file_and_a_commit_can_be_made_again(warehouse: Warehouse) -> None:
    at = stage_run("judge")
    data = rows_to_arrow("step_verdicts", step_verdicts(200, at))
    with room_for(2000), pytest.raises(TrajmillError, match=ONE_LINE):
        write_shard(warehouse, "step_verdicts", at, data)
    assert list(warehouse.table("step_verdicts").iterdir()) == []
    at = stage_run("judge")
    file = write_shard(warehouse, "step_verdicts", at, rows_to_arrow("step_verdicts", step_verdicts(5, at)))
    with room_for(100), pytest.raises(TrajmillError, match=ONE_LINE):
        commit(warehouse, "step_verdicts", [file], at)
    commit(warehouse, "step_verdicts", [file], at)
    assert read_table(warehouse, "step_verdicts").num_rows == 5
