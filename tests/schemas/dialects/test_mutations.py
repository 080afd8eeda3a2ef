from tests.schemas.dialects.mutations import run

SLOWEST_SECONDS = 1.0


def test_a_mutated_reply_gives_only_actions_that_it_contains() -> None:
    tally = run(20_000, seed=7)
    assert tally.replies > 1_000 and tally.failures > 1_000, "both happen often enough to say something"
    assert tally.slowest < SLOWEST_SECONDS
