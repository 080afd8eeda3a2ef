import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.rollout.toy import ORIGIN, ToyEnvironment, toy_query
from trajmill.pipelines.models import ActingAgent, Endpoint
from trajmill.pipelines.rollout import AttemptQueue, Journaled, attempt_key, attempt_record
from trajmill.schemas.actions import Action, Answer, OpenApp, PressKeys, Terminate, TypeText
from trajmill.schemas.episode import AttemptRows
from trajmill.schemas.record import Row
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.spec import EndToEndSpec
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.sql import run_sql

NASTY = "a\ud800b\x00c\udfffd\x1f\x85\u2028\"'</script>"
ACTIONS: tuple[Callable[[str], Action | None], ...] = (
    lambda text: None,
    lambda text: TypeText(text=text),
    lambda text: PressKeys(keys=(text, text)),
    lambda text: OpenApp(app=text),
    lambda text: Answer(text=text),
    lambda text: Terminate(status="success"),
)


@dataclass(frozen=True)
class Babbler:
    text: str
    action: Action | None
    name: str = "babbler"
    model_version: str = "none"

    async def act(self, episode: EpisodeView) -> Decision:
        request = ChatRequest("policy", (ChatMessage("user", (self.text, episode.observation)),))
        call = AgentCall(request, Completion(self.text, 1, 1, "stop"), 1.0, error=self.text)
        return Decision(
            self.text,
            self.action,
            self.text,
            raw_response=self.text,
            prompt=self.text,
            role_outputs={self.text: self.text},
            calls=(call,),
        )


def roll(text: str, action: Action | None) -> FinishedAttempt:
    attempt = Attempt(toy_query(max_steps=2), Purpose.TRAIN, 0, 1)
    return asyncio.run(run_episode(attempt, Babbler(text, action), ToyEnvironment(), Limits(), ORIGIN))


def journalled(rollout: FinishedAttempt) -> Mapping[str, Sequence[Row]]:
    return Journaled([AttemptRows.model_validate_json(attempt_record(rollout))]).rows()


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters()), make=st.sampled_from(ACTIONS))
def test_any_text_becomes_rows(text: str, make: Callable[[str], Action | None]) -> None:
    for table, rows in journalled(roll(text, make(text))).items():
        rows_to_arrow(table, rows).validate(full=True)


@pytest.mark.slow
def test_text_with_quotes_and_control_characters_is_committed_and_read_by_sql(tmp_path: Path) -> None:
    warehouse, at = create_warehouse(tmp_path), StageRun("run", 1, "rollout")
    tables = journalled(roll(NASTY, TypeText(text=NASTY)))
    commit_stage(warehouse, at, write_tables(warehouse, at, tables))
    said = NASTY.translate(dict.fromkeys((0xD800, 0, 0xDFFF), "\ufffd"))
    query = "SELECT s.raw_response, c.response FROM steps s JOIN model_calls c USING (trajectory_id)"
    assert {tuple(row.values()) for row in run_sql(warehouse, query).to_pylist()} == {(said, said)}


ATTEMPTS = [Attempt(toy_query(f"q{number:02d}"), Purpose.TRAIN, number % 2, number) for number in range(40)]


def test_several_workers_take_each_attempt_once_and_all_get_some(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "root")
    workers = [AttemptQueue(warehouse, "staging/queue", ATTEMPTS, in_range=3) for _ in range(2)]
    taken: list[list[Attempt]] = [[], []]

    async def take_all() -> None:
        async def one(number: int) -> None:
            while (attempt := await workers[number].take()) is not None:
                taken[number].append(attempt)
                await asyncio.sleep(0)

        # Two slots of each worker.
        await asyncio.gather(*(one(number) for number in (0, 1, 0, 1)))

    asyncio.run(take_all())
    assert all(taken) and Counter(map(attempt_key, taken[0] + taken[1])) == Counter(map(attempt_key, ATTEMPTS))


def identity(weights: str) -> object:
    return ActingAgent(EndToEndSpec(), Endpoint(EmbeddedSpec(model=Path(weights)))).identity()


def test_what_an_agent_does_is_the_same_wherever_its_weights_lie() -> None:
    assert identity("/here/models/v1") == identity("/elsewhere/models/v1")
    assert identity("/here/models/v1") != identity("/here/models/v2")
