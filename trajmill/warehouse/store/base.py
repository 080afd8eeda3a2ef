"""A store: files that have names, appear whole or not at all, and survive a loss of power."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self

from pydantic import PlainValidator

from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.warehouse.atomic import disk_full_as_error, sync, write_bytes

if TYPE_CHECKING:
    import duckdb
    from pyarrow.fs import FileSystem


class StoreError(TrajmillError):
    """A store does not answer, or refuses; what it has stored is unchanged."""


class HeldError(TrajmillError):
    """Somebody else holds a lock; the message is who."""


class LeaseLostError(TrajmillError):
    """A lock of this process has expired, and another may have it."""


CANNOT_LOCK = (
    "this store cannot create a file only if it is absent, which keeps two runs apart; use one that can (S3, Google "
    "Cloud Storage, Azure), or a folder"
)
"""After the address of a store."""


class StoredFile(NamedTuple):
    name: str
    """Relative to the store's address, with `/`."""
    size: int
    modified: float
    """When it was stored, in seconds since the epoch."""


@dataclass(frozen=True)
class FileStore:
    """Files in a folder of this machine, or of a disk that several machines mount; `BucketStore` has them elsewhere.

    A name is relative to the store's address and has `/` between its parts. Methods raise StoreError if the store does
    not answer, and BadInputError if its address is wrong.
    """

    address: str
    """An absolute path with symbolic links resolved, or an URL without a `/` at the end."""
    patience: float = 0.0
    """Seconds for which requests are repeated if the store does not answer."""

    @property
    def local(self) -> Path:
        """A folder on this machine in which a file of the store has its own name.

        It is the store itself if that is a folder, else a cache that may be deleted when nothing runs.
        """
        return Path(self.address)

    @property
    def is_local(self) -> bool:
        """Whether `local` is the store itself, so that what lies there is stored."""
        return True

    def impatient(self) -> Self:
        """Return the same store, without patience."""
        return replace(self, patience=0.0)

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if there is none."""
        try:
            return (self.local / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, name: str, data: bytes) -> None:
        """Store a small file, in the place of one with this name."""
        path = self.local / name
        write_bytes(path, data)
        sync(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        """Store a small file unless there is one of this name; return False, and change nothing, if another has."""
        path = self.local / name
        try:
            # Unlike a rename, a link never replaces a file.
            write_bytes(path, data, place=os.link)
        except FileExistsError:
            return False
        sync(path.parent)
        return True

    def claim(self, name: str) -> bool:
        """Take a name for this caller alone; return False if another has taken it. A loss of power may undo it."""
        path = self.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with disk_full_as_error(path):
            try:
                path.touch(exist_ok=False)
            except FileExistsError:
                return False
        return True

    def publish(self, name: str) -> None:
        """Store the file that lies in `local` under this name."""

    def fetch(self, name: str, anew: bool = False) -> Path:
        """Return a copy in `local`; `anew` replaces one that is there. Raises FileNotFoundError without a file."""
        path = self.local / name
        if not path.is_file():
            raise FileNotFoundError(path)
        return path

    def size(self, name: str) -> int | None:
        """Return the bytes of a file; None if there is none."""
        path = self.local / name
        return path.stat().st_size if path.is_file() else None

    def files(self, folder: str) -> list[StoredFile]:
        """List all files below a folder, in the order of their names; empty if there is no such folder."""
        # Not with `Path`, which takes most of the time of a page: a log has thousands of entries.
        found, before = [], f"{self.address}/"
        for place, _, names in os.walk(self.local / folder):
            for path in (f"{place}/{name}" for name in names):
                try:
                    status = os.stat(path)  # noqa: PTH116
                except FileNotFoundError:
                    continue  # Somebody has deleted it meanwhile.
                found.append(StoredFile(path.removeprefix(before), status.st_size, status.st_mtime))
        return sorted(found)

    def folders(self, folder: str) -> list[str]:
        """List the last parts of the names of the folders in a folder, in alphabetical order."""
        path = self.local / folder
        return sorted(each.name for each in path.iterdir() if each.is_dir()) if path.is_dir() else []

    def delete(self, *names: str) -> None:
        """Delete files, with folders that they leave empty; a missing one is fine."""
        for path in (self.local / name for name in names):
            path.unlink(missing_ok=True)
            for above in path.relative_to(self.local).parents[:-2]:
                try:
                    (self.local / above).rmdir()
                except OSError:
                    break

    def touch(self, name: str) -> None:
        """Make the present the time at which a file was stored."""
        os.utime(self.local / name)

    def sync(self, names: list[str]) -> None:
        """Return once files that were written in `local`, and their names, survive a loss of power."""
        paths = [self.local / name for name in names]
        for path in paths:
            sync(path)
        for above in sorted({above for path in paths for above in path.parents if above.is_relative_to(self.local)}):
            sync(above)

    @contextmanager
    def hold(self, name: str, *, wait: bool, purpose: str = "") -> Iterator[None]:
        """Hold a lock, of which there is one for each name; it ends with its process.

        `purpose` (at most 40 characters of ASCII) follows the name of this process in `holder`, unless it waits. Raises
        HeldError if somebody holds it, and LeaseLostError at the end if this process stood still and lost it.
        """
        path = self.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                owner = os.read(descriptor, 60).decode("ascii", "replace").strip()
                raise HeldError(owner or "of another machine") from None
            if not wait:
                with disk_full_as_error(path):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}{purpose}".encode())
            yield
        finally:
            os.close(descriptor)

    def holder(self, name: str) -> str | None:
        """Return who holds a lock, e.g. `1234`; None if nobody does. Nothing is held by asking."""
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
        """Turn an error of something else that uses a file or folder (Delta, DuckDB, pyarrow) into a StoreError."""
        return nullcontext()

    def uri(self, name: str) -> str:
        """Return where a file or folder is, as Delta, DuckDB and messages call it."""
        return f"{self.address}/{name}" if name else self.address

    def arrow_files(self) -> tuple[FileSystem | None, str]:
        """Return the file system that pyarrow reads with (None: its own), and what stands before each name in it."""
        return None, f"{self.address}/"

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let DuckDB read the store."""


def is_alive(process: int) -> bool:
    """Return whether a process of this machine runs; a zombie, whose parent has not asked how it ended, does not."""
    with suppress(OSError):  # Linux tells the state, for other systems the process is enough.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


SCHEMES = ("s3", "gs", "abfs", "abfss")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/.*", re.DOTALL)


class BucketUrl(str):
    """The URL of a folder in a bucket, as `s3://bucket/folder`, without a `/` at the end."""

    __slots__ = ()


def address_of(written: object) -> Path | BucketUrl:
    """Parse what a user has written as the place of a warehouse: an URL, or a path, which is taken as it is.

    Raises ValueError if it is neither, or an URL that no store can open.
    """
    if isinstance(written, Path | BucketUrl):
        return written
    if not isinstance(written, str):
        raise ValueError("not a folder or an URL")
    match = _URL.fullmatch(written)
    if match is None:
        return Path(written)
    if match["scheme"] not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"{written} is none of the URLs that a warehouse can have ({known})")
    _, _, rest = written.partition("://")
    if not re.fullmatch(r"[^/?#*\[%]+(/[^/?#*\[%]+)*/?", rest):
        raise ValueError(f"{written} must be {match['scheme']}://BUCKET/FOLDER, without any of ? * [ % #")
    return BucketUrl(written.rstrip("/"))


Root = Annotated[Path | BucketUrl, PlainValidator(address_of)]
"""The place of a warehouse in a configuration."""


def store_at(address: Path | str) -> FileStore:
    """Return the store at an address; a folder need not be there. Raises BadInputError for an impossible address."""
    try:
        place = address_of(address)
    except ValueError as error:
        raise BadInputError(f"{error}; correct the address of the warehouse") from None
    if isinstance(place, BucketUrl):
        # obstore takes a twentieth of a second to import.
        from trajmill.warehouse.store.bucket import BucketStore

        return BucketStore(str(place))
    root = place.resolve()
    if set("%?*[") & set(str(root)):
        # Delta decodes per cent signs; DuckDB takes the others for patterns.
        raise BadInputError(f"warehouse {root}: its path must have none of % ? * [; choose another folder")
    return FileStore(str(root))


def local_folder(address: Path | str) -> Path:
    """Return the folder on this machine for what only this machine needs."""
    return address if isinstance(address, Path) else store_at(address).local
