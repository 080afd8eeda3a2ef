"""Stored trajectories are judged again beside the verdicts of their round, and judges are measured by ingredient."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from tests.flows.command_line import CommandLine
from tests.flows.runs import changed, config_with_judges, judged_config, killed_before_marker
from tests.records import record
from tests.stages.critics.calibration.labelled_files import write_set
from tests.stages.models.fault_server import Fault, FaultReply, FaultServer
from tests.warehouse.samples import at_origin, commit_rows, judgement, stage_run, trajectory
from trajmill.flows.configuration.config import JudgeSection
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.flows.judging import Calibrated, RejudgeReport, calibrate, rejudge
from trajmill.flows.policies.policy import accepted_since_training
from trajmill.flows.progress import Unwatched, watched_by
from trajmill.flows.stage import RoundContext, StageOutcome, run_once
from trajmill.flows.tasks.judge import CALIBRATE, judge_precision
from trajmill.flows.terminal.show import calibration_table, find_trajectory
from trajmill.pipelines.reading.episodes import read_history
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.schemas.tables.verdict import Calibration, Ingredient, Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.sql import run_sql

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:9/v1"


def finished(root: Path) -> list[Trajectory]:
    return [row for row in read_rows(open_warehouse(root), Trajectory) if row.status == "finished"]


def counts(row: Calibration) -> tuple[int, int, int, int]:
    return row.true_positive, row.false_positive, row.true_negative, row.false_negative


def shown(calibrated: Calibrated) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(calibration_table(calibrated))
    return capture.get()


def test_every_ingredient_is_measured_from_votes_that_were_asked_for_once(root: Path, judges: FaultServer) -> None:
    config = config_with_judges(root, judges.url)
    (made,) = calibrate(config, ["big"])
    known = [row for row in finished(root) if row.purpose is not Purpose.REFERENCE]
    right = sum(row.reward == 1.0 for row in known)
    assert 0 < right < len(known)
    sent = len(judges.received)
    assert sent <= 5 * len(known), "both votes on the text at once, two models at each resolution; or from the cache"
    assert read_rows(open_warehouse(root), Calibration) == list(made.rows)
    found = {(row.ingredient, row.channel, row.models.rpartition("@")[2], row.resolution): row for row in made.rows}
    # `tiny` calls everything correct
    for kind, at in ((Ingredient.SINGLE, "0.25"), (Ingredient.SINGLE, "0.5"), (Ingredient.MULTI_RESOLUTION, None)):
        row = found[kind, "multimodal", "tiny", at]
        assert counts(row) == (right, len(known) - right, 0, 0)
        assert row.precision == right / len(known) and (row.recall, row.kappa) == (1.0, 0.0)
    other = found[Ingredient.MULTI_RESOLUTION, "multimodal", "other", None]
    whole = made.rows[-1]
    assert whole.ingredient is Ingredient.CONSENSUS and counts(whole) == counts(other), "tiny adds nothing to it"
    judgements = {r.trajectory_id: r.correct for r in read_rows(open_warehouse(root), Judgement) if r.judge == "big"}
    assert sum(counts(whole)[:2]) == sum(judgements.values()) > 0
    single = found[Ingredient.SINGLE, "multimodal", "tiny", "0.5"]
    assert (single.calls, single.tokens, single.votes) == (1.0, 110.0, 1) and single.seconds > 0
    assert (whole.calls, whole.votes) == (5.0, 6)
    table = shown(made)
    assert f"{len(known)} of {len(known)} labelled trajectories judged" in table
    assert "multimodal: voting, multi-resolution, other" in table

    again = calibrate(config, ["big"])[0]
    assert len(judges.received) == sent
    assert [row.number for row in again.rows] == [2] * len(made.rows)
    assert [counts(row) for row in again.rows] == [counts(row) for row in made.rows]
    newest = run_sql(open_warehouse(root), "SELECT recall FROM newest_calibrations")
    assert newest.num_rows == len(made.rows)


def test_the_runs_own_judge_gives_the_same_verdicts_as_in_the_round(root: Path) -> None:
    config = judged_config(root)
    (made,) = calibrate(config, [])
    warehouse = open_warehouse(root)
    own = {row.trajectory_id: row for row in read_rows(warehouse, Judgement) if row.judge is None}
    anew = {row.trajectory_id: row for row in read_rows(warehouse, Judgement) if row.judge == "judge"}
    assert own and {name: anew[name].correct for name in own} == {name: row.correct for name, row in own.items()}
    assert {row.made_by for row in made.rows} == {row.made_by for row in own.values()}
    assert {row.rule for row in made.rows} == {row.rule for row in own.values()}
    assert [row.calls for row in made.rows] == [0.0] * len(made.rows)


def test_a_judge_that_judges_nothing_gives_one_error_line(root: Path, judges: FaultServer) -> None:
    judges.key = "secret"
    config = config_with_judges(root, judges.url)
    with pytest.raises(TrajmillError, match=r"Unauthorized|key"):
        calibrate(config, ["big"])
    assert read_rows(open_warehouse(root), Calibration) == []


def test_a_labelled_set_is_judged_and_its_labels_count(root: Path, tmp_path: Path, judges: FaultServer) -> None:
    labels = {f"webarena.{number}": "Successful" if number < 3 else "Unsuccessful" for number in range(5)}
    write_set(tmp_path / "bench", labels | {"webarena.8": "Unsure"}, ["click('147')", "send_msg_to_user('done')"])
    next((tmp_path / "bench" / "cleaned").rglob("webarena.4.json")).write_text("{}")
    next((tmp_path / "bench" / "cleaned").rglob("webarena.3.json")).unlink()
    config = config_with_judges(root, judges.url)
    (made,) = calibrate(config, ["big"], tmp_path / "bench")
    whole = made.rows[-1]
    tiny = next(row for row in made.rows if row.channel == "text" and row.ingredient is Ingredient.CHANNEL)
    assert (whole.labels, whole.trajectories, whole.unjudged) == ("bench", 4, 1)
    assert counts(tiny) == (3, 0, 0, 0)
    said = shown(made)
    for count in ("3 of 4 labelled trajectories judged", "1 could not be judged", "1 without a label"):
        assert count in said
    assert "1 of the set are not there" in said
    warehouse = open_warehouse(root)
    (failure,) = [row for row in read_rows(warehouse, Failure) if row.stage == "calibrate:big"]
    assert failure.input_id == "webarena/GenericAgent-tiny/webarena.4"
    calls = [row for row in read_rows(warehouse, ModelCall) if row.judge == "big"]
    assert len(calls) == 3 * 5 and {row.judge_id for row in calls} == {whole.judge_id}
    sent = len(judges.received)
    calibrate(config, ["big"], tmp_path / "bench")
    assert len(judges.received) == sent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--judge", "bigg"], "there is no judge 'bigg' in the configuration; did you mean big?\n"),
        (["--labels", "empty"], "AgentRewardBench's or CUAVerifierBench's dataset was downloaded to\n"),
        (["--labels", "bare"], "cleaned/BENCHMARK/AGENT/EXPERIMENT/TASK.json, their pictures to screenshots\n"),
        (
            ["--labels", "wrong"],
            "annotations.csv:2: trajectory_success is 'maybe'; it should be Successful, Unsuccessful or Unsure\n",
        ),
        (["--labels", "full"], "annotated app; judge it by a model or by its own check\n"),
        ([], "run `trajmill rollout` first, or name a labelled set with --labels\n"),
    ],
)
def test_wrong_input_gives_one_error_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trajmill.toml").write_text(config_as_toml(config_with_judges(tmp_path / "new", NOBODY)))
    Path("empty").mkdir()
    write_set(tmp_path / "full", {"webarena.1": "Successful"}, ["go_back()"])
    write_set(tmp_path / "wrong", {"webarena.1": "maybe"}, ["go_back()"])
    write_set(tmp_path / "bare", {"webarena.1": "Successful"}, ["go_back()"])
    shutil.rmtree(tmp_path / "bare" / "cleaned")
    assert command.refused("calibrate", *arguments).endswith(message)


@pytest.fixture
def unrewarded(tmp_path: Path) -> RoundContext:
    """A calibrated round whose judgements have no programmatic reward to be compared with."""
    context = RoundContext.of(changed(judged_config(tmp_path), judge=JudgeSection(precision_floor=0.8)))
    at = context.at("rollout")
    row = trajectory(1, at, "q", reward=None)
    judged = judgement(row.trajectory_id, at, True).model_copy(update={"rule": "consensus(text,multimodal)"})
    commit_rows(context.warehouse, at, row, judged)
    run_once(context, CALIBRATE, lambda at: StageOutcome(1, 1, result={"judge": []}))
    return context


def precision_of(context: RoundContext) -> tuple[Precision, list[str]]:
    """What is known of the judge's precision, and the lines that are shown."""
    heard = Mock(wraps=Unwatched())
    with watched_by(heard):
        return judge_precision(context), [str(call.args[0]) for call in heard.show.call_args_list]


def calibration(number: int, correct: int, **changes: object) -> Calibration:
    named = {"judge": "big", "judge_id": "id", "labels": "bench", "rule": "consensus(text,multimodal)"}
    counted = {"true_positive": correct, "false_positive": 100 - correct, "ingredient": Ingredient.CONSENSUS}
    made = named | counted | at_origin(stage_run(number=0)) | {"made_by": "judge-v1"}
    return record(Calibration, number=number, **made | changes)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([calibration(1, 70), calibration(2, 90)], Precision.ENOUGH),
        ([calibration(2, 70), calibration(1, 90)], Precision.TOO_LOW),
        ([calibration(1, 90), calibration(2, 10, made_by="judge-v2")], Precision.ENOUGH),
        ([calibration(1, 90), calibration(2, 10, ingredient=Ingredient.CHANNEL, channel="text")], Precision.ENOUGH),
    ],
)
def test_a_round_without_rewards_asks_the_newest_calibration_of_its_judge(
    unrewarded: RoundContext, rows: list[Calibration], expected: Precision
) -> None:
    commit_rows(unrewarded.warehouse, stage_run("calibration", 0), *rows)
    assert precision_of(unrewarded) == (expected, [])


def test_what_is_not_known_of_a_judge_is_said(unrewarded: RoundContext) -> None:
    judge = JudgeSection(precision_floor=0.8, channels=("programmatic",))
    known, (line,) = precision_of(replace(unrewarded, config=changed(unrewarded.config, judge=judge)))
    assert known is Precision.UNKNOWN and "its precision cannot be measured by that check" in line
    commit_rows(unrewarded.warehouse, stage_run("calibration", 0), calibration(1, 10, rule="consensus(text)"))
    known, (line,) = precision_of(unrewarded)
    assert known is Precision.UNKNOWN
    assert "nothing is known of the judge's precision" in line and "trajmill calibrate" in line


def seen_by_the_next_round(root: Path) -> list[object]:
    """The rows of the round itself without what is a time, and what the next round and people read of them."""
    warehouse, config, times = open_warehouse(root), judged_config(root), {"wall_ms", "environment_ms", "latency_ms"}
    found: list[object] = [read_history(warehouse, config.run_id, 2), accepted_since_training(RoundContext.of(config))]
    for table, kind in TABLES.items():
        rows = [row.model_dump(exclude=times) for row in read_rows(warehouse, kind)] if table != "screens" else []
        found.append(sorted((row for row in rows if row.get("judge") is None), key=str))
    return [*found, *(find_trajectory(warehouse, row.trajectory_id).judgement for row in finished(root))]


def test_verdicts_are_shown_side_by_side_and_asked_for_once(root: Path, judges: FaultServer) -> None:
    one_vote = {"votes": 1, "resolutions": (0.25,), "multimodal": ("tiny",)}
    before, config = seen_by_the_next_round(root), config_with_judges(root, judges.url, **one_vote)
    assert config.run_id == judged_config(root).run_id
    made = rejudge(config, "big")
    sent = len(judges.received)
    assert made == RejudgeReport(len(finished(root)), before=0, judged=len(finished(root)), unjudged=0)
    assert rejudge(config, "big") == made._replace(before=made.judged, judged=0)
    assert len(judges.received) == sent > 0
    assert seen_by_the_next_round(root) == before
    warehouse = open_warehouse(root)
    anew = [row for row in read_rows(warehouse, Judgement) if row.judge == "big"]
    assert sorted(row.trajectory_id for row in anew) == sorted(row.trajectory_id for row in finished(root))
    assert len({row.judge_id for row in anew}) == 1 and None not in {row.judge_id for row in anew}
    for kind in (StepVerdict, TrajectoryVerdict, ModelCall):
        assert "big" in {row.model_dump()["judge"] for row in read_rows(warehouse, kind)}
    both = run_sql(
        warehouse,
        "SELECT trajectory_id, judge, correct, reward, \"right\" FROM judgements_side_by_side WHERE purpose = 'train'",
    ).to_pylist()
    assert Counter(row["judge"] for row in both)[None] == Counter(row["judge"] for row in both)["big"] > 0
    assert all(row["right"] == (row["correct"] == (row["reward"] >= 1)) for row in both)
    latest = run_sql(warehouse, "SELECT DISTINCT judge FROM latest_judgements").to_pylist()
    assert latest == [{"judge": None}]


def test_what_a_server_did_not_answer_is_a_failure_and_no_verdict_and_is_made_good(
    root: Path, judges: FaultServer
) -> None:
    judges.script.extend([FaultReply(Fault.INTERNAL)] * 6)
    config = config_with_judges(root, judges.url, multimodal=(), channels=("text",))
    first = rejudge(config, "big", round_number=1)
    failures = [row for row in read_rows(open_warehouse(root), Failure) if row.stage == "judge_again:big"]
    assert 0 < first.unjudged == len(failures) and first.judged > 0
    second = rejudge(config, "big", round_number=1)
    assert second == RejudgeReport(first.trajectories, first.judged, first.unjudged, 0)


def test_the_command_goes_on_with_what_was_killed_and_says_what_is_wrong(
    root: Path, tmp_path: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trajmill.toml"
    file.write_text(config_as_toml(config_with_judges(root, NOBODY)))
    for arguments, message in (
        ("--judge bigg", "there is no judge 'bigg' in the configuration; did you mean big?\n"),
        ("--judge x", "there are big, plain, judge\n"),
        ("--judge plain --round 9", "has no finished trajectory in round 9; run `trajmill rollout` first\n"),
    ):
        assert command.refused("judge", "--again", *arguments.split(), "--config", file).endswith(message)
    again = ("judge", "--again", "--judge", "plain", "--config", file)
    killed_before_marker(monkeypatch)
    assert command.refused(*again) == "killed\n"
    rows = sorted(row.trajectory_id for row in finished(root))
    assert f"\n{len(rows)} trajectories: " in command.said(*again)
    assert sorted(row.trajectory_id for row in read_rows(open_warehouse(root), Judgement) if row.judge) == rows
    assert command.refused("judge", "--judge", "plain", "--config", file) == "--judge and --round need --again\n"
