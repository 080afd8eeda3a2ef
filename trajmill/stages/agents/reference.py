"""The agent that walks its query's annotated path; guidance is written from the walk (paper 6.4)."""

from __future__ import annotations

from dataclasses import dataclass

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, Click, Drag, PressKeys, SwitchDevice, Terminate, TypeText, Wait, hold
from trajmill.schemas.dialects.user_text import end_to_end_prompt
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import PathStep, Platform, Query
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.end_to_end import rows_before
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.environments.simulated.reference_path import LAUNCHER, Walker, WalkMove, WalkPosition, scroll_over

_STEP, _UPWARDS, _WAITS = "step", "upwards", "waits"


@dataclass(frozen=True, slots=True)
class ReferenceAgent:
    """Walks the path of one query, and stores its position on the path in the role outputs of its decisions.

    Paths of the simulated world are walked by a walker that knows its pages; all others by element ids alone.
    """

    query: Query
    demonstrates: bool = False
    """Whether its steps are to be learned from: they have a prompt, and thoughts that read the rows of the screen."""
    name: str = "reference"
    model_version: str = "reference"

    async def act(self, episode: EpisodeView) -> Decision:
        """Return the next action of the walk. Raises ValueError if the observation has no accessibility tree."""
        path, platform, screen = self.query.path, self.query.platform, episode.observation
        last = episode.history[-1].role_outputs if episode.history else {}
        at, waits = int(last.get(_STEP, "0")), int(last.get(_WAITS, "0"))
        position = WalkPosition(at, waits, last.get(_UPWARDS) == "1")
        if self.query.source.in_real_programs:
            action, (step, waits, upwards) = next_pathway_move(path, platform, screen, position)
            kept = {_WAITS: str(waits)} | ({_UPWARDS: "1"} if upwards else {})
        else:
            action, (step, _, upwards) = Walker(path, platform).next_action(screen, position)
            kept = {_UPWARDS: str(int(upwards))}
        # An element that is visible already needs no scrolling.
        done = max(at, step - 1)
        taken = f"{path[done].operation} {path[done].text or path[done].target}".strip() if done < len(path) else ""
        taken = taken or "the path is walked"
        thought, conclusion, prompt = f"The annotated path says: {taken}.", f"Followed the path: {taken}.", ""
        if self.demonstrates:
            point = actions.pressed_point(action)
            hits = (each for each in screen.elements or () if each.clickable and point and each.bounds.contains(*point))
            pressed = next((actions.in_quotes(each.text) for each in hits), "the screen" if point else "")
            conclusion = actions.order_for(action, pressed, touch=platform is Platform.PHONE)
            prompt = end_to_end_prompt(episode.instruction, None, [past.conclusion for past in episode.history])
            thought = rows_before(action, screen.elements or (), _label_of(path[step]) if step < len(path) else "")
        outputs = {_STEP: str(step), **kept}
        return Decision(thought, action, conclusion, prompt=prompt, role_outputs=outputs)


def _label_of(step: PathStep) -> str:
    """Return the label of what a step presses, if its target names it: an app, or an item of a list."""
    if step.operation == "open":
        return step.target
    *place, item = step.target.split("/")
    return item if len(place) > 1 else ""


_MOST_WAITS = 20
_WAIT_SECONDS = 0.25


def next_move(
    path: tuple[PathStep, ...], observation: Observation, position: WalkPosition, platform: Platform
) -> WalkMove:
    """Return the next action of a walk; the last is `Terminate`, with status failure if a target never appears.

    A phone is scrolled with a finger. Raises ValueError if the observation has no accessibility tree.
    """
    if observation.elements is None:
        raise ValueError("the walk needs an accessibility tree")
    if position.step >= len(path):
        return WalkMove(Terminate(status="failure"), position)
    step = path[position.step]
    tree = targets(observation.elements)
    if step.operation == "scroll":
        arrived = WalkPosition(position.step + 1)
        if step.target in tree:
            return next_move(path, observation, arrived, platform)
        return _scroll(step, tree, position, platform)
    named = [step.target, step.text] if step.operation in ("drag", "select") else [step.target]
    if any(name and name not in tree for name in named):
        return _once_more(Wait(seconds=_WAIT_SECONDS), position)
    return WalkMove(_action(step, tree, platform), WalkPosition(position.step + 1))


def _scroll(step: PathStep, tree: dict[str, UIElement], position: WalkPosition, platform: Platform) -> WalkMove:
    """Scroll over the middle one of the elements with the role of the target, else over what can be scrolled.

    It goes down, and from the end up. A finger moves what can be scrolled alone.
    """
    role = step.target.rpartition("/")[2].partition(":")[0]
    alike = [each for each in tree.values() if each.role == role and platform is not Platform.PHONE]
    down, up = (
        [each for each in tree.values() if f"scrollable_{word}" in each.states and "editable" not in each.states]
        for word in ("down", "up")
    )
    upwards = bool(up) and (position.upwards or not down)
    over = alike or up if upwards else alike or down
    if not over:
        return _once_more(Wait(seconds=_WAIT_SECONDS), position)
    turn = scroll_over(over[len(over) // 2], platform, upwards)
    return _once_more(turn, position._replace(upwards=upwards))


def _once_more(action: Action, position: WalkPosition) -> WalkMove:
    if position.waits >= _MOST_WAITS:
        return WalkMove(Terminate(status="failure"), position)
    return WalkMove(action, position._replace(waits=position.waits + 1))


def _action(step: PathStep, tree: dict[str, UIElement], platform: Platform) -> Action:
    match step.operation:
        case "finish":
            return Terminate(status="success")
        case "type":
            return TypeText(text=step.text)
        case "replace":
            return TypeText(text=step.text, clear=True)
        case "key":
            return PressKeys(keys=tuple(step.text.split("+")))
        case "drag":
            start, end = tree[step.target].bounds.center, tree[step.text].bounds.center
            return Drag(x=start.x, y=start.y, x2=end.x, y2=end.y)
        case "select":
            first, last = tree[step.target].bounds, tree[step.text].bounds
            return Drag(x=first.left, y=first.center.y, x2=last.right - 1, y2=last.center.y)
        case "hold":
            return hold(tree[step.target].bounds.center, touch=platform is Platform.PHONE)
        case operation:
            x, y = tree[step.target].bounds.center
            button = "right" if operation == "right_tap" else "left"
            return Click(x=x, y=y, button=button, count=2 if operation == "double_tap" else 1)


def next_pathway_move(
    path: tuple[PathStep, ...], first: Platform, observation: Observation, position: WalkPosition
) -> WalkMove:
    """Return the next action of a walk over several devices; the last is `Terminate`, with status failure if stuck.

    The path begins at the device `first`; `switch` goes to another one. Raises ValueError if the observation has no
    accessibility tree.
    """
    # The part of the path on one device that has the step, or ends right before it.
    begin, end, device = 0, len(path), first
    for index, step in enumerate(path):
        if step.operation == "switch" and index >= position.step:
            end = index
            break
        if step.operation == "switch":
            begin, device = index + 1, Platform(step.target)
    if end <= position.step < len(path):
        return WalkMove(SwitchDevice(device=Platform(path[end].target).value), WalkPosition(position.step + 1))
    part, is_last = path[begin:end], end == len(path)
    page = part[-1].page if part else ""
    steps = part if is_last else (*part, PathStep(page=page, operation="finish", target=""))
    here = position._replace(step=position.step - begin)
    if any(step.page == LAUNCHER and step.operation == "open" for step in part):
        action, after = Walker(steps, device).next_action(observation, here)
    else:
        action, after = next_move(steps, observation, here, device)
    if not is_last and action == Terminate(status="success"):
        return next_pathway_move(path, first, observation, WalkPosition(end))
    return WalkMove(action, after._replace(step=begin + after.step))
