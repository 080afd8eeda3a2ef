import importlib.util
import json
import pickle
import shutil
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.training.hugging_face.small_release import FAMILY, write_rl, write_supervised
from tests.stages.training.hugging_face.test_encoding import batch_of
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.derive.kind_spec import KindSpec
from trajmill.stages.derive.spec import DERIVE_KINDS
from trajmill.stages.models.embedded.model import save_network, untrained_network
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.training.hugging_face.encoding import (
    ReplyCollator,
    reply_logits,
    rl_reply,
    rl_rows,
    supervised_reply,
    supervised_rows,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.launch import TrainingJob, train_in_this_process
from trajmill.stages.training.hugging_face.run import all_see_or_none, load_trained
from trajmill.stages.training.hugging_face.spec import CesStage1Spec, HuggingFaceRecipe, TrlSftSpec, TrpoSpec
from trajmill.stages.training.spec import RECIPES, ParentPolicy, Progress, RecipeSpec, TrainingReport

pytestmark = pytest.mark.slow
for package in ("accelerate", "trl", "peft"):
    pytest.importorskip(package, reason="the extra `train` is not installed")

FSDP = Path(__file__).parents[4] / "docs" / "examples" / "fsdp.yaml"
WEIGHTS = (1.0, 0.3, 2.0, 0.5, 1.0, 8.0)
SFT = TrlSftSpec(batch=2, learning_rate=1e-3)
TRPO = TrpoSpec(batch=2, learning_rate=1e-3, old_log_probs="recomputed", divergence=0.1)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> ParentPolicy:
    return ParentPolicy(build_tiny_vlm(tmp_path_factory.mktemp("model")), family=FAMILY)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    write_supervised(folder, WEIGHTS)
    write_rl(folder, [{} for _ in WEIGHTS])
    return folder


def trained(
    recipe: HuggingFaceRecipe,
    parent: ParentPolicy,
    release: Path,
    folder: Path,
    progress: Progress | None = None,
    seed: int = 1,
) -> TrainingReport:
    return train_in_this_process(TrainingJob(recipe, parent, release, seed, folder), progress=progress)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(next(folder.glob("*.safetensors")))


def history(folder: Path) -> list[dict[str, float]]:
    found: list[dict[str, float]] = json.loads((folder / "metrics.json").read_text())["history"]
    return found


@torch.no_grad()
def log_probs(parent: ParentPolicy, release: Path, cache: Path, supervised: bool) -> list[Tensor]:
    model = load_trained(SFT, parent, 0)
    network = model.network.double().eval()
    collate = ReplyCollator(model, supervised_reply if supervised else rl_reply)
    file = release / ("trl/sft.parquet" if supervised else "verl/rl.parquet")
    rows = (supervised_rows if supervised else rl_rows)([file], cache)
    batches = [batch_of(collate, [row]) for row in rows]
    return [token_log_probs(reply_logits(network, batch), batch.tokens)[0] for batch in batches]


def test_the_loss_is_the_weighted_mean_of_its_whole_update(parent: ParentPolicy, release: Path, tmp_path: Path) -> None:
    recipe = SFT.model_copy(update={"batch": 6, "rows_at_once": 2, "report_to": ("tensorboard",)})
    report = trained(recipe, parent, release, tmp_path / "new")
    shown = EventAccumulator(str(tmp_path / "new" / "tensorboard"))
    shown.Reload()
    assert [event.value for event in shown.Scalars("train/loss")] == pytest.approx([report.loss])
    replies = log_probs(parent, release, tmp_path / "cache", supervised=True)
    total = sum(weight * len(reply) for weight, reply in zip(WEIGHTS, replies, strict=True))
    expected = -sum(weight * float(reply.sum()) for weight, reply in zip(WEIGHTS, replies, strict=True)) / total
    assert report.updates == 1 and report.rows == 6
    assert report.loss == pytest.approx(expected, rel=1e-5)


def test_the_trajectory_loss_is_equation_3_over_the_whole_update(parent: ParentPolicy, tmp_path: Path) -> None:
    write_rl(tmp_path, [{} for _ in WEIGHTS])
    now = log_probs(parent, tmp_path, tmp_path / "cache", supervised=False)
    draw = torch.Generator().manual_seed(0)
    old = [reply + 0.4 * torch.randn(len(reply), generator=draw, dtype=torch.float64) for reply in now]
    tokens = [row["response"] for row in rl_rows([tmp_path / "verl" / "rl.parquet"], tmp_path / "cache")]
    model = load_trained(TRPO, parent, 0)
    ids = [[*model.tokenizer(text)["input_ids"], model.tokenizer.eos_token_id] for text in tokens]
    given = tmp_path / "given"
    said = zip(ids, old, strict=True)
    write_rl(given, [{"response_token_ids": own, "old_logprobs": before.tolist()} for own, before in said])
    recipe = TRPO.model_copy(update={"batch": 6, "rows_at_once": 3, "old_log_probs": "stored", "divergence": 0.0})
    report = trained(recipe, parent, given, tmp_path / "new")
    rows = list(rl_rows([given / "verl" / "rl.parquet"], tmp_path / "cache"))
    total = 0.0
    for row, reply, before in zip(rows, now, old, strict=True):
        for ratio in (reply - before.float().double()).exp().tolist():
            advantage = row["advantage"]
            total -= row["step_weight"] * min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
    assert report.loss == pytest.approx(total / sum(map(len, now)), rel=1e-4)
    assert 0 < history(tmp_path / "new")[0]["clipped"] < 1


def stop(done: int, _: int) -> None:
    if done == 2:
        raise KeyboardInterrupt


@pytest.mark.parametrize("recipe", [SFT, TRPO.model_copy(update={"lora_rank": 4})], ids=["trl-sft", "trpo-lora"])
def test_a_training_that_was_stopped_goes_on_bit_for_bit(
    recipe: HuggingFaceRecipe, parent: ParentPolicy, release: Path, tmp_path: Path
) -> None:
    recipe = recipe.model_copy(update={"checkpoint_updates": 1})
    whole = trained(recipe, parent, release, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(recipe, parent, release, tmp_path / "stopped", stop)
    # What a `kill -9` leaves while a checkpoint is written.
    broken = tmp_path / "stopped" / "checkpoints" / "checkpoint-9"
    broken.mkdir()
    (broken / "trainer_state.json").write_text('{"cut')
    done: list[int] = []
    again = trained(recipe, parent, release, tmp_path / "stopped", lambda update, _: done.append(update))
    assert done == [1, 2, 3] and again == whole
    expected, found = weights(tmp_path / "whole"), weights(tmp_path / "stopped")
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert history(tmp_path / "whole") == history(tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "checkpoints").exists()


def test_no_checkpoint_of_another_training_is_continued(parent: ParentPolicy, release: Path, tmp_path: Path) -> None:
    recipe = TRPO.model_copy(update={"checkpoint_updates": 1})
    with pytest.raises(KeyboardInterrupt):
        trained(recipe, parent, release, tmp_path, stop, seed=1)
    done: list[int] = []
    trained(recipe, parent, release, tmp_path, lambda update, _: done.append(update), seed=2)
    assert done == [0, 1, 2, 3]


def test_only_the_adapter_changes_and_is_continued_later(parent: ParentPolicy, release: Path, tmp_path: Path) -> None:
    before = weights(parent.folder)
    recipe = TRPO.model_copy(update={"lora_rank": 2})
    first = trained(recipe, parent, release, tmp_path / "first")
    assert json.loads((tmp_path / "first" / "adapter_config.json").read_text())["r"] == 2
    assert not any("visual" in name for name in weights(tmp_path / "first"))
    second = trained(recipe, parent._replace(adapter=tmp_path / "first"), release, tmp_path / "second")
    assert first.version != second.version
    made = json.loads((tmp_path / "second" / "made_from.json").read_text())
    assert made["adapter"] and made["kind"] == "trpo" and made["seed"] == 1
    one, two = weights(tmp_path / "first"), weights(tmp_path / "second")
    assert one.keys() == two.keys() and any(not torch.equal(one[name], two[name]) for name in one)
    assert all(torch.equal(value, weights(parent.folder)[name]) for name, value in before.items())


def test_a_frozen_vision_tower_keeps_its_weights(parent: ParentPolicy, release: Path, tmp_path: Path) -> None:
    trained(SFT.model_copy(update={"freeze_vision": True}), parent, release, tmp_path)
    before, after = weights(parent.folder), weights(tmp_path)
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same == {name for name in before if "visual" in name}
    for name in ("tokenizer.json", "chat_template.jinja", "preprocessor_config.json", "config.json"):
        assert (tmp_path / name).read_bytes() == (parent.folder / name).read_bytes()


def test_a_loss_that_is_no_number_and_memory_that_runs_out_end_the_training_with_one_line(
    parent: ParentPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rl(tmp_path, [{}, {"advantage": float("nan")}, {}])
    with pytest.raises(TrainingFailedError, match=r"the loss is nan at update \d of 2: lower train.learning_rate"):
        trained(TRPO, parent, tmp_path, tmp_path / "new")
    assert not list((tmp_path / "new").glob("*.safetensors"))
    for error in (torch.OutOfMemoryError("CUDA out of memory"), MemoryError()):
        monkeypatch.setattr("trajmill.stages.training.hugging_face.run.reply_logits", Mock(side_effect=error))
        with pytest.raises(TrainingFailedError, match="memory ran out with 1 rows at once: lower"):
            trained(TRPO, parent, tmp_path, tmp_path / "other")


def test_what_cannot_be_trained_gives_one_error_line(parent: ParentPolicy, release: Path, tmp_path: Path) -> None:
    save_network(untrained_network(0), tmp_path / "embedded")
    broken = shutil.copytree(parent.folder, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"cut")
    stored = TRPO.model_copy(update={"old_log_probs": "stored"})
    odd = TRPO.model_copy(update={"batch": 3, "rows_at_once": 2})
    for recipe, policy, said in (
        (stored, parent, r"6 of 6 RL rows have no log probabilities .*rl.tokens = true"),
        (odd, parent, "train.batch is 3, no multiple of rows_at_once times processes, 2"),
        (TRPO, parent._replace(family=family_named("gui-owl-1.5")), "name the model's own family"),
        (TRPO, ParentPolicy(broken, family=FAMILY), "transformers cannot load this model"),
    ):
        with pytest.raises(BadInputError, match=said):
            trained(recipe, policy, release, tmp_path / "new")
    with pytest.raises(BadInputError, match="holds no model in Hugging Face's layout"):
        TRPO.train(ParentPolicy(tmp_path / "embedded"), release, 1, tmp_path / "new")


def preset(kind: str, **settings: float) -> TrlSftSpec:
    return RECIPES.default_spec(kind, TrlSftSpec, settings)


@pytest.mark.parametrize("kind", ["rft", "coda-generalist", "role-rejection", "ces-stage1", "coda-specialist"])
def test_a_recipe_trains_on_a_kind_that_can_be_derived_without_a_model(kind: str) -> None:
    settings = {"executor": "gui-r1"} if kind in ("ces-stage1", "coda-specialist") else {}
    assert DERIVE_KINDS.default_spec(RECIPES.default_spec(kind, RecipeSpec, settings).learns_kind, KindSpec).needs == ()


def test_an_iteration_of_online_rejection_sampling_learns_from_its_own_round(tmp_path: Path) -> None:
    file = write_supervised(tmp_path, (1.0, 0.5, 2.0, 1.0))
    rows = pq.read_table(file)
    in_rounds = rows.drop_columns(["round"]) if "round" in rows.column_names else rows
    pq.write_table(in_rounds.append_column("round", pa.array([1, 2, 2, 1])), file)
    assert len(supervised_rows([file], tmp_path / "all")) == 4
    assert supervised_rows([file], tmp_path / "new", only_newest_round=True)["loss_weight"] == [0.5, 2.0]
    assert preset("online-rejection").only_newest_round and preset("role-rejection").only_newest_round


def test_a_job_travels_to_another_process_without_keys(tmp_path: Path) -> None:
    frozen = {"executor": OpenAiSpec(model="tiny", urls=("http://localhost:1",))}
    policy = ParentPolicy(tmp_path / "model", tmp_path / "adapter", FAMILY, frozen)
    job = TrainingJob(SFT, policy, tmp_path / "release", 2**40, tmp_path / "new")
    assert pickle.loads(job._replace(variables={"KEY": "secret"}).pickled()) == job


def test_missing_packages_name_the_extra(parent: ParentPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInputError, match=r"^train.report_to needs mlflow: pip install mlflow, or name a Python"):
        TrlSftSpec(report_to=("tensorboard", "mlflow")).train(parent, tmp_path, 0, tmp_path / "new")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInputError, match=r"needs trl and accelerate and peft: pip install 'trajmill\[train\]'"):
        TrlSftSpec(lora_rank=4).train(parent, tmp_path, 0, tmp_path / "new")


@pytest.mark.parametrize(
    ("recipe", "text", "message"),
    [
        (SFT, None, r"divides a model among processes: set train\.processes"),
        (SFT.model_copy(update={"processes": 2}), "{", "settings.yaml cannot be read: while parsing"),
        (SFT.model_copy(update={"processes": 2}), "processes: 2", "it has no distributed_type"),
        (SFT.model_copy(update={"processes": 2}), "distributed_type: DEEPSPEED", "pip install deepspeed"),
        (CesStage1Spec(executor="gui-r1"), None, "kind 'ces-stage1' samples"),
    ],
)
def test_settings_that_cannot_divide_a_model_get_one_line(
    recipe: HuggingFaceRecipe, text: str | None, message: str, parent: ParentPolicy, tmp_path: Path
) -> None:
    file = FSDP if text is None else tmp_path / "settings.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadInputError, match=message):
        recipe.model_copy(update={"accelerate": file}).train(parent, tmp_path, 0, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_divided_model_takes_rows_that_all_have_pictures_or_none(tmp_path: Path) -> None:
    all_see_or_none(supervised_rows([write_supervised(tmp_path / "all", (1.0, 1.0))], tmp_path / "one"))
    mixed = supervised_rows([write_supervised(tmp_path / "mixed", WEIGHTS)], tmp_path / "two")
    with pytest.raises(BadInputError, match=r"^2 of 6 rows have no picture"):
        all_see_or_none(mixed)


@pytest.mark.parametrize("bad_input", [True, False])
def test_the_error_of_the_process_is_raised_here(bad_input: bool, parent: ParentPolicy, tmp_path: Path) -> None:
    told = json.dumps({"error": "what was wrong", "bad_input": bad_input})
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho 'trajmill update 3 4'\necho '{told}' > $4\n")
    python.chmod(0o755)
    done: list[tuple[int, int]] = []
    with pytest.raises(BadInputError if bad_input else TrainingFailedError, match=r"^what was wrong$"):
        TRPO.model_copy(update={"python": str(python)}).train(
            parent, tmp_path, 0, tmp_path / "new", lambda *count: done.append(count)
        )
    assert done == [(3, 4)]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["training.log"]
    for silent, said in (("/bin/false", "ended with status 1"), ("/bin/true", "without a report")):
        with pytest.raises(TrainingFailedError, match=said):
            TRPO.model_copy(update={"python": silent}).train(parent, tmp_path, 0, tmp_path / "new")


def test_two_processes_train_as_one_does(parent: ParentPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    write_rl(tmp_path, [{} for _ in range(4)])
    alone = trained(TRPO, parent, tmp_path, tmp_path / "alone", seed=0)
    done: list[tuple[int, int]] = []
    # On a CPU accelerate gives each process the whole model, whatever its settings say of FSDP.
    settings = tmp_path / "settings.yaml"
    settings.write_text(FSDP.read_text().replace("bf16", '"no"'))
    both = TRPO.model_copy(update={"processes": 2, "accelerate": settings})
    report = both.train(parent, tmp_path, 0, tmp_path / "both", lambda *count: done.append(count))
    assert done == [(0, 2), (1, 2), (2, 2)]
    assert report._replace(loss=0.0) == alone._replace(loss=0.0)
    assert report.loss == pytest.approx(alone.loss, abs=1e-5)
    before, one, two = map(weights, (parent.folder, tmp_path / "alone", tmp_path / "both"))
    for name in before:
        moved = (one[name] - before[name]).abs().max()
        assert (one[name] - two[name]).abs().max() <= 1e-2 * moved + 1e-6, name
