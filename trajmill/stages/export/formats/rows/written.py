"""The files of an export, and the sub-folders that they are in."""

from __future__ import annotations

from typing import Final, NamedTuple

DATA_FOLDER: Final = "data"
"""The sub-folder of the rows that the trainer reads, in every format."""
RL_FOLDER: Final = "rl_steps"
"""The sub-folder of the RL steps, in formats for RL."""


class WrittenRows(NamedTuple):
    """Rows that were written, and their files."""

    rows: int
    shards: tuple[str, ...]
    """Paths of the files, relative to the folder."""
