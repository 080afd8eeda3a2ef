from __future__ import annotations

import pytest

from tests.flows.viewer.pages import write_hostile_run
from trajmill.warehouse.layout import Warehouse, create_warehouse


@pytest.fixture(scope="session")
def hostile_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with two queries and eight attempts; not to be written to."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("hostile") / "warehouse")
    write_hostile_run(warehouse)
    return warehouse
