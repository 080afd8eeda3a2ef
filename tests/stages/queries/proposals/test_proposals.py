"""Tasks that a model proposes: what it is shown, what is refused, which starting points have their turn, trials."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.stages.critics.phone import words
from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.samples import chosen, drafted
from tests.warehouse.samples import query, stage_run, trajectory
from trajmill.schemas.errors import BadInputError, FailureClass, ModelFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Source, Split
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.models.base import ChatRequest, Completion
from trajmill.stages.queries.base import NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.generate import unwalked_queries
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.proposals.source import (
    HumanTask,
    ProposalSource,
    StartingPoint,
    TaskSuccess,
    curriculum_starting_points,
    decide_proposal,
    in_turn,
    read_human_tasks,
)
from trajmill.stages.queries.written import BATCH, LONGEST_TASK, query_prompts

Answer = str | Completion | ModelFailure
BITES = StartingPoint(Platform.PHONE, ("bites",), examples=("Order me a pizza.",))
CLOCK = StartingPoint(Platform.PHONE, ("clock",), examples=("Set an alarm for 7:30.",))
NAMES = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima"]


def tasks(*instructions: str, difficulty: int = 2) -> str:
    return json.dumps({"tasks": [{"instruction": text, "difficulty": difficulty} for text in instructions]})


async def propose(
    answer: Callable[[ChatRequest], Answer],
    origin: Origin,
    starts: Sequence[StartingPoint] = (BITES,),
    existing: Sequence[Query] = (),
    wanted: int = 3,
    at_once: int = 1,
) -> tuple[NewQueries, ScriptedModel]:
    model = ScriptedModel(answer)
    source = ProposalSource(model, query_prompts(), starts, existing, wanted)
    context = SourceContext(SimulatedSpec(), UnseenApps(), 0, origin, at_once)
    return await unwalked_queries(source, context), model


def numbered(request: ChatRequest) -> str:
    """As many new tasks as are asked for, no two alike."""
    seen = words(request)
    app = "clock" if "Software: clock" in seen else "bites"
    return tasks(*(f"{name} {app} {name}s twice" for name in NAMES if f"{name}s" not in seen.casefold()))


@pytest.fixture
def known(order: TaskGraph, origin: Origin) -> Query:
    made = drafted(chosen(order, dish="Pad Thai"), origin, 1)
    return made.model_copy(update={"instruction": "Order Pad Thai from Bites."})


async def test_a_proposal_is_a_query_without_path_and_goal(origin: Origin, known: Query) -> None:
    made, model = await propose(lambda request: tasks("order a salad\nand a soup", difficulty=3), origin, wanted=1)
    (one,), (request,) = made.queries, model.asked
    assert (one.instruction, one.source, one.split) == ("Order a salad and a soup.", Source.CURRICULUM, Split.TRAIN)
    assert (one.path, one.pages, one.slots, one.goal, one.max_steps) == ((), (), (), "{}", 40)
    assert one.made_by == "writer_curriculum-1@scripted-1"
    assert one.query_id == Query.make_id(one.platform, one.task, (), "{}", one.instruction)
    assert leaks_in_queries([one, known], ()) == () and made.failures == ()
    assert (request.role, request.temperature) == ("writer", 0.8)


async def test_the_curriculum_shows_what_people_wrote_and_how_the_agent_does(origin: Origin, known: Query) -> None:
    said = [("Order me a pizza", "bites"), ("Wake me at 7:30", "clock"), ('Book a table "now"', "bites")]
    written = [HumanTask(instruction=text, platform=Platform.PHONE, apps=(app,)) for text, app in said]
    written.append(written[0].model_copy(update={"start_state": {"a": 1}}))
    tried = [("easy one", "bites", 0.9), ("half one", "bites", 0.5), ("hard one", "bites", 0.0)]
    tried.append(("another app", "clock", 1.0))
    successes = [TaskSuccess(text, Platform.PHONE, (app,), success) for text, app, success in tried]
    starts = curriculum_starting_points(written, successes)
    assert [(start.apps, len(start.examples), start.start_state) for start in starts] == [
        (("bites",), 2, "{}"),
        (("clock",), 1, "{}"),
        (("bites",), 1, '{"a": 1}'),
    ]
    heldout = known.model_copy(update={"split": Split.HELDOUT_SLOTS, "instruction": "Something held out"})
    _, model = await propose(numbered, origin, starts[:1], [known, heldout], wanted=2)
    told = words(model.asked[0])
    sections = told.partition("Software: bites, on a phone")[2]
    for heading, listed in (
        ("Tasks that people wrote:", '- "Order me a pizza"'),
        ("Tasks that the agent does reliably:", '- "easy one"'),
        ("Tasks that it does sometimes:", '- "half one"'),
        ("Tasks that it still fails at:", '- "hard one"'),
        ("Other tasks that exist already:", '- "Order Pad Thai from Bites."'),
    ):
        assert sections.partition(heading)[2].startswith(f"\n{listed}"), heading
    assert "Propose 2 new tasks." in told
    assert "another app" not in told and "Something held out" not in told


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("", "it is no sentence"),
        ("x" * 10**6, f"it has 1000000 characters; at most {LONGEST_TASK} are allowed"),
        ("I'm sorry, I cannot do that", "it is an excuse and no task"),
        ("Order [dish] for me", '"[dish]" is a placeholder'),
        ("Send ____ a message", '"____" is a placeholder'),
        ("order me a pizza!", 'the same words as "Order me a pizza."'),
        ("Please order Pad Thai from Bites", 'nearly the same words as "Order Pad Thai from Bites."'),
        ("hold  me, out", 'the same words as "Hold me out."'),
    ],
)
async def test_what_is_refused_has_its_reason(origin: Origin, known: Query, instruction: str, reason: str) -> None:
    heldout = known.model_copy(update={"split": Split.HELDOUT_SLOTS, "instruction": "Hold me out."})
    made, model = await propose(
        lambda request: tasks(instruction, "Order a soup and a salad"), origin, existing=[known, heldout], wanted=1
    )
    assert [one.instruction for one in made.queries] == ["Order a soup and a salad."]
    (failure,) = made.failures
    assert failure.message.startswith(f"curriculum: {reason}: ") and len(failure.message) < 500
    assert (failure.stage, failure.failure_class) == ("propose", FailureClass.TASK)
    assert len(model.asked) == 1


async def test_what_is_refused_is_asked_for_again_within_bounds(origin: Origin) -> None:
    made, model = await propose(lambda request: tasks("Order me a pizza"), origin, wanted=2)
    assert made.queries == () and len(made.failures) == 4
    assert len(model.asked) == len({request.seed for request in model.asked}) == 3
    assert made.failures[-1].message == "curriculum: only 0 of 2 tasks: the others were refused"


async def test_a_model_that_fails_on_one_ground_does_not_end_the_others(origin: Origin) -> None:
    def answer(request: ChatRequest) -> Answer:
        return ModelFailure("no server answers") if "Software: bites" in words(request) else numbered(request)

    made, _ = await propose(answer, origin, [BITES, CLOCK], wanted=6, at_once=2)
    assert {one.apps for one in made.queries} == {("clock",)} and len(made.queries) == 3
    assert [(failure.failure_class, failure.input_id) for failure in made.failures] == [(FailureClass.MODEL, BITES.id)]
    for invalid in ("I cannot help with that.", "", tasks(), '{"tasks": [{"instruction": 3}]}'):
        made, _ = await propose(lambda request, invalid=invalid: invalid, origin)  # type: ignore[misc]
        assert made.queries == () and [each.failure_class for each in made.failures] == [FailureClass.MODEL]


async def test_the_wanted_tasks_are_divided_over_the_grounds_and_concurrency_changes_nothing(origin: Origin) -> None:
    made, _ = await propose(numbered, origin, [BITES, CLOCK], wanted=13)
    assert [one.apps for one in made.queries] == [("bites",)] * 7 + [("clock",)] * 6
    assert (await propose(numbered, origin, [BITES, CLOCK], wanted=13, at_once=8))[0] == made
    assert len({one.query_id for one in made.queries} | {one.goal_key() for one in made.queries}) == 26
    many, _ = await propose(numbered, origin, wanted=BATCH + 1)
    assert len(many.queries) == BATCH + 1


async def test_the_same_task_on_two_grounds_is_taken_once(origin: Origin) -> None:
    other = BITES._replace(start_state='{"a": 1}')
    made, _ = await propose(lambda request: tasks("Order a soup and a salad"), origin, [BITES, other], wanted=2)
    assert len(made.queries) == 1
    assert "the same words as on another starting point" in made.failures[0].message


def test_over_the_rounds_all_have_their_turn() -> None:
    for wanted in (1, 2, 5, 8):
        starts = [StartingPoint(Platform.PHONE, (app,)) for app in "abcde"]
        rounds = [in_turn(starts, wanted, number) for number in range(1, len(starts) + 1)]
        assert [sum(start in taken for taken in rounds) for start in starts] == [min(wanted, 5)] * 5
        assert in_turn([], wanted, 1) == []


GOOD = '{"instruction": "Order me a pizza", "platform": "phone", "apps": ["bites"]}'


def test_a_file_has_one_task_a_line_and_a_wrong_one_gives_one_error_line(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(f'{GOOD}\n\n{GOOD[:-1]}, "start_state": {{"a": 1}}}}\r\n')
    first, second = read_human_tasks(file)
    assert first == HumanTask(instruction="Order me a pizza", platform=Platform.PHONE, apps=("bites",))
    assert second.start_state == {"a": 1}
    for content, told in (
        (b"[" * 100_000, ":1: the line: Invalid JSON"),
        (b'{"instruction": "x", "apps": []}', ":1: platform is missing"),
        (b'{"instruction": "x", "platform": "fridge", "apps": []}', ":1: platform should be 'phone', 'desktop'"),
        (b'{"instruction": "x", "platform": "phone", "apps": [], "app": 1}', ":1: app is an unknown key"),
        (b"\xff\xfe", "can't decode byte"),
    ):
        file.write_bytes(content)
        with pytest.raises(BadInputError) as raised:
            read_human_tasks(file)
        assert str(raised.value).startswith(str(file)) and told in str(raised.value)


def test_an_attempt_that_nobody_judged_says_nothing_unless_the_task_cannot_be_started(origin: Origin) -> None:
    proposed = query("a", stage_run("propose", 1))
    attempt = trajectory(0, stage_run("try_proposals", 2), proposed.query_id, failure_message="there is no such list")
    for cause in (None, FailureClass.ENVIRONMENT, FailureClass.SETUP, FailureClass.MODEL):
        tried = attempt.model_copy(update={"failure_class": cause})
        assert decide_proposal(proposed, tried, None, origin) is None
    decided = decide_proposal(proposed, attempt.model_copy(update={"failure_class": FailureClass.TASK}), None, origin)
    assert decided is not None and decided.refusal is not None
    assert "there is no such list" in decided.refusal.message
    assert (decided.refusal.input_id, decided.refusal.failure_class) == (proposed.query_id, FailureClass.TASK)
