"""A warehouse in a container of Azure, if its emulator is installed (`npm install --global azurite`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.warehouse.samples import commit_rows, stage_run, step_verdicts
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.sql import run_sql

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("azurite-blob") is None, reason="azurite is not installed"),
]

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every emulator has; it is no secret."""
CONTAINER = "container"


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An emulator with a container, and the environment that leads to it."""
    options = ["--blobPort", "0", "--skipApiVersionCheck", "--disableTelemetry"]
    command = ["azurite-blob", "--location", str(tmp_path / "azure"), *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = (re.search(r"listens on (http://\S+)", line) for line in server.stdout)
    url = next(match[1] for match in found if match)
    make_container(url)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", url)
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    yield
    server.terminate()
    server.communicate()


def make_container(url: str) -> None:
    """Send a signed request, as nothing else here makes containers."""
    sent_at, version = formatdate(usegmt=True), "2021-08-06"
    place = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    signed = "PUT" + "\n" * 12 + f"x-ms-date:{sent_at}\nx-ms-version:{version}\n{place}"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)).decode()
    headers = {
        "x-ms-date": sent_at,
        "x-ms-version": version,
        "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        "Content-Length": "0",
    }
    where = f"{url}/{ACCOUNT}/{CONTAINER}?restype=container"
    urllib.request.urlopen(urllib.request.Request(where, method="PUT", headers=headers)).close()


def test_a_warehouse_is_written_and_read(azure: None) -> None:
    root = f"abfs://{CONTAINER}/folder"
    warehouse = create_warehouse(root)
    for number in (1, 2):
        at = stage_run("judge", number)
        commit_rows(warehouse, at, *step_verdicts(5, at))
    assert read_table(open_warehouse(root), "step_verdicts").num_rows == 10
    assert run_sql(warehouse, "SELECT count(*) AS rows FROM step_verdicts").to_pylist() == [{"rows": 10}]
    with warehouse.store.hold("staging/run/lock", wait=False):
        assert warehouse.store.holder("staging/run/lock") is not None
    assert warehouse.store.create("once", b"1") and not warehouse.store.create("once", b"2")
    with pytest.raises(BadInputError, match=r"\A[^\n]*there is no such bucket[^\n]*\Z"):
        create_warehouse("abfs://elsewhere/folder")
