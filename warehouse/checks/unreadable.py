"""Says in one line which committed file is missing or damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from trajmill.schemas.errors import BadInputError


@contextmanager
def damage_as_error(where: Path | str) -> Iterator[None]:
    """Turn the error of a missing or damaged Parquet file into one line.

    Raises:
        BadInputError: a file at `where`, a path or an URL, cannot be read.
    """
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInputError(unreadable(where, error)) from error


def unreadable(where: Path | str, error: Exception) -> str:
    """The line about an error of pyarrow or DuckDB that reads committed files at `where`."""
    reason = str(error).splitlines()[0]
    return f"{where}: a committed file is missing or damaged ({reason}); restore it from a copy"
