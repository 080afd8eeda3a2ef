"""What a trainer's loader made of rows, in the words that the tests compare; the scripts of all trainers write it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

IGNORED: Final = -100
"""Label of a token that is not learned."""
_IMAGE: Final = "<|image_pad|>"


class Job(NamedTuple):
    """One exported folder that a trainer is to load."""

    format: str
    """As `trajmill export --format` names it."""
    folder: str
    processor: str
    """Folder of a tiny processor of the family."""
    work: str
    """Where caches and outputs go."""
    max_length: int
    replies: tuple[str, ...]
    """Of the rows, as they were in the walk: what a model that learned them says."""

    def shards(self) -> list[str]:
        """Paths of the files with rows, in order."""
        return sorted(str(path) for path in (Path(self.folder) / "data").iterdir())


class LoadedRow(NamedTuple):
    """A row as the trainer hands it to its model."""

    text: str
    """All its tokens, those of each image as one."""
    learned: str
    """The tokens that loss falls on."""
    images: int
    """Pictures whose pixels come with it."""
    image_tokens: int
    pixel_patches: int
    """Patches of the pictures' pixels, of which four are one token."""
    grids: list[list[int]]
    """Patches of each picture in time, height and width."""


def loaded_row(tokenizer: Any, ids: Iterable[int], labels: Iterable[int], grids: Iterable[Iterable[int]]) -> LoadedRow:
    """Describe a row.

    Args:
        tokenizer: of transformers.
        ids: tokens without padding.
        labels: of the same tokens.
        grids: patches of each image in time, height and width.
    """
    tokens, sizes = list(ids), [list(grid) for grid in grids]
    learned = [label for label in labels if label != IGNORED]
    text = tokenizer.decode(tokens)
    return LoadedRow(
        text=re.sub(f"({re.escape(_IMAGE)})+", lambda _: _IMAGE, text),
        learned=tokenizer.decode(learned),
        images=len(sizes),
        image_tokens=tokens.count(tokenizer.convert_tokens_to_ids(_IMAGE)),
        pixel_patches=sum(time * height * width for time, height, width in sizes),
        grids=sizes,
    )


def grids_of(inputs: Mapping[str, Any]) -> list[list[int]]:
    """The patches of each image of a model's inputs, as time, height and width; none where there is no image."""
    grids = inputs.get("image_grid_thw")
    return [] if grids is None else [list(map(int, grid)) for grid in grids]


def run(loaders: Mapping[str, Callable[[Job], Any]]) -> None:
    """Load what the first argument's file asks for, and write what came of it into the second's.

    Args:
        loaders: gives for each format what is to be told of it, as JSON can say it.
    """
    jobs = [Job(**job) for job in json.loads(Path(sys.argv[1]).read_text())]
    Path(sys.argv[2]).write_text(json.dumps([loaders[job.format](job) for job in jobs]))
