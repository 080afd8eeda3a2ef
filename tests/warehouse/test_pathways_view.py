"""Pathways per program and per second, as the report names them."""

import pytest

from tests.records import record
from tests.warehouse.samples import at_origin, commit_rows, stage_run
from trajmill.schemas.geometry import Box
from trajmill.schemas.tables.pathway import EndKind, Evidence, Pathway, PathwayStep
from trajmill.schemas.tables.query import Platform
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.sql import run_sql


def pathway(at: StageRun, program: str, name: str, kind: EndKind, after: float, needs: bool | None) -> Pathway:
    step = PathwayStep(role="menu", name=name, target=f"menu:{name}", bounds=Box(1, 2, 3, 4), screen_id="screen")
    return record(
        Pathway,
        pathway_id=Pathway.make_id(program, "{}", (step.target,)),
        platform=Platform.DESKTOP,
        program=program,
        steps=(step,),
        end_kind=kind,
        shows=(Evidence(role="menu_item", text="New", state=""),),
        needs_selection=needs,
        found_after=after,
        **at_origin(at),
    )


@pytest.mark.slow
def test_pathways_by_program_and_rows_come_back_as_they_were(warehouse: Warehouse) -> None:
    at = stage_run()
    rows = [
        pathway(at, "editor", "File", EndKind.MENU, 0.5, False),
        pathway(at, "editor", "Fonts", EndKind.DIALOG, 2.0, True),
        pathway(at, "editor", "Sizes", EndKind.TAB, 1.0, None),
        pathway(at, "files", "File", EndKind.MENU, 0.0, None),
    ]
    commit_rows(warehouse, at, *rows)
    columns = "program, pathways, dialogs, tabs, need_selection, seconds, pathways_per_second"
    assert run_sql(warehouse, f"SELECT {columns} FROM pathways_by_program").to_pylist() == [
        dict(zip(columns.split(", "), ("editor", 3, 1, 1, 1, 2.0, 1.5), strict=True)),
        dict(zip(columns.split(", "), ("files", 1, 0, 0, 0, 0.0, None), strict=True)),
    ]
    read = read_rows(warehouse, Pathway, run_id=at.run_id)
    assert {row.pathway_id: row for row in read} == {row.pathway_id: row for row in rows} and len(read) == len(rows)
