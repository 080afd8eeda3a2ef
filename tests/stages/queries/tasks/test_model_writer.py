import json
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.stages.environments.simulated.worlds import task_of
from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.samples import chosen, honest_draft
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.simulated.annotations import known_slots
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.models.base import ChatRequest, Completion
from trajmill.stages.queries.base import Candidate, DraftRefused, GrammarWriter
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.model_writer import (
    LONGEST_INSTRUCTION,
    LONGEST_RAW,
    TRIES,
    InstructionCheck,
    ModelWriter,
    check_instruction,
    vocabulary_of,
)
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import TaskGoal, generate_queries, paths, sample
from trajmill.stages.queries.templates import heldout_parts

Answer = str | Completion | ModelFailure


def _text(request: ChatRequest) -> str:
    return "\n".join(str(part) for message in request.messages[:2] for part in message.parts)


def honest(request: ChatRequest) -> str:
    return honest_draft(_text(request))


def saying(instruction: str) -> Callable[[ChatRequest], str]:
    """A model that synthesises well and always refines to the same words."""

    def answer(request: ChatRequest) -> str:
        refining = "Explicit instruction" in _text(request)
        return json.dumps({"instruction": instruction}) if refining else honest(request)

    return answer


def brief(task: TaskGraph, heldout: bool = False, seed: int = 0) -> Candidate:
    sample = chosen(task, dish="Pad Thai", size="Large", note="no nuts")
    return Candidate(sample, Split.TRAIN, heldout, seed)


async def test_the_prompts_tell_the_path_and_the_values(order: TaskGraph) -> None:
    model = ScriptedModel(honest)
    written = await ModelWriter(model).write(brief(order))
    synthesis, refinement = model.asked
    for told in ("Order a dish", "Bites: ", 'type "no nuts" into Note for the kitchen', '- size: say "large" or "big"'):
        assert told in _text(synthesis)
    assert written.raw in _text(refinement)
    assert "Open the takeout app, click on the food entry. ->" in _text(refinement)
    assert (synthesis.role, synthesis.temperature, refinement.temperature) == ("writer", 0.0, 0.8)
    assert synthesis.answer_schema and "instruction" in synthesis.answer_schema


async def test_every_manner_is_drawn_and_heldout_ones_never_for_training(order: TaskGraph) -> None:
    writer = ModelWriter(ScriptedModel(honest))
    trained = {(await writer.write(brief(order, False, seed))).phrasing for seed in range(20)}
    heldout = {(await writer.write(brief(order, True, seed))).phrasing for seed in range(20)}
    assert (len(trained), len(heldout)) == (4, 2)
    assert all(phrasing.startswith("bites.order/h") for phrasing in heldout)
    assert not any("/h" in phrasing for phrasing in trained)


@pytest.mark.parametrize(("end", "reason"), [("?", "it must not be a question"), (".", "it must be a question")])
async def test_a_draft_that_is_never_right_is_refused_with_its_reason(order: TaskGraph, end: str, reason: str) -> None:
    model = ScriptedModel(saying(f'Get me a large Pad Thai, note "no nuts"{end}'))
    with pytest.raises(DraftRefused, match=r"^bites\.order: refinement: 3 drafts were refused, the last: .*" + reason):
        await ModelWriter(model).write(brief(order, heldout=end == "."))
    assert len(model.asked) == 1 + TRIES


async def test_the_next_draft_is_asked_for_with_the_reason(order: TaskGraph) -> None:
    def learns(request: ChatRequest) -> str:
        told = str(request.messages[-1].parts[0])
        refining = "Explicit instruction" in _text(request)
        return honest(request) if not refining or "size is lost" in told else saying("Pad Thai.")(request)

    model = ScriptedModel(learns)
    assert "large" in (await ModelWriter(model).write(brief(order))).text
    assert [len(request.messages) for request in model.asked] == [2, 2, 4]
    assert model.asked[1].seed != model.asked[2].seed


@pytest.mark.slow
async def test_a_query_set_by_a_model_is_walked_and_leaks_nothing(world: World, origin: Origin) -> None:
    sizes = {"train": 40, "heldout_slots": 6, "heldout_phrasings": 6, "heldout_apps": 4, "validation": 4}
    settings = GraphQueriesSpec(**sizes, heldout_app_names=("notes",), answers=0)
    made = await generate_queries(world, settings, 4, origin, [ModelWriter(ScriptedModel(honest))], in_flight=24)
    assert Counter(query.split for query in made.queries) == {split: settings.wanted(split) for split in Split}
    assert leaks_in_queries(made.queries, ("notes",)) == ()
    for query in made.queries:
        assert (query.validation, query.made_by) == ("passed", "writer_synthesise-1@scripted-1")
        assert all(slot.said in query.instruction for slot in query.slots)
        if query.split is Split.HELDOUT_PHRASINGS:
            assert query.instruction.endswith("?") and heldout_parts(query)
        elif query.split is not Split.HELDOUT_APPS:
            assert not query.instruction.endswith("?") and not heldout_parts(query)


async def test_a_model_that_fails_leaves_failures_with_their_reason(world: World, origin: Origin) -> None:
    bites = world.apps["bites"]
    small = World({"bites": bites.model_copy(update={"tasks": {"order": bites.tasks["order"]}})}, {})
    settings = GraphQueriesSpec(train=5, heldout_slots=0, heldout_phrasings=0, heldout_app_names=(), validation=0)
    for answer, failure_class, attempts, reason in (
        (saying("Do the usual."), FailureClass.TASK, TRIES, "refinement: 3 drafts were refused, the last: "),
        (lambda request: ModelFailure("no server answers"), FailureClass.MODEL, 1, "no server answers"),
        (lambda request: "I am sorry, I cannot do that.", FailureClass.MODEL, 1, "holds no JSON object"),
        (lambda request: json.dumps({"instruction": "x" * 10**6}), FailureClass.MODEL, 1, "at most 1600 characters"),
    ):
        made = await generate_queries(small, settings, 4, origin, [ModelWriter(ScriptedModel(answer))], in_flight=24)
        *failed, short = made.failures
        assert made.queries == () and len(failed) == 3
        for failure in failed:
            assert (failure.failure_class, failure.attempts) == (failure_class, attempts)
            assert failure.input_id == "bites.order"
            assert reason in failure.message and len(failure.message) < 1200
        assert short.message.startswith("only 0 of 5 queries")


@pytest.mark.slow
async def test_the_grammar_replaces_a_writer_of_nonsense(world: World, origin: Origin) -> None:
    writers = (ModelWriter(ScriptedModel(saying("Do the usual."))), GrammarWriter())
    sizes = {"train": 20, "heldout_slots": 4, "heldout_phrasings": 4, "validation": 0}
    settings = GraphQueriesSpec(**sizes, heldout_app_names=(), answers=0)
    made = await generate_queries(world, settings, 0, origin, writers, 4)
    stood_in = [query for query in made.queries if query.made_by == GrammarWriter().version]
    assert len(made.queries) == 28 and all(query.slots for query in stood_in) and len(stood_in) > 14
    assert sum("3 drafts were refused" in failure.message for failure in made.failures) >= len(stood_in)
    assert leaks_in_queries(made.queries, ()) == ()


def _checked(task: TaskGraph, drawn: TaskGoal, text: str, longest: int = LONGEST_INSTRUCTION) -> InstructionCheck:
    return check_instruction(text, known_slots(task, drawn.asked), vocabulary_of(drawn.metadata), longest)


@pytest.mark.slow
def test_instructions_written_by_people_pass_the_check(world: World) -> None:
    """The templates of the app files were written by hand: all of them say what they should."""
    checked = 0
    for task in world.tasks:
        for seed in range(3):
            drawn = sample(task, paths(task), Random(seed))
            raw, text, *_ = drawn.worded(seed % 2 == 1, seed)
            carried = [str(drawn.asked[slot.spec.name]) for slot in task.slots if slot.spec.carried_from]
            for said in (raw, text):
                assert said[0] == said[0].upper() and said[-1] in ".?!" and not set(said) & set("{}[]|$"), said
                assert not any(each in said for each in ("  ", " ,", ",,", *carried)), said
            assert _checked(task, drawn, raw, LONGEST_RAW).problems == (), raw
            # The one clash in them: a note called Plan, which is read `to plan` something.
            if drawn.asked.get("note") is None or "Use Calendar to plan" not in text:
                assert _checked(task, drawn, text).problems == (), text
            checked += 1
    assert checked > 150


PAD_THAI: dict[str, Scalar] = {"dish": "Pad Thai", "size": "Large", "spicy": True, "quantity": 2, "note": "ring twice"}
RIGHT = 'Order 2 large Pad Thai, extra spicy, note "ring twice".'
SWIM: dict[str, Scalar] = {"day": "Tuesday", "time": "10:00", "title": "Swim", "reminder": "10 minutes before"}
CALL: dict[str, Scalar] = {"contact": "Alice Moreau", "text": "call me"}


@pytest.mark.parametrize(
    ("task", "values", "text", "problem"),
    [
        ("bites.order", PAD_THAI, 'Get me two big Pad Thai from Bites, extra spicy, with the note "ring twice".', ""),
        ("bites.order", PAD_THAI, "I'm hungry, so 2 large Pad Thai, extra spicy, and the note “ring twice”.", ""),
        ("bites.order", PAD_THAI, "", "it is empty"),
        ("bites.order", PAD_THAI, "Pad Thai " * 50, "it has 450 characters; at most 400 are allowed"),
        ("bites.order", PAD_THAI, RIGHT.replace("large ", ""), 'size is lost: say "large" or "big" or "Large"'),
        ("bites.order", PAD_THAI, RIGHT.replace("large", "small"), 'size is changed: "small" is another value; say '),
        ("bites.order", PAD_THAI, RIGHT.replace("spicy", "spicy, for Anna's"), 'the name "Anna\'s" is invented'),
        ("bites.order", PAD_THAI, RIGHT.replace("Thai", "Thai for three"), 'the number "three" is invented'),
        ("bites.order", PAD_THAI, RIGHT.replace("Thai", "Thai for tomorrow"), 'the time "tomorrow" is invented'),
        ("bites.order", PAD_THAI, RIGHT.replace("Thai", "Thai to the office"), 'place is not to be told, so "office"'),
        ("bites.order", PAD_THAI, RIGHT.replace("extra", "not extra"), 'spicy is changed: "not" denies it'),
        ("bites.order", PAD_THAI, RIGHT.replace("twice", "twice and wait"), '"ring twice and wait" stands in quotes'),
        ("bites.order", PAD_THAI, RIGHT.replace('"', ""), "note must stand in double quotes, nothing else with it"),
        ("bites.order", PAD_THAI, RIGHT.replace("Pad", "Beef Ramen and Pad"), 'dish is changed: "Beef Ramen"'),
        ("bites.order", {"dish": "Pad Thai"}, "Order Pad Thai, size medium.", "size is not to be told"),
        ("calendar.create", SWIM, 'Put "Swim" on Tuesday at 10:00, remind me 10 minutes before.', ""),
        ("calendar.create", SWIM, 'Put "Swim" on Tuesday at 10:30, remind me 10 minutes before.', "time is lost: "),
        ("clock.off", {"alarm": "07:10"}, "Turn off the alarm at 7:10.", ""),
        ("clock.off", {"alarm": "07:10"}, "Turn off the alarm at 7:10 pm.", "7:10 pm"),
        ("messages.send", CALL, 'Put "call me" into Alice\'s chat.', ""),
        ("messages.send", CALL, 'Put "call me" into Alicia\'s chat.', "Alicia"),
    ],
)
def test_other_slots_are_named(world: World, task: str, values: dict[str, Scalar], text: str, problem: str) -> None:
    graph = task_of(world, task)
    problems = _checked(graph, chosen(graph, **values), text).problems
    assert any(problem in found for found in problems) if problem else problems == ()
