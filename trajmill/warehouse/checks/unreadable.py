"""Says in one line which committed file is missing or damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.store.base import StoreError
from trajmill.warehouse.store.connection import is_of_store, store_error


@contextmanager
def damage_as_error(where: Path | str) -> Iterator[None]:
    """Turn the error of pyarrow about a missing or damaged Parquet file into one line.

    Raises:
        BadInputError: a file at `where`, a path or an URL, cannot be read.
        StoreError: the store does not answer.
    """
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(where, error) from error


def unreadable(where: Path | str, error: Exception) -> BadInputError | StoreError:
    """The line about an error of pyarrow or DuckDB that reads committed files at `where`."""
    if is_of_store(error):
        return store_error(str(where), error)
    reason = str(error).splitlines()[0]
    return BadInputError(f"{where}: a committed file is missing or damaged ({reason}); restore it from a copy")
