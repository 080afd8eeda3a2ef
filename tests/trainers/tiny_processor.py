"""Processors of a tiny Qwen2.5-VL and Qwen3-VL, made by the tests: the published token ids, pixel bounds and templates.

They cut images and write tokens as the published ones do; only the words of their tokenizer are few.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken
from transformers import PretrainedConfig, Qwen2_5_VLConfig, Qwen2Tokenizer, Qwen3VLConfig

from tests.stages.models.transformers_local.tiny_vlm import tiny_vocabulary
from trajmill.schemas.coordinates import QWEN3_VL
from trajmill.schemas.dialects.families import Family

_FIRST_SPECIAL: Final = 151_643
"""Published id of the first special token: trainers know some of the ids by heart."""
_NAMES: Final = (
    "endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end vision_start "
    "vision_end vision_pad image_pad video_pad"
)
_SPECIAL: Final = [f"<|{name}|>" for name in _NAMES.split()]
_IDS: Final = {token: _FIRST_SPECIAL + number for number, token in enumerate(_SPECIAL)}
_CONTEXT: Final = 32_768
_WORDS: Final = 2_000
"""Enough that a token is longer than two bytes, as in published tokenizers."""


def build_tiny_processor(folder: Path, family: Family, chat_template: str, texts: Sequence[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    third = family.budget.factor == QWEN3_VL.factor
    tokenizer = _tokenizer(chat_template, texts)
    tokenizer.save_pretrained(folder)
    settings = _image_settings(family, "Qwen3VLProcessor" if third else "Qwen2_5_VLProcessor")
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2))
    video = settings | {"video_processor_type": "Qwen3VLVideoProcessor" if third else "Qwen2VLVideoProcessor"}
    del video["image_processor_type"]
    (folder / "video_preprocessor_config.json").write_text(json.dumps(video, indent=2))
    config = _qwen3() if third else _qwen2_5()
    config.save_pretrained(folder)
    return folder


def _tokenizer(chat_template: str, texts: Sequence[str]) -> Qwen2Tokenizer:
    vocabulary, merges = tiny_vocabulary(texts, _WORDS)
    unused = {f"unused {number}": number for number in range(len(vocabulary), _FIRST_SPECIAL)}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary | unused, merges=merges, model_max_length=_CONTEXT)  # type: ignore[arg-type]
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in _SPECIAL])
    tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|endoftext|>"
    tokenizer.chat_template = chat_template
    assert {token: tokenizer.convert_tokens_to_ids(token) for token in _SPECIAL} == _IDS
    return tokenizer


def _image_settings(family: Family, processor: str) -> dict[str, Any]:
    patch = family.budget.factor // 2
    third = patch == 16
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": processor,
        "size": {"shortest_edge": family.budget.min_pixels, "longest_edge": family.budget.max_pixels},
        "patch_size": patch,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3 if third else [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.5] * 3 if third else [0.26862954, 0.26130258, 0.27577711],
    }


_WIDTHS: Final = {"hidden_size": 32, "intermediate_size": 64}
_VISION: Final[dict[str, Any]] = {"depth": 1, "num_heads": 2, "out_hidden_size": 32, **_WIDTHS}
_TEXT: Final[dict[str, Any]] = {
    "vocab_size": _FIRST_SPECIAL + len(_SPECIAL),
    **_WIDTHS,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": _CONTEXT,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]},
    "bos_token_id": _IDS["<|endoftext|>"],
    "eos_token_id": _IDS["<|im_end|>"],
    "pad_token_id": _IDS["<|endoftext|>"],
    "tie_word_embeddings": True,
}
_TOKENS: Final[dict[str, Any]] = {
    "image_token_id": _IDS["<|image_pad|>"],
    "video_token_id": _IDS["<|video_pad|>"],
    "vision_start_token_id": _IDS["<|vision_start|>"],
    "vision_end_token_id": _IDS["<|vision_end|>"],
    "tie_word_embeddings": True,
}


def _qwen2_5() -> PretrainedConfig:
    vision = _VISION | {"fullatt_block_indexes": [0], "window_size": 112}
    architecture = ["Qwen2_5_VLForConditionalGeneration"]
    return Qwen2_5_VLConfig(text_config=_TEXT, vision_config=vision, architectures=architecture, **_TOKENS)


def _qwen3() -> PretrainedConfig:
    vision = _VISION | {
        "out_hidden_size": 32,
        "patch_size": 16,
        "deepstack_visual_indexes": [0],
        "num_position_embeddings": 2304,
    }
    architecture = ["Qwen3VLForConditionalGeneration"]
    return Qwen3VLConfig(text_config=_TEXT, vision_config=vision, architectures=architecture, **_TOKENS)
