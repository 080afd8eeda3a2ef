from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.export.formats.folders import write
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.online import toy_server
from tests.trainers.conftest import Load, Processes
from tests.trainers.exports import Exported
from tests.trainers.loaded import LoadedRow
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import Message
from trajmill.schemas.tables.trajectory import StopReason

pytestmark = pytest.mark.trainers


@pytest.mark.parametrize(
    ("trainer", "formats"),
    [
        ("trl", ("trl", "grpo", "dpo")),
        ("swift", ("swift",)),
        ("verl", ("verl-sft", "verl")),
        ("llamafactory", ("llamafactory", "dpo")),
    ],
)
def test_a_trainer_learns_replies_or_rewards_them(trainer: str, formats: tuple[str, ...], load: Load) -> None:
    for loaded in load(trainer, *formats):
        if "rejected" in loaded.told:
            assert_preferences(loaded.exported, loaded.rows, loaded.told["rejected"])
        elif "rewards" not in loaded.told:
            assert_conversations(loaded.exported, loaded.rows)
        else:
            assert_prompts(loaded.exported, loaded.rows)
            assert loaded.told["rewards"] == pytest.approx([1.0] * len(loaded.rows))
        if trainer == "swift":
            weights = [example.loss_weight for example in loaded.exported.examples]
            assert loaded.told["scales"] == [[weight] for weight in weights]
            assert {0.25, 1.0, 2.0} == set(weights)
        assert loaded.told.get("indices", list(range(len(loaded.rows)))) == list(range(len(loaded.rows)))


@pytest.mark.slow
def test_a_row_counts_what_it_weighs_in_loss_and_gradient(trainer_process: Processes, tmp_path: Path) -> None:
    walk = episode([step(0, TAP), step(1, TAP), step(2, DONE)])
    exported = write("trl", "qwen2.5-vl", tmp_path / "out", [walk], {0: 2.6, 1: 0.15}).folder
    model = build_tiny_vlm(tmp_path / "model")
    told = trainer_process("trl").ask("train_trl_weighted", tmp_path, exported=str(exported), model=str(model))
    assert told["copies"] == [0, 1, 2, 0, 0]
    assert told["weights"] == pytest.approx([2.6, 0.15, 1.0])
    assert told["loss"] == pytest.approx(told["wanted"], rel=1e-5) != pytest.approx(told["unweighted"], rel=1e-5)
    assert told["apart"] < 1e-3 * told["largest"]


@pytest.mark.slow
def test_the_example_for_trl_learns_the_same_in_two_processes(trainer_process: Processes, tmp_path: Path) -> None:
    model, calls = build_tiny_vlm(tmp_path / "tiny"), [["click", {"x": 14, "y": 14}], ["finish", {"status": "success"}]]
    with toy_server.toy_server() as server:
        asked: dict[str, Any] = {"url": server.url, "model": str(model), "written": calls}
        first, second = trainer_process("trl").ask("train_trl_online", tmp_path, **asked)
    assert first["weights"] == second["weights"]
    assert (tmp_path / "trained" / "model.safetensors").read_bytes() != (model / "model.safetensors").read_bytes()
    assert [entry["rewards/TrlPhone/mean"] for entry in first["log"] if "reward" in entry] == [0.5, 0.5]
    trajectories = [made.episode.trajectory for made in server.recorded]
    stops = sorted(each.stop_reason for each in trajectories)
    assert stops == [StopReason.AGENT_DONE] * 2 + [StopReason.STEP_LIMIT] * 2
    assert {each.model_version for each in trajectories} == {"tiny"}
    assert sorted(each.reward or 0.0 for each in trajectories) == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.slow
def test_in_swift_each_turn_has_its_screen_and_the_last_one_the_reward(
    trainer_process: Processes, tmp_path: Path
) -> None:
    with toy_server.toy_server() as server:
        asked: dict[str, Any] = {"url": server.url, "press": toy_server.PRESS, "done": toy_server.DONE}
        solved, limited = trainer_process("swift").ask("run_swift_scheduler", tmp_path, **asked)
    assert [message["role"] for message in solved["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert "Press Go" in solved["messages"][1]["content"]
    assert [message["content"].count("<image>") for message in solved["messages"]] == [0, 1, 0, 1, 0]
    assert (solved["done"], solved["images"], solved["rollout_infos"]["total_reward"]) == (True, 2, 1.0)
    assert limited["messages"][3]["content"].startswith("no action: ")
    assert (limited["done"], limited["images"], limited["rollout_infos"]["total_reward"]) == (True, 3, 0.0)
    stops = [made.episode.trajectory.stop_reason for made in server.recorded]
    assert stops == [StopReason.AGENT_DONE, StopReason.STEP_LIMIT]


@pytest.mark.slow
def test_in_verl_a_turn_is_a_row_and_the_last_one_has_the_reward(trainer_process: Processes, tmp_path: Path) -> None:
    """By docs/examples/online/verl_grpo.sh and verl's own workers."""
    model, replies = build_tiny_vlm(tmp_path / "tiny"), [toy_server.PRESS, toy_server.DONE]
    with toy_server.toy_server() as server:
        asked: dict[str, Any] = {"url": server.url, "model": str(model), "replies": replies}
        told = trainer_process("verl").ask("run_verl_loop", tmp_path, **asked)
    assert (told["queries"], told["gpus"]) == ({"press": 0, "press_again": 1}, 8)
    assert (told["rewards"], told["info"]) == ([None, 1.0], {"steps": 2})
    assert told["texts"] == replies
    assert told["masks"] == [True, True]
    assert {"prompts", "responses", "rollout_log_probs"} <= set(told["rows"][0])
    assert "rm_scores" in told["rows"][1]
    assert told["images"] == [[[20, 20]]] * 2
    # The script's bound of pixels is above the processor's own.
    assert all("Press Go" in prompt and prompt.count("<|image_pad|>") >= 65536 // 28**2 for prompt in told["prompts"])
    assert told["unknown"] == []
    trajectory = server.recorded[0].episode.trajectory
    assert (trajectory.reward, trajectory.seed, trajectory.model_version) == (1.0, 0, "verl-grpo")
    assert trajectory.output_tokens > 0
    assert server.recorded[0].episode.steps[0].reply_logprobs


_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def assert_conversations(exported: Exported, rows: Sequence[LoadedRow]) -> None:
    # Rows of action semantics show two screens.
    assert max(len(row.grids) for row in rows) == max(2, 1 + exported.family.past_screens)
    assert_replies(exported, rows)


def assert_replies(exported: Exported, rows: Sequence[LoadedRow]) -> None:
    assert len(rows) == len(exported.examples) > 0
    for example, row in zip(exported.examples, rows, strict=True):
        assert row.text.rstrip("\n") == _chat(example.messages).rstrip("\n")
        assert row.learned.rstrip("\n") == f"{example.messages[-1].content}<|im_end|>"
    assert_images(exported, rows)


def assert_preferences(exported: Exported, rows: Sequence[LoadedRow], rejected: Sequence[str]) -> None:
    assert [text.rstrip("\n") for text in rejected] == [f"{one.rejected}<|im_end|>" for one in exported.examples]
    assert all(example.rejected != example.messages[-1].content for example in exported.examples)
    assert_replies(exported, rows)


def assert_prompts(exported: Exported, rows: Sequence[LoadedRow]) -> None:
    assert len(rows) == len(exported.examples) > 0
    for example, row in zip(exported.examples, rows, strict=True):
        assert row.text == f"{_chat(example.messages[:-1])}<|im_start|>assistant\n"
        assert "<image>" not in row.text and row.learned == ""
    assert max(len(row.grids) for row in rows) == max(2, 1 + exported.family.past_screens)
    assert_images(exported, rows)


def assert_images(exported: Exported, rows: Sequence[LoadedRow]) -> None:
    for example, row in zip(exported.examples, rows, strict=True):
        tokens = sum(_tokens(exported.family, size) for size in example.lineage.image_sizes)
        assert len(row.grids) == len(example.lineage.screen_ids) == row.text.count(_IMAGE)
        assert row.image_tokens == tokens == example.lineage.image_tokens
        assert sum(time * high * wide for time, high, wide in row.grids) == 4 * tokens


def _tokens(family: Family, size: Size) -> int:
    seen = family.budget.fit(size)
    return seen.width * seen.height // family.budget.factor**2


def _chat(messages: Sequence[Message]) -> str:
    spoken = "".join(f"<|im_start|>{message.role}\n{message.content}<|im_end|>\n" for message in messages)
    return spoken.replace("<image>", _IMAGE)
