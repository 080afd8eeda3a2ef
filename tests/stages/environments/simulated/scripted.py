import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.stages.critics.phone import StoredScreens
from tests.stages.environments.simulated.worlds import task_query
from trajmill.schemas.actions import Action, Answer, Click, Scroll, Swipe, SystemButton, Terminate, TypeText, hold
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Slot
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.app_files.references import shown
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode

ORIGIN = Origin(round=1, run_id="run", code_version="test")
NO_FAULTS = FaultRates(popup=0.0, slow=0.0)


class SeenTrees(StoredScreens):
    """The trees of the screens that episodes met; nobody may ask for pixels."""

    def image(self, screen_id: str) -> bytes:
        raise AssertionError("pixels were asked for")


@dataclass(frozen=True)
class ScriptedAgent:
    """Taps elements by id, or does `hold ID`, `back`, `home`, `down`, `up`, `enter`, `type TEXT`, and ends likewise."""

    script: Sequence[str]
    platform: Platform
    name: str = "scripted"
    model_version: str = "scripted"

    async def act(self, episode: EpisodeView) -> Decision:
        move = self.script[len(episode.history)]
        action = self._action(move, episode.observation.elements or ())
        return Decision(move, action, move, raw_response=move, prompt=episode.instruction)

    def _action(self, move: str, elements: tuple[UIElement, ...]) -> Action:
        if move in ("finish", "give up"):
            return Terminate(status="success" if move == "finish" else "failure")
        if move == "enter" or (move in ("back", "home") and self.platform is Platform.PHONE):
            return SystemButton(button=move.capitalize())
        if move == "down":
            return Scroll(clicks=-5) if self.platform is Platform.DESKTOP else Swipe(x=360, y=900, x2=360, y2=300)
        if move == "up":
            return Swipe(x=360, y=300, x2=360, y2=900)
        if move.startswith(("type ", "answer ")):
            said = Answer if move.startswith("answer ") else TypeText
            return said(text=move.partition(" ")[2])
        held, move = move.startswith("hold "), move.removeprefix("hold ")
        by_text = {"back": "Back", "home": "Show desktop"}
        element = next(e for e in elements if move == e.element_id or by_text.get(move) == e.text)
        x, y = element.bounds.center
        if held:
            return hold(element.bounds.center, touch=self.platform is Platform.PHONE)
        return Click(x=x, y=y, count=2 if element.role == "icon" and self.platform is Platform.DESKTOP else 1)


def annotated_query(task: TaskGraph, pages: tuple[str, ...], values: dict[str, Scalar], instruction: str) -> Query:
    """A query with all its annotations."""
    said = {slot.spec.name: shown(values[slot.spec.name]) for slot in task.slots if slot.spec.name in values}
    slots = tuple(
        Slot(name=slot.spec.name, value=said[slot.spec.name], said=said[slot.spec.name], page=slot.page)
        for slot in task.slots
        if slot.spec.name in said
    )
    described = tuple(task.graph.nodes[page]["description"] for page in pages)
    changes = {"slots": slots, "instruction": instruction, "page_descriptions": described}
    return task_query(task, pages, values).model_copy(update=changes)


def scripted_episode(world: World, query: Query, script: Sequence[str], seen: SeenTrees) -> Episode:
    environment = SimulatedEnvironment(world, query.platform, NO_FAULTS)
    attempt = Attempt(query, Purpose.TRAIN, 0, 0)
    agent = ScriptedAgent(script, query.platform)
    rollout = asyncio.run(run_episode(attempt, agent, environment, Limits(), ORIGIN))
    seen.observations.update(rollout.screens)
    return rollout.episode
