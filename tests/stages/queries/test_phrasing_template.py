from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.schemas.errors import BadInputError
from trajmill.stages.queries.templates import parse_template, tidy

WORDS = {"dish": "Pad Thai", "size": "large"}
Language = tuple[str, frozenset[str]]
"""A template's text with its whole language."""


def _joined(children: st.SearchStrategy[Language]) -> st.SearchStrategy[Language]:
    several = st.lists(children, min_size=1, max_size=3).map(
        lambda options: ("|".join(text for text, _ in options), frozenset().union(*(said for _, said in options)))
    )
    return st.one_of(
        st.tuples(children, children).map(
            lambda two: (two[0][0] + two[1][0], frozenset(a + b for a in two[0][1] for b in two[1][1]))
        ),
        several.map(lambda options: (f"({options[0]})", options[1])),
        several.map(lambda options: (f"[{options[0]}]", options[1] | {""})),
    )


plain = st.text(alphabet="abc ,.'\"é", min_size=1, max_size=8).map(lambda text: (text, frozenset({text})))
names = st.sampled_from(sorted(WORDS)).map(lambda name: (f"{{{name}}}", frozenset({WORDS[name]})))


@given(st.recursive(plain | names, _joined, max_leaves=8), st.integers(0, 2**32))
def test_an_expansion_is_a_sentence_of_the_language(template: Language, seed: int) -> None:
    text, language = template
    assert parse_template(text, "t").expand(WORDS, Random(seed)) in language


@given(st.text(alphabet="ab(|)[]{} ", max_size=12))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    try:
        parse_template(text, "bites.order")
    except BadInputError as error:
        assert "\n" not in str(error) and str(error).startswith("bites.order: phrasing ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("order (a|b", "'(' is not closed at column 7; close it with ')'"),
        ("order [me", "'[' is not closed at column 7; close it with ']'"),
        ("order (a|b]", "'(' is not closed at column 7; close it with ')'"),
        ("order {dish", "'{' is not closed at column 7; close it with '}'"),
        ("order {a dish}", "'{a dish}' is no name at column 7"),
        ("order) me", "')' stands alone at column 6"),
        ("a|b", "'|' stands alone at column 2; put alternatives in parentheses"),
    ],
)
def test_a_broken_template_is_refused_with_place_and_advice(text: str, complaint: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_template(text, "bites.order")
    assert complaint in str(caught.value)
    assert parse_template("a {b} (c {d}|[{e} f])", "t").names() == {"b", "d", "e"}


@pytest.mark.parametrize(
    ("rough", "text"),
    [
        ("order  Pad Thai , large", "Order Pad Thai, large."),
        ("could you order it", "Could you order it?"),
        (' say "hi there"', 'Say "hi there".'),
        ("done!", "Done!"),
    ],
)
def test_texts_are_stripped_of_spaces_and_control_characters(rough: str, text: str) -> None:
    assert tidy(rough) == text
