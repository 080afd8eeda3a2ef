"""An environment, an agent, a critic and a recipe of another package than trajmill."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw
from pydantic import PositiveInt

from trajmill import (
    Action,
    AgentMaker,
    AgentModel,
    AgentSpec,
    Box,
    Channel,
    Click,
    Decision,
    EmbeddedSftSpec,
    EnvironmentFactory,
    EnvironmentSpec,
    Episode,
    EpisodeView,
    ImportedQueries,
    Observation,
    Origin,
    PathStep,
    Platform,
    Query,
    ScreenReader,
    Size,
    Split,
    StepResult,
    Terminate,
    TrajectoryCriticSpec,
    UIElement,
    Vote,
    end_to_end_prompt,
    make_observation,
    own_query,
    vote_of,
)

SIZE = Size(640, 360)


class Lamps:
    """Three lamps on a desktop; a click on one switches it."""

    platform, name = Platform.DESKTOP, "lamps"

    def __init__(self, colours: tuple[str, ...]) -> None:
        self.colours, self.lit, self.wanted = colours, set[str](), ""

    async def reset(self, query: Query, seed: int) -> Observation:
        self.lit, self.wanted = set(), query.start_state
        return self._observe()

    async def step(self, action: Action) -> Observation:
        if isinstance(action, Click):
            self.lit ^= {colour for colour, box in self._boxes().items() if box.contains(action.x, action.y)}
        return self._observe()

    async def score(self) -> float | None:
        return float(self.lit == {self.wanted})

    async def close(self) -> None:
        pass

    def _boxes(self) -> dict[str, Box]:
        return {colour: Box(20 + 200 * n, 80, 200 + 200 * n, 280) for n, colour in enumerate(self.colours)}

    def _observe(self) -> Observation:
        picture, png = Image.new("RGB", SIZE, "white"), io.BytesIO()
        draw, elements = ImageDraw.Draw(picture), []
        for colour, box in self._boxes().items():
            is_lit = colour in self.lit
            draw.rectangle(box, fill=colour if is_lit else "gray")
            draw.text((box.left, box.bottom), colour, fill="black")
            elements.append(UIElement("switch", colour, box, ("clickable", *(["checked"] if is_lit else []))))
        picture.save(png, "PNG")
        return make_observation(png.getvalue(), SIZE, tuple(elements), "lamps")


@dataclass
class LampsFactory:
    colours: tuple[str, ...]

    async def __call__(self) -> Lamps:
        return Lamps(self.colours)

    async def close(self) -> None:
        pass


class LampsSpec(EnvironmentSpec):
    """Lamps with a switch each."""

    kind: Literal["lamps"] = "lamps"
    colours: tuple[str, ...] = ("red", "green", "blue")
    """Colours of the lamps."""

    def factory(self, platform: Platform) -> EnvironmentFactory:
        return LampsFactory(self.colours)

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        def query(colour: str, split: Split) -> Query:
            steps = (("tap", f"switch:{colour}"), ("finish", ""))
            path = tuple(PathStep(page="lamps", operation=name, target=target) for name, target in steps)
            text = f"Switch on the {colour} lamp."
            # `start_state` and `goal` are texts in a form of your own; here the start state names the lamp.
            return own_query(Platform.DESKTOP, "lamp", text, colour, origin, "lamps", path=path, split=split)

        splits = cycle((Split.TRAIN, Split.VALIDATION, Split.HELDOUT_SLOTS))
        return ImportedQueries([query(*pair) for pair in zip(self.colours, splits, strict=False)], [])


class Switcher:
    """Clicks the lamp that the instruction names, and finishes once it is lit; it asks no model."""

    name, model_version = "switcher", "switcher-1"

    async def act(self, episode: EpisodeView) -> Decision:
        lamp = next(each for each in episode.observation.elements or () if each.text in episode.instruction)
        x, y = lamp.bounds.center
        # A step with a prompt becomes training data.
        prompt = end_to_end_prompt(episode.instruction, None, [past.conclusion for past in episode.history])
        if "checked" in lamp.states:
            return Decision(f"The {lamp.text} lamp is lit.", Terminate(status="success"), "Finished.", prompt=prompt)
        return Decision(f"The {lamp.text} lamp is off.", Click(x=x, y=y), f"Clicked {lamp.text}.", prompt=prompt)


class SwitcherSpec(AgentSpec):
    """Clicks the lamp that the instruction names."""

    kind: Literal["switcher"] = "switcher"

    def open(self, model: AgentModel | None) -> AgentMaker:
        return lambda query: Switcher()


class Lit:
    """Votes Correct if the last screen shows the named lamp lit, and no other."""

    channel, resolution, version = Channel.TEXT, "full", "lit-1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        shown = screens.elements(episode.steps[-1].screen_after)
        lit = [each.text for each in shown if "checked" in each.states]
        correct = len(lit) == 1 and lit[0] in episode.query.instruction
        return vote_of(self, correct, f"lit at the end: {', '.join(lit) or 'none'}")


class LitSpec(TrajectoryCriticSpec):
    """Reads the last screen's tree."""

    kind: Literal["lit"] = "lit"

    def open(self, graphs: tuple[Path, ...]) -> Lit:
        return Lit()


class ShortSpec(EmbeddedSftSpec):
    """Trains the embedded policy with few updates."""

    kind: Literal["short"] = "short"
    min_updates: PositiveInt = 5
    max_updates: PositiveInt = 10
