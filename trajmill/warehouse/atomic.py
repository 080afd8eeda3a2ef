"""Writes files that appear complete or not at all, and reports a full disk in one line."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trajmill.schemas.errors import BadInputError, TrajmillError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def replacing(path: Path, place: Callable[[Path, Path], object] = Path.replace) -> Iterator[Path]:
    """Yield a path that becomes `path` if the block ends well. Raises TrajmillError if the disk is full."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}.tmp")
    try:
        with disk_full_as_error(path):
            yield temporary
            sync(temporary)
            place(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` if the block ends well. Raises BadInputError if it cannot."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise BadInputError(f"{path} exists and is not an empty folder; name a new one")
    temporary = path.parent / f".{path.name}.unfinished"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    except OSError as error:
        if is_disk_full(error):
            raise
        raise BadInputError(f"{path}: cannot be made ({error.strerror}); choose a folder you can write to") from error
    try:
        yield temporary
        # All of its files at once: a call for each of thousands of images takes longer.
        os.sync()
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def disk_full_as_error(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        raise TrajmillError(
            f"disk full while writing {path}: nothing was lost; free some space and run the same command again"
        ) from error


def write_bytes(path: Path, data: bytes, place: Callable[[Path, Path], object] = Path.replace) -> None:
    with replacing(path, place) as temporary:
        temporary.write_bytes(data)


def is_disk_full(error: Exception) -> bool:
    """Return whether an error of the operating system, Delta or DuckDB means that no space is left."""
    # deltalake and DuckDB give the operating system's error as text only.
    return getattr(error, "errno", None) in _FULL or any(os.strerror(number) in str(error) for number in _FULL)


def sync(path: Path) -> None:
    """Return once a file, or the names in a folder, are on the disk and survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
