from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.stages.environments.simulated.worlds import task_of
from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.samples import chosen, described
from tests.stages.queries.tasks.honest import honest_draft
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.simulated.annotations import KnownSlot, known_slots
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.models.base import ChatRequest, Completion
from trajmill.stages.queries.base import Candidate, DraftRefused, GrammarWriter, NewQueries, Written
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
from trajmill.stages.queries.tasks.sampling import TaskGoal, draw_phrasing, paths, sample
from trajmill.stages.queries.tasks.source import SimulatedValidator, generate_queries
from trajmill.stages.queries.templates import explicit_instruction, heldout_parts

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


def write(answer: Callable[[ChatRequest], Answer], brief: Candidate) -> tuple[Written, ScriptedModel]:
    model = ScriptedModel(answer)
    return asyncio.run(ModelWriter(model).write(brief)), model


def test_the_prompts_tell_the_path_and_the_values(order: TaskGraph) -> None:
    written, model = write(honest, brief(order))
    synthesis, refinement = model.asked
    for told in ("Order a dish", "Bites: ", 'type "no nuts" into Note for the kitchen', '- size: say "large" or "big"'):
        assert told in _text(synthesis)
    assert written.raw in _text(refinement)
    assert "Open the takeout app, click on the food entry. ->" in _text(refinement)
    assert (synthesis.role, synthesis.temperature, refinement.temperature) == ("writer", 0.0, 0.8)
    assert synthesis.answer_schema and "instruction" in synthesis.answer_schema


def test_every_manner_is_drawn_and_heldout_ones_never_for_training(order: TaskGraph) -> None:
    trained = {write(honest, brief(order, False, seed))[0].phrasing for seed in range(40)}
    heldout = {write(honest, brief(order, True, seed))[0].phrasing for seed in range(40)}
    assert (len(trained), len(heldout)) == (4, 2)
    assert all(phrasing.startswith("bites.order/h") for phrasing in heldout)
    assert not any("/h" in phrasing for phrasing in trained)


@pytest.mark.parametrize(
    ("instruction", "heldout", "reason"),
    [
        ('Order Pad Thai, note "no nuts".', False, 'size is lost: say "large" or "big" or "Large"'),
        ('Order a large Pad Thai for 3, note "no nuts".', False, 'the number "3" is invented'),
        ('Order a small Pad Thai, note "no nuts".', False, 'size is changed: "small" is another value'),
        ('Get me a large Pad Thai, note "no nuts"?', False, "it must not be a question"),
        ('Get me a large Pad Thai, note "no nuts".', True, "it must be a question"),
        ("Pad Thai " * 60, False, "at most 400 are allowed"),
    ],
)
def test_a_draft_that_is_never_right_is_refused_with_its_reason(
    order: TaskGraph, instruction: str, heldout: bool, reason: str
) -> None:
    model = ScriptedModel(saying(instruction))
    with pytest.raises(DraftRefused) as refused:
        asyncio.run(ModelWriter(model).write(brief(order, heldout)))
    assert str(refused.value).startswith("bites.order: refinement: 3 drafts were refused, the last: ")
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 1000 and "\n" not in str(refused.value)
    assert (refused.value.attempts, len(model.asked)) == (TRIES, 1 + TRIES)


def test_the_next_draft_is_asked_for_with_the_reason(order: TaskGraph) -> None:
    def learns(request: ChatRequest) -> str:
        told = str(request.messages[-1].parts[0])
        refining = "Explicit instruction" in _text(request)
        return honest(request) if not refining or "size is lost" in told else saying("Pad Thai.")(request)

    written, model = write(learns, brief(order))
    assert "large" in written.text
    assert [len(request.messages) for request in model.asked] == [2, 2, 4]
    assert model.asked[1].seed != model.asked[2].seed


def test_what_cannot_be_seen_does_not_get_into_an_instruction(order: TaskGraph) -> None:
    written, _ = write(saying('Order\n a large\u200b Pad Thai,\x07 note "no nuts"'), brief(order))
    assert written.text == 'Order a large Pad Thai, note "no nuts".'


def _generate(
    world: World, origin: Origin, answer: Callable[[ChatRequest], Answer], settings: GraphQueriesSpec
) -> NewQueries:
    writer = ModelWriter(ScriptedModel(answer))
    return asyncio.run(generate_queries(world, settings, 4, origin, writer, SimulatedValidator(world), in_flight=24))


@pytest.mark.slow
def test_a_query_set_by_a_model_is_walked_and_leaks_nothing(world: World, origin: Origin) -> None:
    settings = GraphQueriesSpec(
        train=80, heldout_slots=12, heldout_phrasings=12, heldout_apps=8, heldout_app_names=("notes",), validation=8
    )
    made = _generate(world, origin, honest, settings)
    assert Counter(query.split for query in made.queries) == {split: settings.wanted(split) for split in Split}
    assert leaks_in_queries(made.queries, ("notes",)) == ()
    for query in made.queries:
        assert (query.validation, query.made_by) == ("passed", "writer_synthesise-1@scripted-1")
        assert all(slot.said in query.instruction for slot in query.slots)
        if query.split is Split.HELDOUT_PHRASINGS:
            assert query.instruction.endswith("?") and heldout_parts(query)
        elif query.split is not Split.HELDOUT_APPS:
            assert not query.instruction.endswith("?") and not heldout_parts(query)


@pytest.mark.parametrize(
    ("answer", "failure_class", "attempts", "reason"),
    [
        (saying("Do the usual."), FailureClass.TASK, TRIES, "refinement: 3 drafts were refused, the last: "),
        (lambda request: ModelFailure("no server answers"), FailureClass.MODEL, 1, "no server answers"),
        (lambda request: "I am sorry, I cannot do that.", FailureClass.MODEL, 1, "holds no JSON object"),
        (lambda request: "", FailureClass.MODEL, 1, "the reply is empty"),
        (lambda request: json.dumps({"instruction": "x" * 10**6}), FailureClass.MODEL, 1, "at most 1600 characters"),
    ],
)
def test_a_model_that_fails_leaves_failures_with_their_reason(
    world: World,
    origin: Origin,
    answer: Callable[[ChatRequest], Answer],
    failure_class: FailureClass,
    attempts: int,
    reason: str,
) -> None:
    bites = world.apps["bites"]
    small = World({"bites": bites.model_copy(update={"tasks": {"order": bites.tasks["order"]}})}, {})
    made = _generate(
        small,
        origin,
        answer,
        GraphQueriesSpec(train=5, heldout_slots=0, heldout_phrasings=0, heldout_app_names=(), validation=0),
    )
    assert made.queries == ()
    *failed, short = made.failures
    assert len(failed) == 3
    for failure in failed:
        assert (failure.input_id, failure.failure_class, failure.attempts) == ("bites.order", failure_class, attempts)
        assert reason in failure.message and len(failure.message) < 1200
    assert short.message.startswith("only 0 of 5 queries")


@pytest.mark.slow
def test_the_grammar_replaces_a_writer_of_nonsense(world: World, origin: Origin) -> None:
    model = ScriptedModel(saying("Do the usual."))
    settings = GraphQueriesSpec(train=20, heldout_slots=4, heldout_phrasings=4, heldout_app_names=(), validation=0)
    making = generate_queries(
        world, settings, 0, origin, ModelWriter(model), SimulatedValidator(world), 4, stand_in=GrammarWriter()
    )
    made = asyncio.run(making)
    assert len(made.queries) == 28
    stood_in = [query for query in made.queries if query.made_by == GrammarWriter().version]
    assert all(query.slots for query in stood_in) and len(stood_in) > 14
    assert sum("3 drafts were refused" in failure.message for failure in made.failures) >= len(stood_in)
    assert leaks_in_queries(made.queries, ()) == ()


def _checked(task: TaskGraph, drawn: TaskGoal, text: str, longest: int = LONGEST_INSTRUCTION) -> InstructionCheck:
    return check_instruction(text, known_slots(task, drawn.asked), vocabulary_of(described(task, drawn)), longest)


def _large_pad_thai(order: TaskGraph, text: str) -> tuple[str, ...]:
    drawn = chosen(order, dish="Pad Thai", size="Large", spicy=True, quantity=2, note="ring twice")
    return _checked(order, drawn, text).problems


@pytest.mark.parametrize(
    "text",
    [
        'Get me two big Pad Thai from Bites, extra spicy, with the note "ring twice".',
        'Order 2 Pad Thai, size LARGE, make it extra spicy, note for the kitchen: "Ring twice."',
        "I'm hungry, so I'd like 2 large Pad Thai, extra spicy, and add the note “ring twice”.",
        'Order from Noodles: Pad Thai, large, extra spicy, quantity 2, note "ring twice", then press "Place order".',
    ],
)
def test_an_instruction_that_says_all_of_it_is_let_through(order: TaskGraph, text: str) -> None:
    assert _large_pad_thai(order, text) == ()


RIGHT = 'Order 2 large Pad Thai, extra spicy, note "ring twice".'


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        (RIGHT, "", "it is empty"),
        (RIGHT, "Pad Thai " * 50, "it has 450 characters; at most 400 are allowed"),
        ("large ", "", 'size is lost: say "large" or "big" or "Large"'),
        ("large", "small", 'size is changed: "small" is another value; say "large" or "big" or "Large"'),
        ("Thai", "Thai Deluxe", 'the name "Deluxe" is invented: the task does not have it'),
        ("spicy", "spicy, for Anna's party", 'the name "Anna\'s" is invented: the task does not have it'),
        ("spicy", "spicy, for 19:30", 'the number "19:30" is invented: the task does not have it'),
        ("Thai", "Thai for three people", 'the number "three" is invented: the task does not have it'),
        ("Thai", "Thai for tomorrow", 'the time "tomorrow" is invented: the task does not have it'),
        ("Thai", "Thai to the office", 'place is not to be told, so "office" must not stand there'),
        ("extra", "not extra", 'spicy is changed: "not" denies it, but it is wanted'),
        (
            "twice",
            "twice and wait",
            '"ring twice and wait" stands in quotes, but the task does not have',
        ),
        ('"ring twice"', "ring twice", 'note must stand in double quotes, nothing else with it: "ring twice"'),
        ("Pad", "Beef Ramen and Pad", 'dish is changed: "Beef Ramen" is another value; say "Pad Thai"'),
    ],
)
def test_lost_invented_or_changed_slots_are_named(order: TaskGraph, right: str, wrong: str, problem: str) -> None:
    assert any(found.startswith(problem) for found in _large_pad_thai(order, RIGHT.replace(right, wrong)))


def test_the_words_of_a_slot_are_those_of_the_text(order: TaskGraph) -> None:
    drawn = chosen(order, dish="Pad Thai", size="Large", quantity=2)
    said = _checked(order, drawn, "Two BIG pad thai please.").said
    assert said == {"dish": "pad thai", "size": "BIG", "quantity": "Two"}


def test_a_slot_that_is_not_asked_for_must_not_be_mentioned(order: TaskGraph) -> None:
    drawn = chosen(order, dish="Pad Thai")
    assert _checked(order, drawn, "Order Pad Thai, extra spicy.").problems == (
        'spicy is not to be told, so "extra spicy" must not stand there',
    )
    assert _checked(order, drawn, "Order Pad Thai, size medium.").problems == (
        'size is not to be told, so "medium" must not stand there',
    )


def test_a_value_inside_a_longer_one_does_not_count(world: World) -> None:
    calendar = task_of(world, "calendar.create")
    drawn = chosen(calendar, day="Tuesday", time="10:00", title="Swim", reminder="10 minutes before")
    text = 'Put "Swim" into the Calendar on Tuesday at 10:00 and remind me 10 minutes before.'
    assert _checked(calendar, drawn, text).problems == ()
    late = text.replace("10:00", "10:30")
    assert _checked(calendar, drawn, late).problems[0].startswith("time is lost: ")


@pytest.mark.parametrize(("time", "fits"), [("7:10", True), ("07:10", True), ("7:10 pm", False), ("17:10", False)])
def test_a_time_of_the_other_half_of_the_day_is_another_time(world: World, time: str, fits: bool) -> None:
    off = task_of(world, "clock.off")
    problems = _checked(off, chosen(off, alarm="07:10"), f"Turn off the alarm at {time}.").problems
    assert (problems == ()) is fits


def test_a_name_may_be_in_the_genitive(world: World) -> None:
    send = task_of(world, "messages.send")
    drawn = chosen(send, contact="Alice Moreau", text="call me")
    assert _checked(send, drawn, 'Put "call me" into Alice\'s chat.').problems == ()
    assert _checked(send, drawn, 'Put "call me" into Alicia\'s chat.').problems != ()


def test_one_place_does_not_count_for_two_slots() -> None:
    slots = [KnownSlot(name, name, "stepper", ("2", "two"), ()) for name in ("copies", "pages")]
    assert check_instruction("Print 2 of them.", slots, ()).problems == ('pages is lost: say "2" or "two"',)
    assert check_instruction("Print 2 of two.", slots, ()).problems == ()


def test_a_carried_value_must_not_be_told(world: World) -> None:
    task = task_of(world, "from_mail.redeem")
    drawn = sample(task, paths(task), Random(1))
    mail, code = drawn.asked["mail"], drawn.asked["code"]
    assert _checked(task, drawn, f"Redeem the code from the mail {mail} in Wallet.").problems == ()
    assert (
        f'code is not to be told, so "{code}" must not stand there'
        in _checked(task, drawn, f"Redeem the code {code} from the mail {mail} in Wallet.").problems
    )


@pytest.mark.slow
def test_instructions_written_by_people_pass_the_check(world: World) -> None:
    """The templates of the app files were written by hand: all of them say what they should."""
    checked = 0
    for task in world.tasks():
        for seed in range(6):
            drawn = sample(task, paths(task), Random(seed))
            metadata = described(task, drawn)
            raw = explicit_instruction(metadata)
            text = draw_phrasing(task.spec, metadata, seed % 2 == 1, seed).expand()
            assert _checked(task, drawn, raw, LONGEST_RAW).problems == (), raw
            # The one clash in them: a note called Plan, which is read `to plan` something.
            if drawn.asked.get("note") is None or "Use Calendar to plan" not in text:
                assert _checked(task, drawn, text).problems == (), text
            checked += 1
    assert checked > 300
