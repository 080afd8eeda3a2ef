"""Repeats requests to a bucket, and turns errors of stores and of damaged files into one line."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

import pyarrow as pa

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.secrets import Secrets
from trajmill.warehouse.store.base import FileStore, StoreError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

RETRIES: Final[RetryConfig] = {"max_retries": 5, "retry_timeout": timedelta(seconds=5)}
"""What obstore does by itself for answers like 503 and for cut connections; some seconds, in which Ctrl-C waits."""
PATIENCE: Final = 60.0
"""Seconds for which requests to a store that does not answer are repeated; a lease does not live longer either."""
_LONGEST_PAUSE = 4.0
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_DENIED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "403 Forbidden", "401 Unauthorized")
NO_ANSWER = "max_retries"
"""In the errors of obstore after its own retries."""
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")
_CLOUDS = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=FileStore)


def repeated(request: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Make a method of a store repeat its request while the store does not answer, with errors of one line."""

    @wraps(request)
    def with_patience(store: S, /, *args: P.args, **named: P.kwargs) -> R:
        def once() -> R:
            with store.one_line(str(args[0] if args else "")):
                return request(store, *args, **named)

        return repeat(store, once)

    return with_patience


def repeat(store: FileStore, request: Callable[[], R]) -> R:
    """Repeat a request while the store does not answer and its patience lasts; it must do no harm twice."""
    left = pauses(store.patience)
    while True:
        try:
            return request()
        except StoreError:
            pause = next(left, None)
            if pause is None:
                raise
        time.sleep(pause)


def pauses(patience: float) -> Iterator[float]:
    """Yield the seconds to wait before each further request, until `patience` has passed."""
    until, pause = time.monotonic() + patience, 0.5
    while time.monotonic() + pause <= until:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def store_error(where: str, error: Exception) -> BadInputError | StoreError:
    """Make the line about an error of obstore, or of DuckDB or pyarrow that read a bucket."""
    text = str(error)
    if says_no_bucket(error):
        return BadInputError(f"{where}: there is no such bucket; make it, or correct run.root")
    if any(sign in text for sign in _DENIED):
        return BadInputError(f"{where}: the store denies access; check the credentials in the environment")
    said = _DECORATION.sub("", text.split("\n\nDebug source", maxsplit=1)[0])
    reason = Secrets.of(os.environ).scrub(" ".join(said.split()))[:300]
    return StoreError(f"{where}: the store does not answer ({reason}); nothing was lost, run the same command again")


def says_no_bucket(error: Exception) -> bool:
    return any(sign in str(error) for sign in _NO_BUCKET)


@contextmanager
def damage_as_error(where: Path | str) -> Iterator[None]:
    """Turn pyarrow's error about a Parquet file into one line, as `unreadable` does."""
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(where, error) from error


def unreadable(where: Path | str, error: Exception) -> BadInputError | StoreError:
    """Make the line about an error of pyarrow or DuckDB that reads committed files at `where`."""
    if any(sign in str(error) for sign in (NO_ANSWER, *_NO_BUCKET, *_DENIED)):
        return store_error(str(where), error)
    reason = str(error).splitlines()[0]
    return BadInputError(f"{where}: a committed file is missing or damaged ({reason}); restore it from a copy")


def credentials_key() -> str:
    """Identify what obstore reads from the environment: keys, endpoints, and the times of the files that they name.

    Connections to one address are shared while it is the same. It is never stored or printed.
    """
    named = sorted((name, value) for name, value in os.environ.items() if name.startswith(_CLOUDS))
    files = (Path(value).stat() for _, value in named if Path(value).is_file())
    return repr((named, [(file.st_mtime_ns, file.st_size) for file in files]))


def client_options() -> ClientConfig:
    """Return the connection's options; they replace what obstore would read from the environment."""
    return {"timeout": "60s", "connect_timeout": "10s", "allow_http": _allows_http()}


def check_endpoints() -> None:
    """Check the servers in the environment. Raises BadInputError if one is no URL, or `http://` unallowed."""
    for name in _ENDPOINTS:
        address = os.environ.get(name, "")
        if address and not address.startswith(("http://", "https://")):
            raise BadInputError(f"{name}: {address} is not an address of a server; begin it with https:// or http://")
        if address.startswith("http://") and not _allows_http():
            kind = name.partition("_")[0]
            raise BadInputError(f"{name}: {address} has no encryption; allow that with {kind}_ALLOW_HTTP=true")


def _allows_http() -> bool:
    values = (os.environ.get(name, "") for name in ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP"))
    return any(value.lower() in ("1", "true", "yes") for value in values)
