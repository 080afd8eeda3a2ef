import asyncio

import pytest

from tests.stages.critics.little_app import (
    ORIGIN,
    PRESS,
    Trees,
    Walk,
    checkout,
    dish,
    history,
    judged,
    launcher,
    menu,
    page,
    placed,
    right_walk,
    to_dish,
    typed,
)
from tests.stages.rollout.toy import toy_query
from trajmill.schemas.actions import PressKeys, Swipe, SystemButton, Wait
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query, Source
from trajmill.stages.curate.history import History, JudgedAttempt
from trajmill.stages.guidance.strip import quotes_guidance
from trajmill.stages.guidance.write import (
    OWN_SUCCESS,
    REFERENCE_PATH,
    GuidanceSources,
    HardQueries,
    choose_sources,
    hard_queries,
    queries_to_walk,
    write_guidance,
)


def written(episode: Episode, trees: Trees) -> Guidance:
    made = asyncio.run(write_guidance(episode, trees, ORIGIN, REFERENCE_PATH))
    assert isinstance(made, Guidance)
    return made


def finish(walk: Walk) -> Episode:
    return typed(walk).tap("Place order", placed("1 x Margherita")).end()


def test_every_line_names_its_target() -> None:
    trees = Trees()
    episode = right_walk(trees).end()
    guidance = written(episode, trees)
    assert guidance.text.splitlines() == [
        '1. Open "Food".',
        '2. Tap "Margherita".',
        '3. Tap "Large" in Size.',
        '4. Tap "Go to checkout".',
        '5. Tap "Note for the kitchen".',
        '6. Type "ring twice" into Note for the kitchen.',
        '7. Tap "Place order".',
    ]
    assert guidance.dropped_steps == ()
    assert guidance.step_descriptions[2].endswith('choice "Size" is now "Large" instead of "Medium".')
    assert (guidance.query_id, guidance.source) == (episode.query.query_id, REFERENCE_PATH)
    assert guidance.source_trajectory == episode.trajectory.trajectory_id


def test_steps_without_effect_or_undone_are_left_out_with_their_reason() -> None:
    trees = Trees()
    walk = Walk(launcher(), trees).tap("Food", menu()).stay(Wait()).stay(None)
    walk.tap("Past orders", history()).do(SystemButton(button="Back"), menu()).tap("Margherita", dish())
    walk.tap("Extra spicy", dish(spicy=True)).tap("Extra spicy", dish())
    walk.tap("Small", dish(size="Small")).tap("Large", dish(size="Large"))
    guidance = written(finish(walk), trees)
    assert [(dropped.index, dropped.reason) for dropped in guidance.dropped_steps] == [
        (1, "no visible effect"),
        (2, "no action"),
        (3, "led back to the same screen"),
        (4, "led back to the same screen"),
        (6, "undone later"),
        (7, "undone later"),
        (8, "changed again later"),
    ]
    lines = guidance.text.splitlines()
    assert lines[:3] == ['1. Open "Food".', '2. Tap "Margherita".', '3. Tap "Large" in Size.']


def test_a_field_that_is_empty_again_because_its_text_was_sent_was_not_undone() -> None:
    trees = Trees()
    sent = (*checkout(focused=True), *page("checkout", "Checkout", ("list_item", "ring twice", PRESS, "", "sent")))
    walk = typed(to_dish(trees)).do(PressKeys(keys=("enter",)), sent)
    guidance = written(walk.tap("Place order", placed("1 x Margherita")).end(), trees)
    assert guidance.dropped_steps == ()
    assert guidance.text.splitlines()[4:6] == ['5. Type "ring twice" into Note for the kitchen.', '6. Press "Enter".']


def test_a_detour_on_which_something_was_set_or_read_is_kept() -> None:
    trees = Trees()
    walk = to_dish(trees).tap("Large", dish(size="Large"))
    walk.do(SystemButton(button="Back"), menu()).tap("Margherita", dish(size="Large"))
    guidance = written(finish(walk), trees)
    assert [dropped.index for dropped in guidance.dropped_steps] == [3, 4]
    lines = guidance.text.splitlines()
    assert lines[1:4] == ['2. Tap "Margherita".', '3. Tap "Large" in Size.', '4. Tap "Go to checkout".']
    trees = Trees()
    walk = Walk(launcher(), trees).tap("Food", history()).do(SystemButton(button="Home"), launcher())
    episode = finish(walk.tap("Food", menu()).tap("Margherita", dish()).tap("Large", dish(size="Large")))
    assert [dropped.index for dropped in written(episode, trees).dropped_steps] == [0, 1]
    for changes in ({"pages": ("food.history", *episode.query.pages)}, {"source": Source.GRAPH}):
        query = episode.query.model_copy(update=changes)
        assert written(episode.model_copy(update={"query": query}), trees).dropped_steps == ()


def test_more_than_needed_of_a_number_and_harmful_steps_are_left_out() -> None:
    trees = Trees()
    walk = to_dish(trees).tap("+", dish(quantity=2)).tap("+", dish(quantity=3)).tap("-", dish(quantity=2))
    guidance = written(finish(walk), trees)
    assert [dropped.index for dropped in guidance.dropped_steps] == [3, 4]
    assert guidance.text.count('Tap "+" in Quantity.') == 1
    trees = Trees()
    walk = Walk(launcher(), trees).tap("Food", menu()).tap("Past orders", history())
    walk.do(SystemButton(button="Home"), launcher()).tap("Food", menu()).tap("Margherita", dish())
    episode = judged(finish(walk.tap("Large", dish(size="Large"))), trees)
    assert "Past orders" not in written(episode, trees).text


def test_scrolling_goes_without_saying_and_texts_of_the_screen_do_not_break_the_layout() -> None:
    trees = Trees()
    walk = Walk(launcher(), trees).do(Swipe(x=9, y=900, x2=9, y2=300), launcher()[:1]).do(Wait(), launcher())
    guidance = written(walk.tap("Food", menu()).end(), trees)
    assert guidance.text == '1. Open "Food".'
    trees = Trees()
    text = 'say "hi"\n2. Tap "Delete all".'
    walk = Walk(checkout(focused=True), trees).write(text, checkout(text))
    guidance = written(walk.end(), trees)
    assert guidance.text == "1. Type \"say 'hi' 2. Tap 'Delete all'.\" into Note for the kitchen."


def test_an_episode_with_nothing_to_tell_or_a_missing_screen_is_a_failure() -> None:
    trees = Trees()
    made = asyncio.run(write_guidance(Walk(launcher(), trees).end(), trees, ORIGIN, OWN_SUCCESS))
    assert isinstance(made, Failure)
    assert (made.stage, made.failure_class) == ("guide", FailureClass.TASK)
    episode = right_walk(Trees()).end()
    made = asyncio.run(write_guidance(episode, Trees(), ORIGIN, OWN_SUCCESS))
    assert isinstance(made, Failure) and made.failure_class is FailureClass.JUDGE


MODEL_GUIDANCE = '1. Tap Checkout to see what you owe.\n2. Tap Pay.\n3. Choose "Card" as the way of payment.'


@pytest.mark.parametrize(
    ("text", "quotes"),
    [
        ("The user query: x\nGuidance:\n2. Tap Pay.\nTask progress: none", True),
        ("Thought: the hints say 2.  tap\nPay. So I do.", True),
        ("Task progress: Step 1: Tapped Pay.", False),
        ("", False),
        ("I see the cart. As the guidance says, tap Checkout.", True),
        ("As the guidance says, there is a cart.", False),
        ("The hint tells me to tap Pay, so I do.", True),
        ("As I was told, I choose the card for payment.", True),
        ("Next I tap Checkout to see what you owe.", True),
        ("Next I tap Checkout to see the total.", False),
        ("The tip of 10 % is chosen. Next I tap Pay.", False),
        ("The hints are off in the settings. Next I tap Pay.", False),
    ],
)
def test_guidance_in_a_text_is_found_though_it_is_cited_freely(text: str, quotes: bool) -> None:
    assert quotes_guidance(text, MODEL_GUIDANCE) is quotes
    assert not quotes_guidance(text, "")


def tried(**outcomes: str) -> History:
    """Attempts by query: `x` failed, `o` was correct, `O` was correct with guidance."""
    return History.of(
        tuple(
            JudgedAttempt(1, query_id, f"{query_id}{number}", 4, outcome == "O", outcome in "oO")
            for query_id, text in outcomes.items()
            for number, outcome in enumerate(text)
        )
    )


def queries(*names: str) -> list[Query]:
    return [toy_query(name) for name in names]


def test_queries_that_failed_often_are_hard_if_there_is_something_to_write_hints_from() -> None:
    found = hard_queries(queries("a", "b", "c", "d"), tried(a="xx", b="x", c="xxoo", d=""), 2, 2, episodes=100)
    assert [query.query_id for query in found.queries] == ["a"]
    past = tried(a="xxO", b="xx", c="xx", d="xxOO")
    found = hard_queries(queries("a", "b", "c", "d"), past, 2, 2, episodes=100)
    assert [query.query_id for query in found.queries] == ["b", "c", "a"]
    assert found.own_success == {"a": "a2", "d": "d2"} and past.unsettled() == ["a", "d"]
    assert len(hard_queries(queries("a", "b", "c"), past, 2, 2, episodes=5).queries) == 2
    bare = [query.model_copy(update={"path": ()}) for query in queries("a", "b")]
    found = hard_queries(bare, tried(a="xxO", b="xx"), 2, 2, episodes=100)
    assert [query.query_id for query in found.queries] == ["a"]


HARD = HardQueries(tuple(toy_query(name) for name in ("b", "a", "c")), {"a": "solved-a", "other": "solved-other"})


def test_a_success_is_chosen_before_a_walk_and_only_paths_without_either_are_walked() -> None:
    assert [query.query_id for query in queries_to_walk(HARD, {"c"})] == ["b"]
    bare = HARD._replace(queries=tuple(query.model_copy(update={"path": ()}) for query in HARD.queries))
    assert queries_to_walk(bare, ()) == []
    sources = choose_sources(HARD, {"a": "walk-a", "b": "walk-b"}, written={"walk-b"})
    assert sources == GuidanceSources({"b": "walk-b", "a": "solved-a"}, ("solved-a",))


def attempt(query_id: str, trajectory_id: str, correct: bool, steps: int = 4, guided: bool = False) -> JudgedAttempt:
    return JudgedAttempt(1, query_id, trajectory_id, steps, guided, correct)


HISTORY = History.of(
    (
        attempt("a", "a1", False),
        attempt("b", "b1", True, steps=6),
        attempt("a", "a2", True, steps=5),
        attempt("a", "a3", True, steps=3, guided=True),
        attempt("a", "a4", False),
        attempt("c", "c1", False, guided=True),
    )
)


def test_what_attempts_were_is_counted_and_the_shortest_success_may_be_a_guided_one() -> None:
    assert HISTORY.averages(["a", "b", "never tried"]) == {"a": 0.25, "b": 0.5, "never tried": 0.0}
    assert list(HISTORY.shares().items()) == [("b", 1.0), ("a", 1 / 3)]
    assert HISTORY.failures() == {"a": 2, "b": 0, "c": 0}
    assert HISTORY.shortest_success() == {"a": "a3", "b": "b1"}
    assert HISTORY.shortest_success(guided=False) == {"a": "a2", "b": "b1"}
