from collections.abc import Sequence

import pytest

from tests.stages.derive.samples import DONE, TAP, episode, query, step
from tests.stages.derive.screens import derived as derived_by
from tests.stages.derive.screens import kept, refused
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.spec import StepDataSpec

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL
STEPS = [step(0, TAP), step(1, TAP), step(2, TAP, ("s2", "s1")), step(3, TAP), step(4, DONE)]


def judged(
    correct: bool, labels: Sequence[StepLabel] = (), redundant: tuple[int, ...] = (), first_error: int | None = None
) -> Episode:
    made = episode(STEPS, correct=correct, labels=labels)
    assert made.judgement is not None
    signals = {"redundant_steps": redundant, "first_error_step": first_error}
    return made.model_copy(update={"judgement": made.judgement.model_copy(update=signals)})


def derived(given: Episode, spec: StepDataSpec | None = None) -> DerivedRows:
    return derived_by(spec or StepDataSpec(), given)


def test_redundant_steps_and_those_from_the_first_error_on_are_cut() -> None:
    rows = derived(judged(True, redundant=(1, 3)))
    assert kept(rows) == [(0, "positive"), (2, "positive"), (4, "positive")]
    assert refused(rows) == [(1, "redundant"), (3, "redundant")]
    rows = derived(judged(False, first_error=3))
    assert kept(rows) == [(0, "before_error"), (1, "before_error"), (2, "before_error")]
    assert refused(rows) == [(3, "first_error"), (4, "after_first_error")]


def test_a_step_that_repairs_an_error_is_kept_even_if_it_is_redundant() -> None:
    # Step 1 goes wrong and step 2 leads back to the screen before it.
    rows = derived(judged(True, [GOOD, HARMFUL, NEUTRAL, GOOD, GOOD], redundant=(1, 2)))
    assert kept(rows) == [(0, "positive"), (2, "self_correction"), (3, "positive"), (4, "positive")]
    assert refused(rows) == [(1, "harmful")]
    plain = derived(judged(True, [GOOD, HARMFUL, NEUTRAL], redundant=(1, 2)), StepDataSpec(self_corrections=False))
    assert (2, "redundant") in refused(plain)


def test_only_a_step_that_undoes_the_error_before_it_is_a_correction() -> None:
    rows = derived(judged(False, first_error=1))
    assert kept(rows) == [(0, "before_error"), (2, "self_correction")]
    assert refused(rows) == [(1, "first_error"), (3, "after_first_error"), (4, "after_first_error")]
    rows = derived(judged(True, [GOOD, GOOD, HARMFUL, GOOD, GOOD]))
    assert (3, "positive") in kept(rows)
    assert "self_correction" not in {variant for _, variant in kept(rows)}


@pytest.mark.parametrize(
    ("given", "spec", "reason"),
    [
        (judged(False), StepDataSpec(), "no_first_error"),
        (judged(False, first_error=3), StepDataSpec(failed=False), "judged_incorrect"),
        (episode(STEPS, correct=None), StepDataSpec(), "not_judged"),
        (episode(STEPS, asked=query(split=Split.VALIDATION)), StepDataSpec(), "held_out"),
    ],
)
def test_a_whole_trajectory_is_refused_with_a_reason(given: Episode, spec: StepDataSpec, reason: str) -> None:
    rows = derived(given, spec)
    assert rows.examples == ()
    assert refused(rows) == [(None, reason)]
