from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.warehouse.samples import stage_run
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.staging import Journal
from trajmill.warehouse.store.base import StoreError
from trajmill.warehouse.store.parts import JournalParts


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


def test_a_journal_in_a_folder_is_left_alone(tmp_path: Path) -> None:
    warehouse, at = create_warehouse(tmp_path), stage_run("rollout")
    path = at.staging(warehouse) / "episodes-00000.jsonl"
    Journal(path).append(b'{"n":0}')
    parts = JournalParts(warehouse, at, [path])
    parts.publish(parts.sizes())
    assert list(Journal(path).read()) == [b'{"n":0}']
    assert [file.name for file in path.parent.iterdir()] == [path.name]
