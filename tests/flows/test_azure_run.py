"""A small run whose warehouse is in a container of Azure: the same tables as in a folder, with few requests."""

import os

import pytest

from tests.faulty_proxy import faulty_proxy
from tests.flows.small_run import run_stages
from tests.flows.tiny_run import assert_same, tiny_config
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.store.base import BucketUrl

pytestmark = pytest.mark.slow


def test_a_round_is_that_of_a_folder(tiny_run: Warehouse, azure_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with faulty_proxy(os.environ["AZURITE_BLOB_STORAGE_URL"], without="Of-No-Request") as proxy:
        monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", proxy.url)
        run_stages(tiny_config(BucketUrl(azure_url), workers=1))
        assert (requests := next(proxy.numbers)) <= 600, requests
    assert_same(open_warehouse(azure_url), tiny_run)
