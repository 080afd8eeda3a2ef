from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.samples import chosen, drafted
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Source, Split
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.models.base import ChatRequest, Completion
from trajmill.stages.queries.base import NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.generate import unwalked_queries
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.proposals.propose import ProposalSource, TaskProposer
from trajmill.stages.queries.proposals.starts import HumanTask, StartingPoint, TaskSuccess, curriculum_starting_points
from trajmill.stages.queries.written import BATCH, LONGEST_TASK, KnownTasks, SimilarTask

Answer = str | Completion | ModelFailure
BITES = StartingPoint(Platform.PHONE, ("bites",), examples=("Order me a pizza.",))
CLOCK = StartingPoint(Platform.PHONE, ("clock",), examples=("Set an alarm for 7:30.",))


def tasks(*instructions: str, difficulty: int = 2) -> str:
    return json.dumps({"tasks": [{"instruction": text, "difficulty": difficulty} for text in instructions]})


def words(request: ChatRequest) -> str:
    return "\n".join(str(part) for message in request.messages for part in message.parts)


def propose(
    answer: Callable[[ChatRequest], Answer],
    origin: Origin,
    starts: Sequence[StartingPoint] = (BITES,),
    existing: Sequence[Query] = (),
    wanted: int = 3,
    heldout: Sequence[str] = (),
    at_once: int = 1,
) -> tuple[NewQueries, ScriptedModel]:
    model = ScriptedModel(answer)
    source = ProposalSource(TaskProposer(model), starts, existing, wanted)
    context = SourceContext(SimulatedSpec(), UnseenApps(heldout), 0, origin, at_once)
    return asyncio.run(unwalked_queries(source, context)), model


def numbered(request: ChatRequest) -> str:
    """As many new tasks as are asked for, no two alike."""
    seen = words(request)
    names = [
        "alpha",
        "bravo",
        "charlie",
        "delta",
        "echo",
        "foxtrot",
        "golf",
        "hotel",
        "india",
        "juliet",
        "kilo",
        "lima",
    ]
    app = "clock" if "Software: clock" in seen else "bites"
    return tasks(*(f"{name} {app} {name}s twice" for name in names if f"{name}s" not in seen.casefold()))


@pytest.fixture
def known(order: TaskGraph, origin: Origin) -> Query:
    made = drafted(chosen(order, dish="Pad Thai"), origin, 1)
    return made.model_copy(update={"instruction": "Order Pad Thai from Bites."})


def test_a_proposal_is_a_query_without_path_and_goal(world: World, origin: Origin, known: Query) -> None:
    made, model = propose(lambda request: tasks("order a salad\nand a soup", difficulty=3), origin, wanted=1)
    (query,) = made.queries
    assert (query.instruction, query.source, query.split) == (
        "Order a salad and a soup.",
        Source.CURRICULUM,
        Split.TRAIN,
    )
    assert (query.path, query.pages, query.slots, query.goal, query.max_steps) == ((), (), (), "{}", 40)
    assert query.made_by == "writer_curriculum-1@scripted-1"
    assert query.query_id == Query.make_id(query.platform, query.task, (), "{}", query.instruction)
    assert leaks_in_queries([query, known], ()) == ()
    assert made.failures == ()
    request = model.asked[0]
    assert (request.role, request.temperature) == ("writer", 0.8)


def test_the_curriculum_shows_what_people_wrote_and_how_the_agent_does(origin: Origin, known: Query) -> None:
    written = [
        HumanTask(instruction="Order me a pizza", platform=Platform.PHONE, apps=("bites",)),
        HumanTask(instruction="Wake me at 7:30", platform=Platform.PHONE, apps=("clock",)),
        HumanTask(instruction='Book a table "now"', platform=Platform.PHONE, apps=("bites",)),
        HumanTask(instruction="Order again", platform=Platform.PHONE, apps=("bites",), start_state={"a": 1}),
    ]
    successes = [
        TaskSuccess(text, Platform.PHONE, (app,), success)
        for text, app, success in (
            ("easy one", "bites", 0.9),
            ("half one", "bites", 0.5),
            ("hard one", "bites", 0.0),
            ("another app", "clock", 1.0),
        )
    ]
    starts = curriculum_starting_points(written, successes)
    assert [(start.apps, len(start.examples), start.start_state) for start in starts] == [
        (("bites",), 2, "{}"),
        (("clock",), 1, "{}"),
        (("bites",), 1, '{"a": 1}'),
    ]
    heldout = known.model_copy(update={"split": Split.HELDOUT_SLOTS, "instruction": "Something held out"})
    _, model = propose(numbered, origin, starts[:1], [known, heldout], wanted=2)
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


def test_a_screen_is_shown_and_its_tasks_are_marked(world: World, origin: Origin, known: Query) -> None:
    environment = SimulatedEnvironment(world, Platform.PHONE)
    screen = asyncio.run(environment.reset(known, 0))
    start = StartingPoint(Platform.PHONE, (), screen=screen)
    made, model = propose(lambda request: tasks("Open the app Notes"), origin, [start], wanted=1)
    assert [part for part in model.asked[0].messages[1].parts if isinstance(part, Observation)] == [screen]
    (query,) = made.queries
    assert (query.source, query.made_by) == (Source.SCREENSHOT, "writer_screen-1@scripted-1")
    assert "Software: (the whole device), on a phone" in words(model.asked[0])


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("", "it is no sentence"),
        ("Pizza", "it is no sentence"),
        ("pizza " * 100, f"it has 600 characters; at most {LONGEST_TASK} are allowed"),
        ("x" * 10**6, f"it has 1000000 characters; at most {LONGEST_TASK} are allowed"),
        ("I'm sorry, I cannot do that", "it is an excuse and no task"),
        ("Sorry, no.", "it is an excuse and no task"),
        ("As an AI, I have no wishes", "it is an excuse and no task"),
        ("Order [dish] for me", '"[dish]" is a placeholder'),
        ("Send ____ a message", '"____" is a placeholder'),
        ("order me a pizza!", 'the same words as "Order me a pizza."'),
        ("order pad thai from bites", 'the same words as "Order Pad Thai from Bites."'),
        ("Please order Pad Thai from Bites", 'nearly the same words as "Order Pad Thai from Bites."'),
        ("hold me out", 'the same words as "Hold me out."'),
    ],
)
def test_what_is_refused_is_a_failure_with_its_reason(
    origin: Origin, known: Query, instruction: str, reason: str
) -> None:
    heldout = known.model_copy(update={"split": Split.HELDOUT_SLOTS, "instruction": "Hold me out."})
    made, model = propose(
        lambda request: tasks(instruction, "Order a soup and a salad"), origin, existing=[known, heldout], wanted=1
    )
    assert [query.instruction for query in made.queries] == ["Order a soup and a salad."]
    (failure,) = made.failures
    assert failure.message.startswith(f"curriculum: {reason}: ") and len(failure.message) < 500
    assert (failure.stage, failure.failure_class) == ("propose", FailureClass.TASK)
    assert len(model.asked) == 1


def test_what_is_refused_is_asked_for_again_within_bounds(origin: Origin) -> None:
    made, model = propose(lambda request: tasks("Order me a pizza"), origin, wanted=2)
    assert made.queries == ()
    assert len(model.asked) == 3
    assert len({request.seed for request in model.asked}) == 3
    assert made.failures[-1].message == "curriculum: only 0 of 2 tasks: the others were refused"
    assert len(made.failures) == 4


def test_a_model_that_fails_on_one_ground_does_not_end_the_others(origin: Origin) -> None:
    def answer(request: ChatRequest) -> Answer:
        return ModelFailure("no server answers") if "Software: bites" in words(request) else numbered(request)

    made, _ = propose(answer, origin, [BITES, CLOCK], wanted=6, at_once=2)
    assert {query.apps for query in made.queries} == {("clock",)} and len(made.queries) == 3
    assert [(failure.failure_class, failure.input_id) for failure in made.failures] == [(FailureClass.MODEL, BITES.id)]


@pytest.mark.parametrize("answer", ["I cannot help with that.", "", tasks(), '{"tasks": [{"instruction": 3}]}'])
def test_an_invalid_answer_is_a_failure(origin: Origin, answer: str) -> None:
    made, _ = propose(lambda request: answer, origin)
    assert made.queries == ()
    assert [failure.failure_class for failure in made.failures] == [FailureClass.MODEL]


def test_the_wanted_tasks_are_divided_over_the_grounds_and_concurrency_changes_nothing(origin: Origin) -> None:
    made, _ = propose(numbered, origin, [BITES, CLOCK], wanted=13)
    assert [query.apps for query in made.queries] == [("bites",)] * 7 + [("clock",)] * 6
    assert propose(numbered, origin, [BITES, CLOCK], wanted=13, at_once=8)[0] == made
    assert len({query.query_id for query in made.queries} | {query.goal_key() for query in made.queries}) == 26
    many, _ = propose(numbered, origin, wanted=BATCH + 1)
    assert len(many.queries) == BATCH + 1


def test_the_same_task_on_two_grounds_is_taken_once(origin: Origin) -> None:
    other = BITES._replace(start_state='{"a": 1}')
    made, _ = propose(lambda request: tasks("Order a soup and a salad"), origin, [BITES, other], wanted=2)
    assert len(made.queries) == 1
    assert "the same words as on another starting point" in made.failures[0].message


def test_a_heldout_app_gets_no_tasks(origin: Origin) -> None:
    made, _ = propose(numbered, origin, [BITES, CLOCK], wanted=4, heldout=("clock",))
    assert {query.apps for query in made.queries} == {("bites",)}
    assert [failure.message for failure in made.failures] == [
        "curriculum: training must not see the app clock: it is held out"
    ]


ALARM = "Set an alarm for 7:30 on weekdays."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("set an alarm, for 7:30 on  weekdays", SimilarTask(ALARM, True)),
        ("Please set an alarm for 7:30 on weekdays.", SimilarTask(ALARM, False)),
        ("Set an alarm for 6:15 on weekdays.", None),
        ("Delete the alarm at 7:30.", None),
        ("", None),
    ],
)
def test_same_and_nearly_same_words(text: str, found: SimilarTask | None) -> None:
    assert KnownTasks(["Open the clock.", ALARM]).find(text) == found


def test_tasks_beside_are_found_and_stay_as_they_are() -> None:
    shared = KnownTasks([ALARM])
    own = KnownTasks(["Open the clock."], shared=shared)
    assert own.find("Please set an alarm for 7:30 on weekdays.") == SimilarTask(ALARM, False)
    assert own.find(ALARM.upper()) == SimilarTask(ALARM, True)
    assert shared.find("Open the clock.") is None


def test_no_repetition_is_missed_among_many() -> None:
    texts = [
        f"put the {noun} of box {count} into {place} right now"
        for noun in "abcdef"
        for place in "uvw"
        for count in range(9)
    ]
    known = KnownTasks(texts)
    assert all(known.find(f"{text} please") == SimilarTask(text, False) for text in texts)
