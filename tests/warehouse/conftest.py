from pathlib import Path

import pytest

from trajmill.warehouse.layout import Warehouse, create_warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return create_warehouse(tmp_path / "a warehouse")
