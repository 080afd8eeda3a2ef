"""TRL reads what we export for it; its own trainer learns online at an environment server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.export.formats.folders import read, write
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.online.toy_server import toy_server
from tests.trainers.conftest import TEMPLATES, Load, TrainerProcess, packages_of
from tests.trainers.rows import assert_conversations, assert_prompts
from tests.trainers.tiny_processor import build_tiny_processor
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.tables.trajectory import StopReason

pytestmark = pytest.mark.trainers


def test_sft_learns_replies_and_grpo_rewards_them(load: Load) -> None:
    for loaded in load("trl", "trl", "grpo"):
        if loaded.exported.job.format == "trl":
            assert_conversations(loaded.exported, loaded.rows)
            continue
        assert_prompts(loaded.exported, loaded.rows)
        assert loaded.told["rewards"] == pytest.approx([1.0] * len(loaded.rows))


@pytest.mark.slow
def test_a_row_counts_what_it_weighs_in_loss_and_gradient(
    trainer_process: Callable[[str], TrainerProcess], tmp_path: Path
) -> None:
    process, family = trainer_process("trl"), "qwen2.5-vl"
    walk = episode([step(0, TAP), step(1, TAP), step(2, DONE)])
    exported = write("trl", family, tmp_path / "out", [walk], {0: 2.6, 1: 0.15}).folder
    texts = [text for row in read(exported) for text in (row.reply or "", *(said for _, said in row.messages))]
    template = (packages_of("trl") / TEMPLATES / "qwen2_5_vl.jinja").read_text(encoding="utf-8")
    model = build_tiny_processor(tmp_path / "model", family_named(family).within(64 * 28 * 28), template, texts)
    process.run("train_trl_weighted", tmp_path, exported, model, tmp_path / "told.json")
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["copies"] == [0, 1, 2, 0, 0]
    assert told["weights"] == pytest.approx([2.6, 0.15, 1.0])
    assert told["loss"] == pytest.approx(told["wanted"], rel=1e-5) != pytest.approx(told["unweighted"], rel=1e-5)
    assert told["apart"] < 1e-3 * told["largest"]


@pytest.mark.slow
def test_grpo_learns_from_episodes_that_are_recorded_here(
    trainer_process: Callable[[str], TrainerProcess], tmp_path: Path
) -> None:
    model = build_tiny_vlm(tmp_path / "tiny")
    with toy_server() as server:
        trainer_process("trl").run("train_trl_online", tmp_path, server.url, model, tmp_path)
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["steps"] == 2
    assert told["moved"] > 0
    assert [entry["rewards/TrlPhone/mean"] for entry in told["log"] if "reward" in entry] == [0.5, 0.5]
    trajectories = [made.episode.trajectory for made in server.recorded]
    assert (
        sorted(each.stop_reason for each in trajectories) == [StopReason.AGENT_DONE] * 2 + [StopReason.STEP_LIMIT] * 2
    )
    assert {each.model_version for each in trajectories} == {"tiny"}
    assert sorted(each.reward or 0.0 for each in trajectories) == [0.0, 0.0, 1.0, 1.0]
