"""The public API by what it is for; `__init__.py` imports a name from here when it is first used."""

# A warehouse, and its rows as Arrow, records or by DuckDB
from trajmill.warehouse.layout import Warehouse as Warehouse, create_warehouse as create_warehouse
from trajmill.warehouse.layout import open_warehouse as open_warehouse
from trajmill.warehouse.read import read_table as read_table, read_batches as read_batches, read_rows as read_rows
from trajmill.warehouse.sql import run_sql as run_sql
from trajmill.warehouse.releases import newest_release as newest_release, release_folder as release_folder

# What a model writes
from trajmill.schemas.dialects.families import FAMILIES as FAMILIES, Family as Family, family_named as family_named
from trajmill.schemas.dialects.base import Reply as Reply, ParseFailure as ParseFailure
from trajmill.schemas.actions import action_from_json as action_from_json, action_to_json as action_to_json
from trajmill.schemas.geometry import Size as Size

# A world and its queries
from trajmill.stages.environments.kinds import SimulatedSpec as SimulatedSpec
from trajmill.stages.environments.spec import EnvironmentSpec as EnvironmentSpec
from trajmill.schemas.tables.query import Platform as Platform, Query as Query
from trajmill.schemas.record import Origin as Origin
from trajmill.stages.queries.spec import GraphQueriesSpec as GraphQueriesSpec
from trajmill.stages.queries.base import GrammarWriter as GrammarWriter
from trajmill.stages.queries.tasks.source import generate_queries as generate_queries

# An agent and its episode
from trajmill.stages.agents.base import AgentModel as AgentModel
from trajmill.stages.agents.spec import EndToEndSpec as EndToEndSpec, ExplorerSpec as ExplorerSpec
from trajmill.stages.agents.spec import ReferenceSpec as ReferenceSpec
from trajmill.stages.models.embedded.model import embedded_model as embedded_model
from trajmill.stages.models.embedded.model import load_embedded_model as load_embedded_model
from trajmill.stages.models.embedded.model import untrained_network as untrained_network
from trajmill.stages.rollout.base import Attempt as Attempt, Limits as Limits
from trajmill.stages.rollout.episode import run_episode as run_episode
from trajmill.schemas.episode import Episode as Episode
from trajmill.schemas.tables.trajectory import Purpose as Purpose, Trajectory as Trajectory
from trajmill.schemas.tables.screen import ObservedScreens as ObservedScreens

# Judging, guiding, deriving, exporting
from trajmill.stages.guidance.write import write_guidance as write_guidance
from trajmill.stages.critics.app_graph.channels import annotated_judge as annotated_judge
from trajmill.stages.critics.judge import judge_episode as judge_episode
from trajmill.stages.critics.spec import JudgeSpec as JudgeSpec, CriticModels as CriticModels
from trajmill.stages.derive.step_data import end_to_end_examples as end_to_end_examples
from trajmill.schemas.tables.registry import rows_to_arrow as rows_to_arrow
from trajmill.stages.export.exporter import exporter_spec as exporter_spec
from trajmill.stages.export.release import export_release as export_release

# Actions and screens
from trajmill.schemas.actions import Action as Action, Click as Click, LongPress as LongPress, Swipe as Swipe
from trajmill.schemas.actions import Drag as Drag, DragTo as DragTo, MoveMouse as MoveMouse, Scroll as Scroll
from trajmill.schemas.actions import HorizontalScroll as HorizontalScroll, TypeText as TypeText
from trajmill.schemas.actions import PressKeys as PressKeys, SystemButton as SystemButton, OpenApp as OpenApp
from trajmill.schemas.actions import Wait as Wait, Interact as Interact, SwitchDevice as SwitchDevice, Answer as Answer
from trajmill.schemas.actions import Terminate as Terminate
from trajmill.schemas.geometry import Point as Point, Box as Box
from trajmill.schemas.observation import Observation as Observation, UIElement as UIElement
from trajmill.schemas.observation import ScreenReader as ScreenReader
from trajmill.schemas.coordinates import CoordinateSpace as CoordinateSpace, CoordinateFrame as CoordinateFrame

# Every part of your own
from trajmill.schemas.spec import Spec as Spec, OPERATIONAL as OPERATIONAL
from trajmill.schemas.errors import TrajmillError as TrajmillError, BadInputError as BadInputError
from trajmill.schemas.errors import EnvironmentFailure as EnvironmentFailure, FailureClass as FailureClass

# Environments and query sources of your own
from trajmill.stages.environments.base import Environment as Environment, EnvironmentFactory as EnvironmentFactory
from trajmill.stages.environments.base import Restorable as Restorable, ComparesState as ComparesState
from trajmill.stages.environments.base import make_observation as make_observation
from trajmill.stages.environments.spec import TaskFileSpec as TaskFileSpec
from trajmill.stages.environments.tasks import TaskLine as TaskLine, ImportedQueries as ImportedQueries
from trajmill.stages.environments.tasks import own_query as own_query
from trajmill.schemas.tables.query import PathStep as PathStep, Split as Split
from trajmill.stages.queries.spec import QuerySourceSpec as QuerySourceSpec
from trajmill.stages.queries.base import QuerySource as QuerySource, SourceContext as SourceContext, Goal as Goal
from trajmill.stages.queries.base import Candidate as Candidate, SplitCandidates as SplitCandidates, Offer as Offer
from trajmill.stages.queries.tasks.source import draw_goals as draw_goals

# Agents, models and families of your own
from trajmill.stages.agents.spec import AgentSpec as AgentSpec
from trajmill.stages.agents.base import Agent as Agent, AgentMaker as AgentMaker, EpisodeView as EpisodeView
from trajmill.stages.agents.base import Decision as Decision
from trajmill.schemas.dialects.user_text import end_to_end_prompt as end_to_end_prompt
from trajmill.stages.models.spec import ModelSpec as ModelSpec
from trajmill.stages.models.base import ChatModel as ChatModel, ChatRequest as ChatRequest, ChatMessage as ChatMessage
from trajmill.stages.models.base import Completion as Completion
from trajmill.schemas.dialects.base import Dialect as Dialect

# Critics and recipes of your own
from trajmill.stages.critics.spec import StepCriticSpec as StepCriticSpec, TrajectoryCriticSpec as TrajectoryCriticSpec
from trajmill.stages.critics.voting import StepCritic as StepCritic, StepResult as StepResult
from trajmill.stages.critics.voting import TrajectoryCritic as TrajectoryCritic, Vote as Vote, vote_of as vote_of
from trajmill.schemas.tables.verdict import Channel as Channel, StepLabel as StepLabel
from trajmill.stages.training.spec import RecipeSpec as RecipeSpec, ParentPolicy as ParentPolicy
from trajmill.stages.training.spec import TrainingReport as TrainingReport
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec as EmbeddedSftSpec

# Data, formats and imports of your own
from trajmill.stages.derive.kind_spec import KindSpec as KindSpec, Tools as Tools
from trajmill.stages.derive.collected import Deriver as Deriver, Collected as Collected, Lesson as Lesson
from trajmill.stages.derive.collected import DerivedRows as DerivedRows
from trajmill.schemas.tables.example import Example as Example, Message as Message
from trajmill.stages.export.exporter import Exporter as Exporter
from trajmill.stages.export.formats.base import TrainerFormat as TrainerFormat
from trajmill.stages.export.formats.exchange import ExchangeFormat as ExchangeFormat
from trajmill.stages.importing.base import LayoutSpec as LayoutSpec, Recording as Recording
from trajmill.stages.importing.base import RecordedStep as RecordedStep, RecordedScreen as RecordedScreen

# Online training and rewards
from trajmill.stages.environments.openenv.client import EnvironmentClient as EnvironmentClient
from trajmill.stages.environments.openenv.wire import WireAction as WireAction
from trajmill.stages.environments.openenv.trl import TrlPhone as TrlPhone, TrlDesktop as TrlDesktop
from trajmill.stages.export.rewards import ces_rewards as ces_rewards, coda_rewards as coda_rewards
from trajmill.stages.export.rewards import action_rewards as action_rewards, compute_score as compute_score

__all__: list[str]
