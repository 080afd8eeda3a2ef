"""A simulated task over two apps, and models that follow a script of subgoals, for the tests of agents with roles."""

import asyncio
import re
from collections.abc import Mapping
from functools import cache

from tests.stages.critics.phone import queries_of
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.actions import Action, Click, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.replies import numbered, read_items, read_sections
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.environments.base import Environment
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import World, shared_world
from trajmill.stages.models.base import ChatModel, ChatRequest
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode

ORIGIN = Origin(round=1, run_id="run", code_version="test")
APPS = ("mail", "wallet", "rides", "settings", "notes", "clock", "messages")
READ_MAIL = ('Tap "Mail"', "Scroll down", 'Tap "Thank you gift"', "Go home")
REDEEM = ('Tap "Wallet"', 'Tap "Redeem a code"', 'Tap "Code"', "Type the noted code", 'Tap "Redeem"')


@cache
def errand_world() -> World:
    return shared_world((), APPS)


@cache
def redeem_query() -> Query:
    """Read the mail "Thank you gift" and redeem its code in Wallet; the instruction does not say the code."""
    made = asyncio.run(queries_of(60, 3, errand_world()))
    return next(query for query in made if query.task == "from_mail.redeem")


class LostTap(SimulatedEnvironment):
    """The phone, which loses one tap: of the actions, that one has no effect."""

    def __init__(self, lost: int) -> None:
        super().__init__(errand_world(), Platform.PHONE, FaultRates(popup=0, slow=0))
        self._lost, self._taken = lost, 0

    async def reset(self, query: Query, seed: int) -> Observation:
        self.seen = await super().reset(query, seed)
        return self.seen

    async def step(self, action: Action) -> Observation:
        self._taken += 1
        if self._taken != self._lost:
            self.seen = await super().step(action)
        return self.seen


def phone() -> Environment:
    return SimulatedEnvironment(errand_world(), Platform.PHONE, FaultRates(popup=0, slow=0))


def run(
    spec: AgentSpec, models: Mapping[str, ChatModel], environment: Environment | None = None, query: Query | None = None
) -> FinishedAttempt:
    """One episode, by default of the errand; the model `worker` stands behind the policy."""
    query = query or redeem_query()
    roles = {role: model for role, model in models.items() if role != "worker"}
    given = AgentModel(models["worker"], ANY, 0.0, roles=roles, families=dict.fromkeys(roles, ANY))
    agent = spec.open(given)(query)
    attempt = Attempt(query, Purpose.TRAIN, 0, 0)
    return asyncio.run(run_episode(attempt, agent, environment or phone(), Limits(), ORIGIN))


def reward(finished: FinishedAttempt) -> float | None:
    return finished.episode.trajectory.reward


def user_text(request: ChatRequest) -> str:
    return "".join(part for part in request.messages[-1].parts if isinstance(part, str))


def shown(request: ChatRequest) -> list[Observation]:
    return [part for part in request.messages[-1].parts if isinstance(part, Observation)]


def obedient(subgoal: str, screen: Observation, notes: str) -> Reply:
    """The reply that does one subgoal; it gives up where the screen does not have what the subgoal names."""
    named = re.search(r'"([^"]*)"', subgoal)
    hit = next((e for e in screen.elements or () if named and e.text == named[1]), None)
    code = re.search(r"\b[A-Z]{4,}\d+\b", notes)
    known: dict[str, Action] = {
        "Go home": SystemButton(button="Home"),
        "Report": Terminate(status="success"),
        "Scroll down": Swipe(x=360, y=1000, x2=360, y2=300),
    }
    if code:
        known["Type the noted code"] = TypeText(text=code[0])
    if hit is not None:
        known[subgoal] = Click(x=hit.bounds.center.x, y=hit.bounds.center.y)
    return Reply(f"I do this: {subgoal}.", known.get(subgoal, Terminate(status="failure")), f"Did: {subgoal}.")


def rendered(reply: Reply, screen: Observation) -> str:
    return GuiOwlMobile().render(reply, native_frame(screen.screen.size))


def obedient_worker() -> ScriptedModel:
    """Does the first subgoal of the plan in its prompt, with the notes in its prompt."""

    def answer(request: ChatRequest) -> str:
        (screen,) = shown(request)
        sections = read_sections(user_text(request))
        (subgoal, *_) = read_items(sections["overall plan"])
        return rendered(obedient(subgoal, screen, sections.get("important notes", "")), screen)

    return ScriptedModel(answer, "worker-1")


def manager_with(plan: tuple[str, ...], repairs: Mapping[str, tuple[str, ...]]) -> ScriptedModel:
    """Plans `plan`, drops a subgoal after a success, and puts the repair of one in its place after a failure."""

    def answer(request: ChatRequest) -> str:
        sections = read_sections(user_text(request))
        if "plan" not in sections:
            return f"### Thought ###\nFirst things first.\n### Plan ###\n{numbered(plan)}"
        first, *rest = read_items(sections["plan"])
        done = read_items(sections["completed subgoals"])
        if sections["outcome"] == "SUCCESS":
            done, left = (*done, first), tuple(rest)
        else:
            left = (*repairs.get(first, (first,)), *rest)
        said = numbered(left) if left else "Finished"
        return f"### Thought ###\nNext.\n### Completed Subgoals ###\n{numbered(done)}\n### Plan ###\n{said}"

    return ScriptedModel(answer, "manager-1")
