from __future__ import annotations

import io

import pytest
from PIL import Image

from trajmill.flows.configuration.config import Config
from trajmill.flows.deriving import derive_kind
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Refusal
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.screens import WarehouseScreens

pytestmark = pytest.mark.slow


def derived(config: Config) -> list[Example]:
    rows = read_rows(open_warehouse(config.run.root), Example, run_id=config.run_id)
    return [row for row in rows if row.kind != "end_to_end"]


def test_a_kind_is_derived_once_from_each_trajectory(copied: Config) -> None:
    made = derive_kind(copied, "step")
    rows = derived(copied)
    assert made.examples == len(rows) > 0
    assert {row.round for row in rows} == {1, 2}
    refusals = read_rows(open_warehouse(copied.run.root), Refusal, run_id=copied.run_id)
    assert sum(row.count for row in refusals) == sum(made.refused.values()) > 0
    again = derive_kind(copied, "step")
    assert (again.trajectories, again.examples) == (0, 0)
    assert derived(copied) == rows


def test_other_settings_derive_rows_of_another_version(copied: Config) -> None:
    derive_kind(copied, "step")
    without_failed = copied.derive.model_copy(
        update={"step": copied.derive.step.model_copy(update={"failed": False, "self_corrections": False})}
    )
    made = derive_kind(copied.model_copy(update={"derive": without_failed}), "step")
    versions = {row.made_by for row in derived(copied)}
    assert len(versions) == 2
    assert made.refused["judged_incorrect"] > 0


def test_a_batch_that_was_interrupted_before_its_commit_is_finished(
    copied: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("trajmill.flows.stage.commit_stage", killed)
        with pytest.raises(KeyboardInterrupt):
            derive_kind(copied, "step")
    assert derived(copied) == []
    made = derive_kind(copied, "step")
    rows = derived(copied)
    assert len({row.example_id for row in rows}) == len(rows) == made.examples > 0


def test_an_unknown_kind_gives_one_error_line_with_the_nearest(copied: Config) -> None:
    with pytest.raises(BadInputError, match="there is no derived data of kind 'stepp'; did you mean step"):
        derive_kind(copied, "stepp")


@pytest.mark.slow
def test_each_screen_is_grounded_once_and_every_image_opens(derived_run: Config) -> None:
    rows = [row for row in derived(derived_run) if row.kind == "grounding"]
    screens = WarehouseScreens(open_warehouse(derived_run.run.root))
    seen = {(row.round, row.source_screens): (row.trajectory_id, row.step_index) for row in rows}
    assert all(seen[row.round, row.source_screens] == (row.trajectory_id, row.step_index) for row in rows)
    assert len({source for _, source in seen}) == len(seen)
    for screen_id in {row.screens[0] for row in rows if row.variant == "dense"}:
        with Image.open(io.BytesIO(screens.image(screen_id))) as image:
            assert image.size == screens.size(screen_id)
