import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.records import record
from tests.stages.derive.samples import COMMON, DONE, TAP, episode, query, step, walked
from tests.stages.derive.screens import derived, kept, refused, tools_of
from trajmill.schemas.actions import Action, Answer, Click, OpenApp, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import SLIDER_MARK
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose, TargetElement
from trajmill.schemas.tables.verdict import StepLabel, StepVerdict
from trajmill.stages.agents.candidates import read_label
from trajmill.stages.curate.leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.ces_rows import instruction_of, state_after
from trajmill.stages.derive.kind_spec import TaskSources
from trajmill.stages.derive.spec import CesDataSpec, CodaDataSpec, JudgeDataSpec, PrmDataSpec, RftDataSpec, RolesSpec

TRAIN, BRANCH = Purpose.TRAIN, Purpose.BRANCH
ACTIONS: dict[str, Action] = {"T": TAP, "B": SystemButton(button="Back"), "O": OpenApp(app="bites"), ".": DONE}
GOOD, NEUTRAL, HARMFUL, UNKNOWN = StepLabel


def call(
    role: str, index: int, said: str | None = None, screens: Sequence[str] = ("s0",), **changes: object
) -> ModelCall:
    parts = [f"Ask {role} {index}", *({"screen": screen} for screen in screens)]
    messages = [{"role": "system", "content": ["Be a role."]}, {"role": "user", "content": parts}]
    named = {"call_id": f"{role}{index}", "trajectory_id": "t", "step_index": index, "role": role}
    response = f"{role} says {index}" if said is None else said
    asked = {"messages": json.dumps(messages), "response": response, "made_by": f"{role}-model"}
    return record(ModelCall, **named | COMMON | asked | changes)


def walk(outcomes: str, calls: Sequence[ModelCall], correct: bool = True, labels: Sequence[StepLabel] = ()) -> Episode:
    """An episode whose Reflector called the steps before the last one what `outcomes` says, + or -."""
    steps = [step(n, TAP) for n in range(len(outcomes))] + [step(len(outcomes), DONE)]
    marked = [
        each.model_copy(update={"role_outputs": json.dumps({"outcome": "SUCCESS" if mark == "+" else "FAILURE"})})
        for each, mark in zip(steps[1:], outcomes, strict=True)
    ]
    return episode([steps[0], *marked], correct=correct, labels=labels).model_copy(update={"calls": tuple(calls)})


def test_each_role_gives_the_conversation_that_it_had() -> None:
    calls = [call("manager", 0), call("worker", 0), call("critic.text", 0), call("policy", 1)]
    rows = derived(RolesSpec(), walk("++", calls))
    assert kept(rows) == [(0, "manager"), (0, "worker")]
    first: Example = rows.examples[0]
    told = [("system", "Be a role."), ("user", "Ask manager 0<image>"), ("assistant", "manager says 0")]
    assert [(message.role, message.content) for message in first.messages] == told
    assert (first.screens, first.written_by, first.kind) == (("s0",), "manager-model", "roles")


def test_steps_that_were_judged_bad_calls_without_answer_and_quoted_guidance_teach_no_role() -> None:
    calls = [
        call("worker", 0),
        call("worker", 1),
        call("manager", 2, response=None, error="timeout"),
        call("notetaker", 2, "As the guidance says, tap Checkout."),
    ]
    given = walk("++", calls, labels=[GOOD, HARMFUL, GOOD]).model_copy(update={"guidance": "1. Tap Checkout."})
    rows = derived(RolesSpec(), given)
    assert kept(rows) == [(0, "worker")]
    assert refused(rows) == [(1, "harmful"), (2, "no_answer"), (2, "quotes_guidance")]
    assert refused(derived(RolesSpec(), walk("+", [call("worker", 0)], correct=False))) == [(0, "judged_incorrect")]
    assert refused(derived(RolesSpec(), walk("+", []))) == [(None, "no_role_calls")]


def test_rules_that_pass_the_task_on_and_who_obeys_them_teach_no_role() -> None:
    rule = call("coordinator", 0, made_by="embedded-coordinator-1")
    rows = derived(RolesSpec(), walk("+", [rule, call("executor", 0), call("coordinator", 1), call("executor", 1)]))
    assert kept(rows) == [(1, "coordinator"), (1, "executor")]
    assert refused(rows) == [(0, "passes_on_what_it_got")] * 2
    planned = walk("+", [call("planner", 0, made_by="embedded-planner-1")])
    assert refused(derived(CodaDataSpec(), planned)) == [(None, "passes_on_what_it_got")]


def test_a_malformed_reply_is_never_a_row_of_its_role_but_the_retry_is() -> None:
    calls = [
        call("manager", 0, "", malformed="no plan"),
        call("manager", 0, call_id="retry"),
        call("reflector", 1, "Well.", malformed="neither SUCCESS nor FAILURE"),
        call("worker", 1, malformed="no <tool_call> in the reply"),
    ]
    rows = derived(RolesSpec(), walk("+", calls))
    assert kept(rows) == [(0, "manager")] and rows.examples[0].messages[-1].content == "manager says 0"
    reasons = {reason for _, reason in refused(rows)}
    assert reasons <= {"malformed", "no_answer", "reflection_not_retained"}
    retried = [call("planner", 0, "", malformed="no thought"), call("planner", 0, call_id="retry")]
    for order in (retried, retried[::-1]):
        assert kept(derived(CodaDataSpec(), walk("", order))) == [(0, "bites")]
    assert refused(derived(CodaDataSpec(), walk("", retried[:1]))) == [(0, "no_answer")]
    cut = [call("planner", 0, "<think>Well", malformed="its thinking is not closed")]
    assert refused(derived(CodaDataSpec(), walk("", cut))) == [(0, "malformed")]


@pytest.mark.parametrize("form", ["go{}", "\n\nGuidance:\n{}\nTask progress: none", "go Guidance: {one_line}"])
def test_guidance_in_the_prompt_of_a_role_is_taken_out(form: str) -> None:
    guidance = "1. Tap Checkout.\n2. Tap Pay."
    asked = form.format(guidance, one_line=guidance.replace("\n", " "))
    messages = json.dumps([{"role": "user", "content": [asked]}])
    given = walk("+", [call("worker", 0, messages=messages)]).model_copy(update={"guidance": guidance})
    rows = derived(RolesSpec(), given)
    if form == "go{}":
        assert refused(rows) == [(0, "quotes_guidance")]
    else:
        assert "Tap" not in rows.examples[0].messages[0].content


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ("+++", [(1, "reflector_positive"), (2, "reflector_positive"), (3, "reflector_positive")]),
        ("+-+", [(2, "reflector_negative")]),
        ("+--", []),
        ("+-++", [(2, "reflector_negative")]),
        ("-+-+", [(1, "reflector_negative"), (3, "reflector_negative")]),
    ],
)
def test_reflections_are_kept_by_the_papers_rules(outcomes: str, expected: list[tuple[int, str]]) -> None:
    calls = [call("reflector", n + 1, screens=(f"s{n}", f"s{n + 1}")) for n in range(len(outcomes))]
    rows = derived(RolesSpec(), walk(outcomes, calls, correct=False))
    assert kept(rows) == expected
    assert {reason for _, reason in refused(rows)} <= {"reflection_not_retained"}


def test_planners_teach_a_generalist_by_clean_successes_alone() -> None:
    planned = walk("+", [call("planner", 0, "Tap the cart.", ("s9", "s0")), call("planner", 1, "Done.", ("s0", "s1"))])
    rows = derived(CodaDataSpec(), planned)
    told = [(row.variant, row.written_by, row.step_index) for row in rows.examples]
    assert told == [("bites", "planner-model", 0), ("bites", "planner-model", 1)]
    assert rows.examples[0].messages[1].content.endswith("<image><image>")
    assert planned.judgement is not None
    redundant = {"judgement": planned.judgement.model_copy(update={"redundant_steps": (1,)})}
    assert refused(derived(CodaDataSpec(), planned.model_copy(update=redundant))) == [(None, "not_clean")]
    assert refused(derived(CodaDataSpec(), walk("+", []))) == [(None, "no_planner")]


def test_candidates_need_a_process_reward() -> None:
    good = walk("++", [], labels=[GOOD, GOOD, NEUTRAL])
    assert kept(derived(RftDataSpec(), good)) == [(0, "positive"), (1, "positive"), (2, "positive")]
    poor = walk("++", [], labels=[GOOD, HARMFUL, NEUTRAL])
    assert refused(derived(RftDataSpec(), poor)) == [(None, "low_process_reward")]
    assert (1, "harmful") in refused(derived(RftDataSpec(least_reward=0.5), poor))
    unknown = walk("++", [], labels=[GOOD, GOOD, UNKNOWN])
    assert refused(derived(RftDataSpec(), unknown)) == [(None, "no_process_reward")]
    assert refused(derived(RftDataSpec(), walk("+", [], correct=False))) == [(None, "judged_incorrect")]
    assert refused(derived(RftDataSpec(), walked(good))) == [(None, "template_conclusions")], "no attempt of a policy"


TASK = "Organize a business meeting with saltyfunsweets using ZOOM Cloud Meetings."
THOUGHT = "I should select the 'Schedule' option to set up a new meeting."
SCHEDULE = TargetElement(role="button", text="Schedule", bounds=Box(600, 300, 700, 400))


def meeting(labels: tuple[StepLabel, ...] = ()) -> Episode:
    accessed = "I have accessed the 'Schedule' section in the Zoom app."
    said = {"thought": THOUGHT, "conclusion": accessed, "target": SCHEDULE}
    schedule = step(0, TAP).model_copy(update=said)
    done = step(1, DONE).model_copy(update={"thought": "Nothing is left."})
    return episode([schedule, done], asked=query().model_copy(update={"instruction": TASK}), labels=labels)


def test_a_coordinators_row_has_the_intention_and_the_low_level_instruction() -> None:
    first, last, tracker = derived(CesDataSpec(), meeting()).examples
    assert first.messages[-1].content == f'<think>{THOUGHT}</think><answer>Tap "Schedule".</answer>'
    asked = first.messages[1].content
    assert TASK in asked and asked.endswith("<image>") and "### Current state ###\nnone" in asked
    assert (first.variant, first.screens, first.step_index) == ("coordinator", ("s0",), 0)
    assert (first.written_by, first.action) == ("m0", None), "the thought is the policy's, and the reply is no action"
    assert last.messages[-1].content == "<think>Nothing is left.</think><answer>The task is complete.</answer>"
    assert "I have accessed the 'Schedule' section" in last.messages[1].content
    assert tracker.variant == "state_tracker"
    (one, two), acted = meeting().steps, meeting().trajectory.model_copy(update={"agent": "ces"})
    told = one.model_copy(update={"role_outputs": '{"intention": "The form comes first."}'})
    rows = derived(CesDataSpec(), meeting().model_copy(update={"trajectory": acted, "steps": (told, two)}))
    assert rows.examples[0].messages[-1].content.startswith("<think>The form comes first.</think>")
    assert refused(rows) == [(1, "no_intention")], "the Executor of CES does not see the past"
    knob = SCHEDULE.model_copy(update={"role": SLIDER_MARK, "text": "7"})
    slid = step(0, Swipe(x=650, y=350, x2=300, y2=350)).model_copy(update={"thought": THOUGHT, "target": knob})
    row, *_ = derived(CesDataSpec(), episode([slid, step(1, DONE)])).examples
    assert row.messages[-1].content.endswith('<answer>Drag the slider to "7".</answer>')


def test_a_state_trackers_row_has_the_context_of_its_step_and_a_walk_has_no_roles() -> None:
    tracker = derived(CesDataSpec(), meeting()).examples[-1]
    said = "I have accessed the 'Schedule' section in the Zoom app."
    told = f"<think>The Executor's step: {said} It takes the task on, so it joins the state.</think>"
    assert tracker.messages[-1].content == f"{told}<answer>{said}</answer>"
    asked = tracker.messages[1].content
    assert '"kind":"click","button"' in asked and "I should select" in asked and "<image>" not in asked
    assert (tracker.screens, tracker.source_screens, tracker.step_index) == ((), ("s1",), 1)
    rows = derived(CesDataSpec(), walked(meeting()))
    assert (rows.examples, [row.reason for row in rows.refusals]) == ((), ["template_conclusions"])


def test_a_state_is_compressed() -> None:
    """CES 4.2.3: dynamic context compression; the state says what is reached and what was found out."""
    said = [
        'Tapped "Mail" on "Home screen".',
        'Tapped "Gift" on "Inbox", noting "AMBER12", "Muted: no".',
        'Returned from "Inbox". Noted "Muted: yes".',
        'Tapped "Mail" on "Home screen".',
        'Tapped "Gift" on "Wallet", noting "Muted: off".',
        'Typed "AMBER12" into "Code" on "Wallet".',
    ]
    done, way = 'Tapped "Mail", then "Gift", then "Gift". Typed "AMBER12" into "Code".', "Noted on the way:"
    assert state_after(said) == f'{done} {way} "Muted: yes", "Muted: off".'
    pages = [f'Opened "Page {number}" on "Book".' for number in range(60)]
    state = state_after([*said[:2], *pages, "I see the end."])
    assert len(state) <= 350 < len(" ".join(pages))
    assert state.endswith(f'then "Page 59". I see the end. {way} "AMBER12", "Muted: no".')


def test_bad_steps_and_elements_without_a_name_are_refused() -> None:
    rows = derived(CesDataSpec(), meeting((StepLabel.HARMFUL,)))
    assert [row.variant for row in rows.examples] == ["coordinator"]
    both = {("coordinator", "harmful"), ("state_tracker", "harmful")}
    assert {(row.variant, row.reason) for row in rows.refusals} == both
    nameless = derived(CesDataSpec(), episode([step(0, TAP), step(1, DONE)]))
    assert [(row.reason, row.variant) for row in nameless.refusals] == [("element_without_name", "coordinator")]


@pytest.mark.parametrize(
    ("action", "named", "said"),
    [
        (Click(x=1, y=1, count=2), "Cart", 'Double-tap "Cart".'),
        (Click(x=1, y=1), "", None),
        (TypeText(text="Bob"), "Name", 'Type "Bob" into "Name".'),
        (Swipe(x=5, y=900, x2=5, y2=100), "", "Scroll down."),
        (SystemButton(button="Home"), "", "Press Home."),
        (Answer(text="3 pm"), "", 'The task is complete. Answer "3 pm".'),
        (Terminate(status="failure"), "", None),
    ],
)
def test_the_instruction_of_an_action(action: Action, named: str, said: str | None) -> None:
    assert instruction_of(action, named) == said


def verdict(correct: bool, **changes: object) -> str:
    said = {"reason": "so", "correct": correct, "redundant_steps": [], "first_error_step": None}
    return json.dumps(said | changes)


def vote(response: str | None, *others: str, role: str = "critic.multimodal", again: bool = False) -> ModelCall:
    made = call(role, 0, screens=("s0", "s1"), call_id=f"{response}", response=response, other_responses=others)
    more = [{"role": "assistant", "content": ["What?"]}, {"role": "user", "content": ["Again."]}] if again else []
    return made.model_copy(update={"messages": json.dumps(json.loads(made.messages) + more)})


def judged(reward: float | None, *calls: ModelCall, split: Split = Split.TRAIN) -> Episode:
    made = episode([step(0, TAP), step(1, DONE)], asked=query(split=split))
    trajectory = made.trajectory.model_copy(update={"reward": reward})
    return made.model_copy(update={"trajectory": trajectory, "calls": calls})


def test_only_verdicts_that_the_reward_confirms_are_learned() -> None:
    rows = derived(JudgeDataSpec(), judged(1.0, vote(verdict(True)), vote(verdict(False), role="critic.text")))
    (row,) = rows.examples
    assert (row.variant, row.written_by, row.screens) == ("verdict_correct", "critic.multimodal-model", ("s0", "s1"))
    asked = ["Be a role.", "Ask critic.multimodal 0<image><image>"]
    assert [message.content for message in row.messages] == [*asked, verdict(True)]
    assert refused(rows) == [(None, "no_right_verdict")]
    failed = derived(JudgeDataSpec(), judged(0.0, vote(verdict(True), "no JSON", verdict(False), verdict(False))))
    assert [(row.variant, row.messages[-1].content) for row in failed.examples] == [
        ("verdict_incorrect", verdict(False))
    ]


def test_broken_requests_unknown_outcomes_and_held_out_queries_teach_no_verdict() -> None:
    calls = (vote(verdict(True, first_error_step=9)), vote(verdict(True), again=True), vote(None))
    assert {reason for _, reason in refused(derived(JudgeDataSpec(), judged(1.0, *calls)))} == {
        "no_right_verdict",
        "asked_again",
    }
    others = judged(1.0, vote("GOOD", role="critic.step"), vote("Tap it.", role="planner"))
    assert refused(derived(JudgeDataSpec(), others)) == [(None, "no_critic_calls")]
    assert refused(derived(JudgeDataSpec(), judged(None, vote(verdict(True))))) == [(None, "no_reward")]
    held_out = judged(1.0, vote(verdict(True)), split=Split.HELDOUT_SLOTS)
    assert refused(derived(JudgeDataSpec(), held_out)) == [(None, "held_out")]


def test_each_judged_step_of_its_own_is_a_candidate_and_no_hint_is_learned() -> None:
    labels = [GOOD, GOOD, HARMFUL, UNKNOWN]
    made = episode([step(0, TAP), step(1, None), step(2, TAP), step(3, DONE)], correct=False, labels=labels)
    rows = derived(PrmDataSpec(), made)
    assert kept(rows) == [(0, "good"), (2, "harmful")]
    assert refused(rows) == [(1, "unparsed"), (3, "not_judged")]
    first, later = rows.examples
    assert (first.screens, later.screens) == (("s0",), ("s2",))
    assert first.messages[1].content.endswith("<image>") and "1. Did 0\n2. Did 1" in later.messages[1].content
    assert '"x": "50.0%", "y": "63.4%"' in first.messages[1].content
    assert "Did 2" not in later.messages[1].content, "what came of the step is not known before it"
    assert [read_label(row.messages[-1].content) for row in rows.examples] == [GOOD, HARMFUL]
    old = made.step_verdicts[0].model_dump() | {"analysis": "It went. Nothing speaks against it."}
    stored = [StepVerdict.model_validate(old | {"made_by": made_by}) for made_by in ("graph-step-8", "critic_step-2")]
    assert [each.label for each in stored] == [UNKNOWN, GOOD], "earlier versions called unknown steps GOOD"
    made = episode([step(0, TAP), step(1, DONE)], labels=[GOOD, GOOD])
    hinted = derived(PrmDataSpec(), made.model_copy(update={"guidance": "1. Did 0"}))
    assert (kept(hinted), refused(hinted)) == ([(0, "good")], [(1, "quotes_guidance")])


@pytest.mark.parametrize(
    "outcomes",
    [
        {"T.": 1, "B.": 0, "TT.": 0, "BT.": 0, "OT.": 1},
        {"TBO.": 1, "TBT.": 0, "TOB.": 0, "BT.": 1},
        {"B.": 0, "T.": 0, "TO.": 1},
        {"T.": 0, "B.": 0},
        {"O.": 1, "OT.": 1},
    ],
)
def test_branches_label_the_step_to_their_screen_and_those_where_they_part(outcomes: dict[str, int]) -> None:
    def attempt(acts: str, **changes: Any) -> Episode:
        steps = [step(n, ACTIONS[act]) for n, act in enumerate("TT" + acts)]
        made = episode(steps, name=acts, labels=[NEUTRAL] * len(steps), **changes)
        origin = {"parent_id": content_id("test", "B."), "branched_at": None if changes["purpose"] is TRAIN else 2}
        return made.model_copy(update={"trajectory": made.trajectory.model_copy(update=origin)})

    parent = attempt("BO.", purpose=TRAIN, correct=False)
    branches = [attempt(acts, purpose=BRANCH, correct=bool(correct)) for acts, correct in outcomes.items()]
    void = attempt("", purpose=BRANCH, status="failed", correct=True)
    others = {each.trajectory.trajectory_id: (void, *branches) for each in (parent, *branches)}
    tools = tools_of(PrmDataSpec(), of_tasks=TaskSources(others, {}, NearLeaks((), CurateSpec())))
    rewards = np.array(list(outcomes.values()), np.float64)
    for one, path in zip((parent, *branches), ("BO.", *outcomes), strict=True):
        led = "good" if rewards.any() else "neutral"
        expected = [(0, "neutral"), (1, led)] if one is parent else []
        for at in range(len(path)):
            along, same = ([acts[:end] == path[:end] for acts in outcomes] for end in (at, at + 1))
            gain = np.sign(rewards[same].mean() - rewards[along].mean()) if any(same) else 0
            expected.append((2 + at, {1: "good", 0: "neutral", -1: "harmful"}[int(gain)]))
        rows = derived(PrmDataSpec(), one, tools)
        assert kept(rows) == expected
        lineage = {each.trajectory.trajectory_id for each in (one, *branches)}
        for row in rows.examples:
            assert (row.written_by == "branches") is (row.variant != "neutral") is bool(row.source_trajectories)
            assert set(row.source_trajectories or lineage) == lineage
