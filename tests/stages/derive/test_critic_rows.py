"""Rows that train a judge and a process reward model."""

import json

from tests.records import record
from tests.stages.derive.samples import COMMON, DONE, TAP, episode, query, step
from tests.stages.derive.screens import derived, kept, refused
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.candidates import read_label
from trajmill.stages.derive.spec import JudgeDataSpec, PrmDataSpec

GOOD, HARMFUL = StepLabel.GOOD, StepLabel.HARMFUL


def verdict(correct: bool, **changes: object) -> str:
    said = {"reason": "so", "correct": correct, "redundant_steps": [], "first_error_step": None}
    return json.dumps(said | changes)


def vote(response: str | None, *others: str, role: str = "critic.multimodal", again: bool = False) -> ModelCall:
    parts = ["Judge it.", {"screen": "s0"}, {"screen": "s1"}]
    messages = [{"role": "system", "content": ["Be a judge."]}, {"role": "user", "content": parts}]
    if again:
        messages += [{"role": "assistant", "content": ["What?"]}, {"role": "user", "content": ["Again."]}]
    asked = {"messages": json.dumps(messages), "response": response, "other_responses": others, "made_by": "critic-1"}
    return record(ModelCall, **COMMON | {"call_id": f"{response}", "trajectory_id": "t", "role": role} | asked)


def judged(reward: float | None, *calls: ModelCall, split: Split = Split.TRAIN) -> Episode:
    made = episode([step(0, TAP), step(1, DONE)], asked=query(split=split))
    trajectory = made.trajectory.model_copy(update={"reward": reward})
    return made.model_copy(update={"trajectory": trajectory, "calls": calls})


def test_only_verdicts_that_the_reward_confirms_are_learned() -> None:
    rows = derived(JudgeDataSpec(), judged(1.0, vote(verdict(True)), vote(verdict(False), role="critic.text")))
    (row,) = rows.examples
    assert (row.variant, row.written_by, row.screens) == ("verdict_correct", "critic-1", ("s0", "s1"))
    assert [message.content for message in row.messages] == ["Be a judge.", "Judge it.<image><image>", verdict(True)]
    assert refused(rows) == [(None, "no_right_verdict")]
    failed = derived(JudgeDataSpec(), judged(0.0, vote(verdict(True), "no JSON", verdict(False), verdict(False))))
    assert [(row.variant, row.messages[-1].content) for row in failed.examples] == [
        ("verdict_incorrect", verdict(False))
    ]


def test_broken_repeated_and_failed_requests_teach_no_verdict() -> None:
    calls = (vote(verdict(True, first_error_step=9)), vote(verdict(True), again=True), vote(None))
    assert {reason for _, reason in refused(derived(JudgeDataSpec(), judged(1.0, *calls)))} == {
        "no_right_verdict",
        "asked_again",
    }
    others = judged(1.0, vote("GOOD", role="critic.step"), vote("Tap it.", role="planner"))
    assert refused(derived(JudgeDataSpec(), others)) == [(None, "no_critic_calls")]


def test_unknown_outcomes_and_held_out_queries_teach_no_judge() -> None:
    assert refused(derived(JudgeDataSpec(), judged(None, vote(verdict(True))))) == [(None, "no_reward")]
    held_out = judged(1.0, vote(verdict(True)), split=Split.HELDOUT_SLOTS)
    assert refused(derived(JudgeDataSpec(), held_out)) == [(None, "held_out")]


def test_each_judged_step_is_a_candidate_of_failed_attempts_too() -> None:
    made = episode(
        [step(0, TAP), step(1, None), step(2, TAP), step(3, DONE)], correct=False, labels=[GOOD, GOOD, HARMFUL]
    )
    rows = derived(PrmDataSpec(), made)
    assert kept(rows) == [(0, "good"), (2, "harmful")]
    assert refused(rows) == [(1, "unparsed"), (3, "not_judged")]
    first, later = rows.examples
    assert (first.screens, later.screens) == (("s0",), ("s2",))
    assert first.messages[1].content.endswith("<image>") and "1. Did 0\n2. Did 1" in later.messages[1].content
    assert '"x": "50.0%", "y": "63.4%"' in first.messages[1].content
    assert "Did 2" not in later.messages[1].content, "what came of the step is not known before it"
    assert [read_label(row.messages[-1].content) for row in rows.examples] == [GOOD, HARMFUL]


def test_a_branch_teaches_its_own_steps_and_no_hint_is_learned() -> None:
    made = episode([step(0, TAP), step(1, DONE)], labels=[GOOD, GOOD])
    branch = made.model_copy(update={"trajectory": made.trajectory.model_copy(update={"branched_at": 1})})
    assert kept(derived(PrmDataSpec(), branch)) == [(1, "good")]
    hinted = derived(PrmDataSpec(), made.model_copy(update={"guidance": "1. Did 0"}))
    assert (kept(hinted), refused(hinted)) == ([(0, "good")], [(1, "quotes_guidance")])
