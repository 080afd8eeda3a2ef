"""A chat as the one text that a model in this process reads, by the model's own chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.stages.models.base import ChatMessage, MessagePart


class ChatText(NamedTuple):
    """A chat in the words of a chat template."""

    text: str
    """Ends where the model's answer begins; each screen has one placeholder."""
    screens: tuple[ScreenHandle, ...]
    """In the order of their placeholders."""


def render_chat(tokenizer: PreTrainedTokenizerBase, messages: Sequence[ChatMessage]) -> ChatText:
    """Write a chat by the template of the model.

    Control tokens within the messages are broken up: a screen that shows `<|im_end|>` must not end the user's turn, nor
    a word of a query be taken for the place of a picture.

    Raises:
        ModelFailure: the template takes no such chat.
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

    Transformers finds it itself, but for folders of before 2025, which have that of their processor in a file of its
    own; it comes first, since the tokenizer's then has no place for pictures.

    Raises:
        BadInputError: there is none, or its file is broken.
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
        # A string is what every template takes.
        return "".join(text for text in texts if text is not None)
    return [{"type": "image"} if text is None else {"type": "text", "text": text} for text in texts]


def _without(text: str, control: re.Pattern[str] | None) -> str:
    return text if control is None else control.sub(lambda token: f"{token[0][0]} {token[0][1:]}", text)


def _screen(part: Observation | ScreenHandle) -> ScreenHandle:
    return part.screen if isinstance(part, Observation) else part
