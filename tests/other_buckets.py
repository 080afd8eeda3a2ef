"""Azurite, which is Azure's own emulator of its storage, and a stand-in for Google Cloud Storage.

Google's interface is that of S3 with other names for what the two do not share: a file is created only if its
generation is 0. No emulator of it has all that obstore asks, so its XML interface stands before our S3 server.
"""

import base64
import hashlib
import hmac
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

from tests.bucket_server import bucket_server

BUCKET: Final = "bucket"

_ANYBODY: Final = (
    "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)

Headers = list[tuple[str, str]]


@contextmanager
def google_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run a server with an empty bucket; gives the variables of the environment that lead to it."""
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    with bucket_server(before=_Google) as url:
        # All of moto's servers in a process share their buckets; an earlier one may have left this one full.
        if left := s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(BUCKET):
            left.keys.clear()
        urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
        account = folder / "service-account.json"
        secret = {"client_email": "", "private_key": "", "private_key_id": ""}
        account.write_text(json.dumps({"gcs_base_url": url, "disable_oauth": True, **secret}))
        yield {"GOOGLE_SERVICE_ACCOUNT": str(account), "GOOGLE_ALLOW_HTTP": "true"}


class _Google:
    """Says to the S3 server what was said in Google's words; a WSGI application."""

    def __init__(self, s3: Callable[..., Iterable[bytes]]) -> None:
        self._s3 = s3

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        environ["HTTP_AUTHORIZATION"] = _ANYBODY
        match environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None):
            case "0":
                environ["HTTP_IF_NONE_MATCH"] = "*"
            case str(generation):
                raise NotImplementedError(f"files of generation {generation}")

        def start_with_generation(status: str, headers: Headers, error: Any = None) -> Any:
            return start(status, [*headers, ("x-goog-generation", "1")], error)

        return self._s3(environ, start_with_generation)


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
