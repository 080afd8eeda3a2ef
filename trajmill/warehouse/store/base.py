"""The protocol of a store: files that have names, appear whole or not at all, and survive a loss of power."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from trajmill.schemas.errors import TrajmillError

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
    """A file of a store."""

    name: str
    """Relative to the store's address, with `/`."""
    size: int
    """Bytes."""
    modified: float
    """When it was stored, in seconds since the epoch."""


@runtime_checkable
class FileStore(Protocol):
    """Files by name. A name is relative to the store's address and has `/` between its parts.

    Every method that asks the store raises StoreError if it does not answer, and BadInputError if its address is wrong.
    """

    @property
    def address(self) -> str:
        """An absolute path, or an URL."""
        ...

    @property
    def local(self) -> Path:
        """A folder on this machine in which a file of the store has its own name.

        It is the store itself if that is a folder, else a cache that may be deleted when nothing runs.
        """
        ...

    @property
    def is_local(self) -> bool:
        """Whether `local` is the store itself, so that what lies there is stored."""
        ...

    @property
    def patience(self) -> float:
        """Seconds for which requests are repeated if the store does not answer."""
        ...

    def impatient(self) -> FileStore:
        """The same store, without patience."""
        ...

    def get(self, name: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Store a small file, in the place of one with this name."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Store a small file unless there is one of this name; returns False, and changes nothing, if another has."""
        ...

    def claim(self, name: str) -> bool:
        """Take a name for this caller alone; returns False if another has taken it. A loss of power may undo it."""
        ...

    def publish(self, name: str) -> None:
        """Store the file that lies in `local` under this name."""
        ...

    def fetch(self, name: str, anew: bool = False) -> Path:
        """A copy of a file in `local`; `anew` replaces a copy that is there.

        Raises FileNotFoundError if the store has no such file.
        """
        ...

    def size(self, name: str) -> int | None:
        """The bytes of a file; None if there is none."""
        ...

    def files(self, folder: str) -> list[StoredFile]:
        """All files below a folder, in the order of their names; empty if there is no such folder."""
        ...

    def folders(self, folder: str) -> list[str]:
        """The last parts of the names of the folders in a folder, in alphabetical order."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file; a missing one is fine."""
        ...

    def touch(self, name: str) -> None:
        """Make the present the time at which a file was stored."""
        ...

    def sync(self, names: list[str]) -> None:
        """Return once files that were written in `local`, and their names, survive a loss of power."""
        ...

    def hold(self, name: str, *, wait: bool, purpose: str = "") -> AbstractContextManager[None]:
        """Hold a lock, of which there is one for each name; it ends with its process.

        Args:
            name: as that of a file; the store keeps there what it needs.
            wait: whether to wait for another holder.
            purpose: follows the name of this process in `holder`, unless it waits; at most 40 characters of ASCII.

        Raises:
            HeldError: somebody holds it.
            LeaseLostError: at the end, if this process stood still for so long that another has it.
        """
        ...

    def holder(self, name: str) -> str | None:
        """Who holds a lock, e.g. `1234`; None if nobody does. Nothing is held by asking."""
        ...

    def one_line(self, name: str) -> AbstractContextManager[None]:
        """Turn an error of something else that uses the store (Delta, DuckDB, pyarrow) into a StoreError.

        Args:
            name: the file or folder that it uses.
        """
        ...

    def uri(self, name: str) -> str:
        """Where a file or folder is, as Delta, DuckDB and messages call it."""
        ...

    def arrow_files(self) -> tuple[FileSystem | None, str]:
        """The file system that pyarrow reads with (None: its own), and what stands before each name in it."""
        ...

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let DuckDB read the store."""
        ...
