"""Makes a Qwen2.5-VL with about 600,000 random weights: the real architecture, small enough for two CPU cores."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import torch
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import (
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.utils.logging import disable_progress_bar

from trajmill.schemas.coordinates import SMALL_QWEN2_5_VL
from trajmill.schemas.dialects.read_aloud import ACTION_WORDS, DO, FIND, MOST_PLACES, MOST_ROWS

END: Final = "<|im_end|>"
PADDING: Final = "<|endoftext|>"
UNKNOWN: Final = "<|unknown|>"
IMAGE: Final = "<|image_pad|>"
VIDEO: Final = "<|video_pad|>"
IMAGE_START: Final = "<|vision_start|>"
IMAGE_END: Final = "<|vision_end|>"
ANSWER: Final = "<|im_start|>"
CONTROL: Final = (PADDING, ANSWER, END, IMAGE_START, IMAGE_END, IMAGE, VIDEO)

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
    return sorted({word for text in texts for word in re.findall(_WORD, text)})


def word_tokenizer(texts: Iterable[str], context: int) -> PreTrainedTokenizerFast:
    """A tokenizer for the words of some texts, and prompts and answers of `context` tokens; other words are unknown."""
    marks = [DO, FIND, *(f"<{axis}{place}>" for axis in "xy" for place in range(MOST_PLACES))]
    rows = [f"<r{row}>" for row in range(MOST_ROWS)]
    known = dict.fromkeys([*CONTROL, UNKNOWN, *marks, *rows, *ACTION_WORDS, *words_of(texts)])
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(known)}, UNKNOWN))
    tokenizer.pre_tokenizer = Split(Regex(_WORD), "removed", invert=True)
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in CONTROL])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PADDING,
        eos_token=END,
        chat_template=_TEMPLATE,
        model_max_length=context,
    )


CONTEXT: Final = 512
_PATCH: Final = 14
_SPREAD: Final = 0.06
"""Standard deviation of the weights; with the usual 0.02, such a small model learns three times slower."""
_BLINDING: Final = 1e12
"""A very large standard deviation of pixels, which makes all normalised pixels equal."""
_IMAGE_SETTINGS: Final[dict[str, object]] = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "min_pixels": SMALL_QWEN2_5_VL.min_pixels,
    "max_pixels": SMALL_QWEN2_5_VL.max_pixels,
    "patch_size": _PATCH,
    "temporal_patch_size": 2,
    "merge_size": SMALL_QWEN2_5_VL.factor // _PATCH,
    # Screens are mostly white; with the mean and deviation of photographs, their texts would have little contrast.
    "image_mean": [0.96, 0.96, 0.96],
    "image_std": [0.3, 0.3, 0.3],
}


def make_untrained(folder: Path, texts: Iterable[str], seed: int, blind: bool = False) -> Path:
    """Write a model in Hugging Face's layout, whose tokenizer knows the words of `texts`.

    Equal texts and seeds give equal files. A `blind` model reads every image as zeros: a control that shows how much
    images help.
    """
    text = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": 30.0, "mrope_section": [2, 7, 7]},
        "tie_word_embeddings": True,
        "initializer_range": _SPREAD,
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "out_hidden_size": 128,
        "fullatt_block_indexes": [0, 1],
        "window_size": 112,
        "initializer_range": _SPREAD,
    }
    images = _IMAGE_SETTINGS | ({"image_std": [_BLINDING] * 3} if blind else {})
    return write_qwen(folder, word_tokenizer(texts, CONTEXT), images, text, vision, seed, tie_word_embeddings=True)


def write_qwen(
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    images: Mapping[str, object],
    text: Mapping[str, object],
    vision: Mapping[str, object],
    seed: int,
    **settings: object,
) -> Path:
    """Write a Qwen2.5-VL of random weights in Hugging Face's layout; it takes its vocabulary from the tokenizer."""
    disable_progress_bar()  # type: ignore[no-untyped-call]
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(images, indent=2), encoding="utf-8")
    ids, ends = tokenizer.get_vocab(), {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    settings |= {
        "text_config": {**text, **ends, "vocab_size": len(tokenizer), "bos_token_id": tokenizer.pad_token_id},
        "vision_config": dict(vision),
        "image_token_id": ids[IMAGE],
        "video_token_id": ids[VIDEO],
        "vision_start_token_id": ids[IMAGE_START],
        "vision_end_token_id": ids[IMAGE_END],
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**settings))  # type: ignore[arg-type]
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    return folder
