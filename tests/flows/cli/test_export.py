"""`trajmill export`: from a run's release to a trainer's folder, whole or not at all."""

import errno
import json
import shutil
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pyarrow.parquet as pq
import pytest

from tests.built_once import copy_of
from tests.flows.command_line import CommandLine
from tests.flows.runs import changed, opinion, small_config, up_to
from tests.stages.export.formats.folders import read
from tests.stages.models.fault_server import running_server
from trajmill.flows.configuration.config import Config, JudgeSection, QueriesSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.deriving import derive_kind
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.release import RELEASE, release_again
from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.geometry import Point, Size
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step, Trajectory
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.derive.spec import DeriveSpec, GroundingRLSpec, GroundingSpec
from trajmill.stages.export.formats.base import FORMATS
from trajmill.stages.export.formats.steps import same_action
from trajmill.stages.export.rewards import compute_score
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows, read_table
from trajmill.warehouse.releases import newest_release
from trajmill.warehouse.screens import WarehouseScreens

pytestmark = pytest.mark.slow

_LENGTH: Final = 5
"""Replies after which it ends the episode: as many as the past screens that it is shown, and one more."""
_PHONE: Final = (
    {"action": "click", "coordinate": [0, 0]},
    {"action": "swipe", "coordinate": [500, 781], "coordinate2": [500, 203]},
    {"action": "type", "text": "Größe 42"},
    {"action": "system_button", "button": "Back"},
    {"action": "long_press", "coordinate": [0, 0], "time": 1},
)
_DESKTOP: Final = (
    {"action": "left_click", "coordinate": [0, 0]},
    {"action": "scroll", "coordinate": [500, 500], "pixels": -3},
    {"action": "type", "text": "Größe 42"},
    {"action": "double_click", "coordinate": [0, 0]},
    {"action": "key", "keys": ["ctrl", "a"]},
)


def served_config(root: Path, url: str) -> Config:
    """A small round whose policy and critic are on the server, with groups of four."""
    return changed(
        small_config(root, rounds=1),
        queries=QueriesSection(train=7, validation=0, heldout_slots=1, heldout_phrasings=0, heldout_apps=0),
        rollout={"episodes_per_round": 8},
        guidance={"enabled": False},
        # Looking at screenshots is dear, and what is exported does not depend on it.
        judge=JudgeSection(precision_floor=0.0, channels=(Channel.TEXT,), filter_steps=False),
        evaluate={"episodes": 1, "train_sample": 1},
        endpoints={"tiny": OpenAiSpec(model="tiny", urls=(url,), family="gui-owl-1.5", max_pixels=100_000)},
        models=ModelsSection(policy="tiny", critic=CriticRoles(text=("tiny",))),
    )


def answer(body: dict[str, Any]) -> str:
    """The policy's reply, or a critic's opinion; the same request is always answered alike."""
    draw = crc32(json.dumps([body["messages"][0], body["messages"][1], body.get("seed")]).encode())
    if "response_format" in body:
        said = json.loads(opinion(body))
        if "correct" in said:
            said["correct"] = crc32(str(body["messages"]).encode()) % 3 > 0
        return json.dumps(said)
    return _reply(body["messages"], draw)


def _reply(messages: list[dict[str, Any]], draw: int) -> str:
    asked = next(message for message in messages if message["role"] == "user")["content"]
    text = asked if isinstance(asked, str) else "".join(block.get("text", "") for block in asked)
    done = text.count("\nStep ") + sum(message["role"] == "assistant" for message in messages)
    if draw % 9 == 0:
        return "Action: I do not know.\n<tool_call>\n{}\n</tool_call>"
    phone = "mobile_use" in str(messages[0]["content"])
    arguments: dict[str, Any] = dict((_PHONE if phone else _DESKTOP)[(draw + done) % len(_PHONE)])
    if arguments.get("coordinate") == [0, 0]:
        arguments["coordinate"] = [draw // 7 % 1000, draw // 7000 % 1000]
    if done >= _LENGTH:
        arguments = {"action": "terminate", "status": "success"}
    call = {"name": "mobile_use" if phone else "computer_use", "arguments": arguments}
    return f"Action: Do {arguments['action']}.\n<tool_call>\n{json.dumps(call)}\n</tool_call>"


OWL, QWEN = "gui-owl-1.5", "qwen2.5-vl"


def words(warehouse: Warehouse, out: Path, *arguments: str) -> tuple[object, ...]:
    return "export", "--root", warehouse.root, "--out", out, *arguments


@pytest.fixture(scope="module")
def served_run(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A round up to its release, whose policy was a server that speaks as GUI-Owl 1.5 does."""
    root = tmp_path_factory.mktemp("served")
    with running_server(writes=answer) as server:
        context = RoundContext.of(served_config(root, server.url))
        up_to(RELEASE, context)
    return context.warehouse


def steps_of(warehouse: Warehouse) -> dict[tuple[str, int], Step]:
    return {(step.trajectory_id, step.index): step for step in read_rows(warehouse, Step)}


def parsed(family: str, row: Mapping[str, Any], reply: str) -> tuple[Action | None, CoordinateFrame]:
    chosen = family_named(family)
    frame = chosen.frame(Size(*row["image_sizes"][-1]))
    read_again = chosen.dialect(Platform(row["platform"])).parse(reply, frame)
    return (read_again.action if isinstance(read_again, Reply) else None), frame


@pytest.mark.parametrize(
    ("kind", "made", "family"),
    [("trl", "small_run", QWEN), *product(sorted({*FORMATS.kinds()} - {"dpo"}), ["served_run"], [QWEN, OWL])],
)
def test_every_format_says_the_stored_actions_on_the_stored_screens(
    kind: str, made: str, family: str, tmp_path: Path, command: CommandLine, request: pytest.FixtureRequest
) -> None:
    warehouse: Warehouse = request.getfixturevalue(made)
    told = command.said(*words(warehouse, tmp_path / "out", "--format", kind, "--family", family))
    rows, stored, screens = read(tmp_path / "out"), steps_of(warehouse), WarehouseScreens(warehouse)
    assert rows and told.startswith(f"{newest_release(warehouse)}: {len(rows):,} rows of ")
    attempts = {row.trajectory_id: row for row in read_rows(warehouse, Trajectory)}
    most, served = 1 + family_named(family).past_screens, made == "served_run"
    assert {row.columns["platform"] for row in rows} == {"phone", "desktop"} or not served
    for row in rows:
        own = stored[row.columns["trajectory_id"], row.columns["step_index"]]
        attempt = attempts[own.trajectory_id]
        assert row.columns["guided"] == (attempt.guidance_id is not None)
        assert row.columns["policy_version"] == attempt.model_version
        assert row.columns["action"] == own.action and row.columns["screen_ids"][-1] == own.screen_before
        assert row.images[-1] == screens.image(own.screen_before)
        assert sum(text.count("<image>") for _, text in row.messages) == len(row.images) == min(own.index + 1, most)
        if row.reply is not None:
            said, frame = parsed(family, row.columns, row.reply)
            action = action_from_json(str(own.action))
            assert said is not None and (said == action if served else same_action(said, action, frame))
            assert (row.reply == own.raw_response) == (family == OWL) or not served
    assert max(row.columns["step_index"] for row in rows) >= 5 or not served


@pytest.mark.parametrize("family", [OWL, QWEN])
@pytest.mark.parametrize("kind", ["grpo", "verl"])
def test_own_words_of_groups_have_their_tokens(
    kind: str, family: str, served_run: Warehouse, tmp_path: Path, command: CommandLine
) -> None:
    command.said(*words(served_run, tmp_path / "out", "--format", kind, "--family", family))
    rows = pq.read_table(tmp_path / "out/rl_steps/train-00000.parquet").to_pylist()
    stored = steps_of(served_run)
    left_out = 0
    for row in rows:
        own = stored[row["trajectory_id"], row["step_index"]]
        reply = row["response"] if kind == "verl" else row["completion"][0]["content"][0]["text"]
        assert row["group_size"] == 4 and row["policy_version"] == own.policy_version
        assert parsed(family, row, reply)[0] == (None if own.action is None else action_from_json(own.action))
        given = (own.reply_token_ids, own.reply_logprobs)
        found = (tuple(row["response_token_ids"]), tuple(row["old_logprobs"]))
        assert found == (given if family == OWL else ((), ()))
        left_out += own.action is None
    groups = {(row["group"], row["trajectory_id"]): row["reward"] for row in rows}
    assert left_out and len(groups) == 4 * len({group for group, _ in groups})
    assert len(rows) == read_table(served_run, "rl_steps").num_rows


def test_a_release_without_groups_is_no_rl_data(small_copy: Warehouse, tmp_path: Path, command: CommandLine) -> None:
    shutil.rmtree(small_copy.table("rl_steps"))
    said = command.refused(*words(small_copy, tmp_path / "out", "--format", "grpo", "--family", "gui-owl"))
    assert "it is no RL data" in said and "rollout.group_size of 2 or more" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--format", "tlr", "--family", "qwen2.5-vl"), "did you mean trl?"),
        (("--format", "trl", "--family", "gui-owl", "--release", "no-such"), "there is no release 'no-such'; "),
        (("--format", "trl", "--family", "gui-owl", "--max-pixels", "1000"), "no step can be written for gui-owl"),
        (("--format", "atif", "--family", "gui-owl"), "leave out --family, --kind, --max-pixels, --screens"),
        (("--format", "adp", "--release", "no-such"), "there is no release 'no-such'; "),
        (("--format", "trl"), "trl needs --family, the model family to train: gui-owl, "),
    ],
)
def test_a_wrong_request_gives_one_error_line_and_leaves_nothing(
    arguments: tuple[str, ...], line: str, small_run: Warehouse, tmp_path: Path, command: CommandLine
) -> None:
    assert line in command.refused(*words(small_run, tmp_path / "out"), *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_is_left_alone(small_run: Warehouse, tmp_path: Path, command: CommandLine) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    said = command.refused(*words(small_run, tmp_path), "--format", "trl", "--family", "gui-owl")
    assert "is not an empty folder; name a new one" in said
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_full_disk_leaves_nothing_half_written(
    small_run: Warehouse, tmp_path: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write_bytes, full = tmp_path / "out", Path.write_bytes, OSError(errno.ENOSPC, "No space left on device")
    swift, room = words(small_run, out, "--format", "swift", "--family", "gui-owl"), iter("abc")

    def until_full(path: Path, data: bytes) -> int:
        if next(room, None) is None:
            raise full
        return write_bytes(path, data)

    with monkeypatch.context() as filling:
        filling.setattr(Path, "write_bytes", until_full)
        assert f"disk full while writing {out}" in command.failed(*swift)
    assert list(tmp_path.iterdir()) == []
    # What a killed export has left is cleared away.
    left = tmp_path / ".out.unfinished"
    left.mkdir()
    (left / "half").write_text("half")
    command.said(*swift)
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and not (out / "half").exists()


def press(at: Point, on_phone: bool) -> str:
    name, action = ("mobile_use", "click") if on_phone else ("computer_use", "left_click")
    call = {"name": name, "arguments": {"action": action, "coordinate": [*at]}}
    return f"Action: Press it.\n<tool_call>\n{json.dumps(call)}\n</tool_call>"


def test_grounding_that_the_policy_does_by_luck_becomes_rows_for_rl(
    served_run: Warehouse, tmp_path: Path, command: CommandLine
) -> None:
    root = copy_of(served_run.root, tmp_path / "root")
    aims: dict[str, Point] = {}

    def presses(body: dict[str, Any]) -> list[str]:
        """Hit always, never or with every second sample, as the instruction decides."""
        asked = "".join(block.get("text", "") for block in body["messages"][-1]["content"])
        at, luck, on_phone = aims[asked], crc32(asked.encode()) % 3, "mobile_use" in str(body["messages"][0])
        hits = (luck == 0 or (luck == 2 and number % 2 == 0) for number in range(body["n"]))
        return [press(at if hit else Point(0, 0), on_phone) for hit in hits]

    with running_server() as server:
        server.writes_samples = presses
        few: dict[str, Any] = {"instructions": ("functional",), "dense_from": 0}
        kinds = DeriveSpec(grounding=GroundingSpec(**few), grounding_rl=GroundingRLSpec(**few))
        config = changed(served_config(root, server.url), derive=kinds)
        derive_kind(config, "grounding")
        screens = WarehouseScreens(open_warehouse(root))
        for row in read_rows(open_warehouse(root), Example):
            if row.kind == "grounding" and row.box is not None:
                (width, height), (x, y) = screens.size(row.screens[0]), row.box.center
                asked = row.messages[1].content.removesuffix("<image>")
                aims[asked] = Point(1000 * x // width, 1000 * y // height)
        made = derive_kind(config, "grounding_rl")
    assert made.examples and made.failures == 0 and {"always_hit", "never_hit"} <= made.refused.keys()
    release_again(config)
    arguments = ("--format", "verl", "--family", OWL, "--kind", "grounding_rl")
    command.said(*words(open_warehouse(root), tmp_path / "out", *arguments))
    written = pq.read_table(tmp_path / "out" / "data").to_pylist()
    assert 0 < len(written) <= made.examples
    for row in written:
        truth, on_phone = row["reward_model"]["ground_truth"], row["platform"] == "phone"
        aim = aims[row["prompt"][-1]["content"].removesuffix("<image>")]
        scores = [compute_score("", press(at, on_phone), truth, rule="action") for at in (aim, Point(0, 0))]
        assert [score["score"] for score in scores] == [1.0, 0.0]
