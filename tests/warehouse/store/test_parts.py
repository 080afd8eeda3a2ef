import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.warehouse.samples import stage_run
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.staging import Durability, Journal, JournalParts, stored_in_time
from trajmill.warehouse.store.base import StoreError


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


class _CountedParts(JournalParts):
    puts = 0

    def publish(self, sizes: Mapping[Path, int] | None = None) -> None:
        self.puts += 1
        super().publish(sizes)


@pytest.mark.parametrize(("where", "puts"), [("bucket_url", 2), ("tmp_path", 0)])
async def test_episodes_that_end_while_others_are_stored_are_stored_together_and_none_in_a_folder_waits(
    where: str, puts: int, request: pytest.FixtureRequest
) -> None:
    warehouse, at = create_warehouse(request.getfixturevalue(where)), stage_run("rollout")
    path = at.staging(warehouse) / "episodes-00000.jsonl"
    parts, journal = _CountedParts(warehouse, at, [path]), Journal(path)

    async def end(number: int) -> None:
        journal.append(b'{"n":%d}' % number)
        await one_more()

    async with stored_in_time(parts, Durability(episodes=4, seconds=1000)) as one_more:
        await asyncio.gather(*map(end, range(16)))
    journal.close()
    assert parts.puts == puts
    JournalParts(warehouse, at, [path])
    assert len(list(Journal(path).read())) == 16 and [file.name for file in path.parent.iterdir()] == [path.name]
