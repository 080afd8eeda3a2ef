from itertools import product

import pytest

from trajmill.schemas.tables.verdict import Channel, Ingredient
from trajmill.stages.critics.calibration.agreement import CallCost, LabelledVotes, ingredients_of, tally
from trajmill.stages.critics.voting import Vote, read_rule

TWO_MODELS = read_rule("consensus(text,multimodal:0.5:4of4/2models>full:3of4/2models)")
TEXT, MULTIMODAL = Channel.TEXT, Channel.MULTIMODAL


def votes_of(text: str, multimodal: str) -> list[Vote]:
    """Votes from letters: y, n, or `-` for a missing one."""
    return [
        Vote(channel, "full", f"p@{'ab'[number % 2]}", letter == "y", number=number)
        for channel, letters in ((TEXT, text), (MULTIMODAL, multimodal))
        for number, letter in enumerate(letters)
        if letter != "-"
    ]


def test_a_judge_with_two_models_and_resolutions_has_these_ingredients() -> None:
    found = [(part.kind.value, part.channel, part.resolution, part.votes) for part in ingredients_of(TWO_MODELS)]
    each = [("single", 1), ("single", 1), ("voting", 2), ("voting", 2), ("ensemble", 4)]
    assert found == [
        ("single", TEXT, "full", 1),
        ("channel", TEXT, "full", 1),
        *((name, MULTIMODAL, at, votes) for at, (name, votes) in product(("0.5", "full"), each)),
        ("multi_resolution", MULTIMODAL, None, 4),
        ("multi_resolution", MULTIMODAL, None, 4),
        ("channel", MULTIMODAL, None, 8),
        ("consensus", None, None, 9),
    ]


@pytest.mark.parametrize(
    ("text", "multimodal", "expected"),
    [
        # numbers: a 0 2, b 1 3 at 0.5; a 4 6, b 5 7 at full, of which 3 of 4 must say yes, so 2 of 2 of one model
        ("y", "yyyyyyyn", {"a": True, "b": False, "ensemble": True, "channel": True, "consensus": True}),
        ("y", "ynyyyyyy", {"a": True, "b": False, "ensemble": True, "channel": False, "consensus": False}),
        ("n", "yyyyyyyy", {"a": True, "b": True, "ensemble": True, "channel": True, "consensus": False}),
        ("y", "yyyyy-yy", {"a": True, "b": None, "ensemble": True, "channel": True, "consensus": True}),
        ("y", "yyyyn-yy", {"a": False, "b": None, "ensemble": None, "channel": None, "consensus": None}),
        ("-", "yyyyyyyy", {"a": True, "b": True, "ensemble": True, "channel": True, "consensus": None}),
    ],
)
def test_each_verdict_follows_its_own_votes(text: str, multimodal: str, expected: dict[str, bool | None]) -> None:
    cast = {(vote.channel, vote.number): vote.correct for vote in votes_of(text, multimodal)}
    found = {
        (part.kind, part.channel, part.resolution, part.subsets[0].numbers[0]): part.outcome(cast)
        for part in ingredients_of(TWO_MODELS)
    }
    assert {
        "a": found[Ingredient.MULTI_RESOLUTION, MULTIMODAL, None, 0],
        "b": found[Ingredient.MULTI_RESOLUTION, MULTIMODAL, None, 1],
        "ensemble": found[Ingredient.ENSEMBLE, MULTIMODAL, "full", 4],
        "channel": found[Ingredient.CHANNEL, MULTIMODAL, None, 0],
        "consensus": found[Ingredient.CONSENSUS, None, None, 0],
    } == expected


def spent(role: str, draw: int | None = None, scale: float = 1.0, payload: str = "p", cached: bool = False) -> CallCost:
    return CallCost(role, payload, () if draw is None else (draw,), scale, 6, 4, 100.0, cached)


def test_a_verdict_takes_the_calls_of_its_votes_the_steps_and_each_caption_once() -> None:
    calls = [
        *[spent("critic.step")] * 3,
        spent("describer", payload="screen-1"),
        spent("describer", payload="screen-1", cached=True),
        spent("describer", payload="screen-2"),
        spent("critic.text", 0),
        *(spent("critic.multimodal", draw, 0.5) for draw in range(4)),
        *(spent("critic.multimodal", draw, 1.0, cached=draw == 3) for draw in range(4)),
        spent("critic.multimodal", 4, 1.0),
    ]
    found = {
        (each.ingredient.kind, each.ingredient.channel, each.ingredient.resolution): each
        for each in reversed(tally(TWO_MODELS, [LabelledVotes(True, votes_of("y", "y" * 8), calls)] * 2))
    }
    single = found[Ingredient.SINGLE, MULTIMODAL, "full"]
    assert (single.calls, single.tokens, single.milliseconds) == (2 * 5, 2 * 50, 2 * 500.0), "vote 0 was asked twice"
    assert list(single.models) == ["p@a"]
    assert found[Ingredient.SINGLE, MULTIMODAL, "0.5"].calls == 2 * 4
    assert found[Ingredient.CHANNEL, TEXT, "full"].calls == 2 * (3 + 2 + 1)
    whole = found[Ingredient.CONSENSUS, None, None]
    assert (whole.calls, whole.cached, whole.milliseconds) == (2 * 15, 2, 2 * 1400.0)
    assert list(whole.models) == ["p@a", "p@b"]


def test_votes_of_one_request_share_its_prompt_and_each_takes_its_answer() -> None:
    rule = read_rule("consensus(multimodal:4of4/2models)")
    together = CallCost("critic.multimodal", "p", (0, 2), 1.0, 1000, 60, 500.0, False)
    other = CallCost("critic.multimodal", "q", (1, 3), 1.0, 2000, 80, 700.0, False)
    again = CallCost("critic.multimodal", "r", (6,), 1.0, 1100, 30, 200.0, False)
    evidence = [LabelledVotes(True, votes_of("", "yyyy"), [together, other, again])]
    found = {
        (each.ingredient.kind, each.ingredient.subsets[0].numbers): (each.calls, each.tokens, each.milliseconds)
        for each in tally(rule, evidence)
    }
    assert found[Ingredient.SINGLE, (0,)] == (1, 1030, 500.0)
    assert found[Ingredient.SINGLE, (1,)] == (1, 2040, 700.0)
    assert found[Ingredient.VOTING, (0, 2)] == (2, 1060 + 1130, 700.0), "vote 2 was asked for again"
    assert found[Ingredient.CONSENSUS, (0, 1, 2, 3)] == (3, 1060 + 1130 + 2080, 1400.0)


def test_agreement_is_counted_and_what_is_open_is_no_verdict() -> None:
    rule = read_rule("consensus(text:2of2)")
    cases = [(True, "yy"), (False, "yy"), (False, "yn"), (True, "n-"), (True, "y-"), (True, "-y")]
    evidence = [LabelledVotes(passed, votes_of(letters, ""), []) for passed, letters in cases]
    whole = tally(rule, evidence)[-1]
    quality = whole.quality
    counts = (quality.true_positive, quality.false_positive, quality.true_negative, quality.false_negative)
    assert (counts, whole.undecided, whole.trajectories) == ((1, 1, 1, 1), 2, 6)
    single = tally(rule, evidence)[0]
    assert single.ingredient.kind is Ingredient.SINGLE and single.undecided == 1
