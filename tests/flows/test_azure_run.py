"""A small run whose warehouse is in a container of Azure: the same tables as in a folder."""

import pytest

from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, tiny_config
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow


def test_a_round_has_the_tables_of_a_folder(tiny_run: Warehouse, azure_url: str) -> None:
    run_stages(tiny_config(BucketUrl(azure_url), workers=1))
    assert_same(open_warehouse(azure_url), tiny_run)
