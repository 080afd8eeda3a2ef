"""`trajmill export` of a run whose policy was a server that speaks as GUI-Owl 1.5 does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.flows.served_policy import answer, served_config
from tests.flows.small_run import up_to
from tests.stages.export.formats.folders import ReadRow, read
from tests.stages.models.fault_server import running_server
from trajmill.flows.cli.app import run
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.release import RELEASE
from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.export.formats.base import FORMATS
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_rows, read_table

pytestmark = pytest.mark.slow
OWN = "gui-owl-1.5"
families = pytest.mark.parametrize("family", [OWN, "qwen2.5-vl"])


@pytest.fixture(scope="module")
def served_run(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A round up to its release."""
    root = tmp_path_factory.mktemp("served")
    with running_server(writes=answer) as server:
        context = RoundContext.of(served_config(root, server.url))
        up_to(RELEASE, context)
    return context.warehouse


def steps_of(warehouse: Warehouse) -> dict[tuple[str, int], Step]:
    return {(step.trajectory_id, step.index): step for step in read_rows(warehouse, Step)}


def export(warehouse: Warehouse, out: Path, kind: str, family: str) -> None:
    assert run(["export", "--root", str(warehouse.root), "--out", str(out), "--format", kind, "--family", family]) == 0


def parsed(family: str, row: dict[str, Any], reply: str) -> Action | None:
    chosen = family_named(family)
    frame = chosen.frame(Size(*row["image_sizes"][-1]))
    read_again = chosen.dialect(Platform(row["platform"])).parse(reply, frame)
    return read_again.action if isinstance(read_again, Reply) else None


@families
@pytest.mark.parametrize("kind", FORMATS.kinds())
def test_every_format_says_the_stored_actions(kind: str, family: str, served_run: Warehouse, tmp_path: Path) -> None:
    export(served_run, tmp_path / "out", kind, family)
    stored, rows = steps_of(served_run), read(tmp_path / "out")
    assert {row.columns["platform"] for row in rows} == {"phone", "desktop"}
    for row in rows:
        own = stored[row.columns["trajectory_id"], row.columns["step_index"]]
        assert row.columns["action"] == own.action and row.columns["screen_ids"][-1] == own.screen_before
        if row.reply is not None:
            assert parsed(family, dict(row.columns), row.reply) == action_from_json(str(own.action))
            assert (row.reply == own.raw_response) == (family == OWN)
    assert_past_is_shown(family, rows)


def assert_past_is_shown(family: str, rows: list[ReadRow]) -> None:
    shown = {row.columns["step_index"]: len(row.images) for row in rows}
    most = 1 + family_named(family).past_screens
    assert shown == {index: min(index + 1, most) for index in shown} and max(shown) >= 5


@families
@pytest.mark.parametrize("kind", ["grpo", "verl"])
def test_replies_of_groups_have_their_tokens_in_the_policys_own_words(
    kind: str, family: str, served_run: Warehouse, tmp_path: Path
) -> None:
    export(served_run, tmp_path / "out", kind, family)
    rows = pq.read_table(tmp_path / "out/rl_steps/train-00000.parquet").to_pylist()
    stored = steps_of(served_run)
    left_out = 0
    for row in rows:
        own = stored[row["trajectory_id"], row["step_index"]]
        reply = row["response"] if kind == "verl" else row["completion"][0]["content"][0]["text"]
        assert row["group_size"] == 4 and row["policy_version"] == own.policy_version
        assert parsed(family, row, reply) == (None if own.action is None else action_from_json(own.action))
        given = (own.reply_token_ids, own.reply_logprobs)
        found = (tuple(row["response_token_ids"]), tuple(row["old_logprobs"]))
        assert found == (given if family == OWN else ((), ()))
        left_out += own.action is None
    groups = {(row["group"], row["trajectory_id"]): row["reward"] for row in rows}
    assert left_out and len(groups) == 4 * len({group for group, _ in groups})
    assert len(rows) == read_table(served_run, "rl_steps").num_rows
