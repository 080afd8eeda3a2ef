"""Encodes replies as tensors: the prompt as the policy was asked, then the reply.

The tokens of the prompt are those of `transformers_local`, with images of the size that the policy was sent; nothing is
cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.transformers_local.generation import EncodedPrompt, PictureReader, collate, encode
from trajmill.stages.training.hugging_face.rows import LearnedReply

REFERENCE = "reference"
"""Name of the column with log probabilities under the policy before the training."""


class ReplyBatch(NamedTuple):
    """Replies with their prompts, padded on the left, so that every reply ends at the end of its row."""

    inputs: dict[str, Tensor]
    """The arguments of the model."""
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
    """Makes a batch of rows of a dataset."""

    tokenizer: PreTrainedTokenizerBase
    reader: PictureReader | None
    """None for a model that reads only text."""
    context: int
    """Most tokens of a prompt and its reply."""
    read: Callable[[Mapping[str, Any]], LearnedReply]
    """Reads one row."""

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fields of a `ReplyBatch` as a dictionary, because trainers move dictionaries to their device.

        Nothing is learned from a reply in which the model wrote the token that stands for a picture: none is there.

        Raises:
            BadInputError: a row is longer than the model's context, or cannot be encoded.
        """
        learned = [self.read(row) for row in rows]
        prompts = [self._prompt(each) for each in learned]
        replies = [self._reply(each) for each in learned]
        whole = [self._joined(*pair) for pair in zip(prompts, replies, strict=True)]
        placeholder = -1 if self.reader is None else self.reader.placeholder
        padding = self.tokenizer.pad_token_id
        batch = ReplyBatch(
            inputs=collate(whole, 0 if padding is None else padding, placeholder, torch.device("cpu")),
            tokens=_right_aligned(replies, torch.long),
            mask=_right_aligned([[float(self._is_readable(reply))] * len(reply) for reply in replies]),
            weights=torch.tensor([each.weight for each in learned]),
            advantages=torch.tensor([each.advantage for each in learned]),
            old=_right_aligned(_known([each.old_logprobs for each in learned], replies)),
            reference=_right_aligned(_known([row.get(REFERENCE) for row in rows], replies)),
        )
        return batch._asdict()

    def _prompt(self, learned: LearnedReply) -> EncodedPrompt:
        try:
            return encode(self.tokenizer, self.reader, ChatRequest("policy", learned.messages))
        except ModelFailure as error:
            raise BadInputError(f"a row of the release cannot be encoded: {error}") from error

    def _reply(self, learned: LearnedReply) -> list[int]:
        if learned.tokens is not None:
            return list(learned.tokens)
        tokens: list[int] = self.tokenizer(learned.reply, add_special_tokens=False, verbose=False)["input_ids"]
        return [*tokens, int(self.tokenizer.eos_token_id)]

    def _joined(self, prompt: EncodedPrompt, reply: list[int]) -> EncodedPrompt:
        read = reply if self._is_readable(reply) else [int(self.tokenizer.eos_token_id)] * len(reply)
        tokens = prompt.tokens + read
        if len(tokens) > self.context:
            raise BadInputError(
                f"a row of the release has {len(tokens)} tokens, the model takes {self.context}: "
                "lower the endpoint's max_pixels"
            )
        return prompt._replace(tokens=tokens)

    def _is_readable(self, reply: list[int]) -> bool:
        return self.reader is None or self.reader.placeholder not in reply


def reply_logits(model: Any, batch: ReplyBatch) -> Tensor:
    """Return the logits that predict each token of the replies, (rows, tokens, vocabulary).

    Logits of the prompts are not computed: a vocabulary of 150,000 times thousands of tokens would be gigabytes.
    """
    length = batch.tokens.shape[1]
    logits: Tensor = model(**batch.inputs, logits_to_keep=length + 1, use_cache=False).logits
    return logits[:, :-1]


def _known(values: Sequence[Sequence[float] | None], replies: Sequence[list[int]]) -> list[list[float]]:
    return [[0.0] * len(reply) if value is None else list(value) for value, reply in zip(values, replies, strict=True)]


def _right_aligned(rows: Sequence[Sequence[float]], dtype: torch.dtype = torch.float32) -> Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows], dtype=dtype)
