from __future__ import annotations

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.query import Platform, Query, Slot, Source, Split
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.curate.leakage import (
    LeakKind,
    TrainingText,
    example_texts,
    leaks_in_queries,
    leaks_in_texts,
    rl_step_texts,
)


def _query(
    instruction: str,
    dish: str,
    split: Split = Split.TRAIN,
    phrasing: str = "bites.order/0",
    app: str = "bites",
    source: Source = Source.DAG,
    start_state: str = "{}",
) -> Query:
    slots = (Slot(name="dish", value=dish, said=dish, page=f"{app}.menu"),) if dish else ()
    task = f"{app}.order"
    return Query(
        query_id=Query.make_id(Platform.PHONE, task, slots, start_state, instruction),
        platform=Platform.PHONE,
        apps=(app,),
        source=source,
        task=task,
        raw_instruction="",
        instruction=instruction,
        phrasing=phrasing,
        pages=(f"{app}.menu",),
        page_descriptions=("",),
        slots=slots,
        path=(),
        start_state=start_state,
        goal="{}",
        difficulty=1,
        max_steps=10,
        split=split,
        validation="passed",
        **Origin(round=1, run_id="r", code_version="c").common("test"),
    )


TRAIN = _query("Order Pad Thai.", "Pad Thai")
SLOTS = _query("Order Diavola.", "Diavola", Split.HELDOUT_SLOTS)
PHRASINGS = _query("I feel like eating Caesar Salad.", "Caesar Salad", Split.HELDOUT_PHRASINGS, "bites.order/h0")
CLEAN = [TRAIN, SLOTS, PHRASINGS]


def _kinds(queries: list[Query], heldout_apps: tuple[str, ...] = ()) -> list[LeakKind]:
    return [leak.kind for leak in leaks_in_queries(queries, heldout_apps)]


def test_a_clean_set_has_no_leak() -> None:
    assert _kinds(CLEAN) == []


def test_a_goal_in_two_splits_is_found() -> None:
    planted = _query("Get me Diavola.", "Diavola")
    (leak,) = leaks_in_queries([*CLEAN, planted], ())
    assert leak[:3] == (LeakKind.GOAL, SLOTS.query_id, planted.query_id)


def test_a_goal_in_two_heldout_splits_is_found() -> None:
    planted = _query("I feel like eating Diavola.", "Diavola", Split.HELDOUT_PHRASINGS, "bites.order/h0")
    assert _kinds([*CLEAN, planted]) == [LeakKind.GOAL]


def test_the_words_of_a_heldout_instruction_are_found_in_training() -> None:
    planted = _query("order  diavola", "Diavola", start_state='{"setup": {}}')
    assert _kinds([*CLEAN, planted]) == [LeakKind.INSTRUCTION]


def test_a_heldout_phrasing_in_training_is_found() -> None:
    planted = _query("I feel like eating Pad Thai", "Pad Thai", phrasing="bites.order/h0")
    found = leaks_in_queries([PHRASINGS, planted], ())
    assert {leak.kind for leak in found} == {LeakKind.PHRASING}
    assert PHRASINGS.query_id in {leak.heldout for leak in found}


def test_a_heldout_clause_in_training_is_found() -> None:
    planted = _query("Order Cheeseburger, the large one.", "Cheeseburger", phrasing="bites.order/0 size/h0")
    assert _kinds([*CLEAN, planted]) == [LeakKind.PHRASING]


def test_a_heldout_sentence_under_another_name_is_found() -> None:
    planted = _query("I feel like eating Pad Thai.", "Pad Thai", phrasing="bites.order/3")
    (leak,) = leaks_in_queries([PHRASINGS, planted], ())
    assert leak[:3] == (LeakKind.PHRASING, PHRASINGS.query_id, planted.query_id)


def test_a_heldout_app_in_training_is_found() -> None:
    planted = _query("Call Ada.", "Ada", phrasing="contacts.order/0", app="contacts")
    assert _kinds([*CLEAN, planted], ("contacts",)) == [LeakKind.APP]


def test_an_imported_page_may_say_the_same_for_another_start_state() -> None:
    pages = [
        _query("Click the button.", "", split, "miniwob", source=Source.IMPORTED, start_state=f'{{"seed": {seed}}}')
        for seed, split in enumerate((Split.TRAIN, Split.HELDOUT_SLOTS))
    ]
    assert _kinds(pages) == []
    assert _kinds([pages[0], pages[0].model_copy(update={"split": Split.HELDOUT_SLOTS})]) == [LeakKind.GOAL]


def test_a_training_text_of_a_heldout_query_is_found() -> None:
    (leak,) = leaks_in_texts(CLEAN, [TrainingText("e1", SLOTS.query_id, "Tap Diavola")])
    assert leak[:3] == (LeakKind.LINEAGE, SLOTS.query_id, "e1")


def test_a_training_text_that_states_a_heldout_instruction_is_found() -> None:
    text = "The user query: order diavola\nTask progress: nothing yet"
    (leak,) = leaks_in_texts(CLEAN, [TrainingText("e1", TRAIN.query_id, text)])
    assert leak[:3] == (LeakKind.INSTRUCTION, SLOTS.query_id, "e1")


def test_a_longer_training_instruction_is_no_leak() -> None:
    text = "The user query: Order Diavola, extra spicy.\nTask progress: nothing yet"
    assert leaks_in_texts(CLEAN, [TrainingText("e1", TRAIN.query_id, text)]) == ()


def test_examples_and_rl_steps_are_read_with_their_lineage() -> None:
    message = Message(role="user", content="The user query: Order Diavola.")
    origin = Origin(round=1, run_id="r", code_version="c").common("test")
    example = Example(
        example_id="e1",
        kind="end_to_end",
        messages=(message,),
        screens=(),
        action=None,
        coordinate_space="unit",
        loss_weight=1.0,
        query_id=TRAIN.query_id,
        trajectory_id="t",
        step_index=0,
        split=Split.TRAIN,
        **origin,
    )
    step = RLStep(
        rl_step_id="s1",
        group=TRAIN.query_id,
        trajectory_id="t",
        step_index=0,
        prompt=(message,),
        response="",
        screens=(),
        accuracy_reward=1.0,
        format_reward=0.0,
        reward=1.0,
        advantage=0.0,
        step_weight=1.0,
        replayed=False,
        **origin,
    )
    texts = [*example_texts(example), *rl_step_texts(step)]
    assert [leak.found_in for leak in leaks_in_texts(CLEAN, texts[:1])] == ["e1"]
    assert [leak.found_in for leak in leaks_in_texts(CLEAN, texts[1:])] == ["s1"]
