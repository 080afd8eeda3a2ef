"""Encodes requests: tokens of the chat, patches of its images, and rows padded to one batch.

The processors of vision-language models do this too, but need torchvision for videos, which trajmill never sends. The
layout here is that of the Qwen vision-language models (Qwen2-VL and later, GUI-Owl): an image has one placeholder
token for each merged patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoImageProcessor, PreTrainedTokenizerBase

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.local.chat import RecentPictures, render_chat


class EncodedPictures(NamedTuple):
    patches: Tensor
    """(patches of all images, values of a patch)."""
    grids: Tensor
    """(images, 3): time, rows and columns of patches."""


class EncodedPrompt(NamedTuple):
    tokens: list[int]
    pictures: EncodedPictures | None


class PictureReader:
    """Cuts screens into the patches of a Qwen vision-language model."""

    def __init__(self, processor: Any, placeholder: int, budget: PixelBudget) -> None:
        self.placeholder = placeholder
        self._processor = processor
        self._pictures = RecentPictures(budget)
        self._merged = int(processor.merge_size) ** 2

    def read(self, screens: Sequence[ScreenHandle], scale: float) -> EncodedPictures:
        """The patches of screens, resized as for a server.

        Raises:
            ModelFailure: an image does not decode.
        """
        pictures = self._pictures.read(screens, scale)
        # The image is not resized again, because the model writes coordinates in its present size.
        read = self._processor(images=pictures, do_resize=False, return_tensors="pt")
        return EncodedPictures(read["pixel_values"], read["image_grid_thw"])

    def places(self, pictures: EncodedPictures) -> list[int]:
        """The number of tokens of each image."""
        return [int(grid.prod()) // self._merged for grid in pictures.grids]


def picture_reader(folder: Path, budget: PixelBudget, config: Any) -> PictureReader | None:
    """The reader of pictures of the model in a folder; None for a model that reads text alone.

    Args:
        folder: of the model.
        budget: of the configured family.
        config: of the model.

    Raises:
        BadInputError: its pictures are not cut as those of the Qwen vision-language models, or not as the family's.
    """
    placeholder = getattr(config, "image_token_id", None)
    if placeholder is None:
        return None
    processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True)  # type: ignore[no-untyped-call]
    patch, merged = getattr(processor, "patch_size", None), getattr(processor, "merge_size", None)
    if not isinstance(patch, int) or not isinstance(merged, int):
        raise BadInputError(f"{folder}: pictures of a {config.model_type} are not read here; serve it with vLLM")
    if budget.factor != patch * merged:
        raise BadInputError(
            f"{folder}: its pictures have sides of multiples of {patch * merged}, those of the configured family "
            f"of {budget.factor}; name the model's own family"
        )
    return PictureReader(processor, placeholder, budget)


def encode(tokenizer: PreTrainedTokenizerBase, reader: PictureReader | None, request: ChatRequest) -> EncodedPrompt:
    """Encode a request; `reader` is None for a model that reads only text.

    Raises:
        ModelFailure: the model reads no images but there is one, an image does not decode, or the template refuses the
            chat.
    """
    chat = render_chat(tokenizer, request.messages)
    tokens: list[int] = tokenizer(chat.text, add_special_tokens=False, verbose=False)["input_ids"]
    if not chat.screens:
        return EncodedPrompt(tokens, None)
    if reader is None:
        raise ModelFailure("the model reads text alone; the request shows a screen")
    pictures = reader.read(chat.screens, request.image_scale)
    return EncodedPrompt(_spread(tokens, reader.placeholder, reader.places(pictures)), pictures)


def _spread(tokens: Sequence[int], placeholder: int, places: Sequence[int]) -> list[int]:
    """Repeat each image's placeholder for each of its tokens."""
    if tokens.count(placeholder) != len(places):
        raise ModelFailure(f"the chat template has {tokens.count(placeholder)} places for {len(places)} pictures")
    rest = iter(places)
    return [token for each in tokens for token in [each] * (next(rest) if each == placeholder else 1)]


def collate(
    prompts: Sequence[EncodedPrompt], padding: int, placeholder: int, device: torch.device
) -> dict[str, Tensor]:
    """The arguments of `generate` for a batch of prompts, padded on the left."""
    longest = max(len(prompt.tokens) for prompt in prompts)
    gaps = [longest - len(prompt.tokens) for prompt in prompts]
    batch = {
        "input_ids": torch.tensor([[padding] * gap + prompt.tokens for gap, prompt in zip(gaps, prompts, strict=True)]),
        "attention_mask": torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps]),
    }
    pictures = [prompt.pictures for prompt in prompts if prompt.pictures is not None]
    if pictures:
        batch["pixel_values"] = torch.cat([each.patches for each in pictures])
        batch["image_grid_thw"] = torch.cat([each.grids for each in pictures])
        batch["mm_token_type_ids"] = torch.eq(batch["input_ids"], placeholder).int()
    return {name: values.to(device) for name, values in batch.items()}
