"""A night collects; the next one ends the round of the last; whoever meets another waits or skips."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from prefect import flow

from tests.flows.policies.network import WaitingRun
from tests.flows.synthetic_run import RUN
from tests.flows.tasks.test_judge_served import served as judged_by_server
from tests.flows.tasks.test_train import tiny_config
from tests.stages.models.fault_server import Fault, running_server
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import ServeSection
from trajmill.flows.evolve import accepted_since_training
from trajmill.flows.nights.log import Ending, FlowEnd
from trajmill.flows.nights.nightly import Landed, collect_night, landed_in
from trajmill.flows.nights.retrain import retrain_if_enough, working_alone
from trajmill.flows.round import current_round, summary_of
from trajmill.flows.stage import RoundContext, report_of
from trajmill.flows.tasks.release import RELEASE
from trajmill.flows.tasks.train import measured_queries
from trajmill.schemas.tables.query import Split
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.lock import RunInUseError, sole_worker
from trajmill.warehouse.releases import release_names

pytestmark = pytest.mark.slow


def served(config: Config, **changes: object) -> Config:
    return config.model_copy(update={"serve": ServeSection().model_copy(update=changes)})


@pytest.mark.slow
def test_nights_collect_and_a_retraining_learns_from_all_of_them(tmp_path: Path, prefect_server: None) -> None:
    config = tiny_config(tmp_path)
    config = config.model_copy(update={"judge": config.judge.model_copy(update={"precision_floor": 0.0})})
    config = config.model_copy(update={"queries": config.queries.model_copy(update={"fresh": 5})})
    collects = served(config, retrain_after_accepted=10_000)
    night = flow(validate_parameters=False)(collect_night)
    first = night(collects)
    assert first.ending is Ending.COLLECTED
    assert re.match(r"round 1: (\d+) of \1 attempts finished, \d+ of them guided; \d+ accepted; ", first.line)
    context = current_round(config)
    assert (context.round, report_of(context, RELEASE)) == (1, None), "it collected, and did nothing else"

    second = night(collects)
    assert re.match(r"round 2: (\d+) of \1 attempts finished, \d+ of them guided; \d+ accepted; ", second.line)
    ended = summary_of(context)
    assert not ended.trained and ended.policy_after == ended.policy_before
    assert (ended.reason or "").endswith("trajectories accepted since the last training, 10000 are enough")
    assert current_round(config).round == 2
    queries = list(context.queries.values())
    assert [query.split for query in queries if query.round == 2] == [Split.TRAIN] * 5
    assert {query.query_id for query in measured_queries(context)} <= {q.query_id for q in queries if q.round == 1}

    accepted = accepted_since_training(config)
    assert retrain_if_enough(collects).ending is Ending.NOT_ENOUGH
    trained = retrain_if_enough(served(config, retrain_after_accepted=accepted))
    assert trained.ending is Ending.TRAINED
    assert trained.line.startswith(f"round 2, {accepted} newly accepted trajectories: ")
    assert len(release_names(context.warehouse)) == 2
    assert accepted_since_training(config) == 0


def test_a_flow_that_meets_another_skips_or_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.flows.nights.retrain._SECONDS_BETWEEN_LOOKS", 0.01)
    skips = served(Config.model_validate({"run": {"root": tmp_path}}), when_busy="skip")
    entered, leave = threading.Event(), threading.Event()

    def work_elsewhere() -> None:
        with sole_worker(create_warehouse(tmp_path), skips.run_id):
            entered.set()
            leave.wait()

    other = threading.Thread(target=work_elsewhere, daemon=True)
    other.start()
    entered.wait()
    with pytest.raises(RunInUseError), working_alone(skips):
        raise AssertionError("another works on it")
    met = collect_night(skips)
    assert met.ending is Ending.SKIPPED and "is at work on it" in met.line
    threading.Timer(0.1, leave.set).start()
    with working_alone(served(skips, when_busy="wait")):
        assert leave.is_set()
    other.join()


@pytest.mark.parametrize(
    ("finished", "accepted", "unjudged", "trained", "expected"),
    [
        (3, 1, 0, None, Ending.COLLECTED),
        (3, 1, 0, Ending.TRAINED, Ending.COLLECTED),
        (3, 1, 0, Ending.NOT_TRAINED, Ending.NOT_TRAINED),
        (3, 1, 0, Ending.VALIDATION_FELL, Ending.VALIDATION_FELL),
        (3, 1, 0, Ending.BELOW_JUDGE_FLOOR, Ending.BELOW_JUDGE_FLOOR),
        (3, 1, 0, Ending.AWAITING_POLICY, Ending.AWAITING_POLICY),
        (0, 0, 0, Ending.BELOW_JUDGE_FLOOR, Ending.EMPTY_NIGHT),
        (3, 0, 0, Ending.NOT_TRAINED, Ending.NOTHING_ACCEPTED),
        (10, 1, 3, None, Ending.JUDGE_FAILS),
        (10, 1, 2, None, Ending.COLLECTED),
    ],
)
def test_a_night_that_trains_ends_as_its_training_does_where_that_needs_a_person(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    finished: int,
    accepted: int,
    unjudged: int,
    trained: Ending | None,
    expected: Ending,
) -> None:
    config = served(Config.model_validate({"run": {"root": tmp_path}}), nightly_trains=trained is not None)
    asked = []

    def train(context: RoundContext) -> FlowEnd:
        asked.append(context.round)
        return FlowEnd(trained or Ending.TRAINED, "the line of the training")

    replaced: dict[str, Callable[..., object]] = {
        "collect": lambda context: None,
        "landed_in": lambda context: Landed((context.round,), finished, finished, accepted, unjudged),
        "train_round": train,
        "announce_landed": lambda config: 0,
        "create_markdown_artifact": lambda *texts, **more: None,
    }
    for name, instead in replaced.items():
        monkeypatch.setattr(f"trajmill.flows.nights.nightly.{name}", instead)
    end = collect_night(config)
    assert end.ending is expected
    assert asked == ([1] if trained else []) and ("the line of the training" in end.line) == bool(trained)


@pytest.mark.slow
@pytest.mark.parametrize("trains", [True, False])
def test_a_night_that_finds_a_policy_that_nobody_has_trained_says_so(
    waiting_run: WaitingRun, trains: bool, prefect_server: None
) -> None:
    config = served(waiting_run.config, nightly_trains=trains, retrain_after_accepted=0)
    end = flow(validate_parameters=False)(collect_night)(config)
    assert end.ending is Ending.AWAITING_POLICY
    assert end.line.startswith("did not train: awaiting a policy: [train] kind 'failing' does not train")
    assert current_round(config).round == 1, "nothing is collected on top of a round that waits"


@pytest.mark.slow
def test_a_judge_that_answers_in_the_wrong_schema_needs_a_person(tmp_path: Path, prefect_server: None) -> None:
    with running_server([Fault.NONE]) as server:
        config = judged_by_server(tmp_path, server.url)
        config = config.model_copy(update={"guidance": config.guidance.model_copy(update={"enabled": False})})
        end = flow(validate_parameters=False)(collect_night)(config)
    assert end.ending is Ending.JUDGE_FAILS
    counts = re.search(r"(\d+) of \d+ attempts finished.* 0 accepted, (\d+) could not be judged", end.line)
    assert counts is not None and counts[1] == counts[2]


def test_what_landed_is_counted_and_nights_of_several_rounds_add_up(run_warehouse: Warehouse) -> None:
    first, second = (landed_in(RoundContext(Config(), run_warehouse, number, RUN)) for number in (1, 2))
    assert first.line() == ("round 1: 4 of 4 attempts finished, 1 of them guided; 2 accepted, environment failures: 1")
    both = first + second
    assert (both.rounds, both.attempts, both.accepted, both.guided) == ((1, 2), 8, 6, 2)
    assert both.failures == {"environment": 2}
    assert "| accepted since the last training | 4 |" in both.markdown(accepted_since_training=4)


def test_a_night_in_which_nothing_finished_is_empty(run_warehouse: Warehouse) -> None:
    assert landed_in(RoundContext(Config(), run_warehouse, 9, RUN)).finished == Landed().finished == 0
