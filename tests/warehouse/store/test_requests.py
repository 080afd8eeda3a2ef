"""How often a bucket is asked: each request of a real one takes some hundredths of a second."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pytest

from tests.faulty_proxy import counting_proxy
from tests.warehouse.samples import commit_rows, stage_run, step_verdicts, trajectory
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.delta_log import table_versions
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.shards import write_tables

pytestmark = pytest.mark.slow

FILES = 4


class CountedBucket(NamedTuple):
    """A warehouse in a bucket, and the numbers of the requests to it."""

    warehouse: Warehouse
    numbers: Iterator[int]

    def requests_of(self, ask: Callable[[], object]) -> int:
        """How many requests something takes."""
        before = next(self.numbers)
        ask()
        return next(self.numbers) - before - 1


@pytest.fixture
def bucket(bucket_url: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountedBucket]:
    with counting_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield CountedBucket(create_warehouse(bucket_url), proxy.numbers)


def test_a_commit_and_the_reader_after_it_ask_for_what_is_new(bucket: CountedBucket) -> None:
    committing, asking = list[int](), list[int]()
    for number in range(FILES):
        at = stage_run("judge", number)
        files = write_tables(bucket.warehouse, at, {"step_verdicts": step_verdicts(2, at)})
        committing.append(bucket.requests_of(partial(commit_stage, bucket.warehouse, at, files)))
        asking.append(bucket.requests_of(partial(table_versions, bucket.warehouse)))
        assert table_versions(bucket.warehouse)["step_verdicts"] == number + 1
    # For each table, its log is listed and its sizes are compared; the first reader opens the table, too.
    assert set(asking[1:]) == {2 * len(TABLES)}
    # A commit looks for its own mark in each entry, and reads no entry but its own for anything else.
    assert committing[-1] <= committing[1] + 2 * (FILES - 2)


def test_reading_a_table_again_or_a_row_of_it_asks_for_the_files_that_may_have_it(bucket: CountedBucket) -> None:
    for number in range(FILES):
        at = stage_run("rollout", number)
        rows = [trajectory(each, at, "q") for each in range(20)]
        commit_rows(bucket.warehouse, at, *rows)
    where = {"trajectory_id": [rows[7].trajectory_id]}

    def read() -> None:
        assert read_table(bucket.warehouse, "trajectories").num_rows == 20 * FILES

    def look_up() -> None:
        found = read_table(bucket.warehouse, "trajectories", ["round"], rounds=[FILES - 1], where=where)
        assert found["round"].to_pylist() == [FILES - 1]

    # The log is listed and its sizes are compared; then each file is one request.
    assert [bucket.requests_of(read) for _ in range(3)][1:] == [2 + FILES] * 2
    assert bucket.requests_of(look_up) == 3
