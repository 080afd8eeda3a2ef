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
from trajmill.stages.models.local.chat import RecentPictures, render_chat, short_reason, use_template
from trajmill.stages.models.local.folder import TransformersSpec, model_folder

NEEDS_PEFT = "LoRA needs peft: pip install 'trajmill[train]'"


def with_adapter(network: Any, folder: Path, is_trainable: bool) -> Any:
    """The network with the adapter of a folder in PEFT's layout.

    Raises:
        BadInputError: peft is not installed, or the folder has no adapter of this network.
    """
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


def with_merged_adapter(network: Any, folder: Path) -> Any:
    return with_adapter(network, folder, is_trainable=False).merge_and_unload()


class RowSampling(NamedTuple):
    """How one row of a batch is sampled."""

    temperature: float
    """0 takes the most likely token."""
    top_p: float
    seed: int
    max_tokens: int
    top_logprobs: int
    """0 records no log probabilities."""


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

    def __init__(self, rows: Sequence[RowSampling]) -> None:
        self._rows = rows
        self._draws = [random.Random(row.seed) for row in rows]
        self.choices: list[list[TokenChoice]] = [[] for _ in rows]
        """The choices of each row, token by token; empty for rows that ask for no log probabilities."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits (rows, vocabulary): 0 at the chosen tokens and minus infinity elsewhere."""
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
    """Ends each row at its own `max_tokens`."""

    def __init__(self, rows: Sequence[RowSampling], prompt_length: int) -> None:
        self._limits = torch.tensor([row.max_tokens for row in rows])
        self._prompt_length = prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: object) -> Tensor:
        return (input_ids.shape[1] - self._prompt_length >= self._limits).to(input_ids.device)


def rows_of(request: ChatRequest) -> list[RowSampling]:
    """One row for each sample of a request, with consecutive seeds, as in vLLM."""
    return [
        RowSampling(request.temperature, request.top_p, request.seed + at, request.max_tokens, request.top_logprobs)
        for at in range(request.n)
    ]


class SampleTask(NamedTuple):
    prompt: EncodedPrompt
    sampling: RowSampling


class Sample(NamedTuple):
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
        """The patches of screens, resized as for a server. Raises ModelFailure if an image does not decode."""
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
