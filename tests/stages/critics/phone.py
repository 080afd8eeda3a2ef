"""Walks on the simulated devices with their screens, pixels and trees, for critics that ask a model."""

import asyncio
from dataclasses import dataclass
from functools import cache
from random import Random

from tests.stages.critics.little_app import ORIGIN
from tests.stages.environments.simulated.worlds import task_of
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.critics.voting import StepResult
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World, shared_world
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.queries.base import Candidate, GrammarWriter, draft
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.ends import absent_goals
from trajmill.stages.queries.tasks.source import draw_goals, generate_queries
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode


class StoredScreens(ObservedScreens):
    """The screens of a walk; `broken` ones do not decode; `read` are the ids of the images that were asked for."""

    def __init__(
        self, observations: dict[str, Observation] | None = None, has_trees: bool = True, broken: bool = False
    ) -> None:
        self.observations = {} if observations is None else observations
        super().__init__(self.observations)
        self.has_trees, self.broken, self.read = has_trees, broken, list[str]()

    def image(self, screen_id: str) -> bytes:
        self.read.append(screen_id)
        encoded = super().image(screen_id)
        return encoded[: len(encoded) // 2] if self.broken else encoded

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return super().elements(screen_id) if self.has_trees else ()


@dataclass(frozen=True)
class PhoneWalk:
    episode: Episode
    observations: dict[str, Observation]

    def screens(self, has_trees: bool = True, broken: bool = False) -> StoredScreens:
        return StoredScreens(dict(self.observations), has_trees, broken)


async def queries_of(train: int, seed: int = 5, world: World | None = None) -> tuple[Query, ...]:
    others = ["heldout_slots", "heldout_phrasings", "heldout_apps", "validation", "infeasible", "answers"]
    settings = GraphQueriesSpec(train=train, heldout_app_names=(), **dict.fromkeys(others, 0))
    return (await generate_queries(world or shared_world(()), settings, seed, ORIGIN)).queries


async def impossible_query(world: World, task: str, origin: Origin) -> Query:
    """A query for an item that is not there."""
    [[goal]] = absent_goals([draw_goals(task_of(world, task), 6, Random(1))[:1]])
    return await draft(Candidate(goal, Split.TRAIN, False, 3), GrammarWriter(), origin)


async def walk_of(query: Query, seed: int = 0) -> PhoneWalk:
    environment = SimulatedEnvironment(shared_world(()), query.platform, FaultRates(slow=0))
    attempt = Attempt(query, Purpose.REFERENCE, 0, seed)
    rollout = await run_episode(attempt, ReferenceAgent(query), environment, Limits(), ORIGIN)
    told = rollout.episode.trajectory.model_copy(update={"side_effects": ("some.secret.path",), "false_complete": True})
    return PhoneWalk(rollout.episode.model_copy(update={"trajectory": told}), dict(rollout.screens))


@cache
def walk_phone() -> PhoneWalk:
    async def longest() -> PhoneWalk:
        walks = [await walk_of(query) for query in await queries_of(8) if query.platform is Platform.PHONE]
        return max(walks, key=lambda walk: len(walk.episode.steps))

    return asyncio.run(longest())


def notes_on(episode: Episode) -> list[StepResult]:
    return [StepResult(step.index, "seen", f"summary of {step.index}", StepLabel.GOOD) for step in episode.steps]


def repeated(episode: Episode, times: int) -> Episode:
    steps = enumerate(episode.steps * times)
    return episode.model_copy(update={"steps": tuple(step.model_copy(update={"index": at}) for at, step in steps)})


def words(request: ChatRequest) -> str:
    return "\n".join(part for message in request.messages for part in message.parts if isinstance(part, str))


def pictures(request: ChatRequest) -> list[ScreenHandle]:
    return [part for part in request.messages[1].parts if isinstance(part, ScreenHandle)]


def hidden_from_critics(walk: PhoneWalk) -> list[str]:
    """What no critic may know of the task, because only the environment or a person does."""
    query, steps = walk.episode.query, walk.episode.steps
    texts = [query.goal, query.start_state, query.task, query.query_id, query.phrasing, *query.page_descriptions]
    texts += [step.target for step in query.path if "/" in step.target]
    texts += ["secret.path", "side effect", "false complete"]
    texts += [text for step in steps for text in (step.thought, step.conclusion)]
    return [text for text in (*texts, "reward", walk.episode.trajectory.trajectory_id) if text not in ("", "{}")]
