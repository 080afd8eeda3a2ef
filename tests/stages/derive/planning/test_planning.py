import json

import pytest

from tests.stages.derive.samples import DONE, ORIGIN, TAP, episode, query, step
from tests.stages.derive.screens import OK, DrawnScreens, derived, derived_with, tools_of, words
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Query, Slot, Split
from trajmill.schemas.tables.trajectory import TargetElement
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.curate.leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.kind_spec import GuidanceLift, TaskSources
from trajmill.stages.derive.planning.manual import (
    MANUAL_HELPED,
    TriedManual,
    filled_manual,
    guidance_by,
    kept_manuals,
    tried_manual,
)
from trajmill.stages.derive.spec import PlanningSpec

PIZZA = Slot(name="dish", value="Margherita", said="margherita", page="bites.menu")
SIZE = Slot(name="size", value="Large", said="big", page="bites.dish")
HELD_OUT = query("held", split=Split.HELDOUT_SLOTS).model_copy(
    update={"instruction": "Send seven purple umbrellas over to my neighbour in Norway"}
)
OPEN = 'Tapped "Bites" on "Home screen".'
CHOOSE = 'Tapped "Margherita" beside "7.50" on "Bites", noting "7.50", "Margherita".'
ENLARGE = 'Tapped "Large" on "Margherita".'
STEPS = (OPEN, CHOOSE, ENLARGE)


def asked(*slots: Slot) -> Query:
    return query().model_copy(update={"instruction": "Order a big margherita", "slots": slots})


def success(
    *conclusions: str, name: str = "t", labels: tuple[StepLabel, ...] = (), slots: tuple[Slot, ...] = (PIZZA, SIZE)
) -> Episode:
    said = [step(at, TAP).model_copy(update={"conclusion": each}) for at, each in enumerate(conclusions)]
    return episode([*said, step(len(said), DONE)], name=name, asked=asked(*slots), labels=labels)


def sources(given: Episode, *others: Episode, lift: GuidanceLift | None = None) -> TaskSources:
    name = given.trajectory.trajectory_id
    lifts = {} if lift is None else {name: lift}
    return TaskSources({name: others}, lifts, NearLeaks([asked(), HELD_OUT], CurateSpec()))


def plain(given: Episode, of_tasks: TaskSources | None = None) -> DerivedRows:
    spec = PlanningSpec(trials=0)
    return derived(spec, given, tools_of(spec, DrawnScreens({}), of_tasks=of_tasks or sources(given)))


def reason(rows: DerivedRows) -> str:
    assert rows.examples == ()
    (refusal,) = rows.refusals
    return refusal.reason


def test_without_a_model_conclusions_become_steps_with_names_in_the_place_of_values() -> None:
    wrong, told = 'Tapped "Help" on "Bites".', 'Answered "9" for "Price" on "Margherita". Noted "Price: 9".'
    slots = (PIZZA, SIZE, Slot(name="gift", value="on", said="order", page="bites.gift"))
    given = success(OPEN, wrong, CHOOSE, ENLARGE, told, labels=(StepLabel.GOOD, StepLabel.HARMFUL), slots=slots)
    (row,) = plain(given, sources(given, success(*STEPS, name="other", slots=slots))).examples
    assert row.messages[1].content == "Task: Order a {size} {dish}"
    assert row.messages[2].content.splitlines() == [
        '1. Tap "Bites" on "Home screen".',
        '2. Tap "{dish}" on "Bites", noting "{dish}".',
        '3. Tap "{size}" on "{dish}".',
        '4. Answer with the "Price" shown on "{dish}".',
    ]
    assert (row.variant, row.written_by, row.screens, row.step_index) == ("unmeasured", "template", (), None)
    assert row.source_trajectories == (given.trajectory.trajectory_id,)


FISH = Slot(name="dish", value="Tuna roll", said="tuna roll", page="bites.menu")


def ordered(dish: Slot, *between: str) -> Episode:
    """A success at an order of a dish, which is the last that is tapped."""
    return success(OPEN, *between, f'Tapped "{dish.value}" on "Menu".', name=dish.value, slots=(dish,))


def test_a_plain_manual_is_of_the_success_whose_way_holds_for_other_values_if_any_does() -> None:
    by_category = ordered(PIZZA, 'Tapped "Menu" on "Bites".', 'Tapped "Italian" beside "With basil" on "Menu".')
    at_once = ordered(FISH, 'Tapped "Menu" on "Bites".')
    (row,) = plain(by_category, sources(by_category, at_once)).examples
    assert row.source_trajectories == (at_once.trajectory.trajectory_id,)
    assert row.messages[2].content.splitlines()[1:] == ['2. Tap "Menu" on "Bites".', '3. Tap "{dish}" on "Menu".']
    italian = ordered(PIZZA, 'Tapped "Italian" beside "With basil" on "Menu".')
    japanese = ordered(FISH, 'Tapped "Japanese" beside "With rice" on "Menu".')
    assert reason(plain(italian, sources(italian, japanese))) == "fits_one_value"
    assert plain(italian, sources(italian, italian)).examples, "successes with equal values tell nothing"


SONG = Slot(name="song", value="Blue Kitchen", said="blue kitchen", page="tunes.songs")


def played(name: str, *pressed: str) -> Episode:
    told = success(OPEN, *(f'Tapped "{item}" beside "Jazz" on "Tunes".' for item in pressed), name=name, slots=(SONG,))
    items = [TargetElement(role="list_item", text=item, bounds=OK.bounds) for item in pressed]
    steps = [step.model_copy(update={"target": item}) for step, item in zip(told.steps[1:], items, strict=False)]
    return told.model_copy(update={"steps": (told.steps[0], *steps, told.steps[-1])})


def test_a_plain_manual_presses_no_item_that_is_not_a_value() -> None:
    by_artist, by_search = played("artist", "Velvet Drum", "Blue Kitchen"), played("search", "Blue Kitchen")
    assert reason(plain(by_artist)) == "fits_one_value", "the artist is that of one song"
    (row,) = plain(by_artist, sources(by_artist, by_search)).examples
    assert row.messages[2].content.splitlines()[1:] == ['2. Tap "{song}" on "Tunes".']
    without = by_artist.query.model_copy(update={"slots": ()})
    assert plain(by_artist.model_copy(update={"query": without})).examples, "the task is about this song alone"
    named = by_artist.query.model_copy(update={"instruction": "Play Blue Kitchen by Velvet Drum"})
    assert plain(by_artist.model_copy(update={"query": named})).examples


def test_what_a_rule_concluded_or_a_hint_said_is_no_manual() -> None:
    given = success("Followed the path: tap bites.menu/dishes/Margherita.", *STEPS)
    by_rule = given.trajectory.model_copy(update={"model_version": "reference"})
    assert reason(plain(given.model_copy(update={"trajectory": by_rule}))) == "template_conclusions"
    hint = "Look below the third banner to find the menu of the day"
    given = success(OPEN, f"{hint}.", *STEPS[1:]).model_copy(update={"guidance": f"1. {hint}."})
    assert reason(plain(given)) == "quotes_guidance"


@pytest.mark.parametrize(
    ("lift", "variant"),
    [
        (GuidanceLift(without=0.25, guided=0.5), "guidance_helped"),
        (GuidanceLift(without=0.5, guided=0.5), None),
        (GuidanceLift(without=1.0, guided=0.5), "unmeasured"),
    ],
)
def test_a_manual_is_refused_where_guidance_did_not_raise_success(lift: GuidanceLift, variant: str | None) -> None:
    given = success(*STEPS)
    rows = plain(given, sources(given, lift=lift))
    assert [row.variant for row in rows.examples] == ([variant] if variant else [])
    assert [row.reason for row in rows.refusals] == ([] if variant else ["guidance_did_not_help"])


@pytest.mark.parametrize(
    ("conclusions", "slots", "expected"),
    [
        ((ENLARGE,), (SIZE,), "too_short"),
        ((OPEN, CHOOSE), (PIZZA, SIZE), "value_not_used"),
        (("I went on.", "Then it was done."), (), "names_nothing"),
        ((OPEN, 'Tapped "<image>" on "Bites".'), (), "placeholder_in_text"),
        ((OPEN, "I send seven purple umbrellas over to my neighbour in Norway."), (), "near_heldout"),
        ((OPEN, 'Tapped "{other}" on "Bites".'), (), "unknown_value"),
    ],
)
def test_what_is_no_manual_has_a_reason(conclusions: tuple[str, ...], slots: tuple[Slot, ...], expected: str) -> None:
    assert reason(plain(success(*conclusions, slots=slots))) == expected


def test_a_writer_makes_one_manual_of_several_successes_or_it_is_a_failure() -> None:
    given, other = success(*STEPS), success(OPEN, OPEN, ENLARGE, name="other")
    answer = {"steps": ['Open the app "Bites".', "Choose Margherita from the menu.", "Set the size to {size}."]}
    rows, requests = derived_with(
        PlanningSpec(trials=0), given, lambda body: json.dumps(answer), writer=True, of_tasks=sources(given, other)
    )
    (row,) = rows.examples
    assert row.messages[2].content == (
        '1. Open the app "Bites".\n2. Choose {dish} from the menu.\n3. Set the size to {size}.'
    )
    assert row.written_by == "writer_manual-1@tiny"
    assert row.source_trajectories == (given.trajectory.trajectory_id, other.trajectory.trajectory_id)
    (request,) = requests
    told = words(request)
    assert 'Success 2, of the task "Order a {size} {dish}"' in told
    assert f'Tapped button \\"{OK.text}\\"' in told or f"Tapped button '{OK.text}'" in told
    assert "margherita" not in told.casefold()
    rows, _ = derived_with(PlanningSpec(trials=0), given, lambda body: "no idea", writer=True, of_tasks=sources(given))
    assert (rows.examples, rows.refusals, len(rows.failures)) == ((), (), 1)


def test_a_plan_is_distilled_from_the_task_alone_where_nobody_succeeded_which_needs_a_writer() -> None:
    failed = episode(success(*STEPS).steps, asked=asked(PIZZA, SIZE), correct=False)
    answer = {"steps": ['Open "Bites".', "Choose Margherita.", "Set the size to {size}."]}
    spec = PlanningSpec(trials=0, distil=True)
    rows, (request,) = derived_with(
        spec, failed, lambda body: json.dumps(answer), writer=True, of_tasks=sources(failed)
    )
    (row,) = rows.examples
    assert (row.variant, row.written_by) == ("distilled", "writer_plan-1@tiny")
    assert row.messages[2].content.splitlines()[1] == "2. Choose {dish}."
    told = words(request)
    assert "Order a {size} {dish}" in told and "Tapped" not in told
    assert row.trajectory_id == failed.trajectory.trajectory_id, "the attempt names its query and its task"
    with pytest.raises(BadInputError, match=r"derive\.planning\.distil asks a model: set derive\.writer"):
        PlanningSpec(distil=True).refuse_without({"writer": "embedded"}, "embedded")


def manual() -> Example:
    (row,) = plain(success(*STEPS)).examples
    return row


def pizza(name: str, dish: str) -> Query:
    slots = (PIZZA.model_copy(update={"value": dish, "said": dish.lower()}), SIZE)
    return query(name).model_copy(update={"slots": slots})


def test_a_manual_is_filled_with_the_values_of_queries_of_which_the_others_come_first() -> None:
    said = filled_manual(manual().messages[-1].content, pizza("a", "Funghi"))
    assert said is not None and '2. Tap "Funghi"' in said and "{" not in said
    assert filled_manual('1. Tap "{drink}".', pizza("a", "Funghi")) is None
    row = manual()
    own, other, third = pizza(row.query_id, "Margherita"), pizza("r", "Funghi"), pizza("s", "Diavola")
    found = guidance_by(row, [own, other, third], 2, ORIGIN)
    assert [query.query_id for query, _ in found] == ["r", "s"]
    assert {guidance.source for _, guidance in found} == {"manual"}
    assert found[0][1].source_trajectory == row.trajectory_id and "Funghi" in found[0][1].text
    assert len(guidance_by(row, [own, other, third], 9, ORIGIN)) == 3


def test_only_queries_with_two_scores_are_compared() -> None:
    pairs = [("q", "g"), ("r", "h"), ("s", "i"), ("t", "j")]
    found = tried_manual(pairs, {"q": 0.0, "r": 1.0, "s": None}, {"g": 1.0, "h": 1.0, "i": 1.0, "j": 1.0})
    assert found == TriedManual(queries=2, without=0.5, with_manual=1.0)
    assert tried_manual(pairs, {}, {}).tells_nothing


@pytest.mark.parametrize(
    ("tried", "kept"),
    [
        (TriedManual(8, 0.25, 0.75), MANUAL_HELPED),
        (TriedManual(8, 1.0, 1.0), "unmeasured"),
        (TriedManual(0, 0.0, 0.0), "unmeasured"),
        (TriedManual(8, 0.5, 0.5), ""),
    ],
)
def test_a_manual_is_kept_if_it_raises_success(tried: TriedManual, kept: str) -> None:
    row = manual()
    rows, refused = kept_manuals([row], {row.example_id: tried}, ORIGIN)
    assert [one.variant for one in rows] == ([kept] if kept else [])
    assert [(one.reason, one.trajectory_id) for one in refused] == (
        [] if kept else [("manual_did_not_help", row.trajectory_id)]
    )
    assert all("% with, " in one.detail for one in refused)
