"""A small run whose warehouse is in a container of Azure or in a bucket of Google: the same tables as in a folder."""

from __future__ import annotations

import pytest

from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, tiny_config
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("bucket", ["azure_url", "google_url"])
def test_a_round_has_the_tables_of_a_folder(tiny_run: Warehouse, bucket: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(bucket)
    run_stages(tiny_config(BucketUrl(url), workers=1))
    assert_same(open_warehouse(url), tiny_run)
