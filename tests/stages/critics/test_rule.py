"""Rules that combine votes are read from text and counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.voting import ChannelRule, PassRule, Rule, read_rule

TEXT, MULTIMODAL = Channel.TEXT, Channel.MULTIMODAL
HALF = PassRule(resolution="0.5")


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("text,multimodal", [ChannelRule(TEXT), ChannelRule(MULTIMODAL)]),
        ("programmatic", [ChannelRule(Channel.PROGRAMMATIC)]),
        (
            "text:2of3,multimodal:0.5>full:2of3",
            [ChannelRule(TEXT, (PassRule(3, 2),)), ChannelRule(MULTIMODAL, (HALF, PassRule(3, 2)))],
        ),
        (
            "multimodal:0.25:4of4/2models>0.5>full:2of2/2models",
            [ChannelRule(MULTIMODAL, (PassRule(4, 4, "0.25", 2), HALF, PassRule(2, 2, models=2)))],
        ),
        ("multimodal:0.5", [ChannelRule(MULTIMODAL, (HALF,))]),
    ],
)
def test_a_rule_reads_as_it_is_written(text: str, rules: list[ChannelRule]) -> None:
    rule = Rule(tuple(rules))
    assert str(rule) == f"consensus({text})" and read_rule(str(rule)) == rule


resolutions = st.sampled_from(["full", "0.5", "0.25"])


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), resolutions, st.integers(1, 9)), min_size=1, max_size=4)
)
def test_every_rule_can_be_read_back(drawn: list[tuple[int, int, str, int]]) -> None:
    made = tuple(PassRule(max(a, b), min(a, b), where, min(models, max(a, b))) for a, b, where, models in drawn)
    rule = Rule((ChannelRule(TEXT, made), ChannelRule(MULTIMODAL, made[:1])))
    assert read_rule(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    ["", "text", "consensus()", "consensus(text:)x", "consensus(eyes)", "consensus(text:2 of 3)", "majority(text)"],
)
def test_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_rule(text)


@given(st.integers(1, 7), st.data())
def test_an_outcome_is_final_exactly_when_no_missing_vote_could_change_it(votes: int, data: st.DataObject) -> None:
    quorum = data.draw(st.integers(1, votes))
    correct = data.draw(st.integers(0, votes))
    incorrect = data.draw(st.integers(0, votes - correct))
    rule, left = PassRule(votes, quorum), votes - correct - incorrect
    possible = {correct + more >= quorum for more in range(left + 1)}
    outcome = rule.outcome(correct, incorrect)
    assert outcome == (possible.pop() if len(possible) == 1 else None)
    if outcome is None:
        needed = rule.needed(correct, incorrect)
        assert 1 <= needed <= left
        assert {rule.outcome(correct + yes, incorrect + needed - 1 - yes) for yes in range(needed)} == {None}
        assert rule.outcome(correct + needed, incorrect) is True or rule.outcome(correct, incorrect + needed) is False
