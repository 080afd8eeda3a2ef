"""A recipe that trains on a derived kind gets its rows in each round."""

from __future__ import annotations

import pytest

from trajmill.flows.configuration.config import Config
from trajmill.flows.deriving import derive_in_round
from trajmill.flows.round import stages_of
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.release import DERIVE_KIND, release_again
from trajmill.schemas.tables.example import Example
from trajmill.stages.export.exporter import SftExporter
from trajmill.stages.export.release import released_rows
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows


def test_the_stage_is_wanted_only_by_a_recipe_that_trains_on_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DERIVE_KIND not in {stage.name for stage in stages_of(Config())}
    monkeypatch.setattr(EmbeddedSftSpec, "learns_kind", "rft")
    names = [stage.name for stage in stages_of(Config())]
    assert names.index("derive") < names.index(DERIVE_KIND) < names.index("release")


@pytest.mark.slow
def test_a_release_has_the_rows_of_all_rounds(copied: Config) -> None:
    warehouse = open_warehouse(copied.run.root)
    made = derive_in_round(RoundContext(copied, warehouse, 2), "rft")
    rows = [row for row in read_rows(warehouse, Example) if row.kind == "rft"]
    assert made.examples == len(rows) > 0
    released = released_rows(
        warehouse.release(release_again(copied)) / "rft", SftExporter(derived_kind="rft").file, ["example_id"]
    )
    assert set(released["example_id"].to_pylist()) <= {row.example_id for row in rows}
