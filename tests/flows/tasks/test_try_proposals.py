"""Proposed tasks are tried once before training: a model behind a real server proposes them and judges the attempts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.served_judge import opinion
from tests.flows.small_run import do, small_config, up_to
from tests.flows.tasks.test_propose import Writer, config_of, proposed
from tests.stages.environments.browser.site import serving
from tests.stages.models.fault_server import FaultServer, running_server
from trajmill.flows.configuration.config import EvaluateSection, JudgeSection, QueriesSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.evolve import accepted_since_training
from trajmill.flows.round import stages_of
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import PROPOSE, TRY_PROPOSALS
from trajmill.flows.tasks.rollout import training_queries
from trajmill.schemas.errors import FailureClass, TrajmillError
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.environments.kinds import BrowserSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.queries.proposals.source import PROPOSED
from trajmill.warehouse.read import read_rows


class WriterAndCritic(Writer):
    """Finds attempts at `alpha1` incorrect and all others correct; of a `speechless` task it says no verdict."""

    def __init__(self) -> None:
        super().__init__()
        self.speechless = "alpha2 "
        self.asked_to_judge = 0

    def __call__(self, body: dict[str, Any]) -> str:
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        if fields.keys().isdisjoint({"label", "correct"}):
            return super().__call__(body)
        self.asked_to_judge += 1
        text = json.dumps(body["messages"]).casefold()
        if self.speechless and self.speechless in text:
            return "I cannot say"
        verdict = json.loads(opinion(body))
        if "correct" in verdict:
            verdict["correct"] = "alpha1 " not in text
        return json.dumps(verdict)


@pytest.fixture
def critic() -> WriterAndCritic:
    return WriterAndCritic()


@pytest.fixture
def server(critic: WriterAndCritic) -> Iterator[FaultServer]:
    with running_server(writes=critic) as running:
        yield running


@pytest.fixture
def tried(tmp_path: Path, server: FaultServer) -> RoundContext:
    """The first round, with four proposals that wait to be tried."""
    config = config_of(tmp_path, server.url)
    updated = {
        "queries": config.queries.model_copy(update={"try_proposals": True}),
        "judge": JudgeSection(channels=("text",), votes=1, quorum=1, tries=1),
        "models": ModelsSection(writer="tiny", critic=CriticRoles(step="tiny", text=("tiny",))),
    }
    context = RoundContext.of(config.model_copy(update=updated))
    up_to(PROPOSE, context)
    return context


def in_tables(context: RoundContext) -> dict[str, str]:
    """The validation of each proposed task in the table, by its first word."""
    found = [row for row in read_rows(context.warehouse, Query) if row.source in PROPOSED]
    assert len({row.query_id for row in found}) == len(found)
    return {row.instruction.split()[0].casefold(): row.validation for row in found}


def failures(context: RoundContext) -> list[Failure]:
    rows = read_rows(context.warehouse, Failure, rounds=[context.round])
    return [row for row in rows if row.stage == TRY_PROPOSALS]


@pytest.mark.slow
def test_only_what_was_done_once_is_trained_on_and_what_nobody_could_judge_is_tried_again(
    tried: RoundContext, critic: WriterAndCritic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise TrajmillError("the machine is gone")

    assert in_tables(tried) == {} and TRY_PROPOSALS in [stage.name for stage in stages_of(tried.config)]
    with monkeypatch.context() as before, pytest.raises(TrajmillError, match="gone"):
        before.setattr("trajmill.flows.stage.commit_stage", dies)
        do(TRY_PROPOSALS, tried)
    asked = critic.asked_to_judge
    assert asked and in_tables(tried) == {}
    do(TRY_PROPOSALS, tried)
    assert critic.asked_to_judge == asked, "finished attempts are neither made nor judged anew"

    decided = {"alpha1": INFEASIBLE, "alpha3": FEASIBLE, "alpha4": FEASIBLE}
    assert in_tables(tried) == decided
    assert {query.instruction.split()[0].casefold() for query in proposed(tried)} == {"alpha3", "alpha4"}
    assert set(proposed(tried)) <= set(training_queries(tried))
    refused, unjudged = sorted(failures(tried), key=lambda row: row.failure_class, reverse=True)
    assert refused.failure_class is FailureClass.TASK and "the attempt was judged incorrect: " in refused.message
    assert unjudged.failure_class is FailureClass.JUDGE

    trials = read_rows(tried.warehouse, Trajectory, rounds=[1])
    assert [row.purpose for row in trials] == [Purpose.TRIAL] * 3
    assert {row.trajectory_id for row in trials} == {row.trajectory_id for row in read_rows(tried.warehouse, Judgement)}
    assert {row.query_id for row in trials} <= set(tried.all_queries) and refused.input_id in tried.all_queries
    calls = [row for row in read_rows(tried.warehouse, ModelCall) if row.role.startswith("critic")]
    assert len({call.call_id for call in calls}) == len(calls) == asked
    assert accepted_since_training(tried.config) == 0

    critic.speechless = ""
    second = tried.in_round(2)
    do(PROPOSE, second)
    do(TRY_PROPOSALS, second)
    later = in_tables(second)
    assert later.items() > (decided | {"alpha2": FEASIBLE}).items()
    assert {later[task] for task in later.keys() - decided.keys()} == {FEASIBLE}
    assert failures(second) == []


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_is_where_proposals_are_tried(tmp_path: Path, critic: WriterAndCritic, server: FaultServer) -> None:
    critic.speechless = ""
    examples, tasks = tmp_path / "examples.jsonl", tmp_path / "own.jsonl"
    with serving() as site:
        start = {"apps": ["form"], "start_state": {"url": f"{site}/drawn-by-others"}}
        tasks.write_text(json.dumps({"instruction": "Open the form.", **start}))
        examples.write_text(json.dumps({"instruction": "Have a look around", "platform": "web", **start}))
        config = small_config(tmp_path).model_copy(
            update={
                "environment": BrowserSpec(tasks=tasks),
                "queries": QueriesSection(example_tasks=examples, curriculum=2, try_proposals=True),
                "evaluate": EvaluateSection(episodes=1, train_sample=1),
                "judge": JudgeSection(channels=("text",), votes=1, quorum=1, tries=1),
                "endpoints": {"tiny": OpenAiSpec(model="tiny", urls=(server.url,), attempts=1, cache=False)},
                "models": ModelsSection(writer="tiny", critic=CriticRoles(step="tiny", text=("tiny",))),
            }
        )
        context = RoundContext.of(config)
        up_to(PROPOSE, context)
        do(TRY_PROPOSALS, context)
    assert in_tables(context) == {"alpha1": INFEASIBLE, "bravo1": FEASIBLE}
    trials = [row for row in read_rows(context.warehouse, Trajectory) if row.purpose is Purpose.TRIAL]
    assert len(trials) == 2 and {row.failure_class for row in trials} <= {None, FailureClass.LIMIT}
