"""Loads the model for a training: weights, tokenizer and reader of images; and selects the trained weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.local.chat import short_reason, use_template
from trajmill.stages.models.transformers_local.generation import NEEDS_PEFT, PictureReader, picture_reader, with_adapter
from trajmill.stages.training.base import ParentPolicy
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe

_VISION = frozenset({"visual", "vision_tower", "vision_model", "multi_modal_projector", "connector"})
"""Names of vision parts in the model families of transformers."""


class TrainedModel(NamedTuple):
    """A network, and the encoders of its rows."""

    network: Any
    tokenizer: PreTrainedTokenizerBase
    reader: PictureReader | None
    context: int
    dtype: torch.dtype
    """The precision of the stored weights."""


def load_trained(recipe: HuggingFaceRecipe, parent: ParentPolicy, seed: int) -> TrainedModel:
    """Load a model for training.

    All weights are trained in single precision and stored in the precision of the parent. Under a LoRA adapter they
    keep the stored precision.

    Raises:
        BadInputError: the folder has no model that this recipe can train, or the model is of another family.
    """
    folder = parent.folder
    if not recipe.trains(folder):
        raise BadInputError(f"{folder} holds no model in Hugging Face's layout with weights in safetensors")
    adapted = bool(recipe.lora_rank or parent.adapter)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        reader = picture_reader(folder, parent.family.budget, config)
        auto = AutoModelForCausalLM if reader is None else AutoModelForImageTextToText
        network: Any = auto.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype="auto" if adapted else torch.float32
        )
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        raise BadInputError(f"{folder}: transformers cannot load this model: {short_reason(error)}") from error
    use_template(tokenizer, folder)
    if recipe.freeze_vision:
        _freeze_vision(network)
    dtype = config.dtype or network.dtype
    if adapted:
        network = _adapted(network, recipe, parent, seed)
    return TrainedModel(network, tokenizer, reader, int(config.get_text_config().max_position_embeddings), dtype)


def _freeze_vision(network: torch.nn.Module) -> None:
    for name, parameter in network.named_parameters():
        if _VISION.intersection(name.split(".")):
            parameter.requires_grad_(False)


def _adapted(network: Any, recipe: HuggingFaceRecipe, parent: ParentPolicy, seed: int) -> Any:
    if parent.adapter is not None:
        return with_adapter(network, parent.adapter, is_trainable=True)
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise BadInputError(NEEDS_PEFT) from error
    settings = LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha or 2 * recipe.lora_rank,
        target_modules=list(recipe.lora_modules),
        exclude_modules=rf"(.*\.)?({'|'.join(sorted(_VISION))})\..*",
    )
    # Half of the weights of a new adapter are random.
    torch.manual_seed(seed)
    try:
        return get_peft_model(network, settings)
    except ValueError as error:
        raise BadInputError(f"{parent.folder}: no LoRA on train.lora_modules: {short_reason(error)}") from error
