"""A store in a bucket of S3, Google Cloud Storage or Azure, through obstore.

Credentials, region and endpoint come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`) and are written nowhere.
A put is the atomic step: a file that was not stored whole is not there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError
from obstore.store import from_url

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import replacing
from trajmill.warehouse.store.base import CANNOT_LOCK, FileStore, StoredFile
from trajmill.warehouse.store.connection import (
    PATIENCE,
    RETRIES,
    check_endpoints,
    client_options,
    credentials_key,
    repeated,
    says_no_bucket,
    store_error,
)
from trajmill.warehouse.store.lease import holder, leased

if TYPE_CHECKING:
    import duckdb
    from obstore.store import ObjectStore
    from pyarrow.fs import FileSystem

    from trajmill.warehouse.store.ranges import RangeStore


@dataclass(frozen=True)
class BucketStore(FileStore):
    patience: float = PATIENCE

    @property
    def local(self) -> Path:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return caches / "trajmill" / hashlib.sha256(self.address.encode()).hexdigest()[:16]

    @property
    def is_local(self) -> bool:
        return False

    @repeated
    def get(self, name: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._objects, name).bytes())
        except FileNotFoundError as error:
            self._check_bucket(error)
            return None

    @repeated
    def put(self, name: str, data: bytes) -> None:
        obstore.put(self._objects, name, data)

    @repeated
    def create(self, name: str, data: bytes) -> bool:
        try:
            obstore.put(self._objects, name, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            # After a lost reply the file that is there may be this one.
            return self.get(name) == data
        except (NotSupportedError, NotImplementedError) as error:
            raise BadInputError(f"{self.address}: {CANNOT_LOCK}") from error
        return True

    def claim(self, name: str) -> bool:
        # Unique bytes: equal ones are taken for a reply that was lost.
        return self.create(name, uuid4().bytes)

    @repeated
    def publish(self, name: str) -> None:
        obstore.put(self._objects, name, self.local / name)

    @repeated
    def fetch(self, name: str, anew: bool = False) -> Path:
        # A copy of the right size is taken for the file, as files that are fetched never change.
        path = self.local / name
        if anew or not path.is_file() or path.stat().st_size != self.size(name):
            try:
                stored = obstore.get(self._objects, name)
            except FileNotFoundError as error:
                raise FileNotFoundError(self.uri(name)) from error
            with replacing(path) as temporary, temporary.open("wb") as file:
                for chunk in stored.stream():
                    file.write(chunk)
        return path

    @repeated
    def size(self, name: str) -> int | None:
        try:
            return obstore.head(self._objects, name)["size"]
        except FileNotFoundError as error:
            self._check_bucket(error)
            return None

    @repeated
    def files(self, folder: str) -> list[StoredFile]:
        pages = obstore.list(self._objects, prefix=folder or None)
        return sorted(
            StoredFile(entry["path"], entry["size"], entry["last_modified"].timestamp())
            for page in pages
            for entry in page
        )

    @repeated
    def folders(self, folder: str) -> list[str]:
        found = obstore.list_with_delimiter(self._objects, prefix=folder or None)["common_prefixes"]
        return sorted(name.rpartition("/")[2] for name in found)

    @repeated
    def delete(self, *names: str) -> None:
        obstore.delete(self._objects, names)
        for name in names:
            (self.local / name).unlink(missing_ok=True)

    def touch(self, name: str) -> None:
        data = self.get(name)
        if data is not None:
            self.put(name, data)

    def sync(self, names: list[str]) -> None:
        pass  # A put returns when the store has the file.

    def hold(self, name: str, *, wait: bool, purpose: str = "") -> AbstractContextManager[None]:  # type: ignore[override]
        return leased(self, name, wait=wait, purpose=purpose)

    def holder(self, name: str) -> str | None:
        return holder(self, name)

    @contextmanager
    def one_line(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            self._check_bucket(error)
            raise
        except OSError as error:
            if error.errno is None:  # An error of the store, not of this machine's disk.
                raise store_error(self.uri(name), error) from error
            raise
        except BaseError as error:
            raise store_error(self.uri(name), error) from error

    def arrow_files(self) -> tuple[FileSystem | None, str]:
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        parts = urlsplit(self.address)
        return PyFileSystem(FSSpecHandler(self._ranges())), f"{parts.netloc}{parts.path}/"

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.register_filesystem(self._ranges())

    @property
    def _objects(self) -> ObjectStore:
        return _opened(self.address, credentials_key())

    def _ranges(self) -> RangeStore:
        return _file_system(urlsplit(self.address).scheme, credentials_key())

    def _check_bucket(self, error: FileNotFoundError) -> None:
        if says_no_bucket(error):
            raise BadInputError(f"{self.address}: there is no such bucket; make it, or correct run.root") from error


@lru_cache(maxsize=8)
def _opened(address: str, credentials: str) -> ObjectStore:
    """Open a store once per address and credentials: whoever changes keys or endpoint gets a new connection."""
    check_endpoints()
    try:
        return from_url(address, client_options=client_options(), retry_config=RETRIES)
    except (BaseError, ValueError) as error:
        raise BadInputError(f"{address}: cannot be opened ({str(error).splitlines()[0]}); correct run.root") from error


@lru_cache(maxsize=8)
def _file_system(scheme: Any, credentials: str) -> RangeStore:
    from trajmill.warehouse.store.ranges import RangeStore

    return RangeStore(scheme, client_options=client_options(), retry_config=RETRIES)
