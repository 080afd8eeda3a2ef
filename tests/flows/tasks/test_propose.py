"""Tasks proposed within rounds, by a model behind a real server."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once, copy_of
from tests.flows.runs import changed, do, opinion, small_config, up_to
from tests.stages.models.fault_server import FaultServer, running_server
from tests.stages.queries.samples import honest_draft
from trajmill.flows.configuration.config import Config, JudgeSection, RolloutSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.policies.policy import BASELINE, accepted_since_training
from trajmill.flows.round import stages_of
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import PROPOSE, TRY_PROPOSALS, task_successes
from trajmill.flows.tasks.judge import JUDGE
from trajmill.flows.tasks.rollout import training_queries
from trajmill.flows.tasks.train import measured_queries
from trajmill.schemas.errors import FailureClass, TrajmillError
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.proposals.source import PROPOSED
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_rows, read_table
from trajmill.warehouse.shards import DataFile

pytestmark = pytest.mark.slow

WRITTEN = """\
{"instruction": "Order me a pizza", "platform": "phone", "apps": ["bites"]}

{"instruction": "Wake me at 7:30", "platform": "phone", "apps": ["clock"]}
{"instruction": "Log my run", "platform": "phone", "apps": ["stride"]}
{"instruction": "Order again", "platform": "phone", "apps": ["bites"], "start_state": {"setup": {"no.list": {}}}}
"""


class Writer:
    """Writes, proposes and judges as it is told to.

    It proposes tasks that it has not proposed before, the first of them `bad`. It finds attempts at `alpha1` incorrect
    and all others correct; of a `speechless` task it says no verdict.
    """

    def __init__(self) -> None:
        self.proposals = self.asked_to_judge = 0
        self.bad, self.speechless = "Call [name]", "alpha2 "

    def __call__(self, body: dict[str, Any]) -> str:
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        if not fields.keys().isdisjoint({"label", "correct"}):
            return self._judged(body)
        if "tasks" not in fields:
            return honest_draft(said(body))
        self.proposals += 1
        names = [f"{name}{self.proposals}" for name in ("alpha", "bravo", "charlie", "delta")]
        texts = [self.bad, *(f"{name} {name}s {name}ly" for name in names)]
        return json.dumps({"tasks": [{"instruction": text, "difficulty": 1} for text in texts]})

    def _judged(self, body: dict[str, Any]) -> str:
        self.asked_to_judge += 1
        text, verdict = json.dumps(body["messages"]).casefold(), json.loads(opinion(body))
        if self.speechless and self.speechless in text:
            return "I cannot say"
        if "correct" in verdict:
            verdict["correct"] = "alpha1 " not in text
        return json.dumps(verdict)


def said(body: dict[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"][:2]).replace("\\n", "\n")


def config_of(root: Path, url: str) -> Config:
    tasks = root / "tasks.jsonl"
    tasks.write_text(WRITTEN)
    asked = {"example_tasks": tasks, "curriculum": 3, "screenshot": 2}
    return changed(
        small_config(root),
        queries={"train": 16, "heldout_slots": 3, "heldout_phrasings": 3, "validation": 0, **asked},
        rollout=RolloutSection(episodes_per_round=24, concurrency=8),
        endpoints={"tiny": OpenAiSpec(model="tiny", urls=(url,), attempts=1, cache=False)},
        models=ModelsSection(writer="tiny"),
    )


JUDGED = {
    "judge": JudgeSection(channels=("text",), votes=1, quorum=1, tries=1),
    "models": ModelsSection(writer="tiny", critic=CriticRoles(step="tiny", text=("tiny",))),
}
"""One vote on the text decides which proposals can be done."""


def proposed(context: RoundContext) -> list[Query]:
    return [query for query in context.queries.values() if query.source in PROPOSED]


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def server(writer: Writer) -> Iterator[FaultServer]:
    with running_server(writes=writer) as running:
        yield running


@pytest.fixture(scope="session")
def unproposed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a first round up to its untrained policy."""

    def build(root: Path) -> None:
        root.mkdir()
        with running_server(writes=Writer()) as server:
            up_to(BASELINE, RoundContext.of(config_of(root, server.url)))

    return built_once(tmp_path_factory, "unproposed", build)


@pytest.fixture
def first(unproposed: Path, tmp_path: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> RoundContext:
    """The first round before anything is proposed, which gets few steps: queries and the untrained policy are there."""
    monkeypatch.setattr("trajmill.stages.queries.proposals.source.MAX_STEPS", (4, 4, 4))
    return RoundContext.of(config_of(copy_of(unproposed, tmp_path / "root"), server.url))


def test_a_round_learns_on_proposals_and_the_next_builds_on_them(first: RoundContext, server: FaultServer) -> None:
    before = first.queries
    measured = measured_queries(first)
    up_to(PROPOSE, first)
    made = proposed(first)
    assert Counter(query.source for query in made) == {Source.CURRICULUM: 2, Source.SCREENSHOT: 2}
    assert {(query.split, query.round) for query in made} == {(Split.TRAIN, 1)}
    assert set(made) <= set(training_queries(first)) and measured_queries(first) == measured
    assert leaks_in_queries(list(first.queries.values()), first.config.queries.heldout_app_names) == ()

    failures = [row.message for row in read_rows(first.warehouse, Failure) if row.stage == PROPOSE]
    assert sum("is a placeholder" in message for message in failures) == 4 == len(failures) - 1
    assert "curriculum: training must not see the app stride: it is held out" in failures
    assert [bool(request.pictures) for request in server.received] == [False, False, True, True]
    calls = [row for row in read_rows(first.warehouse, ModelCall, rounds=[1]) if '"tasks"' in str(row.response)]
    assert len(calls) == 4 and all(call.role == "writer" for call in calls)
    screens = read_table(first.warehouse, "screens", ["screen_id"])["screen_id"].to_pylist()
    assert sum(screen in call.messages for call in calls for screen in screens) == 2

    up_to(JUDGE, first)
    tried = [row for row in read_rows(first.warehouse, Trajectory) if row.query_id in {each.query_id for each in made}]
    assert tried and {row.reward for row in tried} == {None}

    server.received.clear()
    second = first.in_round(2)
    successes = task_successes(second)[0]
    own = {"instruction": "Do a thing", "platform": successes.platform, "apps": successes.apps}
    (first.warehouse.root / "tasks.jsonl").write_text(f"{json.dumps(own)}\n{WRITTEN.splitlines()[-1]}\n")
    do(PROPOSE, second)
    assert Counter(query.round for query in proposed(second)) == {1: 4, 2: 5}
    late = [row for row in read_rows(first.warehouse, Failure, rounds=[2]) if row.stage == PROPOSE]
    (lost,) = [row for row in late if "the start state cannot be reached" in row.message]
    assert (lost.failure_class, lost.attempts) == (FailureClass.TASK, 3)
    told = "".join(said(request.body) for request in server.received)
    progress = told.partition("Tasks that the agent does reliably")[2].partition("Other tasks")[0]
    assert successes.instruction.partition('"')[0] in progress
    assert not any(query.instruction in told for query in before.values() if query.split is not Split.TRAIN)


def test_a_task_that_states_what_is_held_out_is_refused(first: RoundContext, writer: Writer) -> None:
    heldout = next(query for query in first.queries.values() if query.split is Split.HELDOUT_SLOTS)
    filler = " ".join(f"quite{number}" for number in range(30))
    writer.bad = f"{filler}: {heldout.instruction}"
    do(PROPOSE, first)
    refused = [row for row in read_rows(first.warehouse, Failure) if "states what is held out" in row.message]
    assert refused and all(writer.bad.casefold()[:20] not in query.instruction.casefold() for query in proposed(first))


def dies(*_: object) -> None:
    raise TrajmillError("the machine is gone")


def test_no_proposal_is_lost_or_doubled(first: RoundContext, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    def commits_and_dies(warehouse: Warehouse, at: StageRun, files: Mapping[str, Sequence[DataFile]]) -> None:
        commit_stage(warehouse, at, files)
        dies()

    with monkeypatch.context() as within, pytest.raises(TrajmillError, match="gone"):
        within.setattr("trajmill.pipelines.fan_out.write_tables", dies)
        do(PROPOSE, first)
    assert proposed(first) == [] and writer.proposals == 4
    with monkeypatch.context() as after, pytest.raises(TrajmillError, match="gone"):
        after.setattr("trajmill.flows.stage.commit_stage", dies)
        do(PROPOSE, first)
    assert proposed(first) == [] and writer.proposals == 8
    with monkeypatch.context() as between, pytest.raises(TrajmillError, match="gone"):
        between.setattr("trajmill.flows.stage.commit_stage", commits_and_dies)
        do(PROPOSE, first)
    made = proposed(first)
    tables = {table: read_table(first.warehouse, table).num_rows for table in ("failures", "model_calls", "screens")}
    do(PROPOSE, first)
    assert writer.proposals == 8 and proposed(first) == made and len(made) == 4
    assert {query.instruction.split()[0][-1] for query in made} <= set("5678")
    assert {table: read_table(first.warehouse, table).num_rows for table in tables} == tables
    assert len(set(read_table(first.warehouse, "model_calls")["call_id"].to_pylist())) == tables["model_calls"]


@pytest.fixture
def tried(first: RoundContext) -> RoundContext:
    """The first round, with four proposals that wait to be tried."""
    context = RoundContext.of(changed(first.config, queries={"try_proposals": True}, **JUDGED))
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


def test_only_what_was_done_is_trained_on(tried: RoundContext, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_tables(tried) == {} and TRY_PROPOSALS in [stage.name for stage in stages_of(tried.config)]
    with monkeypatch.context() as before, pytest.raises(TrajmillError, match="gone"):
        before.setattr("trajmill.flows.stage.commit_stage", dies)
        do(TRY_PROPOSALS, tried)
    asked = writer.asked_to_judge
    assert asked and in_tables(tried) == {}
    do(TRY_PROPOSALS, tried)
    assert writer.asked_to_judge == asked, "finished attempts are neither made nor judged anew"

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
    assert accepted_since_training(tried) == 0

    writer.speechless = ""
    second = tried.in_round(2)
    do(PROPOSE, second)
    do(TRY_PROPOSALS, second)
    later = in_tables(second)
    assert later.items() > (decided | {"alpha2": FEASIBLE}).items()
    assert {later[task] for task in later.keys() - decided.keys()} == {FEASIBLE}
    assert failures(second) == []
