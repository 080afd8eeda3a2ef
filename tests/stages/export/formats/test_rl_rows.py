import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.stages.derive.rl_rows import EpisodeBatch, rl_rows_of
from tests.stages.derive.samples import DONE, TAP, episode, query, size_of, step
from tests.stages.export.formats.folders import SOURCE
from tests.stages.export.stored import StoredScreens, png
from trajmill.schemas.actions import action_from_json
from trajmill.schemas.dialects.base import ParseFailure, Reply
from trajmill.schemas.dialects.families import ANY, Family, family_named
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import RLStep
from trajmill.schemas.tables.query import Platform
from trajmill.stages.derive.rl_steps import PolicyWords
from trajmill.stages.export.formats.base import format_spec
from trajmill.stages.export.formats.card import ExportedFolder
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import rl_step_example, same_action

kinds = pytest.mark.parametrize("kind", ["grpo", "verl"])
TOKENS, LOGPROBS = (5, 7, 11), (-0.5, -0.25, 0.0)


def attempts() -> list[Episode]:
    """A group of three: a success, a failure, and a failure with a reply that is no action."""
    asked = query("a")
    told = [compose(asked.instruction, None, [f"Did {index}" for index in range(at)]) for at in range(4)]
    right = [step(0, TAP, prompt=told[0]), step(1, DONE, prompt=told[1])]
    wrong = [step(at, TAP, prompt=told[at]) for at in range(4)]
    malformed = [step(0, None, prompt=told[0]), step(1, TAP, prompt=compose(asked.instruction, None, ["Did 0"]))]
    given = {"reply_token_ids": TOKENS, "reply_logprobs": LOGPROBS}
    return [
        episode([each.model_copy(update=given) for each in steps], name=name, asked=asked, correct=correct)
        for name, steps, correct in (("r", right, True), ("w", wrong, False), ("m", malformed, False))
    ]


def derived(episodes: Sequence[Episode]) -> tuple[RLStep, ...]:
    words = PolicyWords(ANY, size_of, with_tokens=True, temperature=0.7)
    return rl_rows_of(EpisodeBatch(episodes), words=words).rows


def written(folder: Path, kind: str, family: Family, rows: Sequence[RLStep]) -> ExportedFolder:
    folder.mkdir()
    by_id = {one.trajectory.trajectory_id: one for one in attempts()}
    steps = [rl_step_example(family, by_id[row.trajectory_id], row, size_of) for row in rows]
    return write_folder(folder, format_spec(kind), family, SOURCE, ReleaseSteps([], steps), StoredScreens())


def read(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "rl_steps/train-00000.parquet").to_pylist()
    return rows


def reply_of(row: dict[str, Any]) -> str:
    return str(row["response"] if "response" in row else row["completion"][0]["content"][0]["text"])


@kinds
def test_every_reply_of_a_group_has_its_advantage(kind: str, tmp_path: Path) -> None:
    stored = derived(attempts())
    exported = written(tmp_path / "out", kind, ANY, stored)
    rows = read(tmp_path / "out")
    assert [row["rl_step_id"] for row in rows] == [row.rl_step_id for row in stored]
    # Rewards 1, 0 and 0 - 0.5 / 2.
    mean, square = 0.25, (1 + 0.0625) / 3
    deviation = math.sqrt(square - mean**2)
    wanted = {2: ((1 - mean) / deviation, 1 / 2), 4: (-mean / deviation, 1 / 4)}
    lengths = {one.trajectory.trajectory_id: len(one.steps) for one in attempts()}
    for row in rows:
        if row["format_reward"] == 0.0:
            advantage, weight = wanted[lengths[row["trajectory_id"]]]
            assert row["advantage"] == pytest.approx(advantage, abs=1e-4) and row["step_weight"] == weight
        assert (row["group"], row["group_size"], row["replayed"], row["guided"]) == ("a", 3, False, False)
        assert (row["policy_version"], row["temperature"], row["round"]) == ("m0", 0.7, 1)
        assert tuple(row["response_token_ids"]) == TOKENS and tuple(row["old_logprobs"]) == LOGPROBS
        assert [image["bytes"] for image in row["images"]] == [png(screen) for screen in row["screen_ids"]]
        assert all(value is not None for value in row.values())
    assert exported.rl_counts.group_sizes == {"a": 3} and exported.rl_counts.with_tokens == len(rows) == 8


@kinds
def test_in_another_family_replies_are_written_anew_without_their_tokens(kind: str, tmp_path: Path) -> None:
    family, stored = family_named("gui-owl-1.5"), {row.rl_step_id: row for row in derived(attempts())}
    written(tmp_path / "out", kind, family, list(stored.values()))
    rows = read(tmp_path / "out")
    for row in rows:
        frame = family.frame(size_of(row["screen_ids"][-1]))
        said = family.dialect(Platform.PHONE).parse(reply_of(row), frame)
        if row["action"]:
            assert isinstance(said, Reply) and same_action(said.action, action_from_json(row["action"]), frame)
        else:
            assert isinstance(said, ParseFailure) and reply_of(row) == "no call"
        assert row["advantage"] == stored[row["rl_step_id"]].advantage
        assert row["response_token_ids"] == row["old_logprobs"] == []
    assert sum(not row["action"] for row in rows) == 1


def test_card_figures_and_datasets_find_the_stored_replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    written(tmp_path / "out", "grpo", ANY, derived(attempts()))
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
        written(tmp_path / "out", "verl", ANY, [row])
