from __future__ import annotations

from tests.stages.queries.splits import CLEAN, SLOTS, TRAIN
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.curate.leaks import TrainingText, example_texts, leaks_in_texts, rl_step_texts
from trajmill.stages.queries.leaks import LeakKind


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
        response="Tapped Diavola.",
        screens=(),
        accuracy_reward=1.0,
        format_reward=0.0,
        reward=1.0,
        advantage=0.0,
        step_weight=1.0,
        replayed=False,
        **origin,
    )
    examples = rows_to_arrow("examples", [example]).to_batches()
    rl_steps = rows_to_arrow("rl_steps", [step]).to_batches()
    assert [leak.found_in for leak in leaks_in_texts(CLEAN, example_texts(examples))] == ["e1"]
    assert [leak.found_in for leak in leaks_in_texts(CLEAN, rl_step_texts(rl_steps))] == ["s1"]
    assert list(rl_step_texts(rl_steps))[-1].text == step.response
