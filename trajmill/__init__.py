"""trajmill produces trajectories of GUI agents, and makes the agent that produces them better, round after round.

This module is the public API; everything else in the package is private and may change with any version. The notebook
`docs/notebook.md` shows how to use it. A name is imported when it is first used, so that `import trajmill` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trajmill.schemas.actions import Action as Action
    from trajmill.schemas.actions import Answer as Answer
    from trajmill.schemas.actions import Click as Click
    from trajmill.schemas.actions import Drag as Drag
    from trajmill.schemas.actions import DragTo as DragTo
    from trajmill.schemas.actions import HorizontalScroll as HorizontalScroll
    from trajmill.schemas.actions import Interact as Interact
    from trajmill.schemas.actions import LongPress as LongPress
    from trajmill.schemas.actions import MoveMouse as MoveMouse
    from trajmill.schemas.actions import OpenApp as OpenApp
    from trajmill.schemas.actions import PressKeys as PressKeys
    from trajmill.schemas.actions import Scroll as Scroll
    from trajmill.schemas.actions import Swipe as Swipe
    from trajmill.schemas.actions import SwitchDevice as SwitchDevice
    from trajmill.schemas.actions import SystemButton as SystemButton
    from trajmill.schemas.actions import Terminate as Terminate
    from trajmill.schemas.actions import TypeText as TypeText
    from trajmill.schemas.actions import Wait as Wait
    from trajmill.schemas.actions import action_from_json as action_from_json
    from trajmill.schemas.actions import action_to_json as action_to_json
    from trajmill.schemas.coordinates import CoordinateFrame as CoordinateFrame
    from trajmill.schemas.coordinates import CoordinateSpace as CoordinateSpace
    from trajmill.schemas.dialects.base import Dialect as Dialect
    from trajmill.schemas.dialects.base import ParseFailure as ParseFailure
    from trajmill.schemas.dialects.base import Reply as Reply
    from trajmill.schemas.dialects.families import FAMILIES as FAMILIES
    from trajmill.schemas.dialects.families import Family as Family
    from trajmill.schemas.dialects.families import family_named as family_named
    from trajmill.schemas.dialects.user_text import end_to_end_prompt as end_to_end_prompt
    from trajmill.schemas.episode import Episode as Episode
    from trajmill.schemas.errors import BadInputError as BadInputError
    from trajmill.schemas.errors import EnvironmentFailure as EnvironmentFailure
    from trajmill.schemas.errors import FailureClass as FailureClass
    from trajmill.schemas.errors import TrajmillError as TrajmillError
    from trajmill.schemas.geometry import Box as Box
    from trajmill.schemas.geometry import Point as Point
    from trajmill.schemas.geometry import Size as Size
    from trajmill.schemas.observation import Observation as Observation
    from trajmill.schemas.observation import ScreenReader as ScreenReader
    from trajmill.schemas.observation import UIElement as UIElement
    from trajmill.schemas.record import Origin as Origin
    from trajmill.schemas.spec import OPERATIONAL as OPERATIONAL
    from trajmill.schemas.spec import Spec as Spec
    from trajmill.schemas.tables.example import Example as Example
    from trajmill.schemas.tables.example import Message as Message
    from trajmill.schemas.tables.query import PathStep as PathStep
    from trajmill.schemas.tables.query import Platform as Platform
    from trajmill.schemas.tables.query import Query as Query
    from trajmill.schemas.tables.query import Split as Split
    from trajmill.schemas.tables.registry import rows_to_arrow as rows_to_arrow
    from trajmill.schemas.tables.screen import ObservedScreens as ObservedScreens
    from trajmill.schemas.tables.trajectory import Purpose as Purpose
    from trajmill.schemas.tables.trajectory import Trajectory as Trajectory
    from trajmill.schemas.tables.verdict import Channel as Channel
    from trajmill.schemas.tables.verdict import StepLabel as StepLabel
    from trajmill.stages.agents.base import Agent as Agent
    from trajmill.stages.agents.base import AgentMaker as AgentMaker
    from trajmill.stages.agents.base import AgentModel as AgentModel
    from trajmill.stages.agents.base import Decision as Decision
    from trajmill.stages.agents.base import EpisodeView as EpisodeView
    from trajmill.stages.agents.spec import AgentSpec as AgentSpec
    from trajmill.stages.agents.spec import EndToEndSpec as EndToEndSpec
    from trajmill.stages.agents.spec import ExplorerSpec as ExplorerSpec
    from trajmill.stages.agents.spec import ReferenceSpec as ReferenceSpec
    from trajmill.stages.critics.app_graph.channels import annotated_judge as annotated_judge
    from trajmill.stages.critics.judge import judge_episode as judge_episode
    from trajmill.stages.critics.spec import CriticModels as CriticModels
    from trajmill.stages.critics.spec import JudgeSpec as JudgeSpec
    from trajmill.stages.critics.spec import StepCriticSpec as StepCriticSpec
    from trajmill.stages.critics.spec import TrajectoryCriticSpec as TrajectoryCriticSpec
    from trajmill.stages.critics.voting import StepCritic as StepCritic
    from trajmill.stages.critics.voting import StepResult as StepResult
    from trajmill.stages.critics.voting import TrajectoryCritic as TrajectoryCritic
    from trajmill.stages.critics.voting import Vote as Vote
    from trajmill.stages.critics.voting import vote_of as vote_of
    from trajmill.stages.derive.collected import Collected as Collected
    from trajmill.stages.derive.collected import DerivedRows as DerivedRows
    from trajmill.stages.derive.collected import Deriver as Deriver
    from trajmill.stages.derive.collected import Lesson as Lesson
    from trajmill.stages.derive.kind_spec import KindSpec as KindSpec
    from trajmill.stages.derive.kind_spec import Tools as Tools
    from trajmill.stages.derive.step_data import end_to_end_examples as end_to_end_examples
    from trajmill.stages.environments.base import ComparesState as ComparesState
    from trajmill.stages.environments.base import Environment as Environment
    from trajmill.stages.environments.base import EnvironmentFactory as EnvironmentFactory
    from trajmill.stages.environments.base import Restorable as Restorable
    from trajmill.stages.environments.base import make_observation as make_observation
    from trajmill.stages.environments.kinds import SimulatedSpec as SimulatedSpec
    from trajmill.stages.environments.openenv.client import EnvironmentClient as EnvironmentClient
    from trajmill.stages.environments.openenv.trl import TrlDesktop as TrlDesktop
    from trajmill.stages.environments.openenv.trl import TrlPhone as TrlPhone
    from trajmill.stages.environments.openenv.wire import WireAction as WireAction
    from trajmill.stages.environments.spec import EnvironmentSpec as EnvironmentSpec
    from trajmill.stages.environments.spec import TaskFileSpec as TaskFileSpec
    from trajmill.stages.environments.tasks import ImportedQueries as ImportedQueries
    from trajmill.stages.environments.tasks import TaskLine as TaskLine
    from trajmill.stages.environments.tasks import own_query as own_query
    from trajmill.stages.export.exporter import Exporter as Exporter
    from trajmill.stages.export.exporter import exporter_spec as exporter_spec
    from trajmill.stages.export.formats.base import TrainerFormat as TrainerFormat
    from trajmill.stages.export.formats.exchange import ExchangeFormat as ExchangeFormat
    from trajmill.stages.export.release import export_release as export_release
    from trajmill.stages.export.rewards import action_rewards as action_rewards
    from trajmill.stages.export.rewards import ces_rewards as ces_rewards
    from trajmill.stages.export.rewards import coda_rewards as coda_rewards
    from trajmill.stages.export.rewards import compute_score as compute_score
    from trajmill.stages.guidance.write import write_guidance as write_guidance
    from trajmill.stages.importing.base import LayoutSpec as LayoutSpec
    from trajmill.stages.importing.base import RecordedScreen as RecordedScreen
    from trajmill.stages.importing.base import RecordedStep as RecordedStep
    from trajmill.stages.importing.base import Recording as Recording
    from trajmill.stages.models.base import ChatMessage as ChatMessage
    from trajmill.stages.models.base import ChatModel as ChatModel
    from trajmill.stages.models.base import ChatRequest as ChatRequest
    from trajmill.stages.models.base import Completion as Completion
    from trajmill.stages.models.embedded.model import embedded_model as embedded_model
    from trajmill.stages.models.embedded.model import load_embedded_model as load_embedded_model
    from trajmill.stages.models.embedded.model import untrained_network as untrained_network
    from trajmill.stages.models.spec import ModelSpec as ModelSpec
    from trajmill.stages.queries.base import Candidate as Candidate
    from trajmill.stages.queries.base import Goal as Goal
    from trajmill.stages.queries.base import GrammarWriter as GrammarWriter
    from trajmill.stages.queries.base import Offer as Offer
    from trajmill.stages.queries.base import QuerySource as QuerySource
    from trajmill.stages.queries.base import SourceContext as SourceContext
    from trajmill.stages.queries.base import SplitCandidates as SplitCandidates
    from trajmill.stages.queries.spec import GraphQueriesSpec as GraphQueriesSpec
    from trajmill.stages.queries.spec import QuerySourceSpec as QuerySourceSpec
    from trajmill.stages.queries.tasks.source import draw_goals as draw_goals
    from trajmill.stages.queries.tasks.source import generate_queries as generate_queries
    from trajmill.stages.rollout.base import Attempt as Attempt
    from trajmill.stages.rollout.base import Limits as Limits
    from trajmill.stages.rollout.episode import run_episode as run_episode
    from trajmill.stages.training.embedded.spec import EmbeddedSftSpec as EmbeddedSftSpec
    from trajmill.stages.training.spec import ParentPolicy as ParentPolicy
    from trajmill.stages.training.spec import RecipeSpec as RecipeSpec
    from trajmill.stages.training.spec import TrainingReport as TrainingReport
    from trajmill.warehouse.layout import Warehouse as Warehouse
    from trajmill.warehouse.layout import create_warehouse as create_warehouse
    from trajmill.warehouse.layout import open_warehouse as open_warehouse
    from trajmill.warehouse.read import read_batches as read_batches
    from trajmill.warehouse.read import read_rows as read_rows
    from trajmill.warehouse.read import read_table as read_table
    from trajmill.warehouse.releases import newest_release as newest_release
    from trajmill.warehouse.releases import release_folder as release_folder
    from trajmill.warehouse.sql import run_sql as run_sql

_NAMES = (
    # A warehouse, and its rows as Arrow, records or by DuckDB
    ("warehouse.layout", "Warehouse create_warehouse open_warehouse"),
    ("warehouse.read", "read_table read_batches read_rows"),
    ("warehouse.sql", "run_sql"),
    ("warehouse.releases", "newest_release release_folder"),
    # What a model writes
    ("schemas.dialects.families", "FAMILIES Family family_named"),
    ("schemas.dialects.base", "Reply ParseFailure"),
    ("schemas.actions", "action_from_json action_to_json"),
    ("schemas.geometry", "Size"),
    # A world and its queries
    ("stages.environments.kinds", "SimulatedSpec"),
    ("stages.environments.spec", "EnvironmentSpec"),
    ("schemas.tables.query", "Platform Query"),
    ("schemas.record", "Origin"),
    ("stages.queries.spec", "GraphQueriesSpec"),
    ("stages.queries.base", "GrammarWriter"),
    ("stages.queries.tasks.source", "generate_queries"),
    # An agent and its episode
    ("stages.agents.base", "AgentModel"),
    ("stages.agents.spec", "EndToEndSpec ExplorerSpec ReferenceSpec"),
    ("stages.models.embedded.model", "embedded_model load_embedded_model untrained_network"),
    ("stages.rollout.base", "Attempt Limits"),
    ("stages.rollout.episode", "run_episode"),
    ("schemas.episode", "Episode"),
    ("schemas.tables.trajectory", "Purpose Trajectory"),
    ("schemas.tables.screen", "ObservedScreens"),
    # Judging, guiding, deriving, exporting
    ("stages.guidance.write", "write_guidance"),
    ("stages.critics.app_graph.channels", "annotated_judge"),
    ("stages.critics.judge", "judge_episode"),
    ("stages.critics.spec", "JudgeSpec CriticModels"),
    ("stages.derive.step_data", "end_to_end_examples"),
    ("schemas.tables.registry", "rows_to_arrow"),
    ("stages.export.exporter", "exporter_spec"),
    ("stages.export.release", "export_release"),
    # Actions and screens
    (
        "schemas.actions",
        "Action Click LongPress Swipe Drag DragTo MoveMouse Scroll HorizontalScroll TypeText",
    ),
    ("schemas.actions", "PressKeys SystemButton OpenApp Wait Interact SwitchDevice Answer Terminate"),
    ("schemas.geometry", "Point Box"),
    ("schemas.observation", "Observation UIElement ScreenReader"),
    ("schemas.coordinates", "CoordinateSpace CoordinateFrame"),
    # Every part of your own
    ("schemas.spec", "Spec OPERATIONAL"),
    ("schemas.errors", "TrajmillError BadInputError EnvironmentFailure FailureClass"),
    # Environments and query sources of your own
    ("stages.environments.base", "Environment EnvironmentFactory Restorable ComparesState make_observation"),
    ("stages.environments.spec", "TaskFileSpec"),
    ("stages.environments.tasks", "TaskLine ImportedQueries own_query"),
    ("schemas.tables.query", "PathStep Split"),
    ("stages.queries.spec", "QuerySourceSpec"),
    ("stages.queries.base", "QuerySource SourceContext Goal Candidate SplitCandidates Offer"),
    ("stages.queries.tasks.source", "draw_goals"),
    # Agents, models and families of your own
    ("stages.agents.spec", "AgentSpec"),
    ("stages.agents.base", "Agent AgentMaker EpisodeView Decision"),
    ("schemas.dialects.user_text", "end_to_end_prompt"),
    ("stages.models.spec", "ModelSpec"),
    ("stages.models.base", "ChatModel ChatRequest ChatMessage Completion"),
    ("schemas.dialects.base", "Dialect"),
    # Critics and recipes of your own
    ("stages.critics.spec", "StepCriticSpec TrajectoryCriticSpec"),
    ("stages.critics.voting", "StepCritic StepResult TrajectoryCritic Vote vote_of"),
    ("schemas.tables.verdict", "Channel StepLabel"),
    ("stages.training.spec", "RecipeSpec ParentPolicy TrainingReport"),
    ("stages.training.embedded.spec", "EmbeddedSftSpec"),
    # Data, formats and imports of your own
    ("stages.derive.kind_spec", "KindSpec Tools"),
    ("stages.derive.collected", "Deriver Collected Lesson DerivedRows"),
    ("schemas.tables.example", "Example Message"),
    ("stages.export.exporter", "Exporter"),
    ("stages.export.formats.base", "TrainerFormat"),
    ("stages.export.formats.exchange", "ExchangeFormat"),
    ("stages.importing.base", "LayoutSpec Recording RecordedStep RecordedScreen"),
    # Online training and rewards
    ("stages.environments.openenv.client", "EnvironmentClient"),
    ("stages.environments.openenv.wire", "WireAction"),
    ("stages.environments.openenv.trl", "TrlPhone TrlDesktop"),
    ("stages.export.rewards", "ces_rewards coda_rewards action_rewards compute_score"),
)
_HOMES = {name: module for module, names in _NAMES for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    """Import a name of the public API from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
