import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.records import record
from tests.stages.derive.samples import COMMON, query, size_of, success
from tests.stages.queries.samples import CLEAN, SLOTS, TRAIN
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example, Message, RLStep
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.stages.curate.leaks import (
    LeakCheck,
    NearLeaks,
    TrainingText,
    benchmark_tasks,
    leaks_in_texts,
    without_leaks,
)
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.step_data import end_to_end_examples
from trajmill.stages.queries.leaks import LeakKind

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


@pytest.mark.parametrize("kind", ["end_to_end", "grounding"])
def test_near_matches_leave_supervised_rows_of_any_kind_out(kind: str) -> None:
    rows = rows_to_arrow("examples", [example(kind, "I order pizza."), example(kind, NEAR)])
    clean = without_leaks(rows, "example_id", check().examples(rows))
    assert clean.rows["example_id"].to_pylist() == [f"{kind} I order pizza."]
    assert clean.left_out == {"near_heldout": 1} and clean.leaking == {f"{kind} {NEAR}"}
    assert check(CurateSpec(near_heldout=0.0)).examples(rows) == {}
    at = f"{rows['trajectory_id'][0]}/{rows['step_index'][0]}"
    assert without_leaks(rows, "example_id", {}).without_steps("example_id", pa.array([at])).left_out == {
        "unseen_app": 2
    }


def test_near_matches_leave_rl_rows_out_and_a_whole_heldout_instruction_refuses_the_release() -> None:
    steps = [rl_step("a", "Order q", "So."), rl_step("b", NEAR, "So."), rl_step("c", "Order q", NEAR)]
    clean = check().rl_steps(rows_to_arrow("rl_steps", steps))
    assert clean.rows["rl_step_id"].to_pylist() == ["a"] and clean.left_out == {"near_heldout": 2}
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


def test_a_text_leaks_by_its_query_or_a_whole_instruction() -> None:
    for query_id, text, kinds in (
        (SLOTS.query_id, "Tap Diavola", [LeakKind.LINEAGE]),
        (TRAIN.query_id, "The user query: order diavola\nTask progress: nothing yet", [LeakKind.INSTRUCTION]),
        (TRAIN.query_id, "The user query: Order Diavola, extra spicy.\nTask progress: nothing yet", []),
    ):
        leaks = leaks_in_texts(CLEAN, [TrainingText("e1", query_id, text)])
        assert [leak[:3] for leak in leaks] == [(kind, SLOTS.query_id, "e1") for kind in kinds]


TASK = "Create a new contact for Hugo Pereira with the number 555-0199"


def asking(name: str, instruction: str, split: Split = Split.TRAIN) -> Query:
    return query(name, split=split).model_copy(update={"instruction": instruction})


QUERIES = [
    asking("a", "Order a large Diavola pizza with extra olives to my office."),
    asking("b", "Book a table for two at La Cantina tonight."),
    asking("h", "Book a quiet table for two at La Cantina on Friday at eight.", Split.HELDOUT_SLOTS),
    asking("s", "Order Margherita", Split.HELDOUT_SLOTS),
]


def found(text: str, spec: CurateSpec | None = None) -> list[tuple[str, str]]:
    leaks = NearLeaks(QUERIES, spec or CurateSpec()).in_texts([TrainingText("row", "a", text)])
    return [(leak.reason, leak.found) for leak in leaks.values()]


def test_what_training_says_itself_and_scattered_or_short_words_are_no_leak() -> None:
    for text in (
        "The user query: Book a table for two at La Cantina tonight.",
        "I book a quiet table.\nIt is for two at La Cantina.\nOn Friday at eight.",
        "I order Margherita instead.",
        "",
    ):
        assert found(text) == []


def test_the_tasks_of_a_benchmark_are_found(tmp_path: Path) -> None:
    for name, content in (
        ("tasks.txt", f"Turn on the torch of the phone\n\n{TASK}\n"),
        ("tasks.json", json.dumps([{"goal": TASK, "id": 3}])),
        ("tasks.jsonl", json.dumps({"instruction": TASK}) + "\n"),
    ):
        (tmp_path / name).write_text(content)
        spec = CurateSpec(benchmarks={"android_world": tmp_path / name})
        assert found(f"The user query: {TASK.lower()}!", spec) == [("benchmark_android_world", TASK)]
        assert found("The user query: Create a new contact", spec) == []


def test_a_file_without_tasks_is_one_line(tmp_path: Path) -> None:
    for content, why in (("{", "cannot be read"), ('[{"id": 1}]', "has no task"), (None, "cannot")):
        path = tmp_path / "tasks.json"
        path.write_text(content) if content is not None else path.unlink()
        with pytest.raises(BadInputError, match=rf"curate.benchmarks: .*tasks.json {why}"):
            benchmark_tasks(path)
