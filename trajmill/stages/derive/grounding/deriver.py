"""Derives grounding data from the screens of a trajectory: an instruction, and the press that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, StringConstraints

from trajmill.schemas.actions import Click, pressed_point
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply, bare_call
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import ScreenHandle, UIElement
from trajmill.schemas.record import Record, seed_of
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.critics.model.marking import picture, untrusted
from trajmill.stages.derive.collected import TEMPLATE, Collected, KindDeriver, Lesson
from trajmill.stages.derive.conversation import about, dialogue
from trajmill.stages.derive.grounding.boxes import cropped, detected_boxes, overlap, regions
from trajmill.stages.derive.grounding.colours import element_colours
from trajmill.stages.derive.grounding.instructions import (
    Instruction,
    NoInstruction,
    appearance,
    functional,
    layout,
    targets,
)
from trajmill.stages.derive.grounding.words import TextReader, TextRules, text_instructions
from trajmill.stages.derive.kind_spec import Tools
from trajmill.stages.derive.spec import GroundingRLSpec, GroundingSpec
from trajmill.stages.models.base import ChatMessage, ChatRequest, gives_several
from trajmill.stages.models.prompts import PromptedModel, Sampling, on_lines

DENSE = "dense"
_LONGEST_PRESS = 256
"""Longest reply of the policy in tokens."""
_ASK = "Answer with the call alone, without a thought. Press the element that this describes: "
_Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=240)]


class RephrasedAnswer(Record):
    """The answer of a writer: a sentence for each instruction, in their order."""

    instructions: Annotated[tuple[_Sentence, ...], Field(min_length=1)]


class _Shown(NamedTuple):
    """The picture of an example: a stored screen, or a region of it."""

    screen: ScreenHandle
    source: str
    region: Box


class _Made(NamedTuple):
    lesson: Lesson
    question: str
    screen: ScreenHandle


class Grounding(KindDeriver[GroundingSpec]):
    def __init__(self, spec: GroundingSpec, tools: Tools) -> None:
        super().__init__(spec, tools)
        self._reader = TextReader() if spec.ocr else None
        self._writer = None if tools.writer is None else PromptedModel(tools.writer, tools.prompts["rephrase"])

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        for step in episode.steps:
            if only is None or step.index in only:
                made: list[_Made] = []
                try:
                    await self._collect_screen(episode, step, collected, made)
                except ModelFailure as error:
                    collected.fail(error, step)
                await self.keep(made, episode.query.platform, step, collected)

    async def keep(self, made: Sequence[_Made], platform: Platform, step: Step, collected: Collected) -> None:
        for one in made:
            collected.add(one.lesson, step)

    async def _collect_screen(self, episode: Episode, step: Step, collected: Collected, lessons: list[_Made]) -> None:
        spec, screens, screen_id = self.spec, self.tools.screens, step.screen_before
        size, elements, image = screens.size(screen_id), screens.elements(screen_id), screens.image(screen_id)
        whole = _Shown(picture(screen_id, screens), screen_id, Box(0, 0, *size))
        detected = await detected_boxes(spec.detector, image, size) if spec.detector else None

        def add(bounds: Box, shown: _Shown, variant: str, text: str, author: str) -> None:
            box = bounds.moved(-shown.region.left, -shown.region.top)
            action = Click(x=box.center.x, y=box.center.y)
            dialect, frame = ANY.dialect(episode.query.platform), native_frame(shown.screen.size)
            question, call = f"{_ASK}{text}{IMAGE_PLACEHOLDER}", bare_call(action, dialect, frame)
            messages = dialogue(dialect.system_prompt(frame), question, call)
            lesson = Lesson(messages, (shown.screen.screen_id,), variant, author, action, box, (shown.source,))
            lessons.append(_Made(lesson, f"{_ASK}{text}", shown.screen))

        if self._reader is not None:
            # A writer rephrases no word: words are quotes.
            lines = await asyncio.to_thread(self._reader.lines, image)
            rules = TextRules(spec.smallest, spec.overlap)
            for word in text_instructions(lines, elements, detected, rules):
                if isinstance(word, NoInstruction):
                    collected.refuse(word.reason, step, variant=word.variant, screen_id=screen_id, detail=word.detail)
                else:
                    add(word.box, whole, word.variant, word.text, TEMPLATE)
        chosen = []
        for target in targets(elements, size, spec.smallest):
            if isinstance(target, str):
                collected.refuse(target, step, screen_id=screen_id)
            elif detected is not None and overlap(target.element.bounds, detected) < spec.overlap:
                collected.refuse("no_detected_box", step, screen_id=screen_id)
            else:
                chosen.append(target)
        wanted, tried = spec.instructions, list[Instruction | NoInstruction]()
        if "functional" in wanted:
            tried += functional(chosen)
        if "appearance" in wanted:
            tried += appearance(chosen, element_colours(image, [target.element.bounds for target in chosen]))
        if "layout" in wanted:
            tried += layout(chosen, elements)
        for refused in (one for one in tried if isinstance(one, NoInstruction)):
            collected.refuse(refused.reason, step, variant=refused.variant, screen_id=screen_id)
        made = [one for one in tried if isinstance(one, Instruction)]
        if not made:
            collected.refuse("no_target", step, screen_id=screen_id)
            return
        texts = await self._texts(episode, step, made, elements, collected)
        for one, (text, author) in zip(made, texts, strict=True):
            add(one.box, whole, one.variant, text, author)
        is_dense = spec.dense_from and len(elements) >= spec.dense_from
        parts = regions(elements, size, spec.region_elements) if is_dense else []
        for box in parts if len(parts) > 1 else ():
            crop = cropped(screen_id, image, elements, box)
            self.tools.keep_screen(crop)
            shown = _Shown(crop.screen, screen_id, box)
            for one, (text, author) in zip(made, texts, strict=True):
                if one.variant == "functional" and one.box.within(box) == one.box:
                    add(one.box, shown, DENSE, text, author)

    async def _texts(
        self,
        episode: Episode,
        step: Step,
        made: Sequence[Instruction],
        elements: Sequence[UIElement],
        collected: Collected,
    ) -> list[tuple[str, str]]:
        """Return the text of each instruction with its author, rephrased by one request to a writer (paper 2.2.2).

        Raises ModelFailure for no valid answer, or not as many sentences as instructions.
        """
        if self._writer is None:
            return [(one.text, TEMPLATE) for one in made]
        listed = "\n".join(f"{number}. {untrusted(one.text)}" for number, one in enumerate(made, start=1))
        fields = {"instructions": listed, "count": str(len(made))}
        request = self._writer.request("writer", fields, sampling=Sampling(max_tokens=4096), layout=on_lines)
        answer = await self._writer.ask(about(request, episode), RephrasedAnswer)
        if len(answer.instructions) != len(made):
            raise ModelFailure(f"writer: {len(answer.instructions)} sentences for {len(made)} instructions")
        labels = [element.text for element in elements if element.text]
        found = []
        for one, sentence in zip(made, (" ".join(each.split()) for each in answer.instructions), strict=True):
            if _changes_meaning(one, sentence, labels):
                variant, screen_id = one.variant, step.screen_before
                collected.refuse("rephrased_wrongly", step, variant=variant, screen_id=screen_id, detail=sentence)
                found.append((one.text, TEMPLATE))
            else:
                found.append((sentence, self._writer.version))
        return found


class PartlyHit(Grounding):
    """Keeps what the policy hits with some of its samples, so that their rewards differ (GUI-Owl 3.1.2, n_g = 8)."""

    spec: GroundingRLSpec

    async def keep(self, made: Sequence[_Made], platform: Platform, step: Step, collected: Collected) -> None:
        tried = await asyncio.gather(*(self._hits(one, platform) for one in made), return_exceptions=True)
        for one, hits in zip(made, tried, strict=True):
            if isinstance(hits, ModelFailure):
                collected.fail(hits, step)
            elif isinstance(hits, BaseException):
                raise hits
            else:
                refused = {0: "never_hit", self.spec.samples: "always_hit"}.get(hits)
                collected.add_or_refuse(refused or one.lesson, step, one.lesson.variant)

    async def _hits(self, made: _Made, platform: Platform) -> int:
        """Count the samples that press within the element. Raises ModelFailure if the policy did not answer."""
        policy, box = self.tools.policy, made.lesson.box
        assert policy is not None and box is not None
        dialect, frame = policy.family.dialect(platform), policy.model.frame(made.screen.size)
        system = ChatMessage("system", (dialect.system_prompt(frame),))
        asked = (system, ChatMessage("user", (made.question, made.screen)))
        seed = seed_of("hits", made.screen.screen_id, made.question)
        request = ChatRequest("policy", asked, policy.temperature, seed, _LONGEST_PRESS, n=self.spec.samples)
        singly = () if gives_several(policy.model) else map(request.sample, range(request.n))
        found = await side_by_side(map(policy.model.complete, singly or (request,)))
        replies = [dialect.parse(text, frame) for one in found for text in (one.text, *one.others)]
        points = [pressed_point(reply.action) for reply in replies if isinstance(reply, Reply)]
        return sum(point is not None and box.contains(*point) for point in points)


def _changes_meaning(made: Instruction, sentence: str, others: Sequence[str]) -> bool:
    """Return whether a sentence names another element of the screen that the instruction does not name."""
    said, asked = sentence.casefold(), made.text.casefold()
    named = any(len(other) > 2 and other.casefold() in said and other.casefold() not in asked for other in others)
    return named or IMAGE_PLACEHOLDER in sentence
