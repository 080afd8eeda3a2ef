"""Loads a model and its LoRA adapter, and generates samples for batches of prompts, each with its own seed."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerBase,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.utils.logging import disable_progress_bar

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.models.base import ChatRequest, TokenLogprob
from trajmill.stages.models.local.chat import RecentPictures, Sample, chat_tokens, short_reason, use_template
from trajmill.stages.models.local.folder import TransformersSpec, model_folder

NEEDS_PEFT = "LoRA needs peft: pip install 'trajmill[train]'"


def with_adapter(network: Any, folder: Path, is_trainable: bool) -> Any:
    """Return the network with a PEFT adapter. Raises BadInputError without peft, or for one of another network."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise BadInputError(NEEDS_PEFT) from error
    try:
        with warnings.catch_warnings():
            # peft reads an attribute that transformers has deprecated.
            warnings.simplefilter("ignore", FutureWarning)
            return PeftModel.from_pretrained(network, str(folder), is_trainable=is_trainable)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise BadInputError(f"{folder}: no adapter of this model: {short_reason(error)}") from error


class TokenChoice(NamedTuple):
    """A chosen token and the most likely ones at its position, as ids with log probabilities."""

    token: int
    logprob: float
    candidates: tuple[tuple[int, float], ...]


class SeededSampling(LogitsProcessor):
    """Chooses the next token of each row and makes all other tokens impossible.

    Each row uses one own random number for each token, so its samples do not depend on the other rows. Only rounding
    errors of its logits depend on the size of the batch, which rarely changes a choice.
    """

    def __init__(self, rows: Sequence[ChatRequest]) -> None:
        self._rows = rows
        self._draws = [random.Random(row.seed) for row in rows]
        self.choices: list[list[TokenChoice]] = [[] for _ in rows]
        """The choices of each row, token by token; empty for rows that ask for no log probabilities."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return logits (rows, vocabulary): 0 at the chosen tokens and minus infinity elsewhere."""
        chosen = scores.argmax(-1)
        sampled = [at for at, row in enumerate(self._rows) if row.temperature > 0]
        if sampled:
            chosen[sampled] = self._sample(scores[sampled], sampled)
        self._record(scores, chosen)
        only: Tensor = torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)
        return only

    def _sample(self, scores: Tensor, places: Sequence[int]) -> Tensor:
        rows = [self._rows[at] for at in places]
        temperatures = torch.tensor([row.temperature for row in rows], device=scores.device)[:, None]
        top_p = torch.tensor([row.top_p for row in rows], device=scores.device)[:, None]
        draws = torch.tensor([self._draws[at].random() for at in places], device=scores.device)[:, None]
        probabilities, tokens = (scores.float() / temperatures).softmax(-1).sort(dim=-1, descending=True, stable=True)
        before = probabilities.cumsum(-1) - probabilities
        kept = torch.where(before < top_p, probabilities, 0.0).cumsum(-1)
        place = torch.searchsorted(kept, draws * kept[:, -1:], right=True).clamp(max=kept.shape[1] - 1)
        # After the last kept token the sum is constant; rounding must not choose a token from there.
        last = (before < top_p).sum(-1, keepdim=True) - 1
        drawn: Tensor = tokens.gather(1, torch.minimum(place, last)).squeeze(1)
        return drawn

    def _record(self, scores: Tensor, chosen: Tensor) -> None:
        asked = [at for at, row in enumerate(self._rows) if row.top_logprobs > 0]
        if not asked:
            return
        logprobs = scores[asked].float().log_softmax(-1)
        best = logprobs.topk(min(max(self._rows[at].top_logprobs for at in asked), logprobs.shape[1]))
        own = logprobs.gather(1, chosen[asked][:, None]).squeeze(1).tolist()
        for at, logprob, values, tokens in zip(asked, own, best.values.tolist(), best.indices.tolist(), strict=True):
            candidates = tuple(zip(tokens, values, strict=True))[: self._rows[at].top_logprobs]
            self.choices[at].append(TokenChoice(int(chosen[at]), logprob, candidates))


class RowLimits(StoppingCriteria):
    def __init__(self, rows: Sequence[ChatRequest], prompt_length: int) -> None:
        self._limits = torch.tensor([row.max_tokens for row in rows])
        self._prompt_length = prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: object) -> Tensor:
        return (input_ids.shape[1] - self._prompt_length >= self._limits).to(input_ids.device)


class EncodedPictures(NamedTuple):
    patches: Tensor
    """(patches of all images, values of a patch)."""
    grids: Tensor
    """(images, 3): time, rows and columns of patches."""


class EncodedPrompt(NamedTuple):
    tokens: list[int]
    pictures: EncodedPictures | None


class SampleTask(NamedTuple):
    prompt: EncodedPrompt
    request: ChatRequest


class PictureReader:
    """Cuts screens into the patches of a Qwen vision-language model."""

    def __init__(self, processor: Any, placeholder: int, budget: PixelBudget) -> None:
        self.placeholder = placeholder
        self._processor = processor
        self._pictures = RecentPictures(budget)
        self._merged = int(processor.merge_size) ** 2

    def read(self, screens: Sequence[ScreenHandle], scale: float) -> EncodedPictures:
        """Return the patches of screens, resized as for a server. Raises ModelFailure if an image does not decode."""
        pictures = self._pictures.read(screens, scale)
        # The image is not resized again, because the model writes coordinates in its present size.
        read = self._processor(images=pictures, do_resize=False, return_tensors="pt")
        return EncodedPictures(read["pixel_values"], read["image_grid_thw"])

    def places(self, pictures: EncodedPictures) -> list[int]:
        return [int(grid.prod()) // self._merged for grid in pictures.grids]


class LoadedParts(NamedTuple):
    network: Any
    tokenizer: PreTrainedTokenizerBase
    reader: PictureReader | None
    """None for a model that reads only text."""
    context: int
    """Most tokens of a prompt and its answer."""
    dtype: torch.dtype
    """The precision of the stored weights."""


def load_parts(folder: Path, budget: PixelBudget, dtype: torch.dtype | str) -> LoadedParts:
    """Load the model of a folder. Nothing is downloaded, no code of the folder is run, pickled weights are refused.

    `budget` is that of the configured family; `dtype` is the network's precision, `auto` that of the stored weights.

    Raises BadInputError if the folder holds no model that can be loaded here, or its images are not cut as those of the
    Qwen vision-language models, or not as the family's.
    """
    # The library's progress bars would disturb those of the command line.
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        reader = _picture_reader(folder, budget, config)
        auto = AutoModelForCausalLM if reader is None else AutoModelForImageTextToText
        loaded: Any = auto.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=dtype, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        raise BadInputError(f"{folder}: transformers cannot load this model: {short_reason(error)}") from error
    network, found = loaded
    if found["missing_keys"]:
        # Weights that are missing in the folder would be random numbers.
        raise BadInputError(f"{folder}: weights are missing, {min(found['missing_keys'])} among them; copy it again")
    use_template(tokenizer, folder)
    context = int(config.get_text_config().max_position_embeddings)
    return LoadedParts(network, tokenizer, reader, context, config.dtype or network.dtype)


def _picture_reader(folder: Path, budget: PixelBudget, config: Any) -> PictureReader | None:
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


def load_model(spec: TransformersSpec) -> LoadedModel:
    """Load a model and its adapter onto the GPU, or without one onto the CPU. Raises BadInputError if it cannot."""
    folder = model_folder(spec.model)
    parts = load_parts(folder, spec.vision_family.budget, "auto")
    network = parts.network
    if spec.adapter is not None:
        network = with_adapter(network, spec.adapter, is_trainable=False).merge_and_unload()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network.to(device).eval()
    with torch.inference_mode():
        scores = network(input_ids=torch.tensor([parts.tokenizer("Go")["input_ids"] or [0]], device=device)).logits
    if not scores.isfinite().all():
        raise BadInputError(f"not admitted: {folder} scores a prompt with numbers that are none")
    return LoadedModel(parts._replace(network=network))


class LoadedModel:
    """A network that generates samples, with the encoders of its prompts."""

    def __init__(self, parts: LoadedParts) -> None:
        self._parts = parts
        self._network, tokenizer = parts.network, parts.tokenizer
        ends = self._network.generation_config.eos_token_id
        ends = tokenizer.eos_token_id if ends is None else ends
        self._ends = list(ends) if isinstance(ends, list) else [ends]
        self._padding = self._ends[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        # The model's own defaults (a temperature, a repetition penalty) would override the request.
        self._network.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
            eos_token_id=self._ends, pad_token_id=self._padding
        )

    def encode(self, request: ChatRequest) -> EncodedPrompt:
        """Encode a request. Raises ModelFailure if it cannot be encoded, or the context is too short for it."""
        prompt = encode(self._parts.tokenizer, self._parts.reader, request)
        if len(prompt.tokens) + request.max_tokens > self._parts.context:
            raise ModelFailure(
                f"context too long: {len(prompt.tokens)} tokens of the prompt and {request.max_tokens} of the answer; "
                f"the model takes {self._parts.context}"
            )
        return prompt

    def generate(self, rows: Sequence[SampleTask]) -> list[Sample | ModelFailure]:
        """Return one sample for each row, in one batch if it fits into memory; a failure for a row that fails alone."""
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
        prompts, requests = [row.prompt for row in rows], [row.request for row in rows]
        batch = collate(prompts, self._padding, self._parts.reader, self._network.device)
        length = batch["input_ids"].shape[1]
        chooser = SeededSampling(requests)
        made: Tensor = self._network.generate(
            **batch,
            max_new_tokens=max(request.max_tokens for request in requests),
            logits_processor=LogitsProcessorList([chooser]),
            stopping_criteria=StoppingCriteriaList([RowLimits(requests, length)]),
        )
        tokens: list[list[int]] = made[:, length:].tolist()
        return [
            self._sample(each[: request.max_tokens], choices)
            for each, request, choices in zip(tokens, requests, chooser.choices, strict=True)
        ]

    def _sample(self, tokens: list[int], choices: Sequence[TokenChoice]) -> Sample:
        end = next((at for at, token in enumerate(tokens) if token in self._ends), None)
        text = tokens[:end]
        ids = tokens if end is None else tokens[: end + 1]
        return Sample(
            text=self._text(text),
            ids=tuple(ids),
            finish_reason="length" if end is None else "stop",
            logprobs=tuple(
                TokenLogprob(
                    self._text([choice.token]),
                    choice.logprob,
                    tuple((self._text([token]), logprob) for token, logprob in choice.candidates),
                )
                for choice in choices[: len(text)]
            ),
            id_logprobs=tuple(choice.logprob for choice in choices[: len(ids)]),
        )

    def _text(self, tokens: list[int]) -> str:
        tokenizer = self._parts.tokenizer
        return str(tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def encode(tokenizer: PreTrainedTokenizerBase, reader: PictureReader | None, request: ChatRequest) -> EncodedPrompt:
    """Encode a request; `reader` is None for a model that reads only text.

    Raises ModelFailure for an image that the model cannot read, or a chat that the template refuses.
    """
    chat = chat_tokens(tokenizer, request.messages)
    if not chat.screens:
        return EncodedPrompt(chat.tokens, None)
    if reader is None:
        raise ModelFailure("the model reads text alone; the request shows a screen")
    pictures = reader.read(chat.screens, request.image_scale)
    places, found = reader.places(pictures), chat.tokens.count(reader.placeholder)
    if found != len(places):
        raise ModelFailure(f"the chat template has {found} places for {len(places)} pictures")
    # The placeholder of an image is repeated for each of its tokens.
    rest = iter(places)
    tokens = [token for each in chat.tokens for token in [each] * (next(rest) if each == reader.placeholder else 1)]
    return EncodedPrompt(tokens, pictures)


def collate(
    prompts: Sequence[EncodedPrompt], padding: int, reader: PictureReader | None, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """Return the arguments of `generate` for a batch of prompts, padded on the left."""
    longest = max(len(prompt.tokens) for prompt in prompts)
    gaps = [longest - len(prompt.tokens) for prompt in prompts]
    batch = {
        "input_ids": torch.tensor([[padding] * gap + prompt.tokens for gap, prompt in zip(gaps, prompts, strict=True)]),
        "attention_mask": torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps]),
    }
    pictures = [prompt.pictures for prompt in prompts if prompt.pictures is not None]
    if pictures and reader is not None:
        batch["pixel_values"] = torch.cat([each.patches for each in pictures])
        batch["image_grid_thw"] = torch.cat([each.grids for each in pictures])
        batch["mm_token_type_ids"] = torch.eq(batch["input_ids"], reader.placeholder).int()
    return {name: values.to(device) for name, values in batch.items()}
