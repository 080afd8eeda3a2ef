from pathlib import Path

import pytest

from trajmill.warehouse.store.base import FileStore, store_at


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    if request.param == "folder":
        return store_at(tmp_path / "files")
    return store_at(str(request.getfixturevalue("bucket_url")))
