"""What a trainer's loader made of rows, in the words that the tests compare; the scripts of all trainers write it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

QUIET: Final[dict[str, Any]] = {"use_cpu": True, "bf16": False, "report_to": "none"}
"""Settings of all of our trainings."""
IGNORED: Final = -100
"""Label of a token that is not learned."""
_IMAGE: Final = "<|image_pad|>"


class Job(NamedTuple):
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
        return sorted(str(path) for path in (Path(self.folder) / "data").iterdir())


class LoadedRow(NamedTuple):
    text: str
    """All its tokens, those of each image as one."""
    learned: str
    """The tokens that loss falls on."""
    image_tokens: int
    grids: list[list[int]]
    """Patches of each picture in time, height and width."""


def loaded_row(tokenizer: Any, ids: Iterable[int], labels: Iterable[int], grids: Iterable[Iterable[int]]) -> LoadedRow:
    tokens, sizes = list(ids), [list(grid) for grid in grids]
    learned = [label for label in labels if label != IGNORED]
    text = tokenizer.decode(tokens)
    return LoadedRow(
        text=re.sub(f"({re.escape(_IMAGE)})+", lambda _: _IMAGE, text),
        learned=tokenizer.decode(learned),
        image_tokens=tokens.count(tokenizer.convert_tokens_to_ids(_IMAGE)),
        grids=sizes,
    )


def grids_of(inputs: Mapping[str, Any]) -> list[list[int]]:
    grids = inputs.get("image_grid_thw")
    return [] if grids is None else [list(map(int, grid)) for grid in grids]


def run(loaders: Mapping[str, Callable[[Job], Any]], jobs: Sequence[dict[str, Any]]) -> list[Any]:
    return [loaders[job["format"]](Job(**job)) for job in jobs]
