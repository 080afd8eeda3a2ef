"""How often a bucket is asked: each request of a real one takes some hundredths of a second."""

from __future__ import annotations

import pytest

from tests.faulty_proxy import counting_proxy
from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.read import read_table

pytestmark = pytest.mark.slow

FILES = 5


def test_reading_a_table_again_asks_for_its_files_alone(
    bucket_url: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counting_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        warehouse = create_warehouse(bucket_url)
        for number in range(FILES):
            at = stage_run("judge", number)
            commit_rows(warehouse, at, *step_verdicts(2, at))
        requests = []
        for _ in range(3):
            before = next(proxy.numbers)
            assert read_table(warehouse, "step_verdicts").num_rows == 2 * FILES
            requests.append(next(proxy.numbers) - before - 1)
    # The log is listed and its sizes are compared; then each file is one request.
    assert requests[1:] == [2 + FILES] * 2
