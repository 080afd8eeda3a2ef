"""Lets DuckDB and pyarrow read ranges of the files in a bucket.

DuckDB reads one open file in several threads, and each sets a position before it reads. With one position for all of
them, a thread gets the bytes that another has asked for; here each thread has its own.
"""

from __future__ import annotations

import asyncio
import io
import re
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

from obstore.exceptions import BaseError, GenericError
from obstore.fsspec import FsspecStore

from trajmill.warehouse.store.connection import PATIENCE, pauses

R = TypeVar("R")
_DATA_FILE: Final = re.compile(r"/tables/\w+/[^/]+\.parquet$")
_READ_WHOLE: Final = 1 << 21
"""Bytes of the largest file that is read in one request: its footer and its columns would be several."""
_BEHIND_THE_END: Final = "416 "
"""In the answer to a request for bytes behind the end of a file."""


class RangeStore(FsspecStore):
    """A file system for reading, which repeats requests to a store that does not answer.

    The name of a data file hashes its rows: its size is asked once, and 64 MiB of small ones are kept.
    """

    # fsspec would keep one instance for each scheme, whatever the credentials.
    cachable = False

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._sizes: dict[str, dict[str, Any]] = {}

    async def _info(self, path: str, **named: Any) -> dict[str, Any]:
        # DuckDB names the scheme, pyarrow does not.
        name = path.rpartition("://")[2]
        if known := self._sizes.get(name):
            return known
        found = await _answered(lambda: super(RangeStore, self)._info(path, **named))
        if _DATA_FILE.search(name):
            self._sizes[name] = found
        return found

    def modified(self, path: str) -> datetime:
        time: datetime = self.info(path)["last_modified"]
        return time

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **named: Any) -> bytes:
        try:
            return await _answered(lambda: super(RangeStore, self)._cat_file(path, start, end, **named))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{path}: is gone since it was read first") from error
        except BaseError as error:
            if _BEHIND_THE_END not in str(error):
                raise
            raise OSError(f"{path}: has become shorter since it was read first") from error

    def _open(self, path: str, mode: str = "rb", *arguments: Any, **keywords: Any) -> Any:
        return RangeFile(self, path) if mode == "rb" else super()._open(path, mode, *arguments, **keywords)

    def whole(self, path: str, size: int) -> bytes:
        """Return the bytes of a small file; those of data files that were read last are kept."""
        name = path.rpartition("://")[2]
        data: bytes = _kept(self, name, size) if name in self._sizes else self.cat_file(path, start=0, end=size)
        if not data.endswith(b"PAR1"):
            # It was cut, and somebody may restore it.
            self._sizes.pop(name, None)
        return data


@lru_cache(maxsize=32)
def _kept(files: RangeStore, path: str, size: int) -> bytes:
    data: bytes = files.cat_file(path, start=0, end=size)
    return data


class RangeFile(io.RawIOBase):
    """A file open for reading; each read is one request for its range, all reads of a small file are one together."""

    def __init__(self, files: RangeStore, path: str) -> None:
        self._files, self._path = files, path
        self._position = threading.local()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(getattr(self._position, "bytes", 0))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell()}.get(whence)
        self._position.bytes = offset + (self._size if start is None else start)
        return self.tell()

    def read(self, size: int | None = -1) -> bytes:
        start = self.tell()
        end = self._size if size is None or size < 0 else min(start + size, self._size)
        data = b""
        if start < end:
            data = self._whole[start:end] if self._size <= _READ_WHOLE else self._range(start, end)
        self._position.bytes = start + len(data)
        return data

    def _range(self, start: int, end: int) -> bytes:
        data: bytes = self._files.cat_file(self._path, start=start, end=end)
        return data

    @cached_property
    def _whole(self) -> bytes:
        return self._files.whole(self._path, self._size)

    @cached_property
    def _size(self) -> int:
        return int(self._files.info(self._path)["size"])


async def _answered(request: Callable[[], Awaitable[R]]) -> R:
    left = pauses(PATIENCE)
    while True:
        try:
            return await request()
        except GenericError as error:
            # Also a reply that is cut off again and again, about which obstore's error says nothing of retries.
            pause = next(left, None)
            if pause is None or _BEHIND_THE_END in str(error):
                raise
        await asyncio.sleep(pause)
