"""trajmill produces trajectories of GUI agents, and makes the agent that produces them better, round after round.

This module is the public API; everything else in the package is private and may change with any version. The notebook
`docs/notebook.md` shows how to use it. A name is imported when it is first used, so that `import trajmill` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trajmill.schemas.actions import action_from_json as action_from_json
    from trajmill.schemas.actions import action_to_json as action_to_json
    from trajmill.schemas.dialects.base import ParseFailure as ParseFailure
    from trajmill.schemas.dialects.base import Reply as Reply
    from trajmill.schemas.dialects.families import FAMILIES as FAMILIES
    from trajmill.schemas.dialects.families import Family as Family
    from trajmill.schemas.dialects.families import family_named as family_named
    from trajmill.schemas.episode import Episode as Episode
    from trajmill.schemas.errors import TrajmillError as TrajmillError
    from trajmill.schemas.geometry import Size as Size
    from trajmill.schemas.record import Origin as Origin
    from trajmill.schemas.spec import OPERATIONAL as OPERATIONAL
    from trajmill.schemas.spec import Spec as Spec
    from trajmill.schemas.tables.query import Platform as Platform
    from trajmill.schemas.tables.query import Query as Query
    from trajmill.schemas.tables.registry import rows_to_arrow as rows_to_arrow
    from trajmill.schemas.tables.screen import ObservedScreens as ObservedScreens
    from trajmill.schemas.tables.trajectory import Purpose as Purpose
    from trajmill.schemas.tables.trajectory import Trajectory as Trajectory
    from trajmill.stages.agents.base import AgentModel as AgentModel
    from trajmill.stages.agents.spec import EndToEndSpec as EndToEndSpec
    from trajmill.stages.agents.spec import ExplorerSpec as ExplorerSpec
    from trajmill.stages.agents.spec import ReferenceSpec as ReferenceSpec
    from trajmill.stages.critics.app_graph.channels import annotated_judge as annotated_judge
    from trajmill.stages.critics.judge import judge_episode as judge_episode
    from trajmill.stages.critics.spec import CriticModels as CriticModels
    from trajmill.stages.critics.spec import JudgeSpec as JudgeSpec
    from trajmill.stages.derive.step_data import end_to_end_examples as end_to_end_examples
    from trajmill.stages.environments.kinds import SimulatedSpec as SimulatedSpec
    from trajmill.stages.environments.spec import EnvironmentSpec as EnvironmentSpec
    from trajmill.stages.export.exporter import exporter_spec as exporter_spec
    from trajmill.stages.export.release import export_release as export_release
    from trajmill.stages.guidance.write import write_guidance as write_guidance
    from trajmill.stages.models.embedded.model import embedded_model as embedded_model
    from trajmill.stages.models.embedded.model import load_embedded_model as load_embedded_model
    from trajmill.stages.models.embedded.model import untrained_network as untrained_network
    from trajmill.stages.queries.base import GrammarWriter as GrammarWriter
    from trajmill.stages.queries.spec import GraphQueriesSpec as GraphQueriesSpec
    from trajmill.stages.queries.tasks.source import generate_queries as generate_queries
    from trajmill.stages.rollout.base import Attempt as Attempt
    from trajmill.stages.rollout.base import Limits as Limits
    from trajmill.stages.rollout.episode import run_episode as run_episode
    from trajmill.warehouse.layout import Warehouse as Warehouse
    from trajmill.warehouse.layout import create_warehouse as create_warehouse
    from trajmill.warehouse.layout import open_warehouse as open_warehouse
    from trajmill.warehouse.read import read_batches as read_batches
    from trajmill.warehouse.read import read_rows as read_rows
    from trajmill.warehouse.read import read_table as read_table
    from trajmill.warehouse.releases import newest_release as newest_release
    from trajmill.warehouse.releases import release_folder as release_folder
    from trajmill.warehouse.sql import run_sql as run_sql

_NAMES = {
    # A warehouse, and its rows as Arrow, records or by DuckDB
    "warehouse.layout": "Warehouse create_warehouse open_warehouse",
    "warehouse.read": "read_table read_batches read_rows",
    "warehouse.sql": "run_sql",
    "warehouse.releases": "newest_release release_folder",
    # What a model writes
    "schemas.dialects.families": "FAMILIES Family family_named",
    "schemas.dialects.base": "Reply ParseFailure",
    "schemas.actions": "action_from_json action_to_json",
    "schemas.geometry": "Size",
    # A world and its queries
    "stages.environments.kinds": "SimulatedSpec",
    "stages.environments.spec": "EnvironmentSpec",
    "schemas.tables.query": "Platform Query",
    "schemas.record": "Origin",
    "stages.queries.spec": "GraphQueriesSpec",
    "stages.queries.base": "GrammarWriter",
    "stages.queries.tasks.source": "generate_queries",
    # An agent and its episode
    "stages.agents.base": "AgentModel",
    "stages.agents.spec": "EndToEndSpec ExplorerSpec ReferenceSpec",
    "stages.models.embedded.model": "embedded_model load_embedded_model untrained_network",
    "stages.rollout.base": "Attempt Limits",
    "stages.rollout.episode": "run_episode",
    "schemas.episode": "Episode",
    "schemas.tables.trajectory": "Purpose Trajectory",
    "schemas.tables.screen": "ObservedScreens",
    # Judging, guiding, deriving, exporting
    "stages.guidance.write": "write_guidance",
    "stages.critics.app_graph.channels": "annotated_judge",
    "stages.critics.judge": "judge_episode",
    "stages.critics.spec": "JudgeSpec CriticModels",
    "stages.derive.step_data": "end_to_end_examples",
    "schemas.tables.registry": "rows_to_arrow",
    "stages.export.exporter": "exporter_spec",
    "stages.export.release": "export_release",
    # Parts of your own
    "schemas.spec": "Spec OPERATIONAL",
    "schemas.errors": "TrajmillError",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Import a name of the public API from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
