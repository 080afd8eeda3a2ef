"""Runs a training with a `transformers.Trainer` from its last checkpoint, and saves the new version."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc
import torch
from accelerate import PartialState
from accelerate.utils import gather_object, send_to_device
from datasets import Dataset
from torch import Tensor
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.models.local.chat import short_reason
from trajmill.stages.models.transformers_local.generation import NEEDS_PEFT, LoadedParts, load_parts, with_adapter
from trajmill.stages.training.admission import ADAPTER_CONFIG
from trajmill.stages.training.hugging_face.encoding import (
    PICTURES,
    REFERENCE,
    ReplyBatch,
    ReplyCollator,
    clipped_sum,
    clipped_tokens,
    divergence_sum,
    reply_logits,
    rl_files,
    rl_reply,
    rl_rows,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.spec import ClippedRecipe, HuggingFaceRecipe, TrpoSpec
from trajmill.stages.training.lineage import begin, copy_settings, made_from, tail_mean, version_of, write_metrics
from trajmill.stages.training.spec import ParentPolicy, Progress, TrainingReport

CHECKPOINTS: Final = "checkpoints"
ROWS: Final = "rows"
_FIGURES = ("loss", "grad_norm", "learning_rate", "clipped", "divergence", "reward", "format", "spread")
_VISION = frozenset({"visual", "vision_tower", "vision_model", "multi_modal_projector", "connector"})


def run_training(
    job: TrainingJob,
    processes: int,
    progress: Progress | None,
    files: Sequence[Path],
    rows: int,
    trainer_of: Callable[[LoadedParts, dict[str, Any]], Any],
    arguments: type[TrainingArguments] = TrainingArguments,
    **settings: Any,
) -> TrainingReport:
    """Train on the rows of some files, and save the new version.

    Checkpoints of the same training are continued; those of another one are removed. `trainer_of` makes the trainer
    from the model and keyword arguments; `arguments` is the class of its settings, and `settings` are further ones.
    """
    source = made_from(job.recipe, job.parent, files, job.seed)
    begin(job.folder, source, left=job.folder / CHECKPOINTS)
    if "tensorboard" in job.recipe.report_to:
        # Its integration has no argument for the folder.
        os.environ["TENSORBOARD_LOGGING_DIR"] = str(job.folder / "tensorboard")
    settings |= {"report_to": list(job.recipe.report_to) or "none", "run_name": version_of(source)}
    args = arguments(**trainer_settings(job.recipe, rows, job.seed, job.folder, processes), **settings)
    # For more than one GPU, accelerate starts a process for each.
    args._n_gpu = min(args.n_gpu, 1)  # noqa: SLF001
    set_seed(args.seed)
    model = load_trained(job.recipe, job.parent, args.seed)
    given = {"args": args, "processing_class": model.tokenizer, "callbacks": [TrainingWatch(progress)]}
    trainer = trainer_of(model, given)
    last = _last_checkpoint(job.folder / CHECKPOINTS)
    divided = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    if divided:
        all_see_or_none(trainer.train_dataset)
    # An adapter has only one set of names, and the parts of a divided model have those in memory.
    if last is not None and not divided and not (last / ADAPTER_CONFIG).is_file():
        # The trainer loads a checkpoint by the names of the layers in memory. Vision-language models are saved with the
        # names of their first publication, so it would find none, warn, and continue with the parent's weights.
        network = model.network
        saved = type(network).from_pretrained(last, local_files_only=True, dtype=network.dtype)
        network.load_state_dict(saved.state_dict())
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    history = [
        {"update": each["step"], **{name: each[name] for name in _FIGURES if name in each}}
        for each in trainer.state.log_history
        if "loss" in each
    ]
    losses = [each["loss"] for each in history]
    report = TrainingReport(rows, 0, len(history), tail_mean(losses), version_of(source))
    # Of a divided model, all processes gather the weights.
    gathered = trainer.accelerator.get_state_dict(trainer.model) if divided else None
    if trainer.accelerator.is_main_process:
        _save(trainer.accelerator.unwrap_model(trainer.model), gathered, model.dtype, job)
        for left in (CHECKPOINTS, ROWS):
            shutil.rmtree(job.folder / left, ignore_errors=True)
        write_metrics(job.folder, report, history)
    trainer.accelerator.wait_for_everyone()
    return report


def _last_checkpoint(folder: Path) -> Path | None:
    whole = dict[int, Path]()
    for state in folder.glob(f"checkpoint-*/{TRAINER_STATE_NAME}"):
        # The last file of a checkpoint; a killed trainer may have left it cut.
        with suppress(ValueError):
            json.loads(state.read_text())
            whole[int(state.parent.name.rpartition("-")[2])] = state.parent
    return whole[max(whole)] if whole else None


def _save(network: Any, gathered: dict[str, Tensor] | None, dtype: torch.dtype, job: TrainingJob) -> None:
    """Save the adapter alone, or all weights in the parent's precision; `gathered` are those of a divided model."""
    adapted = bool(job.recipe.lora_rank or job.parent.adapter)
    if gathered is not None and not adapted:
        gathered = {name: weight.to(dtype) for name, weight in gathered.items()}
    elif not adapted:
        network = network.to(dtype)
    try:
        network.save_pretrained(job.folder, state_dict=gathered)
        if not adapted:
            copy_settings(job.parent.folder, job.folder)
    except OSError as error:
        raise TrainingFailedError(f"{job.folder}: the new weights cannot be written: {error}") from error


def all_see_or_none(rows: Dataset) -> None:
    """Raise BadInputError if some rows have pictures and others none: processes would wait for each other for ever.

    All processes that divide a model gather the weights of a part when they reach it, and only rows with pictures reach
    the vision tower.
    """
    pictures = pc.list_value_length(rows.with_format("arrow")[PICTURES])
    blind = pc.sum(pc.equal(pictures, 0)).as_py() or 0
    if 0 < blind < len(rows):
        raise BadInputError(
            f"{blind} of {len(rows)} rows have no picture, and a model that is divided among processes takes all or "
            "none: train without train.accelerate, or on a kind whose rows all have pictures"
        )


def load_trained(recipe: HuggingFaceRecipe, parent: ParentPolicy, seed: int) -> LoadedParts:
    """Load a model for training. Raises BadInputError if this recipe cannot train it.

    All weights are trained in single precision and stored in the precision of the parent. Under a LoRA adapter they
    keep the stored precision.
    """
    adapted = bool(recipe.lora_rank or parent.adapter)
    model = load_parts(parent.folder, parent.family.budget, "auto" if adapted else torch.float32)
    if recipe.freeze_vision:
        for name, parameter in model.network.named_parameters():
            if _VISION.intersection(name.split(".")):
                parameter.requires_grad_(False)
    if parent.adapter is not None:
        return model._replace(network=with_adapter(model.network, parent.adapter, is_trainable=True))
    if not adapted:
        return model
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
        return model._replace(network=get_peft_model(model.network, settings))
    except ValueError as error:
        raise BadInputError(f"{parent.folder}: no LoRA on train.lora_modules: {short_reason(error)}") from error


def trainer_settings(recipe: HuggingFaceRecipe, rows: int, seed: int, folder: Path, processes: int) -> dict[str, Any]:
    """Return the arguments of `TrainingArguments`. Raises BadInputError if a batch cannot be divided evenly."""
    together = recipe.rows_at_once * processes
    if recipe.batch % together:
        raise BadInputError(f"train.batch is {recipe.batch}, no multiple of rows_at_once times processes, {together}")
    on_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(folder / CHECKPOINTS),
        "per_device_train_batch_size": recipe.rows_at_once,
        "gradient_accumulation_steps": recipe.batch // together,
        "max_steps": recipe.updates(rows),
        "learning_rate": recipe.learning_rate,
        "warmup_steps": recipe.warmup_updates,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr_rate": recipe.final_rate},
        "weight_decay": recipe.weight_decay,
        "adam_beta2": recipe.second_moment,
        "max_grad_norm": recipe.gradient_norm,
        "optim": "adamw_torch",
        "seed": seed % 2**32,
        "use_cpu": not on_gpu,
        "bf16": on_gpu and torch.cuda.is_bf16_supported(),
        "gradient_checkpointing": recipe.gradient_checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if recipe.gradient_checkpointing else None,
        "logging_steps": 1,
        # NaN losses must be visible and not be left out of means.
        "logging_nan_inf_filter": False,
        "save_steps": recipe.checkpoint_updates,
        "save_total_limit": 1,
        # Keep columns that are no arguments of the model: weights, advantages, old probabilities.
        "remove_unused_columns": False,
        "disable_tqdm": True,
    }


class WholeUpdateLoss:
    """A mixin for trainers: the loss does not depend on how an update is divided between batches and devices.

    With means of batches, a token of a short batch would weigh more than one of a long batch. Here each batch gives a
    sum, which is divided by the divisor of the whole update.
    """

    loss_is_scaled_for_ga: bool | None = True
    """Makes `transformers.Trainer` not divide the loss by the number of batches of an update."""
    accelerator: Any

    def batch_of(self, inputs: dict[str, Any]) -> Any:
        return ReplyBatch(**inputs)

    def batch_sum(self, model: Any, batch: Any) -> Tensor:
        raise NotImplementedError

    def divisor(self, batch: Any) -> Tensor:
        raise NotImplementedError

    def prepared(self, batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return batches

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Any]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], Tensor]:
        """Return the batches of one update, and the divisor of their loss over all devices."""
        batches: list[dict[str, Any]]
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)  # type: ignore[misc]
        batches = self.prepared(batches)
        own = sum((self.divisor(self.batch_of(batch)) for batch in batches), torch.zeros(()))
        whole = self.accelerator.gather(own.to(device)).sum()
        # Where nothing is learned, the sum is 0, too.
        return batches, torch.where(whole > 0, whole, torch.ones_like(whole))

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Tensor | None = None
    ) -> Tensor:
        assert num_items_in_batch is not None
        loss = self.batch_sum(model, self.batch_of(inputs)) / num_items_in_batch
        # The devices average gradients, but their sum is needed.
        share: Tensor = loss * self.accelerator.num_processes
        return share

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        # The trainer would look for the tokens under another name.
        return 0


class ClippedLoss(WholeUpdateLoss):
    """A mixin for trainers: equation 3, with the recipe's divergence; it logs clipped tokens and the divergence."""

    recipe: ClippedRecipe
    weighs_divergence = False
    """Whether the divergence of a reply is multiplied by its weight."""
    _clipped = _tokens = _divergence = _divided = 0.0

    def old(self, batch: ReplyBatch) -> Tensor:
        return batch.old

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
        now = token_log_probs(reply_logits(model, batch), batch.tokens)
        old, clip = self.old(batch), self.recipe.clip_ratio
        total = clipped_sum(now, old, batch.mask, batch.advantages, batch.weights, clip)
        self._clipped += float(clipped_tokens(now.detach(), old, batch.mask, clip))
        self._tokens += float(batch.mask.sum())
        if self.recipe.divergence:
            weights = batch.weights if self.weighs_divergence else None
            away = divergence_sum(now, batch.reference, batch.mask, weights)
            self._divergence += float(away.detach())
            self._divided += float(self.divisor(batch))
            total = total + self.recipe.divergence * away
        return total

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if self._tokens:
            logs["clipped"] = self._clipped / self._tokens
        if self._divided:
            logs["divergence"] = self._divergence / self._divided
        self._clipped = self._tokens = self._divergence = self._divided = 0.0
        super().log(logs, start_time)  # type: ignore[misc]


class TrainingWatch(TrainerCallback):
    """Reports the progress, and ends a training whose loss is NaN."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        for name, noun in (("loss", "loss"), ("grad_norm", "gradient")):
            value = (logs or {}).get(name, 0.0)
            if not math.isfinite(value):
                raise TrainingFailedError(
                    f"the {noun} is {value} at update {state.global_step} of {state.max_steps}: "
                    "lower train.learning_rate, or look at the rows of the release"
                )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._progress is not None:
            self._progress(state.global_step, state.max_steps)

    on_train_begin = on_step_end


class TrajectoryTrainer(ClippedLoss, Trainer):  # type: ignore[misc]
    def __init__(self, recipe: TrpoSpec, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.recipe: TrpoSpec = recipe

    def old(self, batch: ReplyBatch) -> Tensor:
        return batch.old if self.recipe.old_log_probs == "stored" else batch.reference

    def divisor(self, batch: ReplyBatch) -> Tensor:
        """N of equation 3: the number of tokens."""
        return batch.mask.sum()


def train_on_trajectories(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Train on the RL rows of a release. Raises BadInputError if they lack log probabilities that the recipe needs."""
    recipe, files = job.recipe, rl_files(job.release)
    assert isinstance(recipe, TrpoSpec)
    rows = rl_rows(files, job.folder / ROWS)
    pairs = zip(rows["response_token_ids"], rows["old_logprobs"], strict=True)
    missing = sum(not tokens or len(tokens) != len(log_probs or ()) for tokens, log_probs in pairs)
    if missing and recipe.old_log_probs == "stored":
        raise BadInputError(
            f"{missing} of {len(rows)} RL rows have no log probabilities of their replies' tokens: serve the "
            "policy so that it gives them (vLLM, rl.tokens = true), or set train.old_log_probs = 'recomputed'"
        )

    def trainer_of(model: LoadedParts, given: dict[str, Any]) -> TrajectoryTrainer:
        collate, known = ReplyCollator(model, rl_reply), rows
        if recipe.divergence or recipe.old_log_probs == "recomputed":
            network = model.network.to(given["args"].device)
            known = rows.add_column(REFERENCE, reference_log_probs(network, rows, collate, recipe.rows_at_once))
        return TrajectoryTrainer(recipe, model=model.network, train_dataset=known, data_collator=collate, **given)

    return run_training(job, processes, progress, files, len(rows), trainer_of)


@torch.no_grad()
def reference_log_probs(network: Any, rows: Dataset, collate: ReplyCollator, at_once: int) -> list[list[float]]:
    """Return for each row the log probabilities of its reply under the present network; processes share the work."""
    network.eval()
    found: list[list[float]] = []
    with PartialState().split_between_processes(list(range(len(rows)))) as own:
        for start in range(0, len(own), at_once):
            made = collate([rows[number] for number in own[start : start + at_once]])
            batch = ReplyBatch(**send_to_device(made, network.device))
            log_probs = token_log_probs(reply_logits(network, batch), batch.tokens).cpu()
            found.extend(row[mask.bool()].tolist() for row, mask in zip(log_probs, made["mask"], strict=True))
    return list(gather_object(found))
