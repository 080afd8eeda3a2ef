from __future__ import annotations

import pytest

from tests.flows.small_run import run_stages, small_config
from tests.flows.synthetic_run import write_run
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse


@pytest.fixture(scope="session")
def run_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with two rounds of one run; only the report may be written into it."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("run") / "warehouse")
    write_run(warehouse)
    return warehouse


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The warehouse of a small run that nobody disturbed; not to be written to."""
    root = tmp_path_factory.mktemp("small-run")
    run_stages(small_config(root))
    return open_warehouse(root)
