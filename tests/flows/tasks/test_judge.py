"""Judge stages with models behind a real server; what one could not judge is judged, once, in the next round."""

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.flows.runs import changed, do, judged_config, killed_before_marker, opinion, small_config, up_to
from tests.records import record
from tests.stages.models.fault_server import Fault, running_server
from tests.warehouse.samples import at_origin, commit_rows, judgement, stage_run, trajectory
from trajmill.flows.configuration.config import Config, GuidanceSection, JudgeSection, ReleaseSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.judge import JUDGE, JUDGE_GUIDED, reference_paths_used, unjudged_of_earlier_rounds
from trajmill.flows.tasks.release import DERIVE, DERIVE_RL, RELEASE
from trajmill.schemas.errors import FailureClass, JudgeFailure, TrajmillError
from trajmill.schemas.tables.example import Example, RLStep
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.critics.app_graph.channels import StepCriticByGraph
from trajmill.stages.critics.judge import TRIED_AT_MOST, Unjudged
from trajmill.stages.curate.diversity import DIVERSITY_FILE, read_diversity
from trajmill.stages.environments.kinds import DevicesSpec, FaultRates, SimulatedSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow


def failure(trajectory_id: str, at: StageRun, stage: str = "judge") -> Failure:
    named = {"input_id": trajectory_id, "failure_class": FailureClass.MODEL, "attempts": 1}
    return record(Failure, stage=stage, **named, **at_origin(at))


@pytest.fixture
def first(tmp_path: Path) -> RoundContext:
    # Demonstrated, so some are accepted whatever the untrained policy does.
    demonstrated = {"demonstrate": True, "after_failures": 0}
    return RoundContext.of(changed(judged_config(tmp_path, episodes=12), guidance=demonstrated))


def test_only_what_failed_and_is_open_is_judged_again(first: RoundContext) -> None:
    warehouse, run_id = first.warehouse, first.run_id

    def at(number: int) -> StageRun:
        return stage_run(JUDGE, number, run_id)

    rows = [trajectory(number, at(1), "q") for number in range(5)]
    never, late, fine, rolled_badly, foreign = (row.trajectory_id for row in rows)
    guided = trajectory(9, at(1), "q", purpose=Purpose.GUIDED)
    commit_rows(warehouse, at(1), *rows, guided, judgement(fine, at(1), True), failure(rolled_badly, at(1), "rollout"))
    other = stage_run(JUDGE, 1, "another-run")
    commit_rows(warehouse, other, failure(foreign, other))
    for number in range(1, 5):
        failed = [failure(name, at(number)) for name in (never, *[late] * (number == 1), guided.trajectory_id)]
        commit_rows(warehouse, stage_run("more", number, run_id), *failed)
    commit_rows(warehouse, stage_run("late", 2, run_id), judgement(late, at(2), False))

    assert TRIED_AT_MOST == 3
    expected = {1: [], 2: sorted([Unjudged(1, never, 1), Unjudged(1, late, 1)]), 3: [Unjudged(1, never, 2)], 4: []}
    for number, left in expected.items():
        assert unjudged_of_earlier_rounds(first.in_round(number), Purpose.TRAIN) == left
    assert unjudged_of_earlier_rounds(first.in_round(2), Purpose.GUIDED) == [Unjudged(1, guided.trajectory_id, 1)]


class Outage:
    """Makes the step critic fail for all that succeeded and half of the others, as long as it lasts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lasts = True
        self.asked: Counter[str] = Counter()
        works = StepCriticByGraph.judge

        async def judge(critic: StepCriticByGraph, episode: Any, *given: Any) -> Any:
            self.asked[episode.trajectory.trajectory_id] += 1
            if self.lasts and self.hits(episode.trajectory):
                raise JudgeFailure("the server is down")
            return await works(critic, episode, *given)

        monkeypatch.setattr(StepCriticByGraph, "judge", judge)

    @staticmethod
    def hits(trajectory: Trajectory) -> bool:
        return trajectory.reward == 1.0 or int(trajectory.trajectory_id[-1], 16) % 2 == 0


def test_the_next_round_judges_what_an_outage_left(first: RoundContext, monkeypatch: pytest.MonkeyPatch) -> None:
    outage, warehouse, second = Outage(monkeypatch), first.warehouse, first.in_round(2)
    up_to(PROMOTE, first)
    attempts = [row for row in read_rows(warehouse, Trajectory) if row.status == "finished"]
    collected = {row.trajectory_id: row for row in attempts if row.purpose in (Purpose.TRAIN, Purpose.GUIDED)}
    lost = {name for name, row in collected.items() if outage.hits(row)}
    assert lost and {row.trajectory_id for row in read_rows(warehouse, Judgement)} == set(collected) - lost
    assert {row.trajectory_id for row in read_rows(warehouse, TrajectoryVerdict)} == set(collected) - lost
    assert Counter(row.input_id for row in read_rows(warehouse, Failure) if row.stage == "judge") == Counter(lost)
    assert not lost & {row.trajectory_id for row in read_rows(warehouse, Example)}

    outage.lasts = False
    outage.asked.clear()
    interrupted = killed_before_marker(monkeypatch, f"-{JUDGE}")
    with pytest.raises(TrajmillError, match="killed"):
        up_to(JUDGE, second)
    assert interrupted == [f"r0002-{JUDGE}"]
    up_to(DERIVE, second)

    judged = read_rows(warehouse, Judgement)
    assert Counter(row.trajectory_id for row in judged).most_common(1)[0][1] == 1
    assert {row.round for row in judged if row.trajectory_id in lost} == {2}
    assert lost <= {row.trajectory_id for row in judged}
    assert set(outage.asked.values()) == {1}, "what was judged before the kill is not judged again"
    counts = [do(name, second).count for name in (JUDGE, JUDGE_GUIDED)]
    assert sum(count.rows_out for count in counts) == sum(row.round == 2 for row in judged)
    assert sum(count.rows_in for count in counts) >= len(lost)

    accepted = {row.trajectory_id for row in judged if row.correct}
    learned = {row.trajectory_id: row.round for row in read_rows(warehouse, Example)}
    assert set(learned) == accepted
    assert {learned[name] for name in lost & accepted} == {2}


def served(root: Path, url: str, episodes: int = 12) -> Config:
    return changed(
        judged_config(root, episodes),
        judge=JudgeSection(votes=2, quorum=2, tries=1, resolutions=(0.25, 0.5), concurrency=4),
        endpoints={"tiny": OpenAiSpec(model="tiny", urls=(url,), attempts=1, cache=False)},
        models=ModelsSection(critic=CriticRoles(step="tiny", text=("tiny",), multimodal=("tiny",))),
    )


def test_every_trajectory_is_judged_or_a_failure_and_every_call_is_a_row(tmp_path: Path) -> None:
    with running_server([Fault.INTERNAL, Fault.NONE] * 4, writes=opinion) as server:
        context = RoundContext.of(served(tmp_path, server.url))
        count = up_to(JUDGE, context).count
        sent = len(server.received)
    warehouse = context.warehouse
    tried = [row for row in read_rows(warehouse, Trajectory) if row.purpose is Purpose.TRAIN]
    finished = {row.trajectory_id for row in tried if row.status == "finished"}
    judged = {row.trajectory_id: row for row in read_rows(warehouse, Judgement)}
    failed = [row.input_id for row in read_rows(warehouse, Failure) if row.stage == "judge"]
    assert failed and judged and sorted([*judged, *failed]) == sorted(finished)
    assert (count.rows_in, count.rows_out) == (len(finished), len(judged))
    assert all(row.correct for row in judged.values())
    assert {row.rule for row in judged.values()} == {"consensus(text:2of2,multimodal:0.25:2of2>0.5:2of2)"}

    votes = read_rows(warehouse, TrajectoryVerdict)
    assert Counter((row.channel, row.resolution, row.vote) for row in votes) == dict.fromkeys(
        [("text", "full", 0), ("text", "full", 1)]
        + [("multimodal", at, number) for at, number in (("0.25", 0), ("0.25", 1), ("0.5", 2), ("0.5", 3))],
        len(judged),
    )
    assert {row.trajectory_id for row in read_rows(warehouse, StepVerdict)} == set(judged)

    calls = [row for row in read_rows(warehouse, ModelCall) if row.role.startswith("critic.")]
    assert len(calls) == sent and len({call.call_id for call in calls}) == sent
    assert sum(call.error is not None for call in calls) == 4
    assert {call.trajectory_id for call in calls if call.error} <= finished
    looked = [call for call in calls if call.role == "critic.multimodal" and call.error is None]
    assert sum(len(call.draws or ()) for call in looked) >= 4 * len(judged) > len(looked), "votes share a request"


MARKET = Path(__file__).parents[3] / "docs" / "examples" / "market.yaml"


def demonstrating(root: Path, by: bool | Literal["explorer"] = True) -> Config:
    market = SimulatedSpec(
        apps=(MARKET,), builtin_apps=(), faults=FaultRates(popup=0.0, slow=0), devices=DevicesSpec(orders=9, dark=False)
    )
    return changed(
        small_config(root, rounds=1),
        environment=market,
        queries={"train": 8, "heldout_app_names": ()},
        rollout={"episodes_per_round": 15, "group_size": 1},
        guidance=GuidanceSection(after_failures=0, share=0.8, demonstrate=by),
        train=EmbeddedSftSpec(keep_per_query=9, keep_per_reply=5),
    )


def test_hard_queries_are_shown_and_released_within_quotas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.pipelines.release._AT_ONCE", 7)
    config = changed(demonstrating(tmp_path), release=ReleaseSection(quotas={"action": 0.6}))
    context = RoundContext.of(config)
    released = up_to(RELEASE, context).result
    of_actions = (
        each
        for each in read_diversity((context.warehouse.release(released["release"]) / DIVERSITY_FILE).read_bytes())
        if each.aspect == "action"
    )
    assert [(each.largest, each.largest_share <= 0.6, each.rows) for each in of_actions] == [
        ("click", True, released["examples"])
    ]
    assert released["left_out"]["over_quota"] > 0
    tried = read_rows(context.warehouse, Trajectory, run_id=config.run_id)
    shown = [each for each in tried if each.purpose is Purpose.GUIDED]
    assert len(shown) == 12 and {(each.agent, each.reward) for each in shown} == {("reference", 1.0)}
    assert len({each.query_id for each in shown}) > 1 and len({each.seed for each in shown}) == 12
    assert reference_paths_used(context) == len({each.query_id for each in shown})
    assert not read_rows(context.warehouse, Guidance, run_id=config.run_id)
    rows = [row for row in read_rows(context.warehouse, Example) if row.trajectory_id == shown[0].trajectory_id]
    assert len(rows) == 6 and not any(row.guided for row in rows), "it had no hints"
    assert not any(sign in each.content for row in rows for each in row.messages for sign in ("<r0>", "Followed"))
    assert 'Conclusion: Tap "Market".' in rows[0].messages[-1].content
    assert all("Task progress" in row.messages[1].content for row in rows)
    steps = {each.index: each for each in read_rows(context.warehouse, Step, run_id=config.run_id) if each.prompt}
    assert "find Market <r0> Market" in steps[0].thought and "<r0> Back <r1> " in steps[2].thought


def test_attempts_are_added_where_outcomes_are_mixed_within_the_budget_of_the_round(tmp_path: Path) -> None:
    sampled = {"episodes_per_round": 16, "group_size": 2, "largest_group": 5}
    tables = {"queries": {"train": 6}, "rollout": sampled, "guidance": GuidanceSection(enabled=False)}
    config = changed(demonstrating(tmp_path), run={"seed": 22}, **tables)
    context = RoundContext.of(config)
    up_to(DERIVE_RL, context)
    tried = read_rows(context.warehouse, Trajectory, run_id=config.run_id)
    own = [each for each in tried if each.purpose is Purpose.TRAIN]
    judged = {each.trajectory_id: each.correct for each in read_rows(context.warehouse, Judgement)}
    assert len(own) == 16 and set(judged) == {each.trajectory_id for each in own}
    assert len(read_rows(context.warehouse, Judgement)) == 16, "each is judged once"
    probes = [(each.query_id, judged[each.trajectory_id]) for each in own if each.attempt < 2]
    sizes = {query_id: count for query_id, count in Counter(each.query_id for each in own).items() if count > 2}
    assert set(sizes) == {query_id for query_id, correct in probes if (query_id, not correct) in probes}
    assert max(sizes.values()) <= min(sizes.values()) + 1 <= 6
    rows = read_rows(context.warehouse, RLStep, run_id=config.run_id)
    assert {row.group: row.group_size for row in rows if row.group in sizes} == sizes
    assert len({row.advantage for row in rows}) > 2


def test_the_explorer_demonstrates_without_a_reference_path(tmp_path: Path) -> None:
    config = demonstrating(tmp_path, by="explorer")
    context = RoundContext.of(config)
    up_to(DERIVE, context)
    tried = read_rows(context.warehouse, Trajectory, run_id=config.run_id)
    shown = [each for each in tried if each.purpose is Purpose.GUIDED]
    assert {each.agent for each in shown} == {"explorer"} and len(shown) == 12
    assert 0 < sum(each.reward == 1.0 for each in shown) < 12, "it tries, and is not told the way"
    assert reference_paths_used(context) == 0
    steps = [each for each in read_rows(context.warehouse, Step, run_id=config.run_id) if each.prompt]
    assert any("find Market <r0> Market" in each.thought for each in steps)
