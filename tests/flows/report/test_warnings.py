from __future__ import annotations

from dataclasses import replace

import pytest

from trajmill.flows.report.charts import Series, Share
from trajmill.flows.report.figures import Figures, JudgeCell, JudgeColumn, ModelRow, Totals
from trajmill.flows.report.page import warnings

QUIET = Figures("run-a", (1, 2), Totals(0, 0, 0, 0, 0.0), (), (), (), (), (), (), (), (), (), (), (), (), ())


def version(number: int, promoted: bool) -> ModelRow:
    return ModelRow(number, f"policy-{number}", None, promoted, "", 1, None, None, None, None, None)


def success(*shares: tuple[float, float, float]) -> Series:
    return Series("new apps", tuple(Share(number, *share) for number, share in enumerate(shares)))


def judged(*kappas: float | None) -> JudgeColumn:
    return JudgeColumn("step", tuple(JudgeCell(1.0, 1.0, kappa, 10) for kappa in kappas))


def test_a_split_that_fell_while_versions_were_promoted() -> None:
    fell = success((0.1, 0.0, 0.2), (0.6, 0.5, 0.7), (0.3, 0.2, 0.4))
    [line] = warnings(replace(QUIET, success=(fell,), models=(version(1, True), version(2, True))))
    assert line == "Success on new apps fell from 60% after round 1 to 30% after round 2, while 1 version was promoted"


@pytest.mark.parametrize(
    ("shares", "promoted"),
    [
        (((0.6, 0.5, 0.7), (0.3, 0.2, 0.4)), False),
        (((0.6, 0.5, 0.7), (0.4, 0.3, 0.5)), True),
        (((0.3, 0.2, 0.4), (0.6, 0.5, 0.7)), True),
    ],
)
def test_what_is_no_fall(shares: tuple[tuple[float, float, float], ...], promoted: bool) -> None:
    assert warnings(replace(QUIET, success=(success(*shares),), models=(version(1, promoted),))) == ()


def test_a_kappa_that_fell() -> None:
    [line] = warnings(replace(QUIET, judge=(judged(0.9, 0.7),)))
    assert line.startswith("Kappa of the judge's level 'step' fell from 0.90 in round 1 to 0.70 in round 2")
    assert warnings(replace(QUIET, judge=(judged(0.9, 0.85), judged(None, None), judged(0.5, 0.9)))) == ()
