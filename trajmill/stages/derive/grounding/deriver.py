"""Derives grounding data from the screens of a trajectory: an instruction, and the press that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trajmill.schemas.actions import Click
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import bare_call
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.base import DerivedRows, unfit
from trajmill.stages.derive.collected import TEMPLATE, Collected, Lesson
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.grounding.colours import element_colours
from trajmill.stages.derive.grounding.detector import OmniParser, overlap
from trajmill.stages.derive.grounding.instructions import (
    ElementInstruction,
    NoInstruction,
    PressTarget,
    RefusedElement,
    appearance,
    functional,
    layout,
    targets,
)
from trajmill.stages.derive.grounding.ocr import ReadLine, TextReader
from trajmill.stages.derive.grounding.regions import CroppedScreen, cropped, regions
from trajmill.stages.derive.grounding.rephrase import Rephraser, changes_meaning
from trajmill.stages.derive.grounding.spec import GroundingSpec
from trajmill.stages.derive.grounding.texts import NoTextInstruction, TextRules, text_instructions
from trajmill.stages.derive.kind_spec import Tools

DENSE = "dense"
"""The sort of examples that show a region of a dense screen."""
_ASK = "Answer with the call alone, without a thought. Press the element that this describes: "


class _Shown(NamedTuple):
    """The picture that an example shows."""

    screen_id: str
    size: Size
    source: str
    """The stored screen that it is, or was cut from."""
    at: tuple[int, int] = (0, 0)
    """Where its top left corner lies on that screen."""


class Grounding:
    """Derives grounding data; asks a writer, a detector and OCR where they are configured."""

    def __init__(self, spec: GroundingSpec, tools: Tools) -> None:
        self._spec = spec
        self._tools = tools
        self._detector = OmniParser(spec.detector) if spec.detector else None
        self._reader = TextReader() if spec.ocr else None
        self._rephraser = None if tools.writer is None else Rephraser(tools.writer, tools.prompts.rephrase)

    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """The examples of the screens before some steps of an episode."""
        collected = Collected(self._tools.maker, episode)
        reason = unfit(episode, LEARNED_FROM)
        if reason is not None:
            collected.refuse(reason)
            return collected.rows()
        for step in episode.steps:
            if only is None or step.index in only:
                try:
                    await self._derive_screen(episode, step, collected)
                except ModelFailure as error:
                    collected.fail(error, step)
        return collected.rows()

    async def _derive_screen(self, episode: Episode, step: Step, collected: Collected) -> None:
        screens, screen_id = self._tools.screens, step.screen_before
        size, elements, image = screens.size(screen_id), screens.elements(screen_id), screens.image(screen_id)
        detected = None if self._detector is None else await self._detector.boxes(image, size)
        whole = _Shown(screen_id, size, screen_id)
        if self._reader is not None:
            lines = await asyncio.to_thread(self._reader.lines, image)
            self._add_words(episode, step, whole, lines, detected, collected)
        chosen = self._chosen(step, size, elements, detected, collected)
        made = []
        for one in self._instructions(chosen, elements, image):
            if isinstance(one, NoInstruction):
                collected.refuse(one.reason, step, variant=one.variant, screen_id=screen_id)
            else:
                made.append(one)
        if not made:
            collected.refuse("no_target", step, screen_id=screen_id)
            return
        texts = await self._texts(episode, step, made, elements, collected)
        for one, (text, author) in zip(made, texts, strict=True):
            self._add(episode, step, one.target.element.bounds, whole, one.variant, text, author, collected)
        for crop in self._crops(screen_id, size, elements, image):
            shown = _Shown(crop.screen_id, crop.size, screen_id, (crop.box.left, crop.box.top))
            for one, (text, author) in zip(made, texts, strict=True):
                bounds = one.target.element.bounds
                if one.variant == "functional" and crop.holds(bounds):
                    self._add(episode, step, bounds, shown, DENSE, text, author, collected)

    def _add_words(
        self,
        episode: Episode,
        step: Step,
        whole: _Shown,
        lines: Sequence[ReadLine],
        detected: Sequence[Box] | None,
        collected: Collected,
    ) -> None:
        """Add the words that OCR has read, and characters of them. A writer rephrases none: they are quotes."""
        rules = TextRules(self._spec.smallest, self._spec.ocr_score, self._spec.overlap)
        for one in text_instructions(lines, self._tools.screens.elements(whole.screen_id), detected, rules):
            if isinstance(one, NoTextInstruction):
                collected.refuse(one.reason, step, variant=one.variant, screen_id=whole.screen_id, detail=one.detail)
            else:
                self._add(episode, step, one.box, whole, one.variant, one.text, TEMPLATE, collected)

    def _chosen(
        self,
        step: Step,
        size: Size,
        elements: Sequence[UIElement],
        detected: Sequence[Box] | None,
        collected: Collected,
    ) -> list[PressTarget]:
        """The elements that may be pointed at, which the detector has found too."""
        chosen = []
        for each in targets(elements, size, self._spec.smallest):
            if isinstance(each, RefusedElement):
                collected.refuse(each.reason, step, screen_id=step.screen_before)
            elif detected is not None and overlap(each.element.bounds, detected) < self._spec.overlap:
                collected.refuse("no_detected_box", step, screen_id=step.screen_before)
            else:
                chosen.append(each)
        return chosen

    def _instructions(
        self, chosen: Sequence[PressTarget], elements: Sequence[UIElement], image: bytes
    ) -> Iterator[ElementInstruction | NoInstruction]:
        wanted = self._spec.instructions
        if "functional" in wanted:
            yield from functional(chosen)
        if "appearance" in wanted:
            yield from appearance(chosen, element_colours(image, [target.element.bounds for target in chosen]))
        if "layout" in wanted:
            yield from layout(chosen, elements)

    async def _texts(
        self,
        episode: Episode,
        step: Step,
        made: Sequence[ElementInstruction],
        elements: Sequence[UIElement],
        collected: Collected,
    ) -> list[tuple[str, str]]:
        """The text of each instruction with its author; a sentence that means something else is not taken."""
        plain = [(one.text, TEMPLATE) for one in made]
        if self._rephraser is None:
            return plain
        sentences = await self._rephraser.rephrased(made, episode.trajectory.trajectory_id)
        labels = [element.text for element in elements if element.text]
        found = []
        for one, sentence, usual in zip(made, sentences, plain, strict=True):
            if changes_meaning(one, sentence, labels):
                collected.refuse(
                    "rephrased_wrongly", step, variant=one.variant, screen_id=step.screen_before, detail=sentence
                )
                found.append(usual)
            else:
                found.append((sentence, self._rephraser.version))
        return found

    def _crops(
        self, screen_id: str, size: Size, elements: Sequence[UIElement], image: bytes
    ) -> Iterator[CroppedScreen]:
        if not self._spec.dense_from or len(elements) < self._spec.dense_from:
            return
        boxes = regions(elements, size, self._spec.region_elements)
        for box in boxes if len(boxes) > 1 else ():
            crop = cropped(screen_id, image, elements, box)
            self._tools.keep_screen(crop.observation)
            yield crop

    def _add(
        self,
        episode: Episode,
        step: Step,
        bounds: Box,
        shown: _Shown,
        variant: str,
        text: str,
        author: str,
        collected: Collected,
    ) -> None:
        across, down = shown.at
        box = Box(bounds.left - across, bounds.top - down, bounds.right - across, bounds.bottom - down)
        action = Click(x=box.center.x, y=box.center.y)
        messages = grounding_messages(episode.query.platform, shown.size, text, action)
        lesson = Lesson(messages, (shown.screen_id,), variant, author, action, box, (shown.source,))
        collected.add(lesson, step)


def grounding_messages(platform: Platform, size: Size, instruction: str, action: Click) -> tuple[Message, ...]:
    """The conversation of one example: the tools, the instruction with the picture, and the call that answers it."""
    dialect, frame = dialect_for(platform), native_frame(size)
    return (
        Message(role="system", content=dialect.system_prompt(frame)),
        Message(role="user", content=f"{_ASK}{instruction}{IMAGE_PLACEHOLDER}"),
        Message(role="assistant", content=bare_call(action, dialect, frame)),
    )
