"""The recipes that train on derived kinds: their settings are the papers', and a tiny model learns by them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.training.hugging_face.small_release import FAMILY, write_supervised
from trajmill.stages.derive.kind_spec import KindSpec
from trajmill.stages.derive.spec import DERIVE_KINDS
from trajmill.stages.training.hugging_face.encoding import supervised_rows
from trajmill.stages.training.hugging_face.launch import TrainingJob, train_in_this_process
from trajmill.stages.training.hugging_face.spec import TrlSftSpec
from trajmill.stages.training.spec import RECIPES, ParentPolicy, RecipeSpec


def preset(kind: str, **settings: float) -> TrlSftSpec:
    """A preset of `trl-sft` with other settings."""
    return RECIPES.default_spec(kind, TrlSftSpec, settings)


def test_rft_has_the_settings_of_the_paper() -> None:
    """NaturalGAIA, appendix F."""
    recipe = preset("rft")
    assert (recipe.lora_rank, recipe.lora_alpha, recipe.learning_rate) == (8, 32, 1e-4)
    assert (recipe.batch, recipe.epochs, recipe.freeze_vision) == (128, 1.0, True)


@pytest.mark.parametrize("kind", ["rft", "coda-generalist", "role-rejection", "ces-stage1", "coda-specialist"])
def test_a_recipe_trains_on_a_kind_that_can_be_derived_without_a_model(kind: str) -> None:
    settings = {"executor": "gui-r1"} if kind in ("ces-stage1", "coda-specialist") else {}
    assert DERIVE_KINDS.default_spec(RECIPES.default_spec(kind, RecipeSpec, settings).learns_kind, KindSpec).needs == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [preset("rft", batch=2, max_updates=3), preset("coda-generalist", batch=2, max_updates=3, learning_rate=1e-3)],
)
def test_a_tiny_model_learns_for_a_few_updates(recipe: TrlSftSpec, tmp_path: Path) -> None:
    for package in ("accelerate", "trl", "peft"):
        pytest.importorskip(package, reason="the extra `train` is not installed")
    write_supervised(tmp_path, (1.0, 0.5, 2.0, 1.0))
    parent = ParentPolicy(build_tiny_vlm(tmp_path / "model"), family=FAMILY)
    report = train_in_this_process(TrainingJob(recipe, parent, tmp_path, 1, tmp_path / "new"))
    assert (report.updates, report.rows) == (2, 4)
    assert (tmp_path / "new" / "adapter_config.json").is_file() is bool(recipe.lora_rank)
    assert len(json.loads((tmp_path / "new" / "metrics.json").read_text())["history"]) == 2


@pytest.mark.slow
def test_an_iteration_of_online_rejection_sampling_learns_from_its_own_round(tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason="the extra `train` is not installed")
    file = write_supervised(tmp_path, (1.0, 0.5, 2.0, 1.0))
    rows = pq.read_table(file)
    in_rounds = rows.drop_columns(["round"]) if "round" in rows.column_names else rows
    pq.write_table(in_rounds.append_column("round", pa.array([1, 2, 2, 1])), file)
    assert len(supervised_rows([file], tmp_path / "all")) == 4
    assert supervised_rows([file], tmp_path / "new", only_newest_round=True)["loss_weight"] == [0.5, 2.0]
    assert preset("online-rejection").only_newest_round and preset("role-rejection").only_newest_round
