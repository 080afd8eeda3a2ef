"""Checks of what apps store: rows of an SQLite database and of a content provider."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, NonNegativeInt

from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.schemas.record import Record
from trajmill.stages.environments.android.commands import Command

if TYPE_CHECKING:
    from trajmill.stages.environments.android.adb import AdbDevice

_LARGEST = 64 << 20
_QUERY_SECONDS = 10.0
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_ROW = re.compile(r"^Row: \d+ ", re.MULTILINE)

Value = str | int | float | None


class DatabaseCheck(Record):
    app: str
    file: Annotated[str, Field(pattern=r"^\w[\w .-]*(/\w[\w .-]*)*$")]
    """Path below `/data/data/PACKAGE`, e.g. `databases/notes.db`."""
    query: Annotated[str, Field(pattern=r"^\s*(?i:select|with)\s")]
    """One SELECT with a `?` for each parameter."""
    parameters: tuple[Value, ...] = ()
    rows: tuple[tuple[Value, ...], ...]


class ContentCheck(Record):
    uri: Annotated[str, Field(pattern=r"^content://[\w./%-]+$")]
    row: Annotated[dict[Annotated[str, Field(pattern=r"^\w+$")], Value], Field(min_length=1)]
    """Values by column."""
    count: NonNegativeInt = 1


async def has_rows(device: AdbDevice, package: str, check: DatabaseCheck) -> bool:
    """Run a query on a copy of a database; one that does not exist has no rows.

    Raises EnvironmentFailure if the data cannot be read, and (`task`) if the query is wrong.
    """
    access = await _access(device, package)
    path = f"/data/data/{package}/{check.file}"
    content = await _read(device, access, path)
    # What was committed last is in the log beside the database.
    log = await _read(device, access, f"{path}-wal")
    return await asyncio.to_thread(_matches, check, content or b"", log or b"")


async def _access(device: AdbDevice, package: str) -> Command:
    ways: tuple[Command, ...] = (("run-as", package), (), ("su", "0"))
    for way in ways:
        if (await device.run(*way, "ls", f"/data/data/{package}")).status == 0:
            return way
    text = f"{device.serial}: the data of {package} cannot be read: the app is not debuggable, and there is no root"
    raise EnvironmentFailure(text, FailureClass.SETUP)


async def _read(device: AdbDevice, access: Command, path: str) -> bytes | None:
    size = await device.run(*access, "stat", "-c", "%s", path)
    if size.status:
        return None
    if not size.text.strip().isdecimal() or int(size.text) > _LARGEST:
        raise EnvironmentFailure(f"{device.serial}: {path} has {size.text.strip()[:50]} bytes, more than {_LARGEST}")
    return (await device.run(*access, "cat", path)).content


def _matches(check: DatabaseCheck, content: bytes, log: bytes) -> bool:
    if not content:
        return not check.rows
    deadline = monotonic() + _QUERY_SECONDS
    with TemporaryDirectory(prefix="trajmill-android-") as folder:
        file = Path(folder) / "copy.db"
        file.write_bytes(content)
        if log:
            Path(f"{file}-wal").write_bytes(log)
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            # No ATTACH and no PRAGMA: the query may read this file only.
            database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY)
            database.set_progress_handler(lambda: monotonic() > deadline, 10_000)
            try:
                rows = database.execute(check.query, check.parameters).fetchmany(len(check.rows) + 1)
            except sqlite3.Error as error:
                reason = f"{check.file}: {error}: {check.query[:80]}"
                raise EnvironmentFailure(" ".join(reason.split()), FailureClass.TASK) from error
    return tuple(rows) == check.rows


async def has_content(device: AdbDevice, check: ContentCheck) -> bool:
    """Count the rows of a provider; raises EnvironmentFailure if it cannot be queried."""
    output = await device.run("content", "query", "--uri", check.uri, "--projection", ":".join(check.row))
    printed = output.text.rstrip("\n")
    if output.status or not (_ROW.match(printed) or printed.startswith("No result found")):
        reason = " ".join(printed.split())[:200]
        raise EnvironmentFailure(f"{device.serial}: {check.uri} cannot be queried: {reason}")
    # Whole rows are compared: values may have commas and equals signs.
    wanted = ", ".join(f"{column}={'NULL' if value is None else value}" for column, value in check.row.items())
    found = [row.removesuffix("\n") for row in _ROW.split(printed)[1:]]
    return found.count(wanted) == check.count
