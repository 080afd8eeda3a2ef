from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.small_run import small_config
from tests.warehouse.samples import at_origin
from trajmill.flows.stage import AwaitedError, RoundContext, StageOutcome, finished, report_of, run_once
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables


def call(number: int, price: float, at: StageRun) -> ModelCall:
    return ModelCall(
        call_id=str(number),
        trajectory_id=None,
        step_index=None,
        role="critic.text",
        payload_hash="hash",
        messages="[]",
        response="yes",
        input_tokens=1,
        output_tokens=1,
        latency_ms=1.0,
        price=price,
        error=None,
        **at_origin(at),
    )


def test_a_stage_costs_what_its_model_calls_cost(tmp_path: Path) -> None:
    context = RoundContext.of(small_config(tmp_path))
    done: list[StageRun] = []

    def work(at: StageRun) -> StageOutcome:
        done.append(at)
        calls = [call(1, 0.25, at), call(2, 0.5, at)]
        return StageOutcome(2, 2, write_tables(context.warehouse, at, {"model_calls": calls}))

    assert run_once(context, "judge", work).count.cost == 0.75
    assert run_once(context, "judge", work).count.cost == 0.75
    assert finished(context, "judge").count.cost == 0.75
    assert len(done) == 1


def test_a_stage_that_awaits_something_is_asked_again_by_the_next_call(tmp_path: Path) -> None:
    context = RoundContext.of(small_config(tmp_path))

    def work(at: StageRun) -> StageOutcome:
        raise AwaitedError("awaiting a policy: load v2")

    for _ in range(2):
        assert run_once(context, "judge", work).waiting == "awaiting a policy: load v2"
    assert report_of(context, "judge") is None
    assert run_once(context, "judge", lambda at: StageOutcome(0, 0)).waiting == ""


def test_a_stage_that_is_not_finished_has_no_report(tmp_path: Path) -> None:
    context = RoundContext.of(small_config(tmp_path))
    assert report_of(context, "judge") is None
    with pytest.raises(TrajmillError, match=r"stage judge of round 1 .* is not finished"):
        finished(context, "judge")
