"""Holds the lock of a run in another process; imports little, because that process imports it again."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from pathlib import Path

from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import sole_worker


def hold(root: Path, run_id: str, held: Connection) -> None:
    """Takes the lock, sends the id of this process, and keeps the lock as long as somebody is there."""
    with sole_worker(create_warehouse(root), run_id):
        held.send(os.getpid())
        held.poll(None)
