"""Chats for a model in this process: tokens by its template, screens as images, and completions of its samples."""

from __future__ import annotations

import io
import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import TemplateError
from PIL import Image
from transformers import PreTrainedTokenizerBase

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.models.base import ChatMessage, Completion, MessagePart, TokenLogprob, screen_of
from trajmill.stages.models.images import sent_image


def short_reason(error: BaseException) -> str:
    """Return the message of a library's error as one line of at most 300 characters."""
    return " ".join(str(error).split())[:300] or type(error).__name__


class ChatTokens(NamedTuple):
    tokens: list[int]
    """They end where the model's answer begins; each screen is one placeholder."""
    screens: tuple[ScreenHandle, ...]


def chat_tokens(tokenizer: PreTrainedTokenizerBase, messages: Sequence[ChatMessage]) -> ChatTokens:
    """Write a chat with the model's template. Raises ModelFailure if the template does not support such a chat.

    Control tokens within the messages are broken up: a screen that shows `<|im_end|>` must not end the user's turn, and
    a word of a query must not become the placeholder of an image.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    special = {token.content for token in added if token.special} | set(tokenizer.all_special_tokens)
    control = re.compile("|".join(sorted(map(re.escape, special), key=len, reverse=True)) or "(?!)")

    def block(part: MessagePart) -> dict[str, str]:
        if not isinstance(part, str):
            return {"type": "image"}
        return {"type": "text", "text": control.sub(lambda token: f"{token[0][0]} {token[0][1:]}", part)}

    conversation: list[dict[str, Any]] = []
    for message in messages:
        blocks = [block(part) for part in message.parts]
        only_text = all(each["type"] == "text" for each in blocks)
        # All templates support a string.
        content = "".join(each["text"] for each in blocks) if only_text else blocks
        conversation.append({"role": message.role, "content": content})
    try:
        text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    except (TemplateError, ValueError, TypeError) as error:
        raise ModelFailure(f"the model's chat template refuses the chat: {' '.join(str(error).split())}") from error
    tokens: list[int] = tokenizer(str(text), add_special_tokens=False, verbose=False)["input_ids"]
    parts = (part for message in messages for part in message.parts)
    return ChatTokens(tokens, tuple(screen_of(part) for part in parts if not isinstance(part, str)))


def use_template(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Give a tokenizer the chat template of its folder. Raises BadInputError if it is missing or broken.

    Transformers finds the template itself, except in folders from before 2025. These have a separate file with the
    template of the processor. It is preferred, because the tokenizer's template then has no placeholders for images.
    """
    path = folder / "chat_template.json"
    if path.is_file():
        try:
            tokenizer.chat_template = str(json.loads(path.read_text(encoding="utf-8"))["chat_template"])
        except (ValueError, KeyError, TypeError):
            raise BadInputError(f"{path}: no chat template in it; copy it from the model again") from None
    if tokenizer.chat_template is None:
        raise BadInputError(f"{folder}: the model has no chat template; models for chats have chat_template.jinja")


class Sample(NamedTuple):
    text: str
    ids: tuple[int, ...]
    """Ids of its tokens, with the one that ends it."""
    finish_reason: str
    logprobs: tuple[TokenLogprob, ...] = ()
    id_logprobs: tuple[float, ...] = ()
    """The log probability of each of `ids`, if log probabilities were requested."""


def completion_of(samples: Sequence[Sample], prompt_tokens: int) -> Completion:
    first, *others = samples
    return Completion(
        text=first.text,
        input_tokens=prompt_tokens,
        output_tokens=sum(len(sample.ids) for sample in samples),
        finish_reason=first.finish_reason,
        others=tuple(sample.text for sample in others),
        logprobs=first.logprobs,
    )


MOST_PIXELS: Final = 64_000_000
"""Pixels that `RecentPictures` keeps: 200 MB."""


def rgb_pictures(screens: Sequence[ScreenHandle], budget: PixelBudget, scale: float) -> list[Image.Image]:
    """Return the screens, resized as for a server. Raises ModelFailure if an image does not decode."""
    sent = [sent_image(screen, budget, scale) for screen in screens]
    return [Image.open(io.BytesIO(image.data)).convert("RGB") for image in sent]


class RecentPictures:
    """A cache of `rgb_pictures`.

    A training meets each screen in every pass, and decoding it takes longer than a small model's update.
    """

    def __init__(self, budget: PixelBudget) -> None:
        self._budget = budget
        self._pictures: OrderedDict[tuple[str, Size, float], Image.Image] = OrderedDict()
        self._pixels = 0

    def read(self, screens: Sequence[ScreenHandle], scale: float) -> list[Image.Image]:
        return [self._read(screen, scale) for screen in screens]

    def _read(self, screen: ScreenHandle, scale: float) -> Image.Image:
        key = screen.screen_id, screen.size, scale
        found = self._pictures.pop(key, None)
        if found is None:
            (found,) = rgb_pictures([screen], self._budget, scale)
            self._pixels += found.width * found.height
        self._pictures[key] = found
        while self._pixels > MOST_PIXELS and len(self._pictures) > 1:
            _, oldest = self._pictures.popitem(last=False)
            self._pixels -= oldest.width * oldest.height
        return found
