"""Encodes replies as tensors, and the losses over their tokens: cross entropy, and equation 3 of paper 3.1.2.

The prompt is encoded as by `transformers_local`, then the reply; nothing is cut. All losses are sums: the caller
divides by the tokens of the whole update, which may have several batches and devices.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from datasets import Dataset, Image, List
from PIL import Image as Picture
from torch import Tensor

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE
from trajmill.stages.export.formats.folder import FIGURES_FILE
from trajmill.stages.models.base import ChatMessage, ChatRequest, MessagePart
from trajmill.stages.models.transformers_local.generation import EncodedPrompt, LoadedParts, collate, encode

REFERENCE = "reference"
"""Name of the column with log probabilities under the policy before the training."""


class ReplyBatch(NamedTuple):
    """Replies with their prompts, padded on the left, so that every reply ends at the end of its row."""

    inputs: dict[str, Tensor]
    tokens: Tensor
    """(rows, tokens) token ids of the replies."""
    mask: Tensor
    """(rows, tokens) 1 for a token that is learned, 0 for padding, and for a reply that cannot be read back."""
    weights: Tensor
    """(rows,)"""
    advantages: Tensor
    """(rows,)"""
    old: Tensor
    """(rows, tokens) log probabilities under the policy that gave the replies, 0 if they are not known."""
    reference: Tensor
    """(rows, tokens) log probabilities under the policy before the training, 0 if they are not used."""


@dataclass(frozen=True)
class ReplyCollator:
    model: LoadedParts
    read: Callable[[Mapping[str, Any]], LearnedReply]

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fields of a `ReplyBatch` as a dictionary, because trainers move dictionaries to their device.

        Nothing is learned from a reply in which the model wrote the token that stands for a picture: none is there.
        Raises BadInputError if a row is longer than the model's context, or cannot be encoded.
        """

        def known(values: Iterable[Sequence[float] | None]) -> Tensor:
            pairs = zip(values, replies, strict=True)
            return _right_aligned([[0.0] * len(reply) if value is None else value for value, reply in pairs])

        learned = [self.read(row) for row in rows]
        replies = [self._reply(each) for each in learned]
        whole = [self._joined(*pair) for pair in zip(learned, replies, strict=True)]
        padding = self.model.tokenizer.pad_token_id
        batch = ReplyBatch(
            inputs=collate(whole, 0 if padding is None else padding, self.model.reader),
            tokens=_right_aligned(replies, torch.long),
            mask=_right_aligned([[float(self._is_readable(reply))] * len(reply) for reply in replies]),
            weights=torch.tensor([each.weight for each in learned]),
            advantages=torch.tensor([each.advantage for each in learned]),
            old=known(each.old_logprobs for each in learned),
            reference=known(row.get(REFERENCE) for row in rows),
        )
        return batch._asdict()

    def _reply(self, learned: LearnedReply) -> list[int]:
        if learned.tokens is not None:
            return list(learned.tokens)
        tokenizer = self.model.tokenizer
        tokens: list[int] = tokenizer(learned.reply, add_special_tokens=False, verbose=False)["input_ids"]
        return [*tokens, int(tokenizer.eos_token_id)]

    def _joined(self, learned: LearnedReply, reply: list[int]) -> EncodedPrompt:
        model = self.model
        try:
            prompt = encode(model.tokenizer, model.reader, ChatRequest("policy", learned.messages))
        except ModelFailure as error:
            raise BadInputError(f"a row of the release cannot be encoded: {error}") from error
        read = reply if self._is_readable(reply) else [int(model.tokenizer.eos_token_id)] * len(reply)
        tokens = prompt.tokens + read
        if len(tokens) > model.context:
            raise BadInputError(
                f"a row of the release has {len(tokens)} tokens, the model takes {model.context}: "
                "lower the endpoint's max_pixels"
            )
        return prompt._replace(tokens=tokens)

    def _is_readable(self, reply: list[int]) -> bool:
        return self.model.reader is None or self.model.reader.placeholder not in reply


def reply_logits(model: Any, batch: ReplyBatch) -> Tensor:
    """Return the logits that predict the replies, (rows, tokens, vocabulary); those of prompts would be gigabytes."""
    length = batch.tokens.shape[1]
    logits: Tensor = model(**batch.inputs, logits_to_keep=length + 1, use_cache=False).logits
    return logits[:, :-1]


def _right_aligned(rows: Sequence[Sequence[float]], dtype: torch.dtype = torch.float32) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows], dtype=dtype)


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the log probabilities of `tokens`, (rows, tokens), at least in single precision, from all logits."""
    exact = logits if logits.dtype is torch.float64 else logits.float()
    return exact.gather(-1, tokens[..., None]).squeeze(-1) - exact.logsumexp(-1)


def supervised_sum(log_probs: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of cross entropy; `log_probs`, `mask` are (rows, tokens), `weights` (rows,)."""
    return -(log_probs * mask * weights[:, None]).sum()


def clipped_sum(now: Tensor, old: Tensor, mask: Tensor, advantages: Tensor, weights: Tensor, clip: float) -> Tensor:
    """Return the sum in equation 3: of -min(r A, clip(r, 1 - e, 1 + e) A) over all tokens, weighted by step.

    `now` and `old` (rows, tokens) are log probabilities under the policy that is trained and the one that gave the
    replies; `mask` (rows, tokens) is 0 for padding; `advantages` (rows,) are those of each step's trajectory; `weights`
    (rows,) are one over the length of the trajectory, or 1; `clip` is epsilon.
    """
    # Padding has no ratio: it must not overflow, because infinity times 0 is NaN.
    ratio = ((now - old) * mask).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    gain = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    return -(gain * mask * weights[:, None]).sum()


def divergence_sum(now: Tensor, reference: Tensor, mask: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the sum of the tokens' divergence from a reference policy: exp(d) - d - 1 with d = reference - now.

    It is never negative, and its expectation over the policy's own tokens is the Kullback-Leibler divergence. `now` and
    `reference` are (rows, tokens) log probabilities, `weights` are (rows,) factors, None for 1.
    """
    difference = (reference - now) * mask
    tokens = difference.exp() - difference - 1
    return (tokens if weights is None else tokens * weights[:, None]).sum()


def clipped_tokens(now: Tensor, old: Tensor, mask: Tensor, clip: float) -> Tensor:
    ratio = ((now - old) * mask).exp()
    return (((ratio - 1).abs() > clip) * mask).sum()


_SHOWN = ("prompt", "images", "screen_ids")
_SUPERVISED: Final = [*_SHOWN, "completion", "loss_weight"]
_RL: Final = [*_SHOWN, "response", "response_token_ids", "old_logprobs", "advantage", "step_weight"]
PICTURES: Final = "pictures"
"""Name of the column of images; it is unusual, so that no trainer processes the column."""


class LearnedReply(NamedTuple):
    messages: tuple[ChatMessage, ...]
    reply: str
    weight: float
    tokens: tuple[int, ...] | None = None
    """Token ids of the reply from its server; None if the text must be tokenized."""
    advantage: float = 0.0
    old_logprobs: tuple[float, ...] | None = None


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
    """Return the rows that weigh anything. Raises BadInputError if there are none, or a file is damaged."""
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
    if len(rows := read_rows(files, _RL, cache)):
        return rows
    raise BadInputError(f"{files[0]} has no rows: nothing to learn from")


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
