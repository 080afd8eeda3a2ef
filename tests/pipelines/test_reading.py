from pathlib import Path

import pytest

from tests.stages.curate.test_leaks import HELDOUT
from tests.stages.curate.test_training_set import examples_of
from tests.stages.derive.samples import TAP, query, step
from tests.warehouse.samples import commit_rows, judgement, stage_run, trajectory
from trajmill.pipelines.reading.episodes import read_history, reward_moments
from trajmill.pipelines.reading.examples import CANDIDATES, Candidates, ExampleSet, read_candidates
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.curate.leaks import LeakCheck
from trajmill.stages.curate.spec import CurateSpec
from trajmill.warehouse.layout import Warehouse, create_warehouse

QUERIES = ("q1", "q2", "q3")
RUN = "run-a"
SUPERVISED = ExampleSet({"kind": ["end_to_end"]}, 2)


@pytest.fixture
def run(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path)
    for number in (1, 2, 3):
        commit_round(warehouse, number)
    return warehouse


def commit_round(warehouse: Warehouse, number: int) -> list[str]:
    at, judge = stage_run("rollout", number), stage_run("judge", number)
    purposes = (Purpose.TRAIN, Purpose.TRAIN, Purpose.GUIDED, Purpose.EVALUATE)
    rows = [
        trajectory(place, at, QUERIES[(place + number) % 3], purpose=purpose, attempt=place, steps=2)
        for place, purpose in enumerate(purposes)
    ]
    steps = [
        step(index, TAP if (place + number + index) % 3 else None).model_copy(
            update={"trajectory_id": row.trajectory_id, "run_id": at.run_id, "round": number}
        )
        for place, row in enumerate(rows)
        for index in range(2)
    ]
    commit_rows(warehouse, at, *rows, *steps)
    ids = [row.trajectory_id for row in rows]
    commit_rows(
        warehouse, judge, *(judgement(name, judge, bool((place + number) % 2)) for place, name in enumerate(ids))
    )
    return ids


def test_an_attempt_that_is_judged_in_a_later_round_counts_in_its_own(run: Warehouse) -> None:
    late = trajectory(9, stage_run("rollout", 1), "q1", attempt=9, steps=2)
    commit_rows(run, stage_run("more", 1), late)
    history, rewards = read_history(run, RUN, 4), reward_moments(run, RUN, 4, ())
    commit_rows(run, stage_run("judge", 4), judgement(late.trajectory_id, stage_run("judge", 4), True))
    assert read_history(run, RUN, 4) == history
    assert read_history(run, RUN, 5).queries["q1"] != history.queries["q1"]
    later = reward_moments(run, RUN, 5, ())
    assert later[0] != rewards[0] and later[1:] == rewards[1:]


def test_excluded_trajectories_are_left_out_of_the_rewards_of_their_round(run: Warehouse) -> None:
    own = commit_round(run, 4)
    some, every = reward_moments(run, RUN, 5, own[:1]), reward_moments(run, RUN, 5, ())
    assert some[:3] == every[:3] and some[3] != every[3]


ASKED = ("a", "b", "c")


def commit_examples(warehouse: Warehouse, number: int) -> None:
    rollout, at = stage_run("rollout", number), stage_run("derive", number)
    made = [examples_of(2 + (number * 3 + place) % 4, f"t{number}{asked}", asked) for place, asked in enumerate(ASKED)]
    ids = [examples[0].trajectory_id for examples in made]
    attempts = zip(ids, ASKED, strict=True)
    commit_rows(
        warehouse,
        rollout,
        *(trajectory(place, rollout, asked, trajectory_id=name) for place, (name, asked) in enumerate(attempts)),
    )
    rows = [row.model_copy(update={"run_id": RUN, "round": number}) for examples in made for row in examples]
    of_kind = {"kind": "step", "made_by": "derive.step/1", "variant": "v", "written_by": "template"}
    steps = [row.model_copy(update=of_kind | {"example_id": f"s{row.example_id}"}) for row in rows]
    commit_rows(warehouse, at, *rows)
    commit_rows(warehouse, stage_run("derive_kind", number), *steps)


def read(warehouse: Warehouse, number: int, wanted: ExampleSet) -> Candidates:
    check = LeakCheck([*map(query, ASKED), HELDOUT], (), CurateSpec())
    return read_candidates(warehouse, Origin(run_id=RUN, round=number, code_version="1"), wanted, check)


def test_rows_of_the_shortest_successes_are_read_with_their_authors_and_leaks(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path)
    for number in range(1, 5):
        commit_examples(warehouse, number)
    for wanted, authors in (
        (SUPERVISED, {"policy-1"}),
        (ExampleSet({"made_by": ["derive.step/1"]}, None), {"template"}),
    ):
        found = read(warehouse, 4, wanted)
        assert found.rows.schema == CANDIDATES and len(set(found.rows["round"].to_pylist())) > 2
        assert (found.offered > found.rows.num_rows) == (wanted.per_query is not None)
        assert set(found.rows["written_by"].to_pylist()) == authors
        assert max(read(warehouse, 3, wanted).rows["round"].to_pylist()) == 3
    [example] = examples_of(1, "leak", "a")
    *asked, reply = example.messages
    near = reply.model_copy(update={"content": HELDOUT.instruction.replace("Book", "I want")})
    leaking = example.model_copy(update={"messages": (*asked, near), "run_id": RUN, "round": 5})
    commit_rows(warehouse, stage_run("derive", 5), leaking)
    assert [leak for leak in read(warehouse, 5, SUPERVISED).rows["leak"].to_pylist() if leak] == ["near_heldout"]
