from __future__ import annotations

import pytest

from tests.flows.synthetic_run import RUN
from trajmill.flows.configuration.config import Config
from trajmill.flows.nights.nightly import Landed, landed_in
from trajmill.flows.stage import RoundContext
from trajmill.warehouse.layout import Warehouse

pytestmark = pytest.mark.slow


def test_what_landed_is_counted_and_nights_of_several_rounds_add_up(run_warehouse: Warehouse) -> None:
    first, second = (landed_in(RoundContext(Config(), run_warehouse, number, RUN)) for number in (1, 2))
    assert first.line() == ("round 1: 4 of 4 attempts finished, 1 of them guided; 2 accepted, environment failures: 1")
    both = first + second
    assert (both.rounds, both.attempts, both.accepted, both.guided) == ((1, 2), 8, 6, 2)
    assert both.failures == {"environment": 2}
    assert "| accepted since the last training | 4 |" in both.markdown(accepted_since_training=4)


def test_a_night_in_which_nothing_finished_is_empty(run_warehouse: Warehouse) -> None:
    assert landed_in(RoundContext(Config(), run_warehouse, 9, RUN)).finished == Landed().finished == 0
