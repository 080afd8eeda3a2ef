"""The views of metrics give what the papers' examples give, and what `match_action` says of single steps."""

import json

import pytest

from tests.records import record
from tests.warehouse.samples import ask, at_origin, commit_rows, judgement, query, stage_run, trajectory
from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    Drag,
    LongPress,
    Scroll,
    Swipe,
    SwitchDevice,
    SystemButton,
    Terminate,
    TypeText,
    action_to_json,
)
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.record import Row
from trajmill.schemas.tables.query import CausalTask, PathStep, Platform, Query, Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, Step, StopReason, TargetElement
from trajmill.schemas.tables.verdict import StepLabel, StepVerdict
from trajmill.stages.metrics.action_match import ActionMatch, RightAction, match_action
from trajmill.warehouse.layout import StageRun, Warehouse

pytestmark = pytest.mark.slow
AT = stage_run()
BOX = Box(100, 200, 300, 260)


def stored(trajectory_id: str, index: int, action: Action | None, screen: str = "", box: Box | None = BOX) -> Step:
    named = {"trajectory_id": trajectory_id, "index": index, "role_outputs": "{}"}
    screens = {"screen_before": screen or f"s{index}", "screen_after": f"s{index + 1}"}
    done = None if action is None else action_to_json(action)
    kind = "unparsed" if action is None else action.kind
    target = None if box is None else TargetElement(role="button", text="Send", bounds=box)
    return record(Step, action=done, action_kind=kind, target=target, **named | screens | at_origin(AT))


def seen(count: int) -> list[Screen]:
    return [record(Screen, screen_id=f"s{n}", **SCREEN._asdict(), **at_origin(AT)) for n in range(count)]


def pages(name: str, count: int, at: StageRun) -> Query:
    path = tuple(PathStep(page=f"mail.p{number}", operation="tap", target="x") for number in range(count))
    return query(name, at, Split.HELDOUT_SLOTS).model_copy(update={"path": path})


def test_success_pass_at_4_and_wpsr_weigh_queries_as_they_should(warehouse: Warehouse) -> None:
    tried = {"a": (1, [1, 0, 0, 0]), "b": (3, [0, 1, 0, 0, 0]), "c": (2, [1])}
    rewards = [(name, reward) for name, (_, outcomes) in tried.items() for reward in outcomes]
    rows = [trajectory(n, AT, name, reward=float(reward)) for n, (name, reward) in enumerate(rewards)]
    judged = (judgement(rows[place].trajectory_id, AT, not place) for place in (0, 1))
    commit_rows(warehouse, AT, *(pages(name, count, AT) for name, (count, _) in tried.items()), *rows, *judged)
    [found] = ask(warehouse, "FROM metrics_by_round")
    assert (found["queries"], found["attempts"], found["yield"]) == (3, 10, 0.5)
    assert found["success_rate"] == pytest.approx((1 / 4 + 1 / 5 + 1) / 3)
    # Of five attempts one succeeded: 1 - C(4, 4) / C(5, 4); c has too few attempts.
    assert found["pass_at_4"] == pytest.approx((1 + 4 / 5) / 2)
    assert found["steps_per_success"] == pytest.approx(40 / 3)
    assert found["tokens_per_success"] == pytest.approx(150 / 3)
    assert found["wpsr"] == pytest.approx((2 / 4 + 4 / 5 + 3) / (2 + 4 + 3))


def test_false_completes_and_side_effects_are_shares_of_the_attempts_that_can_tell(warehouse: Warehouse) -> None:
    told: list[tuple[float | None, bool | None, tuple[str, ...] | None]] = [
        (1.0, False, ()),
        (0.0, True, ("app.a", "app.b")),
        (0.0, False, None),
        (1.0, False, ("app.a",)),
        (0.0, None, None),
    ]
    rows = [
        trajectory(n, AT, "q", reward=reward, false_complete=false, side_effects=paths)
        for n, (reward, false, paths) in enumerate(told)
    ]
    commit_rows(warehouse, AT, query("q", AT), *rows)
    [found] = ask(warehouse, "FROM metrics_by_round")
    assert found["false_complete_rate"] == 0.25
    assert found["side_effect_rate"] == pytest.approx(2 / 3)


def test_an_agents_own_division_is_no_measure(warehouse: Warehouse) -> None:
    """Whoever divides a task into more atomic tasks would else be the better agent."""
    attempt = trajectory(0, AT, "q0", reward=1.0, agent="light_manus", steps=1)
    outputs = json.dumps({"atomic_tasks": "[phone] a\n[phone] b\n[phone] c", "current": "2"})
    last = stored(attempt.trajectory_id, 0, Terminate(status="success")).model_copy(update={"role_outputs": outputs})
    none = query("q1", AT).model_copy(update={"atomic_tasks": ()})
    commit_rows(warehouse, AT, query("q0", AT), attempt, last, none, trajectory(1, AT, "q1", reward=1.0, atomic_done=0))
    for found in ask(warehouse, "FROM metrics_by_round"):
        assert (found["success_rate"], found["matcr"], found["p_atsr"]) == (1.0, None, None)
    assert ask(warehouse, "FROM atomic_outcomes") == []


LEVELS = {
    1: [*[(2, 2)] * 7, *[(1, 1)] * 2, *[(0, 2)] * 6],
    2: [(done, 4) for done in (4, 4, 4, 4, 3, 2, 1, 1, 0, 0)],
    3: [*[(6, 6)] * 2, (0, 5), *[(0, 6)] * 7],
}
"""Tasks of table 1 of NaturalGAIA by level, as Claude-sonnet-4 left them: atomic tasks done in a row, and all."""


def test_the_levels_of_the_papers_table_come_out(warehouse: Warehouse) -> None:
    said = {"instruction": "x", "answer": "", "value": ""}
    for run, levels in {"one": (1,), "two": (2,), "three": (3,), "all": (1, 2, 3)}.items():
        at, rows = stage_run(run_id=run), list[Row]()
        for number, (done, count) in enumerate(each for level in levels for each in LEVELS[level]):
            apps = tuple(f"app{place}" for place in range(count))
            tasks = tuple(CausalTask(device=Platform.PHONE, app=app, **said) for app in apps)
            rows.append(query(f"q{number}", at).model_copy(update={"atomic_tasks": tasks, "apps": apps}))
            rows.append(trajectory(number, at, f"q{number}", reward=float(done == count), atomic_done=done))
        commit_rows(warehouse, at, *rows)
    found = {row["run_id"]: row for row in ask(warehouse, "FROM metrics_by_round")}
    wpsr = {run: round(100 * row["wpsr"], 1) for run, row in found.items()}
    assert wpsr == {"one": 57.1, "two": 40.0, "three": 20.3, "all": 34.6}
    assert [round(100 * found["two"][name], 1) for name in ("matcr", "p_atsr")] == [57.5, 52.1]
    assert {row["said_by"] for row in ask(warehouse, "FROM atomic_outcomes")} == {"environment"}


SCREEN = Size(720, 1280)
SAID: list[tuple[Action, Action]] = [
    (Click(x=150, y=230), Click(x=200, y=230)),
    (Click(x=350, y=230), Click(x=200, y=230)),
    (TypeText(text="the Meeting agenda for monday"), TypeText(text="Meeting agenda")),
    (TypeText(text="the Meeting agenda for monday morning"), TypeText(text="Meeting agenda")),
    (TypeText(text="agenda agenda agenda"), TypeText(text="agenda of today")),
    (Swipe(x=0, y=900, x2=9, y2=100), Swipe(x=50, y=500, x2=50, y2=100)),
    (Swipe(x=0, y=100, x2=9, y2=900), Swipe(x=50, y=500, x2=50, y2=100)),
    (SystemButton(button="Back"), SystemButton(button="Home")),
    (SystemButton(button="Home"), SystemButton(button="Home")),
    (Terminate(status="success"), Click(x=200, y=230)),
    (TypeText(text="Meeting agendaMeeting agenda"), TypeText(text="Meeting agenda")),
    (Swipe(x=50, y=500, x2=50, y2=499), Swipe(x=50, y=500, x2=50, y2=100)),
    (Swipe(x=150, y=230, x2=150, y2=231), Swipe(x=200, y=230, x2=199, y2=230)),
    (Scroll(x=9, y=9, clicks=2), Scroll(x=200, y=230, clicks=5)),
    (Drag(x=150, y=230, x2=600, y2=900), Drag(x=200, y=230, x2=600, y2=1000)),
    (Drag(x=150, y=230, x2=600, y2=300), Drag(x=200, y=230, x2=600, y2=1000)),
    (Drag(x=350, y=230, x2=600, y2=1000), Drag(x=200, y=230, x2=600, y2=1000)),
    (Drag(x=200, y=230, x2=130, y2=230), Drag(x=200, y=230, x2=270, y2=230)),
    (Drag(x=200, y=230, x2=201, y2=230), Drag(x=200, y=230, x2=270, y2=230)),
    (SwitchDevice(device="phone"), SwitchDevice(device="desktop")),
]
UNBOXED: list[tuple[Action, Action]] = [
    (Click(x=210, y=300), Click(x=200, y=230)),
    (Click(x=330, y=230), Click(x=200, y=230)),
    (LongPress(x=200, y=410), LongPress(x=200, y=230)),
    (Drag(x=210, y=300, x2=610, y2=990), Drag(x=200, y=230, x2=600, y2=1000)),
    (Drag(x=330, y=300, x2=610, y2=990), Drag(x=200, y=230, x2=600, y2=1000)),
]
"""Where the right action hit no element."""


def shares(compared: list[tuple[Action, ActionMatch]]) -> tuple[float | None, ...]:
    """Type, GR and SR, each None without a step that counts."""
    matches = [match for _, match in compared]
    points = [match for said, match in compared if match.type and isinstance(said, Click | LongPress)]
    counted = [[m.type for m in matches], [m.parameters for m in points], [m.parameters for m in matches]]
    return tuple(sum(outcomes) / len(outcomes) if outcomes else None for outcomes in counted)


def test_type_gr_and_sr_are_those_of_the_stage(warehouse: Warehouse) -> None:
    """Of all steps together, and of each step, taken by a policy of its own."""
    pairs = [*((said, right, BOX) for said, right in SAID), *((said, right, None) for said, right in UNBOXED)]
    measured = trajectory(0, AT, "q", reward=0.0, purpose=Purpose.EVALUATE)
    known, wrong = trajectory(1, AT, "q", reward=1.0), trajectory(2, AT, "q", reward=0.0)
    alone = [
        trajectory(3 + n, AT, "q", reward=0.0, purpose=Purpose.EVALUATE, model_version=f"step {n}")
        for n in range(len(pairs))
    ]
    attempts = (query("q", AT, Split.HELDOUT_SLOTS), measured, known, wrong, *alone)
    commit_rows(
        warehouse,
        AT,
        *attempts,
        *(stored(measured.trajectory_id, n, said) for n, (said, _, _) in enumerate(pairs)),
        *(stored(alone[n].trajectory_id, n, said) for n, (said, _, _) in enumerate(pairs)),
        stored(measured.trajectory_id, len(pairs), Click(x=1, y=1), screen="never seen by others"),
        *(stored(known.trajectory_id, n, right, box=box) for n, (_, right, box) in enumerate(pairs)),
        stored(wrong.trajectory_id, 1, SAID[1][0]),
        *seen(len(pairs)),
    )
    compared = [(said, match_action(said, RightAction(right, box, SCREEN))) for said, right, box in pairs]
    expected = {"policy-1": (len(pairs), *shares(compared))}
    expected |= {f"step {n}": (1, *shares([each])) for n, each in enumerate(compared)}
    found = {row["policy_version"]: row for row in ask(warehouse, "FROM action_match")}
    assert {name: tuple(row[key] for key in ("steps", "type", "gr", "sr")) for name, row in found.items()} == {
        name: pytest.approx(scores) for name, scores in expected.items()
    }


def test_an_accepted_attempt_is_compared_with_others_that_did_the_same_not_with_itself(warehouse: Warehouse) -> None:
    attempts = [trajectory(number, AT, "q", reward=1.0, purpose=Purpose.EVALUATE) for number in range(3)]
    tap = Click(x=200, y=230)
    steps = [stored(attempt.trajectory_id, place, tap) for attempt, place in zip(attempts, (0, 0, 1), strict=True)]
    commit_rows(warehouse, AT, query("q", AT, Split.HELDOUT_SLOTS), *attempts, *steps, *seen(2))
    [found] = ask(warehouse, "FROM action_match")
    assert (found["steps"], found["type"], found["sr"]) == (2, 1.0, 1.0)


def test_a_harmful_step_of_an_accepted_attempt_is_not_right(warehouse: Warehouse) -> None:
    """Step 0 is known by one attempt, which did damage there; so is step 1, by one of two; step 2 was harmless."""
    measured = trajectory(0, AT, "q", reward=0.0, purpose=Purpose.EVALUATE)
    known = [trajectory(number, AT, "q", reward=1.0) for number in (1, 2)]
    harm, help_ = Click(x=150, y=230), Click(x=500, y=900)

    def verdict(index: int, label: StepLabel, judge: str | None = None) -> Row:
        named = {"trajectory_id": known[0].trajectory_id, "judge": judge}
        return record(StepVerdict, index=index, label=label, **named, **at_origin(AT))

    steps = [stored(each.trajectory_id, n, harm) for each in (measured, known[0]) for n in range(3)]
    steps.append(stored(known[1].trajectory_id, 1, help_, box=Box(480, 880, 520, 920)))
    said = [verdict(n, StepLabel.GOOD if n == 2 else StepLabel.HARMFUL) for n in range(3)]
    said.append(verdict(2, StepLabel.HARMFUL, judge="another"))
    commit_rows(warehouse, AT, query("q", AT, Split.HELDOUT_SLOTS), measured, *known, *steps, *said, *seen(3))
    [found] = ask(warehouse, "FROM action_match")
    assert (found["steps"], found["type"], found["sr"]) == (2, 1.0, 0.5)


def test_each_failure_has_the_first_class_that_fits(warehouse: Warehouse) -> None:
    tap, lost = Click(x=150, y=230), Click(x=9, y=9)
    done, gave_up = Terminate(status="success"), Terminate(status="failure")
    cases: list[tuple[str, list[Action | None], int | None, StopReason]] = [
        ("structural_compliance", [tap, None], None, StopReason.STEP_LIMIT),
        ("operational", [tap, lost, done], 1, StopReason.AGENT_DONE),
        ("perceptual", [tap, TypeText(text="Bob"), done], 1, StopReason.AGENT_DONE),
        ("perceptual", [tap, Answer(text="12 May")], None, StopReason.AGENT_DONE),
        ("knowledge_deficit", [tap, tap, tap], None, StopReason.STEP_LIMIT),
        ("knowledge_deficit", [tap, gave_up], None, StopReason.AGENT_DONE),
        ("planning", [tap, tap, done], 2, StopReason.AGENT_DONE),
    ]
    rows: list[Row] = []
    for number, (_, actions, first_error, stop) in enumerate(cases):
        made = trajectory(number, AT, "q", reward=0.0, model_version=f"p{number}", stop_reason=stop, steps=len(actions))
        verdict = judgement(made.trajectory_id, AT, False).model_copy(update={"first_error_step": first_error})
        steps = [stored(made.trajectory_id, n, action) for n, action in enumerate(actions)]
        for n, action in enumerate(actions):
            if action == lost:
                steps[n] = steps[n].model_copy(update={"screen_after": steps[n].screen_before})
        rows += [made, verdict, *steps]
    commit_rows(warehouse, AT, *rows, trajectory(9, AT, "q", reward=1.0, model_version="p0"))
    found = {row["policy_version"]: row for row in ask(warehouse, "FROM error_attribution")}
    assert {name: row["error"] for name, row in found.items()} == {f"p{n}": case[0] for n, case in enumerate(cases)}
    assert (found["p0"]["share"], found["p0"]["share_of_all"]) == (1.0, 0.5), "of its failures, and of its attempts"
    of_another_type = {row["error"] for row in found.values() if row["type"] != row["error"]}
    assert of_another_type == {"operational", "perceptual", "knowledge_deficit"}
