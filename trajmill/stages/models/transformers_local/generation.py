"""Loads a model's weights, and generates samples for batches of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedTokenizerBase,
    StoppingCriteriaList,
)
from transformers.utils.logging import disable_progress_bar

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.stages.models.base import ChatRequest, TokenLogprob
from trajmill.stages.models.local.chat_text import use_template
from trajmill.stages.models.local.folder import model_folder
from trajmill.stages.models.local.short_reason import short_reason
from trajmill.stages.models.transformers_local.adapter import with_merged_adapter
from trajmill.stages.models.transformers_local.encoding import (
    EncodedPrompt,
    PictureReader,
    collate,
    encode,
    picture_reader,
)
from trajmill.stages.models.transformers_local.sampling import RowLimits, RowSampling, SeededSampling, TokenChoice
from trajmill.stages.models.transformers_local.spec import TransformersSpec


class SampleTask(NamedTuple):
    """One sample to generate."""

    prompt: EncodedPrompt
    sampling: RowSampling


class Sample(NamedTuple):
    """One generated sample."""

    text: str
    tokens: int
    """Number of tokens of the answer, with the one that ends it."""
    finish_reason: str
    logprobs: tuple[TokenLogprob, ...]
    ids: tuple[int, ...] = ()
    """Ids of its tokens, with the one that ends it."""
    id_logprobs: tuple[float, ...] = ()
    """The log probability of each of `ids`, if log probabilities were asked for."""


class LoadedModel:
    """A network with its tokenizer and, for a vision model, its reader of images."""

    def __init__(
        self, network: Any, tokenizer: PreTrainedTokenizerBase, reader: PictureReader | None, context: int
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._reader = reader
        self._context = context
        ends = network.generation_config.eos_token_id
        ends = tokenizer.eos_token_id if ends is None else ends
        self._ends = list(ends) if isinstance(ends, list) else [ends]
        self._padding = self._ends[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        # The model's own defaults (a temperature, a repetition penalty) would override the request.
        network.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            eos_token_id=self._ends, pad_token_id=self._padding
        )

    def encode(self, request: ChatRequest) -> EncodedPrompt:
        """Encode a request.

        Raises:
            ModelFailure: request and answer are longer than the model's context, or the request cannot be encoded.
        """
        prompt = encode(self._tokenizer, self._reader, request)
        if len(prompt.tokens) + request.max_tokens > self._context:
            raise ModelFailure(
                f"context too long: {len(prompt.tokens)} tokens of the prompt and {request.max_tokens} of the answer; "
                f"the model takes {self._context}"
            )
        return prompt

    def generate(self, rows: Sequence[SampleTask]) -> list[Sample | ModelFailure]:
        """One sample for each row, in one batch if it fits into memory; a failure for a row that fails by itself."""
        try:
            return list(self._generate(rows))
        except Exception as error:  # whatever torch and transformers raise on a device and on a prompt
            if len(rows) == 1:
                return [ModelFailure(f"the model failed: {short_reason(error)}")]
        # The batch is too large for the memory, or one row fails: try each half alone.
        half = len(rows) // 2
        return [*self.generate(rows[:half]), *self.generate(rows[half:])]

    @torch.inference_mode()
    def _generate(self, rows: Sequence[SampleTask]) -> list[Sample]:
        placeholder = -1 if self._reader is None else self._reader.placeholder
        batch = collate([row.prompt for row in rows], self._padding, placeholder, self._network.device)
        length = batch["input_ids"].shape[1]
        sampling = [row.sampling for row in rows]
        chooser = SeededSampling(sampling)
        made: Tensor = self._network.generate(
            **batch,
            max_new_tokens=max(row.max_tokens for row in sampling),
            logits_processor=LogitsProcessorList([chooser]),
            stopping_criteria=StoppingCriteriaList([RowLimits(sampling, length)]),
        )
        tokens: list[list[int]] = made[:, length:].tolist()
        return [
            self._sample(each[: row.max_tokens], choices)
            for each, row, choices in zip(tokens, sampling, chooser.choices, strict=True)
        ]

    def _sample(self, tokens: list[int], choices: Sequence[TokenChoice]) -> Sample:
        end = next((at for at, token in enumerate(tokens) if token in self._ends), None)
        said = tokens if end is None else tokens[:end]
        ids = tokens if end is None else tokens[: end + 1]
        return Sample(
            text=self._text(said),
            tokens=len(said) + (end is not None),
            finish_reason="length" if end is None else "stop",
            logprobs=tuple(self._logprob(choice) for choice in choices[: len(said)]),
            ids=tuple(ids),
            id_logprobs=tuple(choice.logprob for choice in choices[: len(ids)]),
        )

    def _logprob(self, choice: TokenChoice) -> TokenLogprob:
        candidates = tuple((self._text([token]), logprob) for token, logprob in choice.candidates)
        return TokenLogprob(self._text([choice.token]), choice.logprob, candidates)

    def _text(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def load_model(spec: TransformersSpec) -> LoadedModel:
    """Load a model onto the GPU, or without one onto the CPU, in the precision of its weights.

    Nothing is downloaded, no code of the folder is run, and pickled weights are refused.

    Raises:
        BadInputError: the folder holds no model that can be loaded here, the adapter is not of this model, or the spec
            names another family.
    """
    folder = model_folder(spec.model)
    # The library's progress bars would disturb those of the command line.
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        reader = picture_reader(folder, spec.vision_family.budget, config)
        family = AutoModelForCausalLM if reader is None else AutoModelForImageTextToText
        loaded: Any = family.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype="auto", output_loading_info=True
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        raise BadInputError(f"{folder}: transformers cannot load this model: {short_reason(error)}") from error
    network, found = loaded
    if found["missing_keys"]:
        # Weights that are missing in the folder would be random numbers.
        raise BadInputError(f"{folder}: weights are missing, {min(found['missing_keys'])} among them; copy it again")
    if spec.adapter is not None:
        network = with_merged_adapter(network, spec.adapter)
    use_template(tokenizer, folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    context = int(config.get_text_config().max_position_embeddings)
    network = network.to(device).eval()
    with torch.inference_mode():
        scores = network(input_ids=torch.tensor([tokenizer("Go")["input_ids"] or [0]], device=device)).logits
    if not scores.isfinite().all():
        raise BadInputError(f"not admitted: {folder} scores a prompt with numbers that are none")
    return LoadedModel(network, tokenizer, reader, context)
