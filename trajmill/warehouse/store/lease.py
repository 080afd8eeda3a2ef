"""Leases in a bucket: rows of generations that are only ever created, with an expiry.

Generation n of a lease is the file `NAME/n`. A process takes the lease by creating the generation after the newest; of
several only one succeeds. The holder creates another before its own expires, and an empty one at the end. A holder that
was stopped and comes back finds a newer generation and ends. Ages are differences of the times that the store gave to
files, so no clock of a machine is trusted.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.store.base import CANNOT_LOCK, FileStore, HeldError, LeaseLostError, StoredFile, StoreError
from trajmill.warehouse.store.connection import credentials_key

SECONDS = 60.0
"""Time after which a lease that nobody renews may be taken."""
_RENEWALS = 4
_CLOCK_STEP = 1.0
"""Stores give times in whole seconds."""
_KEPT = 4
"""Old generations that stay, so that a listing is short."""


class Generation(NamedTuple):
    number: int
    owner: str
    """The holder, for people; empty if it was released."""
    process: list[Any]
    """Names the process among all of its machine's; see `this_process`."""
    seconds: float
    """How long it holds."""
    token: str
    """Different in every lease, so that its holder finds a generation of its own after the reply was lost."""


@dataclass
class _Known:
    creates_once: bool
    """Whether the store creates no file that is there: if it silently replaced it, two could hold a lease."""
    released: Generation | None = None
    """The newest generation, if nobody has taken the lease since this process released it."""


@dataclass
class _Lease:
    store: FileStore
    name: str
    newest: Generation
    until: float
    """When it expires, by this process's monotonic clock."""
    known: _Known
    interrupt: signal.Signals = signal.SIGINT
    lost: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def renew_in_time(self) -> None:
        """Create generations until the lease ends; interrupt the main thread if it is lost."""
        store, usual = self.store.impatient(), self.newest.seconds / _RENEWALS
        pause = usual
        while not self.ended.wait(pause):
            # A store that comes back for a moment between two failures is found.
            pause = usual / _RENEWALS
            with suppress(StoreError):
                began, following = time.monotonic(), self.newest._replace(number=self.newest.number + 1)
                self.lost = not create_generation(store, self.name, following)
                if not self.lost:
                    self.newest, self.until, pause = following, began + following.seconds, usual
            if self.lost or time.monotonic() > self.until:
                self.lost = True
                if not self.ended.is_set():
                    signal.pthread_kill(threading.main_thread().ident or 0, self.interrupt)
                return


@contextmanager
def leased(store: FileStore, name: str, *, wait: bool, seconds: float = SECONDS, purpose: str = "") -> Iterator[None]:
    """Hold a lease, which others may take `seconds` after this process stopped; the rest is as of `FileStore.hold`.

    Raises BadInputError if the store replaces files that are there, so that it cannot have leases.
    """
    lease = _acquired(store, name, wait, seconds, f"{os.getpid()} on {socket.gethostname()}{purpose}")
    lost = LeaseLostError(
        f"{store.uri(name)}: this process stood still or was cut off for so long that its lease expired; "
        "nothing was lost, run the same command again"
    )
    keeper = threading.Thread(target=lease.renew_in_time, daemon=True)
    keeper.start()
    try:
        with _interruptible(lease):
            yield
    except BaseException:
        # Beam and Prefect turn the interrupt into an error of their own.
        if lease.lost:
            raise lost from None
        raise
    finally:
        lease.ended.set()
        keeper.join()
        if not lease.lost:
            # The next process need not wait for the expiry.
            with suppress(StoreError):
                released = Generation(lease.newest.number + 1, "", [], 0.0, "")
                create_generation(store.impatient(), name, released)
                lease.known.released = released
    if lease.lost:
        raise lost


@contextmanager
def _interruptible(lease: _Lease) -> Iterator[None]:
    """Let the loss of a lease interrupt the main thread also where SIGINT is ignored, as in a background job."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, lease.interrupt = signal.signal(signal.SIGUSR2, interrupt), signal.SIGUSR2
    try:
        yield
    finally:
        lease.interrupt = signal.SIGINT
        signal.signal(signal.SIGUSR2, before)


def holder(store: FileStore, name: str) -> str | None:
    newest = _newest(store, name)
    return None if newest is None or _is_free(store, name, newest) else newest.owner


def _acquired(store: FileStore, name: str, wait: bool, seconds: float, owner: str) -> _Lease:
    known = _known(store, name, credentials_key())
    if not known.creates_once:
        raise BadInputError(f"{store.address}: {CANNOT_LOCK}")
    pause, token = 0.1, uuid.uuid4().hex
    while True:
        newest, known.released = known.released or _newest(store, name), None
        if newest is None or _is_free(store, name, newest):
            began, number = time.monotonic(), newest.number + 1 if newest else 1
            taken = Generation(number, owner, this_process(), seconds, token)
            if create_generation(store, name, taken):
                return _Lease(store, name, taken, began + seconds, known)
        elif not wait:
            raise HeldError(newest.owner)
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


@lru_cache(maxsize=8)
def _known(store: FileStore, name: str, credentials: str) -> _Known:
    probe = f"{name}-probe/{uuid.uuid4().hex}"
    refuses = store.create(probe, b"1") and not store.create(probe, b"2")
    store.delete(probe)
    return _Known(refuses)


def create_generation(store: FileStore, name: str, made: Generation) -> bool:
    """Create the generation after the newest; return False if another process has created it or a later one."""
    if not store.create(_file(name, made.number), json.dumps(made).encode()):
        return False
    numbers = sorted(map(number_of, store.files(name))) if made.owner else [made.number]
    if numbers[-1] != made.number:
        # The generations up to this one were deleted while this process stood still: its turn is long over.
        store.delete(_file(name, made.number))
        return False
    if len(numbers) > 2 * _KEPT:
        store.delete(*(_file(name, old) for old in numbers[:-_KEPT]))
    return True


def _newest(store: FileStore, name: str) -> Generation | None:
    while files := store.files(name):
        data = store.get(max(files).name)
        if data is not None:
            return Generation(*json.loads(data))
    return None


def _is_free(store: FileStore, name: str, newest: Generation) -> bool:
    here = this_process()
    if not newest.owner:
        return True
    if here[0] and newest.process[:2] == here[:2] and _start_of(newest.process[2]) != newest.process[3]:
        # Its process was on this machine and has ended.
        return True
    probe = f"{name}-clock/{uuid.uuid4().hex}"
    store.put(probe, b"")
    now = max(file.modified for file in store.files(f"{name}-clock"))
    store.delete(probe)
    created = [file.modified for file in store.files(name) if number_of(file) == newest.number]
    # A generation that was deleted meanwhile has newer ones.
    return bool(created) and now - created[0] > newest.seconds + _CLOCK_STEP


def this_process() -> list[Any]:
    """Return boot of the machine (empty if unknown), namespace of the process numbers, number and start."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        boot, namespace = "", 0
    return [boot, namespace, os.getpid(), _start_of(os.getpid())]


def _start_of(process: int) -> int | None:
    """Return when a process started, in ticks since the boot; None if it does not run."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _file(name: str, number: int) -> str:
    return f"{name}/{number:012d}"


def number_of(file: StoredFile) -> int:
    return int(file.name.rpartition("/")[2])
