from __future__ import annotations

import pytest

from tests.flows.synthetic_run import write_run
from warehouse.layout import Warehouse, create_warehouse


@pytest.fixture(scope="session")
def run_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with two rounds of one run; only the report may be written into it."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("run") / "warehouse")
    write_run(warehouse)
    return warehouse
