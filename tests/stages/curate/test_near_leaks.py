import json
from pathlib import Path

import pytest

from tests.stages.derive.samples import query
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.curate.leaks import NearLeaks, TrainingText, benchmark_tasks
from trajmill.stages.curate.spec import CurateSpec

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


def test_most_of_a_heldout_instruction_in_one_line_is_found() -> None:
    thought = "Thought: I book a quiet table for two at La Cantina on Friday, as asked."
    assert found(f"Task progress: none\n{thought}") == [("near_heldout", "h")]
    assert found(thought, CurateSpec(near_heldout=0.0)) == []


@pytest.mark.parametrize(
    "text",
    [
        "The user query: Book a table for two at La Cantina tonight.",
        "I book a quiet table.\nIt is for two at La Cantina.\nOn Friday at eight.",
        "I order Margherita instead.",
        "",
    ],
)
def test_what_training_says_itself_and_scattered_or_short_words_are_no_leak(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("form", ["tasks.txt", "tasks.json", "tasks.jsonl"])
def test_the_tasks_of_a_benchmark_are_found(tmp_path: Path, form: str) -> None:
    path = tmp_path / form
    if form == "tasks.txt":
        path.write_text(f"Turn on the torch of the phone\n\n{TASK}\n")
    elif form == "tasks.json":
        path.write_text(json.dumps([{"goal": TASK, "id": 3}]))
    else:
        path.write_text(json.dumps({"instruction": TASK}) + "\n")
    spec = CurateSpec(benchmarks={"android_world": path})
    assert found(f"The user query: {TASK.lower()}!", spec) == [("benchmark_android_world", TASK)]
    assert found("The user query: Create a new contact", spec) == []


@pytest.mark.parametrize(
    ("content", "why"), [("{", "cannot be read"), ('[{"id": 1}]', "has no task"), (None, "cannot")]
)
def test_a_file_without_tasks_is_one_line(tmp_path: Path, content: str | None, why: str) -> None:
    path = tmp_path / "tasks.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInputError, match=rf"curate.benchmarks: .*tasks.json {why}"):
        benchmark_tasks(path)
