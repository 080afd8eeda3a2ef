import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.stages.derive.samples import DONE, TAP, episode, query, step
from tests.stages.export.formats.folders import SOURCE, write
from tests.stages.export.stored import StoredScreens
from tests.stages.export.test_rewards import rewarded_replies
from tests.stages.models.transformers_local.tiny_vlm import build_tiny_vlm
from tests.stages.online import toy_server
from tests.trainers.conftest import TEMPLATES, Load, Processes, packages_of
from tests.trainers.exports import Exported
from tests.trainers.loaded import Job, LoadedRow
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.example import Message
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import StopReason
from trajmill.stages.export.formats.base import TrainerSettings, format_spec
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import ReleasedStep, StepExample, step_example
from trajmill.stages.training.command import bounded_model

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


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_a_trainer_pays_what_the_page_says(trainer: str, trainer_process: Processes, tmp_path: Path) -> None:
    table = rewarded_replies()
    format_spec("verl").write_settings(tmp_path, TrainerSettings(family_named("gui-owl-1.5"), 8192, 1))
    paid = trainer_process(trainer).ask(
        "rewards",
        tmp_path,
        trainer=trainer,
        rows=[(row.target, row.reply) for row in table],
        model=str(build_tiny_vlm(tmp_path / "tiny")),
        reward_file=str(tmp_path / "reward.py"),
    )
    assert [tuple(round(paid[rule][at], 2) for rule in ("ces", "coda", "action")) for at in range(len(table))] == [
        row.rewards for row in table
    ]


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
def test_trls_grpo_learns_from_episodes_that_are_recorded_here(trainer_process: Processes, tmp_path: Path) -> None:
    model = build_tiny_vlm(tmp_path / "tiny")
    with toy_server.toy_server() as server:
        told = trainer_process("trl").ask("train_trl_online", tmp_path, url=server.url, model=str(model))
    assert told["steps"] == 2
    assert told["moved"] > 0
    assert [entry["rewards/TrlPhone/mean"] for entry in told["log"] if "reward" in entry] == [0.5, 0.5]
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
    model, replies = build_tiny_vlm(tmp_path / "tiny"), [toy_server.PRESS, toy_server.DONE]
    with toy_server.toy_server() as server:
        asked: dict[str, Any] = {"servers": [server.url], "model": str(model), "replies": replies}
        told = trainer_process("verl").ask("run_verl_loop", tmp_path, **asked)
    assert (told["rewards"], told["info"]) == ([None, 1.0], {"steps": 2})
    assert told["texts"] == replies
    assert told["masks"] == [True, True]
    assert {"prompts", "responses", "rollout_log_probs"} <= set(told["rows"][0])
    assert "rm_scores" in told["rows"][1]
    assert told["images"] == [[[20, 20]]] * 2
    assert all("Press Go" in prompt and "<|image_pad|>" in prompt for prompt in told["prompts"])
    assert told["unknown"] == []
    trajectory = server.recorded[0].episode.trajectory
    assert (trajectory.reward, trajectory.seed, trajectory.model_version) == (1.0, 3, "tiny")
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


MAX_PIXELS = 1_003_520
SIZES = {"wide": Size(1920, 1080), "tall": Size(1080, 2400), "laptop": Size(1366, 768), "small": Size(640, 480)}
"""A 1366x768 picture has another size if it is first fitted into the published bounds, then into narrower ones."""
FORMATS = {"llamafactory": "llamafactory", "verl": "verl-sft", "swift": "swift"}
PUBLISHED = family_named("qwen2.5-vl")


class SizedScreens(StoredScreens):
    def image(self, screen_id: str) -> bytes:
        stream = io.BytesIO()
        Image.new("RGB", SIZES[screen_id], (120, 120, 120)).save(stream, "png")
        return stream.getvalue()

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return ()

    def size(self, screen_id: str) -> Size:
        return SIZES[screen_id]


def exported_pictures(kind: str, family: Family, folder: Path) -> Path:
    screens = SizedScreens()
    names = [*SIZES, "small"]
    actions = [TAP.model_copy(update={"x": 300, "y": 200})] * (len(SIZES) - 1) + [DONE]
    steps = [
        step(at, action, (names[at], names[at + 1]), platform=Platform.DESKTOP).model_copy(update={"raw_response": ""})
        for at, action in enumerate(actions)
    ]
    walk = episode(steps, asked=query("q", Platform.DESKTOP))
    made = [step_example(family, walk, ReleasedStep(f"e{at}", "t", at, 1.0), screens) for at in range(len(actions))]
    assert all(isinstance(each, StepExample) for each in made)
    folder.mkdir()
    write_folder(folder, format_spec(kind), family, SOURCE, ReleaseSteps(made), screens)
    return folder


@pytest.mark.parametrize("trainer", FORMATS)
def test_a_trainer_sees_the_pictures_that_the_targets_were_written_for(
    trainer: str, trainer_process: Processes, tmp_path: Path
) -> None:
    from tests.trainers.tiny_processor import build_tiny_processor  # transformers takes seconds to import

    family = PUBLISHED.within(MAX_PIXELS)
    template = (packages_of("trl") / TEMPLATES / "qwen2_5_vl.jinja").read_text(encoding="utf-8")
    model = build_tiny_processor(tmp_path / "model", PUBLISHED, template, ["Order it. Thought: tap. Action: click"])
    # What the recipe `command` gives a trainer: a view of the model, and the bounds as variables.
    view = bounded_model(model, family.budget, tmp_path / "view")
    bounds = {"MIN_PIXELS": str(family.budget.min_pixels), "MAX_PIXELS": str(family.budget.max_pixels)}
    release, kind = exported_pictures(FORMATS[trainer], family, tmp_path / "release"), FORMATS[trainer]
    most = json.loads((release / "export.json").read_text())["max_length"]
    job = Job(kind, str(release), str(view), work=str(tmp_path / "work"), max_length=most, replies=())
    (told,) = trainer_process(trainer).ask(f"load_{trainer}", tmp_path, bounds, jobs=[job._asdict()])
    rows = [LoadedRow(*row) for row in (told["rows"] if isinstance(told, dict) else told)]
    grids = [row.grids for row in rows]
    seen = [Size(wide * 14, high * 14) for ((_, high, wide),) in grids]
    assert seen == [family.budget.fit(size) for size in SIZES.values()]
    assert (seen[0], seen[1]) == (Size(1316, 728), Size(672, 1484))
