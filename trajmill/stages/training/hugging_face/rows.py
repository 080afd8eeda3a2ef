"""Reads the training rows of a release from disk when they are needed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from datasets import Dataset, Image, List
from PIL import Image as Picture

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE
from trajmill.stages.export.formats.folder import FIGURES_FILE
from trajmill.stages.models.base import ChatMessage, MessagePart

_SHOWN = ("prompt", "images", "screen_ids")
_SUPERVISED: Final = [*_SHOWN, "completion", "loss_weight"]
_RL: Final = [*_SHOWN, "response", "response_token_ids", "old_logprobs", "advantage", "step_weight"]
PICTURES: Final = "pictures"
"""Name of the column of images; it is unusual, so that no trainer processes the column."""


class LearnedReply(NamedTuple):
    """One prompt, its reply, and the weight of the reply."""

    messages: tuple[ChatMessage, ...]
    reply: str
    weight: float
    tokens: tuple[int, ...] | None = None
    """Token ids of the reply from its server; None if the text must be tokenized."""
    advantage: float = 0.0
    old_logprobs: tuple[float, ...] | None = None
    """Log probabilities of `tokens` under the policy that gave them."""


def supervised_files(folder: Path) -> list[Path]:
    """Return the files of supervised rows, of a release or of its export in the format `trl`."""
    figures = folder / FIGURES_FILE
    try:
        names = json.loads(figures.read_text())["shards"] if figures.is_file() else [SFT_FILE]
        files = [folder / str(name) for name in names]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{figures} is no record of an export ({error}); export the release again") from error
    if not files or not all(file.is_file() for file in files):
        raise BadInputError(f"{folder} has no supervised rows; make the release with release.formats = ['trl']")
    return files


def rl_files(release: Path) -> list[Path]:
    """Return the file of the RL rows. Raises BadInputError if the release has none."""
    if not (release / RL_FILE).is_file():
        advice = "nothing to compare; set rollout.group_size to 2 or more, and release.formats to hold 'verl'"
        raise BadInputError(f"{release} has no RL rows: {advice}")
    return [release / RL_FILE]


def supervised_rows(files: Sequence[Path], cache: Path, only_newest_round: bool = False) -> Dataset:
    """Return the supervised rows with a weight above 0, of all rounds or of the newest one.

    Raises BadInputError if a file is damaged or was not written by trajmill, or no row is left.
    """
    rows = read_rows(files, [*_SUPERVISED, "round"] if only_newest_round else _SUPERVISED, cache)
    rounds = rows["round"] if only_newest_round else [0] * len(rows)
    newest = max(rounds, default=0)
    weighed = enumerate(zip(rows["loss_weight"], rounds, strict=True))
    kept = [number for number, (weight, made_in) in weighed if weight > 0 and made_in == newest]
    if not kept:
        raise BadInputError(f"{files[0].parent.parent} has no accepted row that weighs anything: nothing to learn from")
    return rows if len(kept) == len(rows) else rows.select(kept)


def rl_rows(files: Sequence[Path], cache: Path) -> Dataset:
    """Return the RL rows. Raises BadInputError if a file is damaged, empty, or was not written by trajmill."""
    rows = read_rows(files, _RL, cache)
    if not len(rows):
        raise BadInputError(f"{files[0]} has no rows: nothing to learn from")
    return rows


def supervised_reply(row: Mapping[str, Any]) -> LearnedReply:
    reply = "".join(block["text"] or "" for message in row["completion"] for block in message["content"])
    return LearnedReply(prompt_messages(row), reply, row["loss_weight"])


def rl_reply(row: Mapping[str, Any]) -> LearnedReply:
    tokens, logprobs = (tuple(row[name] or ()) or None for name in ("response_token_ids", "old_logprobs"))
    return LearnedReply(prompt_messages(row), row["response"], row["step_weight"], tokens, row["advantage"], logprobs)


def prompt_messages(row: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """Return the messages of a row's prompt with its images; their content is text with placeholders, or blocks."""
    screens = iter(shown_screens(row))
    messages = []
    for message in row["prompt"]:
        parts: list[MessagePart]
        if isinstance(message["content"], str):
            first, *others = message["content"].split(IMAGE_PLACEHOLDER)
            parts = [first]
            for text in others:
                parts += (next(screens), text)
            parts = [part for part in parts if part != ""]
        else:
            parts = [next(screens) if block["type"] == "image" else block["text"] for block in message["content"]]
        messages.append(ChatMessage(message["role"], tuple(parts)))
    return tuple(messages)


def shown_screens(row: Mapping[str, Any]) -> list[ScreenHandle]:
    def screen(screen_id: str, data: bytes) -> ScreenHandle:
        with Picture.open(io.BytesIO(data)) as picture:
            return ScreenHandle(screen_id, Size(*picture.size), lambda: data)

    return [screen(name, image["bytes"]) for name, image in zip(row["screen_ids"], row[PICTURES], strict=True)]


def read_rows(files: Sequence[Path], columns: list[str], cache: Path) -> Dataset:
    """Return some columns of Parquet files, `images` among them as bytes.

    `cache` is a folder for a copy that can be read in any order. Raises BadInputError if a file is damaged or was not
    written by trajmill.
    """
    try:
        rows = Dataset.from_parquet([str(file) for file in files], columns=columns, cache_dir=str(cache))
    except Exception as error:  # whatever Arrow and datasets raise on bytes that are no such file
        reason = " ".join(str(error).split())[:200]
        raise BadInputError(f"{files[0]} is not a file of a release ({reason}); export the release again") from error
    return rows.cast_column("images", List(Image(decode=False))).rename_column("images", PICTURES)
