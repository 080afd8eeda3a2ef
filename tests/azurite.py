"""Azure's own emulator of its storage, Azurite, with a container for tests."""

import base64
import hashlib
import hmac
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Final

ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every emulator has; it is no secret."""
CONTAINER: Final = "container"

_ENVIRONMENT = Path(__file__).parents[1] / ".azurite" / "node_modules" / ".bin"


def azurite_program() -> str | None:
    """The emulator that `make azurite` has installed, or else one on the path; None without any."""
    return shutil.which("azurite-blob", path=_ENVIRONMENT) or shutil.which("azurite-blob")


@contextmanager
def azurite(program: str, folder: Path) -> Iterator[dict[str, str]]:
    """Run an emulator with an empty container; gives the variables of the environment that lead to it."""
    options = ["--blobPort", "0", "--skipApiVersionCheck", "--disableTelemetry"]
    server = subprocess.Popen([program, "--location", str(folder), *options], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = (re.search(r"listens on (http://\S+)", line) for line in server.stdout)
    url = next(match[1] for match in found if match)
    _make_container(url)
    try:
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": url,
            "AZURE_ALLOW_HTTP": "true",
        }
    finally:
        server.terminate()
        server.communicate()


def _make_container(url: str) -> None:
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
