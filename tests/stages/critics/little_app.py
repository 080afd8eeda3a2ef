"""A small food app of hand-made accessibility trees, and judged episodes in it; the simulator is not used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.stages.derive import samples
from trajmill.schemas.actions import Action, Click, Terminate, TypeText, action_to_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform, Query, Slot, Source
from trajmill.schemas.tables.trajectory import Step, StopReason, TargetElement
from trajmill.stages.critics.app_graph.channels import annotated_judge
from trajmill.stages.critics.judge import judge_episode
from trajmill.stages.critics.replay import element_at
from trajmill.stages.environments.tasks import own_query

ORIGIN = samples.ORIGIN
SIZE = samples.PHONE
PRESS = ("clickable",)


@dataclass(slots=True)
class Trees:
    """Reads hand-made trees; it refuses to read pixels, so that a critic that decodes them fails."""

    known: dict[str, tuple[UIElement, ...]] = field(default_factory=dict)

    def add(self, elements: Sequence[UIElement]) -> str:
        screen_id = content_id("screen", [list(element) for element in elements])
        self.known[screen_id] = tuple(elements)
        return screen_id

    def image(self, screen_id: str) -> bytes:
        raise AssertionError("a state critic asked for pixels")

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return self.known[screen_id]

    def size(self, screen_id: str) -> Size:
        return SIZE


def element(role: str, text: str, row: int, states: tuple[str, ...] = (), value: str = "", eid: str = "") -> UIElement:
    """An element that fills one row of the screen."""
    return UIElement(role, text, Box(20, 100 + 60 * row, 700, 150 + 60 * row), states, value, eid)


def page(name: str, title: str, *rows: tuple[str, str, tuple[str, ...], str, str]) -> tuple[UIElement, ...]:
    """A page `food.NAME`: each row is role, text, states, value and the widget's id."""
    head = element("heading", title, 0, ("title",), "", f"food.{name}/title")
    return head, *(element(r, t, i, s, v, f"food.{name}/{w}") for i, (r, t, s, v, w) in enumerate(rows, start=1))


def launcher() -> tuple[UIElement, ...]:
    head = element("heading", "Home screen", 0, ("title",), "", "launcher/title")
    return head, element("icon", "Food", 1, PRESS, "", "launcher/food")


def menu() -> tuple[UIElement, ...]:
    dishes = [("list_item", dish, PRESS, "9.50", f"dishes/{dish}") for dish in ("Margherita", "Diavola")]
    return page("menu", "Pizza", *dishes, ("button", "Past orders", PRESS, "", "past"))


def dish(
    name: str = "Margherita", size: str = "Medium", spicy: bool = False, quantity: int = 1
) -> tuple[UIElement, ...]:
    sizes = [
        ("radio", option, ("clickable", "checked") if option == size else PRESS, "Size", f"size/{option}")
        for option in ("Small", "Medium", "Large")
    ]
    return page(
        "dish",
        name,
        *sizes,
        ("switch", "Extra spicy", ("clickable", "checked") if spicy else PRESS, "", "spicy"),
        ("text", "Quantity", (), str(quantity), "quantity"),
        ("stepper_button", "-", PRESS, "Quantity", "quantity/-"),
        ("stepper_button", "+", PRESS, "Quantity", "quantity/+"),
        ("button", "Go to checkout", PRESS, "", "checkout"),
    )


def checkout(note: str = "", focused: bool = False) -> tuple[UIElement, ...]:
    states = ("clickable", "editable", *(("focused",) if focused else ()))
    return page(
        "checkout",
        "Checkout",
        ("text_field", "Note for the kitchen", states, note, "note"),
        ("button", "Place order", PRESS, "", "order"),
        *([("keyboard", "", (), "", "keyboard")] if focused else []),
    )


def placed(*receipts: str) -> tuple[UIElement, ...]:
    values = [("value", text, (), "", f"receipt{i}") for i, text in enumerate(receipts)]
    return page("placed", "Order placed", *values, ("button", "Done", PRESS, "", "done"))


def history() -> tuple[UIElement, ...]:
    return page("history", "Past orders", ("text", "Nothing here yet", (), "", "orders"))


def food_query(**changes: object) -> Query:
    slots = (
        Slot(name="dish", value="Margherita", said="Margherita", page="food.menu"),
        Slot(name="size", value="Large", said="big", page="food.dish"),
        Slot(name="note", value="ring twice", said="ring twice", page="food.checkout"),
    )
    instruction = 'Order a big Margherita with the note "ring twice".'
    query = own_query(
        Platform.PHONE,
        "food.order",
        instruction,
        "{}",
        ORIGIN,
        "test",
        apps=("food",),
        source=Source.DAG,
        pages=("food.menu", "food.dish", "food.checkout", "food.placed"),
        page_descriptions=("The dishes.", "One dish.", "Where to deliver.", "Confirms the order."),
        slots=slots,
    )
    return query.model_copy(update=changes)


class Walk:
    """Builds an episode: each call adds a step, with what is pressed or typed and the screen that follows."""

    def __init__(self, start: tuple[UIElement, ...], trees: Trees) -> None:
        self.trees = trees
        self._screen = start
        self._done: list[tuple[str, Action | None, str]] = []

    def tap(self, text: str, after: tuple[UIElement, ...]) -> Walk:
        hit = next(e for e in self._screen if e.text == text)
        return self.do(Click(x=hit.bounds.center.x, y=hit.bounds.center.y), after)

    def write(self, text: str, after: tuple[UIElement, ...]) -> Walk:
        return self.do(TypeText(text=text), after)

    def do(self, action: Action | None, after: tuple[UIElement, ...]) -> Walk:
        self._done.append((self.trees.add(self._screen), action, self.trees.add(after)))
        self._screen = after
        return self

    def stay(self, action: Action | None) -> Walk:
        return self.do(action, self._screen)

    def end(self, query: Query | None = None, status: str | None = "success", **changes: object) -> Episode:
        """End the episode; by default the agent says that the task is done."""
        query = query or food_query()
        if status is not None:
            self.stay(Terminate.model_validate({"status": status}))
        ending = {
            "trajectory_id": content_id("walk", self._done, changes),
            "stop_reason": StopReason.AGENT_DONE if status else StopReason.STEP_LIMIT,
            "answer": status,
        }
        made = samples.episode(list(map(self._step, range(len(self._done)))), asked=query, correct=None)
        steps = (each.model_copy(update={"trajectory_id": ending["trajectory_id"]}) for each in made.steps)
        trajectory = made.trajectory.model_copy(update=ending | changes)
        return made.model_copy(update={"trajectory": trajectory, "steps": tuple(steps)})

    def _step(self, index: int) -> Step:
        before, action, after = self._done[index]
        hit = element_at(self.trees.known[before], action.x, action.y) if isinstance(action, Click) else None
        target = TargetElement(role=hit.role, text=hit.text, bounds=hit.bounds) if hit else None
        made = {"app_before": "food", "app_after": "food", "target": target}
        made |= {} if action is None else {"action": action_to_json(action), "action_kind": action.kind}
        return samples.step(index, None, (before, after)).model_copy(update=made)


def to_dish(trees: Trees) -> Walk:
    return Walk(launcher(), trees).tap("Food", menu()).tap("Margherita", dish())


def typed(walk: Walk, note: str = "ring twice") -> Walk:
    walk.tap("Go to checkout", checkout()).tap("Note for the kitchen", checkout(focused=True))
    return walk.write(note, checkout(note, focused=True))


def right_walk(trees: Trees) -> Walk:
    """The complete order as the instruction asks, up to the receipt."""
    large = to_dish(trees).tap("Large", dish(size="Large"))
    return typed(large).tap("Place order", placed("1 x Margherita", "Size: Large", "Note: ring twice"))


def judged(episode: Episode, trees: Trees) -> Episode:
    """The episode with the verdicts of the annotated judge."""
    return asyncio.run(judge_episode(episode, annotated_judge(), trees, ORIGIN))


def is_correct(episode: Episode, trees: Trees) -> bool:
    """The decision, on which both channels must agree."""
    found = judged(episode, trees)
    assert found.judgement is not None and found.judgement.agreed
    return found.judgement.correct


def labels(episode: Episode) -> list[str]:
    return [verdict.label.value for verdict in episode.step_verdicts]
