"""Rows of every kind, supervised and RL, are checked before they are released."""

import pytest

from tests.records import record
from tests.stages.derive.samples import COMMON, query, size_of, success
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example, Message, RLStep
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.stages.curate.leaks import LeakCheck, without_leaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.end_to_end import end_to_end_examples

HELDOUT = query("h", split=Split.HELDOUT_SLOTS).model_copy(
    update={"instruction": "Book a quiet table for two at La Cantina on Friday at eight.", "task": "bites.book"}
)
NEAR = "I want a quiet table for two at La Cantina on Friday at eight."


def example(kind: str, said: str) -> Example:
    made = end_to_end_examples(success(1), size_of, Origin(round=1, run_id="run", code_version="test")).examples[0]
    return made.model_copy(
        update={"kind": kind, "example_id": f"{kind} {said}", "messages": (Message(role="assistant", content=said),)}
    )


def rl_step(name: str, asked: str, response: str) -> RLStep:
    prompt = (Message(role="user", content=asked),)
    return record(RLStep, rl_step_id=name, group="q", prompt=prompt, response=response, **COMMON)


def check(spec: CurateSpec | None = None) -> LeakCheck:
    return LeakCheck([query(), HELDOUT], (), spec or CurateSpec())


@pytest.mark.parametrize("kind", ["end_to_end", "reasoning", "grounding", "role_manager"])
def test_near_matches_leave_supervised_rows_of_any_kind_out(kind: str) -> None:
    rows = rows_to_arrow("examples", [example(kind, "I order pizza."), example(kind, NEAR)])
    clean = without_leaks(rows, "example_id", check().examples(rows))
    assert clean.rows["example_id"].to_pylist() == [f"{kind} I order pizza."]
    assert clean.left_out == {"near_heldout": 1} and clean.leaking == {f"{kind} {NEAR}"}
    assert check(CurateSpec(near_heldout=0.0)).examples(rows) == {}


def test_near_matches_leave_rl_rows_out_by_prompt_and_by_response() -> None:
    steps = [rl_step("a", "Order q", "So."), rl_step("b", NEAR, "So."), rl_step("c", "Order q", NEAR)]
    clean = check().rl_steps(rows_to_arrow("rl_steps", steps))
    assert clean.rows["rl_step_id"].to_pylist() == ["a"] and clean.left_out == {"near_heldout": 2}


def test_a_whole_heldout_instruction_refuses_the_release() -> None:
    asked = f"The user query: {HELDOUT.instruction}"
    with pytest.raises(TrajmillError, match="1 leaks of held-out data into training, the first: instruction of h in a"):
        check().rl_steps(rows_to_arrow("rl_steps", [rl_step("a", asked, "So.")]))


def test_equal_texts_are_found_in_each_row_and_refuse_only_a_release_that_takes_one() -> None:
    rows = rows_to_arrow("examples", [example(kind, HELDOUT.instruction) for kind in ("reasoning", "step")])
    leaks = check().examples(rows)
    assert list(leaks) == rows["example_id"].to_pylist()
    with pytest.raises(TrajmillError, match="2 leaks"):
        without_leaks(rows, "example_id", leaks)
    assert without_leaks(rows.slice(0, 0), "example_id", leaks).left_out == {}


def test_only_what_changes_what_is_found_changes_the_identity_of_a_check() -> None:
    other = query("q2").model_copy(update={"instruction": "Send one long letter to my old aunt in Rome."})
    shares = query("q3").model_copy(update={"instruction": "Book a quiet table for nobody."})

    def identity(*queries: Query, spec: CurateSpec | None = None) -> str:
        return LeakCheck([query(), *queries], (), spec or CurateSpec()).identity

    assert identity(HELDOUT) == identity(other, HELDOUT) == check().identity
    found = [
        identity(),
        identity(HELDOUT),
        identity(HELDOUT, shares),
        identity(HELDOUT, spec=CurateSpec(near_heldout=0.7)),
    ]
    assert len(set(found)) == len(found)
