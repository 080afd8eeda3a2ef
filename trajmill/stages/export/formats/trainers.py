"""The formats of the trainers: each makes the row of its trainer from a canonical row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import yaml

from trajmill.schemas.coordinates import QWEN3_VL
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.stages.export.card import render_markdown
from trajmill.stages.export.formats.base import DATA_FOLDER, TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.steps import RLStepExample, StepExample
from trajmill.stages.export.images import BLOCK_MESSAGES, STRING_MESSAGES, in_blocks, in_one_prompt, in_strings


class _BuiltInFormat(TrainerFormat):
    def advice(self, settings: TrainerSettings) -> str:
        """Fill in the template of the format in `advice/`."""
        family = settings.family
        return render_markdown(
            __package__,
            f"advice/{self.kind}.md.jinja",
            settings=settings,
            budget=family.budget,
            data_folder=DATA_FOLDER,
            reward_file=REWARD_FILE,
            settings_file=SETTINGS_FILE,
            dataset=DATASET,
            template=_template(family),
            never_shrunk=_never_shrunk(settings),
            never_enlarged=_NEVER_ENLARGED,
            model_type=_model_type(family),
        ).rstrip("\n")


class TrlFormat(_BuiltInFormat):
    columns: ClassVar = (pa.field("prompt", BLOCK_MESSAGES), pa.field("completion", BLOCK_MESSAGES))
    kind: Literal["trl"] = "trl"
    """Prompt and completion for `SFTTrainer`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        blocks = in_blocks(example.messages)
        return {"prompt": blocks[:-1], "completion": blocks[-1:]}


class GrpoFormat(_BuiltInFormat):
    columns: ClassVar = (pa.field("prompt", BLOCK_MESSAGES), pa.field("target", pa.string()))
    rl_columns: ClassVar = (pa.field("prompt", BLOCK_MESSAGES), pa.field("completion", BLOCK_MESSAGES))
    kind: Literal["grpo"] = "grpo"
    """Prompts and targets for `GRPOTrainer`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        return {"prompt": in_blocks(example.messages[:-1]), "target": example.target_json()}

    def rl_row(self, example: RLStepExample) -> Mapping[str, Any]:
        blocks = in_blocks(example.messages)
        return {"prompt": blocks[:-1], "completion": blocks[-1:]}


REWARD_FILE: Final = "reward.py"
_REWARD = '''\
"""What verl loads as its reward function; trajmill must be installed where verl runs."""

from trajmill.stages.export.rewards import compute_score

__all__ = ["compute_score"]
'''
_EXTRA_INFO = pa.struct(
    [
        ("split", pa.string()),
        ("index", pa.int64()),
        ("query_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("step_index", pa.int64()),
    ]
)


class VerlFormat(_BuiltInFormat):
    columns: ClassVar = (
        pa.field("data_source", pa.string()),
        pa.field("prompt", STRING_MESSAGES),
        pa.field("ability", pa.string()),
        pa.field("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        pa.field("extra_info", _EXTRA_INFO),
    )
    rl_columns: ClassVar = (pa.field("prompt", STRING_MESSAGES), pa.field("response", pa.string()))
    images_have_bounds: ClassVar[bool] = True
    kind: Literal["verl"] = "verl"
    """Prompts and ground truths for `RLHFDataset`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        """Return prompt and ground truth; verl tells rows apart by `extra_info.index`."""
        lineage = example.lineage
        return {
            "data_source": f"trajmill/{lineage.environment}",
            "prompt": in_strings(example.messages[:-1]),
            "ability": "gui",
            "reward_model": {"style": "rule", "ground_truth": example.target_json()},
            "extra_info": {
                "split": Split.TRAIN.value,
                "index": number,
                "query_id": lineage.query_id,
                "trajectory_id": lineage.trajectory_id,
                "step_index": lineage.step_index,
            },
        }

    def rl_row(self, example: RLStepExample) -> Mapping[str, Any]:
        *prompt, reply = in_strings(example.messages)
        return {"prompt": prompt, "response": reply["content"]}

    def write_settings(self, folder: Path, settings: TrainerSettings) -> None:
        (folder / REWARD_FILE).write_text(_REWARD, encoding="utf-8")


class VerlSftFormat(_BuiltInFormat):
    columns: ClassVar = (pa.field("messages", STRING_MESSAGES),)
    images_have_bounds: ClassVar[bool] = True
    kind: Literal["verl-sft"] = "verl-sft"
    """Messages for `MultiTurnSFTDataset`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        return {"messages": in_strings(in_one_prompt(example.messages))}


DATASET: Final = "trajmill"
SETTINGS_FILE: Final = "llamafactory.yaml"
_NEVER_ENLARGED: Final = 1
"""The smallest number of pixels of an image that LLaMA-Factory does not enlarge."""
_INFO = {
    DATASET: {
        "file_name": DATA_FOLDER,
        "formatting": "sharegpt",
        "columns": {"messages": "messages", "images": "images"},
        "tags": {
            "role_tag": "role",
            "content_tag": "content",
            "user_tag": "user",
            "assistant_tag": "assistant",
            "system_tag": "system",
        },
    }
}


class LlamaFactoryFormat(_BuiltInFormat):
    stage: ClassVar[str] = "sft"
    info: ClassVar[Mapping[str, Any]] = _INFO
    kind: Literal["llamafactory"] = "llamafactory"
    """Messages in the sharegpt form."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        return {"messages": in_strings(in_one_prompt(example.messages))}

    def write_settings(self, folder: Path, settings: TrainerSettings) -> None:
        (folder / "dataset_info.json").write_text(json.dumps(self.info, indent=1) + "\n", encoding="utf-8")
        needed = {
            "stage": self.stage,
            "dataset_dir": ".",
            "dataset": DATASET,
            "template": _template(settings.family),
            "cutoff_len": settings.max_length,
            "image_min_pixels": _NEVER_ENLARGED,
            "image_max_pixels": _never_shrunk(settings),
        }
        (folder / SETTINGS_FILE).write_text(yaml.safe_dump(needed, sort_keys=False), encoding="utf-8")


def _never_shrunk(settings: TrainerSettings) -> int:
    return max(settings.largest_image, settings.family.budget.max_pixels)


def _template(family: Family) -> str:
    return "qwen3_vl_nothink" if family.budget.factor == QWEN3_VL.factor else "qwen2_vl"


class DpoFormat(LlamaFactoryFormat):
    """Preferences, with the same rows twice: as TRL names their columns, and as LLaMA-Factory needs them."""

    columns: ClassVar = (
        *(pa.field(name, BLOCK_MESSAGES) for name in ("prompt", "chosen", "rejected")),
        pa.field("asked", STRING_MESSAGES),
        *(pa.field(name, STRING_MESSAGES.value_type) for name in ("better", "worse")),
    )
    stage: ClassVar[str] = "dpo"
    info: ClassVar[Mapping[str, Any]] = {
        DATASET: {
            **_INFO[DATASET],
            "ranking": True,
            "columns": {"messages": "asked", "images": "images", "chosen": "better", "rejected": "worse"},
        }
    }
    kind: Literal["dpo"] = "dpo"  # type: ignore[assignment]
    """Prompt, chosen and rejected reply for `DPOTrainer` and LLaMA-Factory."""

    def unusable(self, example: StepExample) -> str | None:
        return None if example.rejected else "no_rejected_reply"

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        """Return prompt and both replies. Raises BadInputError for a row without a rejected reply."""
        if not example.rejected:
            raise BadInputError(f"example {example.example_id} has no rejected reply: dpo takes --kind forks")
        *prompt, chosen = example.messages
        rejected = chosen.model_copy(update={"content": example.rejected})
        *asked, better = in_strings(in_one_prompt(example.messages))
        replies = {"asked": asked, "better": better, "worse": in_strings([rejected])[0]}
        return replies | {"prompt": in_blocks(prompt), "chosen": in_blocks([chosen]), "rejected": in_blocks([rejected])}


class SwiftFormat(_BuiltInFormat):
    kind: Literal["swift"] = "swift"
    """Messages with a loss scale each."""
    weights_as_rows: bool = False
    """Whether a step has as many rows as it weighs; ms-swift reads the weights."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        *said, reply = in_strings(in_one_prompt(example.messages))
        return {"messages": [*said, {**reply, "loss_scale": example.loss_weight}]}


def _model_type(family: Family) -> str:
    """Return ms-swift's name of the architecture and of its template."""
    return "qwen3_vl" if family.budget.factor == QWEN3_VL.factor else "qwen2_5_vl"


class FeedbackFormat(TrainerFormat):
    """Prompts of roles with the action that their words must lead to.

    The recipes `ces-stage1`, `ces-stage2` and `coda-specialist` read them. `target` is a `ReplyTarget`, `past` a list
    of the replies and conclusions of the steps before, both as JSON.
    """

    columns: ClassVar = (
        pa.field("prompt", BLOCK_MESSAGES),
        pa.field("variant", pa.string()),
        pa.field("target", pa.string()),
        pa.field("past", pa.string()),
    )
    kind: Literal["feedback"] = "feedback"
    """Prompts of roles, and the right actions."""
    weights_as_rows: bool = False
    """Whether a step has as many rows as it weighs; these recipes read the weights."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        """Return prompt, target and past.

        Raises:
            BadInputError: the row is no words of a role that lead to an action.
        """
        led = example.leads_to
        if led is None:
            raise BadInputError(
                f"example {example.example_id} leads to no action: execution feedback takes ces and coda"
            )
        return {
            "prompt": in_blocks(example.messages[:-1]),
            "variant": led.variant,
            "target": led.target.model_dump_json(),
            "past": json.dumps(led.past),
        }

    def advice(self, settings: TrainerSettings) -> str:
        return "The recipes `ces-stage1`, `ces-stage2` and `coda-specialist` of `[train]` read it."
