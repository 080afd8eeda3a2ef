"""Makes a tokenizer with one token for each word: those of given texts, and those of the dialect `read_aloud`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from trajmill.schemas.dialects.read_aloud import ACTION_WORDS, DO, FIND, MOST_PLACES, MOST_ROWS

END: Final = "<|im_end|>"
PADDING: Final = "<|endoftext|>"
UNKNOWN: Final = "<|unknown|>"
IMAGE: Final = "<|image_pad|>"
VIDEO: Final = "<|video_pad|>"
IMAGE_START: Final = "<|vision_start|>"
IMAGE_END: Final = "<|vision_end|>"
ANSWER: Final = "<|im_start|>"
_CONTROL: Final = (PADDING, ANSWER, END, IMAGE_START, IMAGE_END, IMAGE, VIDEO)

_WORD = r"<[a-z]+\d*>|[\w'.:@/+-]*\w|[^\w\s]"
"""A mark of the dialect, a word with punctuation inside (19:00, 9.50), or a punctuation mark."""
_TEMPLATE: Final = (
    "{%- for message in messages -%}{%- if message.role != 'system' -%}"
    "{%- if message.role == 'assistant' -%}" + ANSWER + "{%- endif -%}"
    "{%- if message.content is string -%}{{ message.content }}{%- else -%}{%- for part in message.content -%}"
    "{%- if part.type == 'text' -%}{{ part.text }}{%- else -%}" + IMAGE_START + IMAGE + IMAGE_END + "{%- endif -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- if message.role == 'assistant' -%}" + END + "{%- endif -%}"
    "{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}" + ANSWER + "{%- endif -%}"
)
"""The chat template; it leaves out the system message, which explains the dialect to larger models."""


def words_of(texts: Iterable[str]) -> list[str]:
    """The words of texts, each once, sorted."""
    return sorted({word for text in texts for word in re.findall(_WORD, text)})


def word_tokenizer(texts: Iterable[str], context: int) -> PreTrainedTokenizerFast:
    """A tokenizer for the words of some texts; all other words are one unknown token.

    Args:
        texts: labels of screens and instructions.
        context: most tokens of a prompt with its answer.
    """
    marks = [DO, FIND, *(f"<{axis}{place}>" for axis in "xy" for place in range(MOST_PLACES))]
    rows = [f"<r{row}>" for row in range(MOST_ROWS)]
    known = dict.fromkeys([*_CONTROL, UNKNOWN, *marks, *rows, *ACTION_WORDS, *words_of(texts)])
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(known)}, UNKNOWN))
    tokenizer.pre_tokenizer = Split(Regex(_WORD), "removed", invert=True)
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in _CONTROL])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PADDING,
        eos_token=END,
        chat_template=_TEMPLATE,
        model_max_length=context,
    )
