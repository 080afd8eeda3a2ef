"""Chats for a model in this process: the text by its template, the screens as images."""

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
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.stages.models.base import ChatMessage, MessagePart
from trajmill.stages.models.images import sent_image


def short_reason(error: BaseException) -> str:
    """The message of a library's error, as one short line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


class ChatText(NamedTuple):
    text: str
    """It ends where the model's answer begins; each screen is one placeholder."""
    screens: tuple[ScreenHandle, ...]


def render_chat(tokenizer: PreTrainedTokenizerBase, messages: Sequence[ChatMessage]) -> ChatText:
    """Write a chat with the model's template.

    Control tokens within the messages are broken up: a screen that shows `<|im_end|>` must not end the user's turn, and
    a word of a query must not become the placeholder of an image.

    Raises:
        ModelFailure: the template does not support such a chat.
    """
    control = _control_tokens(tokenizer)
    conversation: list[dict[str, Any]] = [
        {"role": message.role, "content": _content(message.parts, control)} for message in messages
    ]
    try:
        text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    except (TemplateError, ValueError, TypeError) as error:
        raise ModelFailure(f"the model's chat template refuses the chat: {' '.join(str(error).split())}") from error
    parts = (part for message in messages for part in message.parts)
    return ChatText(str(text), tuple(_screen(part) for part in parts if not isinstance(part, str)))


def use_template(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Give a tokenizer the chat template of its folder.

    Transformers finds the template itself, except in folders from before 2025. These have a separate file with the
    template of the processor. It is preferred, because the tokenizer's template then has no placeholders for images.

    Raises:
        BadInputError: there is no template, or its file is broken.
    """
    path = folder / "chat_template.json"
    if path.is_file():
        try:
            tokenizer.chat_template = str(json.loads(path.read_text(encoding="utf-8"))["chat_template"])
        except (ValueError, KeyError, TypeError):
            raise BadInputError(f"{path}: no chat template in it; copy it from the model again") from None
    if tokenizer.chat_template is None:
        raise BadInputError(f"{folder}: the model has no chat template; models for chats have chat_template.jinja")


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str] | None:
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    tokens = {token.content for token in added if token.special} | set(tokenizer.all_special_tokens)
    return re.compile("|".join(sorted(map(re.escape, tokens), key=len, reverse=True))) if tokens else None


def _content(parts: Sequence[MessagePart], control: re.Pattern[str] | None) -> str | list[dict[str, Any]]:
    texts = [_without(part, control) if isinstance(part, str) else None for part in parts]
    if all(text is not None for text in texts):
        # All templates support a string.
        return "".join(text for text in texts if text is not None)
    return [{"type": "image"} if text is None else {"type": "text", "text": text} for text in texts]


def _without(text: str, control: re.Pattern[str] | None) -> str:
    return text if control is None else control.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)


def _screen(part: Observation | ScreenHandle) -> ScreenHandle:
    return part.screen if isinstance(part, Observation) else part


MOST_PIXELS: Final = 64_000_000
"""Pixels that `RecentPictures` keeps: 200 MB."""


def rgb_pictures(screens: Sequence[ScreenHandle], budget: PixelBudget, scale: float) -> list[Image.Image]:
    """The screens, resized as for a server. Raises ModelFailure if an image does not decode."""
    sent = [sent_image(screen, budget, scale) for screen in screens]
    return [Image.open(io.BytesIO(image.data)).convert("RGB") for image in sent]


class RecentPictures:
    """Reads screens as `rgb_pictures` does, and keeps those that were read last.

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
