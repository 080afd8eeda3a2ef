import shutil
from pathlib import Path

import pytest

from tests.built_once import built_once
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.views import refresh_views


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with its views, which take half a second to make; to be copied."""
    return built_once(tmp_path_factory, "empty-warehouse", lambda folder: refresh_views(create_warehouse(folder)))


@pytest.fixture
def warehouse(empty_warehouse: Path, tmp_path: Path) -> Warehouse:
    return open_warehouse(Path(shutil.copytree(empty_warehouse, tmp_path / "a warehouse")))
