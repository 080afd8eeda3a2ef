"""A store in a folder of this machine, or of a disk that several machines mount."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trajmill.warehouse.atomic import disk_full_as_error, sync, write_bytes
from trajmill.warehouse.store.base import FileStore, HeldError, StoredFile

if TYPE_CHECKING:
    import duckdb
    from pyarrow.fs import FileSystem


def folder_store(folder: Path) -> FileStore:
    """The store in a folder, given by its absolute path with symbolic links resolved."""
    return _FolderStore(folder)


@dataclass(frozen=True)
class _FolderStore:
    """The files of a folder; implements `FileStore`."""

    local: Path
    """Absolute path of the folder, symbolic links resolved."""

    @property
    def address(self) -> str:
        return str(self.local)

    @property
    def is_local(self) -> bool:
        return True

    @property
    def patience(self) -> float:
        return 0.0

    def impatient(self) -> _FolderStore:
        return self

    def get(self, name: str) -> bytes | None:
        try:
            return (self.local / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, name: str, data: bytes) -> None:
        path = self.local / name
        write_bytes(path, data)
        sync(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        path = self.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}.tmp")
        with disk_full_as_error(path):
            try:
                unfinished.write_bytes(data)
                sync(unfinished)
                # Unlike a rename, a link never replaces a file.
                os.link(unfinished, path)
            except FileExistsError:
                return False
            finally:
                unfinished.unlink(missing_ok=True)
        sync(path.parent)
        return True

    def claim(self, name: str) -> bool:
        path = self.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk_full_as_error(path):
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                return False
        return True

    def publish(self, name: str) -> None:
        pass  # The file is there.

    def fetch(self, name: str, anew: bool = False) -> Path:
        path = self.local / name
        if not path.is_file():
            raise FileNotFoundError(path)
        return path

    def size(self, name: str) -> int | None:
        path = self.local / name
        return path.stat().st_size if path.is_file() else None

    def files(self, folder: str) -> list[StoredFile]:
        # Not with `Path`, which takes most of the time of a page: a log has thousands of entries.
        found, before = [], f"{self.local}/"
        for place, _, names in os.walk(self.local / folder):
            for path in (f"{place}/{name}" for name in names):
                try:
                    status = os.stat(path)  # noqa: PTH116
                except FileNotFoundError:
                    continue  # Somebody has deleted it meanwhile.
                found.append(StoredFile(path.removeprefix(before), status.st_size, status.st_mtime))
        return sorted(found)

    def folders(self, folder: str) -> list[str]:
        path = self.local / folder
        return sorted(each.name for each in path.iterdir() if each.is_dir()) if path.is_dir() else []

    def delete(self, name: str) -> None:
        path = self.local / name
        path.unlink(missing_ok=True)
        for above in path.relative_to(self.local).parents[:-2]:
            try:
                (self.local / above).rmdir()
            except OSError:
                return

    def touch(self, name: str) -> None:
        os.utime(self.local / name)

    def sync(self, names: list[str]) -> None:
        paths = [self.local / name for name in names]
        for path in paths:
            sync(path)
        for above in sorted({above for path in paths for above in path.parents if above.is_relative_to(self.local)}):
            sync(above)

    @contextmanager
    def hold(self, name: str, *, wait: bool, purpose: str = "") -> Iterator[None]:
        path = self.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(descriptor, wait)
            if not wait:
                with disk_full_as_error(path):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}{purpose}".encode())
            yield
        finally:
            os.close(descriptor)

    def holder(self, name: str) -> str | None:
        path = self.local / name
        try:
            written, inode = path.read_text(), path.stat().st_ino
            process = int(written.partition(" ")[0])
        except (OSError, ValueError):
            return None
        locks = Path("/proc/locks")
        if not locks.exists():
            return written if is_alive(process) else None
        held = any(line.split()[5].endswith(f":{inode}") for line in locks.read_text().splitlines() if "FLOCK" in line)
        return written if held else None

    def one_line(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def uri(self, name: str) -> str:
        return str(self.local / name)

    def arrow_files(self) -> tuple[FileSystem | None, str]:
        return None, f"{self.local}/"

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        pass  # DuckDB reads folders.


def _lock(descriptor: int, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        owner = os.read(descriptor, 60).decode("ascii", "replace").strip()
        raise HeldError(owner or "of another machine") from None


def is_alive(process: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
