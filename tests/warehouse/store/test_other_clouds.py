"""A warehouse in a container of Azure and in a bucket of Google."""

import pytest

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.sql import run_sql

pytestmark = pytest.mark.slow


@pytest.fixture(params=["azure_url", "google_url"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def test_a_warehouse_is_written_and_read(url: str) -> None:
    warehouse = create_warehouse(url)
    for number in (1, 2):
        at = stage_run("judge", number)
        commit_rows(warehouse, at, *step_verdicts(5, at))
    assert read_table(open_warehouse(url), "step_verdicts").num_rows == 10
    assert run_sql(warehouse, "SELECT count(*) AS rows FROM step_verdicts").to_pylist() == [{"rows": 10}]
    with warehouse.store.hold("staging/run/lock", wait=False):
        assert warehouse.store.holder("staging/run/lock") is not None
    assert warehouse.store.create("once", b"1") and not warehouse.store.create("once", b"2")
    assert warehouse.store.folders("") == ["staging", "tables"]
    warehouse.store.delete("once")
    assert warehouse.store.get("once") is None
    with pytest.raises(BadInputError, match=r"\A[^\n]*there is no such bucket[^\n]*\Z"):
        create_warehouse(f"{url.partition('://')[0]}://elsewhere/folder")
