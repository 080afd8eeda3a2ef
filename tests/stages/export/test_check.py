from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stages.export.stored import EXPORTERS, StoredScreens, examples, png, rl_rows, write_release
from trajmill.schemas.record import content_id
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE
from trajmill.stages.export.release import check_release

LEFT_IN_A_TEXT = [{"type": "text", "text": "a <image>"}, {"type": "image", "text": ""}]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    write_release(tmp_path, examples([3, 2]).to_batches(), rl_rows().to_batches(), StoredScreens())
    return tmp_path


def spoil(path: Path, row: int, **values: Any) -> None:
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[row] |= values
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def test_what_was_exported_is_sound(release: Path) -> None:
    checked = check_release(release, EXPORTERS, {content_id("test", "t0"): "1. Tap Large first"})
    assert checked == ({SFT_FILE: 7, RL_FILE: 5}, 5, ())
    assert check_release(release, EXPORTERS, {}, images_every=2).images == 2


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"split": "heldout_slots"}, "split heldout_slots"),
        ({"action": '{"kind":"click","x":1,"y":1}'}, "does not say the stored action"),
        ({"completion": [{"role": "assistant", "content": [{"type": "text", "text": "hm"}]}]}, "stored action"),
        ({"prompt": [{"role": "user", "content": [{"type": "text", "text": "no image"}]}]}, "do not match"),
        ({"images": []}, "do not match"),
        ({"images": [{"bytes": b"no png", "path": None}]}, "does not open"),
        ({"images": [{"bytes": png("s0")[:-40], "path": None}]}, "does not open"),
        ({"images": [{"bytes": png("d0"), "path": None}]}, "screens.parquet says"),
        ({"prompt": [{"role": "user", "content": LEFT_IN_A_TEXT}]}, "left in a text"),
    ],
)
def test_a_damaged_sft_row_is_found(release: Path, values: dict[str, Any], what: str) -> None:
    spoil(release / SFT_FILE, 0, **values)
    problems = check_release(release, EXPORTERS, {}).problems
    assert any(what in problem.what for problem in problems)
    assert {problem.row_id for problem in problems} == {pq.read_table(release / SFT_FILE)["example_id"][0].as_py()}


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"advantage": float("nan")}, "advantage nan"),
        ({"step_weight": 0.0}, "step weight 0.0"),
        ({"response_token_ids": [5, 7], "old_logprobs": [-0.5]}, "1 log probabilities for 2 tokens"),
        ({"prompt": [{"role": "user", "content": "<image><image>"}]}, "do not match"),
    ],
)
def test_a_damaged_rl_row_is_found(release: Path, values: dict[str, Any], what: str) -> None:
    spoil(release / RL_FILE, 0, **values)
    (problem,) = check_release(release, EXPORTERS, {}).problems
    assert what in problem.what and problem.file == RL_FILE


@pytest.mark.parametrize("hint", ["progress: 1 steps", "Thought 1"])
def test_guidance_that_was_left_in_a_prompt_or_a_reply_is_found(release: Path, hint: str) -> None:
    given = {content_id("test", name): f"0. No such words\n {hint} " for name in ("t0", "s")}
    problems = check_release(release, EXPORTERS, given).problems
    assert {problem.what for problem in problems} == {"it quotes the guidance that the agent was given"}
    assert sorted(problem.file for problem in problems) == [SFT_FILE, RL_FILE]


def test_a_sample_of_the_row_groups_can_be_checked(release: Path) -> None:
    path = release / SFT_FILE
    spoil(path, 5, split="heldout_slots")
    pq.write_table(pq.read_table(path), path, row_group_size=1)
    assert len(check_release(release, EXPORTERS, {}).problems) == 1
    sampled = check_release(release, EXPORTERS, {}, groups_every=3)
    assert sampled.rows[SFT_FILE] == 3 and sampled.problems == ()
