from trajmill.schemas.tables.query import Split
from trajmill.stages.metrics.success import MeasuredEpisode, success_by_split

SLOTS, TRAIN = Split.HELDOUT_SLOTS, Split.TRAIN


def test_successes_are_counted_per_split() -> None:
    episodes = [
        MeasuredEpisode(TRAIN, False),
        MeasuredEpisode(SLOTS, True),
        MeasuredEpisode(SLOTS, False),
        MeasuredEpisode(SLOTS, True),
    ]
    counts = success_by_split(episodes)
    assert [(entry.split, entry.queries, entry.successes) for entry in counts] == [(SLOTS, 3, 2), (TRAIN, 1, 0)]
    assert success_by_split([]) == ()
