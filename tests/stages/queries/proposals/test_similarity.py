from __future__ import annotations

import pytest

from trajmill.stages.queries.proposals.known import KnownTasks, SimilarTask

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
