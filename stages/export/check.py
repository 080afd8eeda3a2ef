"""Reads an exported release again and says what is wrong with it; the only place that opens the images.

Every completion is parsed by its dialect and held against the action that was stored, every row's placeholders are
counted against its images, guidance must be gone, and only the training split may be there.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from PIL import Image

from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Dialect, Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Split
from trajmill.stages.export.write import RL_FILE, SCREENS_FILE, SFT_FILE
from trajmill.stages.guidance.strip import quotes_guidance


class Problem(NamedTuple):
    """One thing that is wrong with one row."""

    file: str
    row_id: str
    what: str


class ReleaseCheck(NamedTuple):
    """What was looked at and what was found; a sound release has no problems."""

    sft_rows: int
    rl_rows: int
    images: int
    """Distinct screens whose image was opened."""
    problems: tuple[Problem, ...]


def check_release(
    directory: Path, guidance: Mapping[str, str], images_every: int = 1, groups_every: int = 1
) -> ReleaseCheck:
    """Re-read a release that `export_release` wrote, one row group at a time.

    Args:
        directory: the release's folder.
        guidance: the hints that were given, by trajectory id; no line of them may stand in a row of that trajectory.
        images_every: open the image of every n-th distinct screen; 1 opens all.
        groups_every: read every n-th row group of a file, from the first; 1 reads all.

    Raises:
        OSError: a file is missing or not readable.
        pyarrow.ArrowInvalid: a file is no Parquet file.
    """
    screens = _Images(_sizes(directory), images_every)
    problems: list[Problem] = []
    sft_rows = rl_rows = 0
    for row in _rows(directory / SFT_FILE, groups_every):
        sft_rows += 1
        found = [*_sft_problems(row, screens.sizes, guidance), *screens.problems(row)]
        problems.extend(Problem(SFT_FILE, row["example_id"], what) for what in found)
    for row in _rows(directory / RL_FILE, groups_every):
        rl_rows += 1
        found = [*_rl_problems(row, guidance), *screens.problems(row)]
        problems.extend(Problem(RL_FILE, row["rl_step_id"], what) for what in found)
    return ReleaseCheck(sft_rows, rl_rows, screens.opened, tuple(problems))


class _Images:
    """Opens images, each distinct screen at most once."""

    def __init__(self, sizes: Mapping[str, Size], every: int) -> None:
        self.sizes = sizes
        self.opened = 0
        self._seen: set[str] = set()
        self._every = every

    def problems(self, row: Mapping[str, Any]) -> Iterator[str]:
        """What is wrong with the images of one row."""
        if len(row["images"]) != len(row["screen_ids"]):
            yield f"{len(row['images'])} images of {len(row['screen_ids'])} screens"
        for screen_id, image in zip(row["screen_ids"], row["images"], strict=False):
            if screen_id not in self._seen:
                self._seen.add(screen_id)
                if len(self._seen) % self._every == 0:
                    yield from self._open(screen_id, image["bytes"])

    def _open(self, screen_id: str, data: bytes) -> Iterator[str]:
        self.opened += 1
        size = self.sizes.get(screen_id)
        try:
            with Image.open(io.BytesIO(data)) as image:
                image.load()
                found = Size(*image.size)
        except (OSError, ValueError, SyntaxError) as error:
            yield f"the image of screen {screen_id} does not open: {error}"
            return
        if found != size:
            yield f"the image of screen {screen_id} is {found}, {SCREENS_FILE} says {size}"


def _sft_problems(row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: Mapping[str, str]) -> Iterator[str]:
    prompt = [block for message in row["prompt"] for block in message["content"]]
    said = "".join(block["text"] for message in row["completion"] for block in message["content"])
    if sum(block["type"] == "image" for block in prompt) != len(row["images"]):
        yield "the placeholders do not match the images"
    if IMAGE_PLACEHOLDER in said or any(IMAGE_PLACEHOLDER in block["text"] for block in prompt):
        yield f"{IMAGE_PLACEHOLDER} is left in a text"
    if row["split"] != Split.TRAIN:
        yield f"it is of split {row['split']}"
    told = "".join(block["text"] for block in prompt)
    if quotes_guidance(f"{told}\n{said}", guidance.get(row["trajectory_id"], "")):
        yield "it quotes the guidance that the agent was given"
    size = sizes.get(row["screen_ids"][-1]) if row["screen_ids"] else None
    if row["action"] is not None and (size is None or not _says(said, action_from_json(row["action"]), size)):
        yield "the completion does not say the stored action"


def _rl_problems(row: Mapping[str, Any], guidance: Mapping[str, str]) -> Iterator[str]:
    text = "".join(message["content"] for message in row["prompt"])
    if text.count(IMAGE_PLACEHOLDER) != len(row["images"]):
        yield "the placeholders do not match the images"
    if row["extra_info"]["split"] != Split.TRAIN:
        yield f"it is of split {row['extra_info']['split']}"
    if quotes_guidance(f"{text}\n{row['response']}", guidance.get(row["trajectory_id"], "")):
        yield "it quotes the guidance that the agent was given"
    if not math.isfinite(row["advantage"]) or not 0 < row["step_weight"] <= 1:
        yield f"advantage {row['advantage']}, step weight {row['step_weight']}"


def _says(text: str, action: Action, size: Size) -> bool:
    frame = native_frame(size)
    dialects: tuple[Dialect, ...] = (GuiOwlMobile(), GuiOwlDesktop())
    replies = (dialect.parse(text, frame) for dialect in dialects)
    return any(isinstance(reply, Reply) and reply.action == action for reply in replies)


def _sizes(directory: Path) -> dict[str, Size]:
    table = pq.read_table(directory / SCREENS_FILE, columns=["screen_id", "width", "height"])
    columns = (column.to_pylist() for column in table.columns)
    return {screen_id: Size(width, height) for screen_id, width, height in zip(*columns, strict=True)}


def _rows(path: Path, groups_every: int) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for group in range(0, file.num_row_groups, groups_every):
            yield from file.read_row_group(group).to_pylist()
