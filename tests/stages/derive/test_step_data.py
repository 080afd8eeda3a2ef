"""Which steps of an attempt become examples, of what was done and of the kind `step`."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.other_package import installed
from tests.stages.derive.samples import DONE, ORIGIN, TAP, episode, query, size_of, step
from tests.stages.derive.screens import derived, kept, refused
from trajmill.schemas.actions import Click, OpenApp, TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.derive.spec import DERIVE_KINDS, DeriveSpec, StepDataSpec
from trajmill.stages.derive.step_data import end_to_end_examples

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL
STEPS = [step(0, TAP), step(1, TAP), step(2, TAP, ("s2", "s1")), step(3, TAP), step(4, DONE)]


def judged(
    correct: bool, labels: Sequence[StepLabel] = (), redundant: tuple[int, ...] = (), first_error: int | None = None
) -> Episode:
    made = episode(STEPS, correct=correct, labels=labels)
    assert made.judgement is not None
    signals = {"redundant_steps": redundant, "first_error_step": first_error}
    return made.model_copy(update={"judgement": made.judgement.model_copy(update=signals)})


def test_redundant_steps_and_those_from_the_first_error_on_are_cut() -> None:
    rows = derived(StepDataSpec(), judged(True, redundant=(1, 3)))
    assert kept(rows) == [(0, "positive"), (2, "positive"), (4, "positive")]
    assert refused(rows) == [(1, "redundant"), (3, "redundant")]
    rows = derived(StepDataSpec(), judged(False, first_error=3))
    assert kept(rows) == [(0, "before_error"), (1, "before_error"), (2, "before_error")]
    assert refused(rows) == [(3, "first_error"), (4, "after_first_error")]


def test_only_a_step_that_undoes_the_error_before_it_is_a_correction_and_then_even_a_redundant_one() -> None:
    # Step 1 goes wrong and step 2 leads back to the screen before it.
    rows = derived(StepDataSpec(), judged(True, [GOOD, HARMFUL, NEUTRAL, GOOD, GOOD], redundant=(1, 2)))
    assert kept(rows) == [(0, "positive"), (2, "self_correction"), (3, "positive"), (4, "positive")]
    assert refused(rows) == [(1, "harmful")]
    rows = derived(StepDataSpec(), judged(False, first_error=1))
    assert kept(rows) == [(0, "before_error"), (2, "self_correction")]
    assert refused(rows) == [(1, "first_error"), (3, "after_first_error"), (4, "after_first_error")]
    rows = derived(StepDataSpec(), judged(True, [GOOD, GOOD, HARMFUL, GOOD, GOOD]))
    assert (3, "positive") in kept(rows)
    assert "self_correction" not in {variant for _, variant in kept(rows)}


@pytest.mark.parametrize(
    ("given", "spec", "reason"),
    [
        (judged(False), StepDataSpec(), "no_first_error"),
        (judged(False, first_error=3), StepDataSpec(failed=False), "judged_incorrect"),
    ],
)
def test_a_whole_trajectory_is_refused_with_a_reason(given: Episode, spec: StepDataSpec, reason: str) -> None:
    rows = derived(spec, given)
    assert rows.examples == ()
    assert refused(rows) == [(None, reason)]


def reasons(given: Episode) -> list[tuple[int | None, str]]:
    return [(d.step_index, d.reason) for d in end_to_end_examples(given, size_of, ORIGIN).dropped]


def test_only_judged_successes_of_the_training_split_are_learned() -> None:
    steps = [step(0, TAP), step(1, DONE)]
    assert reasons(episode(steps, correct=False)) == [(None, "judged_incorrect")]
    assert reasons(episode(steps, correct=None)) == [(None, "not_judged")]
    assert reasons(episode(steps, status="failed")) == [(None, "failed")]
    assert reasons(episode(steps, purpose=Purpose.REFERENCE)) == [(None, "other_purpose")]
    for split in set(Split) - {Split.TRAIN}:
        assert reasons(episode(steps, asked=query(split=split))) == [(None, "held_out")]
    assert reasons(episode(steps, purpose=Purpose.GUIDED)) == []


def test_the_step_critic_cleans_and_the_history_stays_true() -> None:
    same = ("s1", "s1")
    steps = [step(0, TAP), step(1, TAP, same), step(2, TAP), step(3, TAP), step(4, DONE, ("s4", "s4"))]
    given = episode(steps, labels=[GOOD, NEUTRAL, NEUTRAL, HARMFUL, NEUTRAL])
    made = end_to_end_examples(given, size_of, ORIGIN)
    assert [(d.step_index, d.reason) for d in made.dropped] == [(1, "no_effect"), (3, "harmful")]
    assert [e.step_index for e in made.examples] == [0, 2, 4]
    assert made.examples[-1].messages[1].content == steps[4].prompt + "<image>"


def test_steps_that_do_not_fit_a_conversation_are_dropped_with_their_reason() -> None:
    steps = [
        step(0, None),
        step(1, TAP, prompt=""),
        step(2, TAP, prompt="Order <image> now"),
        step(3, TypeText(text="x")).model_copy(update={"conclusion": "Typed <image>"}),
        step(4, Click(x=1, y=1)).model_copy(update={"action": Click(x=1, y=1, count=2).model_dump_json()}),
        step(5, OpenApp(app="Bites")),
        step(6, TAP, prompt="Play the <video> now"),
    ]
    dropped = [(0, "unparsed"), (1, "no_prompt"), (2, "placeholder_in_text"), (3, "placeholder_in_text")]
    assert reasons(episode(steps)) == [*dropped, (4, "not_round_trip"), (6, "placeholder_in_text")]


def test_a_step_that_repeats_its_hints_is_dropped_and_so_are_those_that_remember_it() -> None:
    hints = '1. Open "Food".\n2. Tap "Large".'
    told = step(1, TAP).model_copy(update={"thought": 'Hint 2. tap  "Large". So I do.'})
    remembers = step(2, TAP, prompt='The user query: go\nStep 1: I followed 1. Open "Food".')
    unaware = step(3, TypeText(text='Tap "Large".'))
    given = episode([step(0, TAP), told, remembers, unaware, step(4, DONE)], purpose=Purpose.GUIDED)
    guided = given.model_copy(update={"guidance": hints})
    assert reasons(guided) == [(1, "quotes_guidance"), (2, "quotes_guidance")]
    assert reasons(given) == []


LENGTHS = """
from typing import ClassVar

from trajmill.schemas.tables.example import Message
from trajmill.stages.derive.collected import Collected, Lesson
from trajmill.stages.derive.kind_spec import KindSpec


class Lengths:
    def __init__(self, spec, tools):
        self.spec, self.tools = spec, tools

    async def derive(self, episode, only):
        collected = Collected(self.tools.maker, episode)
        messages = (
            Message(role="user", content=self.spec.question),
            Message(role="assistant", content=str(len(episode.steps))),
        )
        collected.add(Lesson(messages, (), "length", "template"), None)
        return collected.rows()


class LengthsSpec(KindSpec):
    name: ClassVar[str] = "lengths"
    question: str = "How many steps?"

    def open(self, tools):
        return Lengths(self, tools)
"""


def test_a_kind_of_another_package_derives_rows_with_its_settings_and_a_wrong_one_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "[trajmill.derive_kinds]\nlengths = length_rows:LengthsSpec"
    installed(tmp_path / "packages", monkeypatch, points, length_rows=LENGTHS)
    assert DERIVE_KINDS.kinds()[-1] == "lengths"
    spec = DeriveSpec(kinds={"lengths": {"question": "How long?"}}).kind("lengths")
    (row,) = derived(spec, episode([step(0, TAP), step(1, DONE)])).examples
    assert (row.kind, [message.content for message in row.messages]) == ("lengths", ["How long?", "2"])
    with pytest.raises(BadInputError, match="no derived data of kind 'length'"):
        DeriveSpec().kind("length")
    with pytest.raises(BadInputError, match="lengths: queston"):
        DeriveSpec(kinds={"lengths": {"queston": "?"}}).kind("lengths")
