import json
from pathlib import Path
from typing import Any

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.desktop.task import import_tasks

ORIGIN = Origin(round=0, run_id="test", code_version="test")


def query_of(folder: Path, **said: Any) -> Query:
    """The query of one task; what is not said is left empty."""
    folder.mkdir(exist_ok=True)
    (folder / "task.json").write_text(json.dumps({"id": "a-task", "instruction": "Do it.", **said}))
    (query,) = import_tasks(folder, 0.0, ORIGIN)
    return query


def step(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": kind, "parameters": parameters}
