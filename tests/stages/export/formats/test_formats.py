import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.stages.derive.rl_rows import EpisodeBatch, rl_rows_of
from tests.stages.derive.samples import DONE, TAP, episode, query, size_of, step
from tests.stages.export.formats.folders import BOX, SOURCE, read, walked, write
from tests.stages.export.stored import StoredScreens, png
from trajmill.schemas.actions import PressKeys, TypeText, action_from_json
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.dialects.user_text import end_to_end_prompt
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import RLStep
from trajmill.stages.derive.rl_steps import PolicyWords
from trajmill.stages.export.formats.base import FORMATS, format_spec
from trajmill.stages.export.formats.card import ExportedFolder
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import rl_step_example
from trajmill.stages.export.rewards import ReplyTarget

# `dpo` takes no steps of attempts.
kinds = pytest.mark.parametrize("kind", [kind for kind in FORMATS.kinds() if kind != "dpo"])


@pytest.mark.parametrize(
    ("family", "x", "y", "said"),
    # Of 720x1280 pixels the first two are shown 728x1288; the last says thousandths.
    [("qwen2.5-vl", 719, 1279, "727 1287"), ("ui-tars", 719, 1279, "727 1287"), ("gui-owl-1.5", 360, 320, "500 250")],
)
def test_a_position_is_in_what_the_model_sees(family: str, x: int, y: int, said: str, tmp_path: Path) -> None:
    corner = episode([step(0, TAP.model_copy(update={"x": x, "y": y})), step(1, DONE)])
    rows = read(write("swift", family, tmp_path / "out", [corner]).folder)
    assert all(number in str(rows[0].reply) for number in said.split())


@pytest.mark.parametrize("kind", ["llamafactory", "swift", "verl-sft"])
def test_one_assistant_message_is_learned_and_earlier_turns_come_before_it(kind: str, tmp_path: Path) -> None:
    whole = read(write("trl", "gui-owl-1.5", tmp_path / "trl", walked()[:1]).folder)
    for turns, row in zip(whole, read(write(kind, "gui-owl-1.5", tmp_path / "out", walked()[:1]).folder), strict=True):
        assert [role for role, _ in row.messages] == ["system", "user"] and row.reply == turns.reply
        chat = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns.messages)
        assert chat == "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in row.messages)
    assert len(whole[4].images) == 5 and len(whole[4].messages) == 10


@kinds
def test_a_row_has_the_whole_lineage_and_the_weight_of_its_step_has_effect(kind: str, tmp_path: Path) -> None:
    weights = {0: 0.0, 1: 2.6, 2: 0.4, 3: 0.15}
    written = write(kind, "qwen3-vl", tmp_path / "out", walked()[:1], weights)
    rows = read(written.folder)
    first = rows[0].columns
    assert first["instruction"] == "Order q" and first["platform"] == "phone" and first["task"] == "bites.order"
    assert first["environment"] == "simulated" and first["policy_version"] == "m0" and first["round"] == 1
    assert first["guided"] is False and first["step_label"] == "NEUTRAL" and first["judged_by"] == "test"
    assert first["image_sizes"] == [[720, 1280]] and first["image_tokens"] == 880
    assert first["apps"] in (["bites"], "bites")
    assert all(value is not None for value in first.values())
    assert written.exported.counts.left_out == {"weight_zero": 1}
    if kind == "swift":
        scales = {row.columns["step_index"]: row.columns["messages"][-1]["loss_scale"] for row in rows}
        assert scales == {1: 2.6, 2: 0.4, 3: 0.15, 4: 1, 5: 1, 6: 1}
        assert all("loss_scale" not in message for row in rows for message in row.columns["messages"][:-1])
    else:
        assert [(row.columns["step_index"], row.columns["copy"], row.columns["loss_weight"]) for row in rows] == [
            *((1, copy, pytest.approx(2.6 / 3)) for copy in range(3)),
            *((2, 0, 0.4), (3, 0, 0.15), (4, 0, 1), (5, 0, 1), (6, 0, 1)),
        ]
        assert written.exported.repeated_rows == 2
        assert "6 distinct steps and 2 repeated rows" in (written.folder / "README.md").read_text()


@pytest.mark.parametrize("kind", ["grpo", "verl"])
def test_a_prompt_comes_with_its_target_and_verl_rows_with_their_number_and_reward(kind: str, tmp_path: Path) -> None:
    rows = read(write(kind, "qwen2.5-vl", tmp_path / "out", walked()).folder)
    first = rows[0].columns
    text = first["target"] if kind == "grpo" else first["reward_model"]["ground_truth"]
    target = ReplyTarget.model_validate_json(text)
    assert target.box == BOX and target.action == action_from_json(first["action"])
    assert target.screen == (720, 1280) and target.resized == (728, 1288)
    assert all(row.reply is None for row in rows)
    if kind == "grpo":
        return
    assert [row.columns["extra_info"]["index"] for row in rows] == list(range(len(rows)))
    assert {row.columns["data_source"] for row in rows} == {"trajmill/simulated"}
    scope: dict[str, object] = {}
    exec(compile((tmp_path / "out" / "reward.py").read_text(), "reward.py", "exec"), scope)
    score = scope["compute_score"]
    assert callable(score)
    said = score("trajmill/simulated", "nonsense", rows[0].columns["reward_model"]["ground_truth"], {})
    assert said["score"] == 0.0


def test_an_action_that_the_family_cannot_say_is_left_out_and_counted(tmp_path: Path) -> None:
    odd = episode([step(0, PressKeys(keys=("volume_up",))), step(1, DONE)])
    written = write("trl", "qwen3-vl", tmp_path / "out", [odd])
    assert written.exported.counts.left_out == {"not_expressible": 1}
    assert "| not_expressible | 1 |" in (written.folder / "README.md").read_text()
    assert [row.columns["step_index"] for row in read(written.folder)] == [1]


def test_a_text_of_a_forgotten_screen_and_an_earlier_reply_that_quotes_the_hints_are_left_out(tmp_path: Path) -> None:
    """The heading of a stored screen is its id, so typing it copies what was read there."""
    first = step(0, TAP)
    carried = episode([first, step(1, TAP), step(2, TypeText(text=first.screen_before)), step(3, DONE)])
    forgetful = write("trl", "qwen2.5-vl", tmp_path / "forgetful", [carried])
    assert forgetful.exported.counts.left_out == {"types_forgotten_text": 1}
    assert [row.columns["step_index"] for row in read(forgetful.folder)] == [0, 1, 3]
    shows_it = write("trl", "gui-owl-1.5", tmp_path / "shows it", [carried])
    assert not shows_it.exported.counts.left_out
    own_words = episode([step(0, TAP), step(1, TypeText(text="on no screen")), step(2, DONE)])
    assert not write("trl", "qwen2.5-vl", tmp_path / "own", [own_words]).exported.counts.left_out
    told = episode([step(0, TAP), step(1, TAP), step(2, DONE)]).model_copy(update={"guidance": "1. Did 1"})
    hints = told.model_copy(
        update={"steps": tuple(s.model_copy(update={"thought": f"1. Did {s.index}"}) for s in told.steps)}
    )
    written = write("trl", "ui-tars", tmp_path / "out", [hints])
    assert written.exported.counts.left_out["quotes_guidance"] > 0
    assert all("1. Did 1" not in text for row in read(written.folder) for _, text in row.messages)


def test_shards_are_cut_at_their_size_and_hold_all_rows(tmp_path: Path) -> None:
    written = write("llamafactory", "gui-owl", tmp_path / "out", walked(), shard_bytes=8_000)
    assert len(written.exported.written.shards) > 2
    assert len(read(written.folder)) == written.exported.written.rows == 10


@pytest.mark.parametrize("kind", ["trl", "grpo", "verl", "verl-sft"])
def test_the_features_are_read_by_every_version_of_the_datasets_library(kind: str, tmp_path: Path) -> None:
    folder = write(kind, "gui-owl", tmp_path / "out", walked()).folder
    schema = pq.read_schema(folder / "data/train-00000.parquet")
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    bounded = {name: {"dtype": "int64", "_type": "Value"} for name in ("min_pixels", "max_pixels")}
    encoded = {"bytes": {"dtype": "binary", "_type": "Value"}, "path": {"dtype": "string", "_type": "Value"}}
    assert features["images"] == [
        encoded | bounded if kind.startswith("verl") else {"_type": "Image"}
    ] and features.keys() == set(schema.names)
    assert '"List"' not in json.dumps(features) and '"Sequence"' not in json.dumps(features)


def test_llamafactory_finds_rows_and_settings(tmp_path: Path) -> None:
    folder = write("llamafactory", "qwen3-vl", tmp_path / "out", walked()).folder
    info = json.loads((folder / "dataset_info.json").read_text())["trajmill"]
    assert (folder / info["file_name"]).is_dir() and info["columns"] == {"messages": "messages", "images": "images"}
    settings = yaml.safe_load((folder / "llamafactory.yaml").read_text())
    assert settings["image_max_pixels"] == 16384 * 32 * 32 and settings["template"] == "qwen3_vl_nothink"


def test_the_card_says_what_the_data_is(tmp_path: Path) -> None:
    written = write("trl", "qwen2.5-vl", tmp_path / "out", walked())
    card = (written.folder / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["configs"][0]["data_files"][0]["path"] == ["data/train-00000.parquet"]
    for part in ("100% of the steps were made in simulated apps", "| GOOD | 1 |", "`test` (10 steps)", "max_length="):
        assert part in card
    assert "| 720x1280 | 7 | 1,196 | 880 | 1,196 | 1,196 | 1,196 | 880 |" in card
    longest = max(row.columns["tokens_at_most"] for row in read(written.folder))
    figures = json.loads((written.folder / "export.json").read_text())
    assert longest <= figures["max_length"] < longest + 256 and figures["rows"] == 10


rl_kinds = pytest.mark.parametrize("kind", ["grpo", "verl"])
TOKENS, LOGPROBS = (5, 7, 11), (-0.5, -0.25, 0.0)


def attempts() -> list[Episode]:
    """A group of three: a success, a failure, and a failure with a reply that is no action."""
    asked = query("a")
    told = [end_to_end_prompt(asked.instruction, None, [f"Did {index}" for index in range(at)]) for at in range(4)]
    right = [step(0, TAP, prompt=told[0]), step(1, DONE, prompt=told[1])]
    wrong = [step(at, TAP, prompt=told[at]) for at in range(4)]
    malformed = [step(0, None, prompt=told[0]), step(1, TAP, prompt=told[1])]
    given = {"reply_token_ids": TOKENS, "reply_logprobs": LOGPROBS}
    return [
        episode([each.model_copy(update=given) for each in steps], name=name, asked=asked, correct=correct)
        for name, steps, correct in (("r", right, True), ("w", wrong, False), ("m", malformed, False))
    ]


def derived(episodes: Sequence[Episode]) -> tuple[RLStep, ...]:
    words = PolicyWords(ANY, size_of, with_tokens=True, temperature=0.7)
    return rl_rows_of(EpisodeBatch(episodes), words=words).rows


def write_rl(folder: Path, kind: str, family: Family, rows: Sequence[RLStep]) -> ExportedFolder:
    folder.mkdir()
    by_id = {one.trajectory.trajectory_id: one for one in attempts()}
    steps = [rl_step_example(family, by_id[row.trajectory_id], row, size_of) for row in rows]
    return write_folder(folder, format_spec(kind), family, SOURCE, ReleaseSteps([], steps), StoredScreens())


def read_rl(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "rl_steps/train-00000.parquet").to_pylist()
    return rows


@rl_kinds
def test_every_reply_of_a_group_has_its_advantage(kind: str, tmp_path: Path) -> None:
    stored = derived(attempts())
    exported = write_rl(tmp_path / "out", kind, ANY, stored)
    rows = read_rl(tmp_path / "out")
    assert [row["rl_step_id"] for row in rows] == [row.rl_step_id for row in stored]
    assert {round(row["reward"], 2) for row in rows} == {1.0, 0.0, -0.25}
    for row, own in zip(rows, stored, strict=True):
        assert (row["advantage"], row["step_weight"]) == (own.advantage, own.step_weight)
        assert (row["group"], row["group_size"], row["replayed"], row["guided"]) == ("a", 3, False, False)
        assert (row["policy_version"], row["temperature"], row["round"]) == ("m0", 0.7, 1)
        assert tuple(row["response_token_ids"]) == TOKENS and tuple(row["old_logprobs"]) == LOGPROBS
        assert [image["bytes"] for image in row["images"]] == [png(screen) for screen in row["screen_ids"]]
        assert all(value is not None for value in row.values())
    assert exported.rl_counts.group_sizes == {"a": 3} and exported.rl_counts.with_tokens == len(rows) == 8


def test_card_figures_and_datasets_find_the_stored_replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    write_rl(tmp_path / "out", "grpo", ANY, derived(attempts()))
    card = (tmp_path / "out/README.md").read_text()
    assert "8 replies of 3 attempts in 1 groups" in card and "1 of size 3" in card and "8 replies have their" in card
    assert "TRL and verl sample their own replies" in card
    figures = json.loads((tmp_path / "out/export.json").read_text())
    assert figures["rl_rows"] == 8 and figures["rl_group_sizes"] == {"3": 1}
    rows = load_dataset(str(tmp_path / "out"), "rl_steps", split="train", cache_dir=str(tmp_path / "cache"))
    assert [image.size for image in rows[0]["images"]] == [(720, 1280)]
    assert rows[0]["response_token_ids"] == list(TOKENS) and rows[0]["old_logprobs"] == list(LOGPROBS)


@pytest.mark.parametrize(
    "given", [{"old_logprobs": None}, {"old_logprobs": LOGPROBS[:2]}, {"response_token_ids": None}]
)
def test_log_probabilities_that_are_not_one_for_each_token_are_refused(given: dict[str, Any], tmp_path: Path) -> None:
    row = derived(attempts())[0].model_copy(update=given)
    with pytest.raises(BadInputError, match=r"^step 0 of trajectory .*: \d log probabilities for \d tokens; derive"):
        write_rl(tmp_path / "out", "verl", ANY, [row])
