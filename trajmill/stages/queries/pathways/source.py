"""Queries from pathways (`source = pathway`): each asks for the end of one; the goal check reads the screen."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.pathway import EndKind, Pathway, PathwayStep
from trajmill.schemas.tables.query import PathStep, Slot, Source, Split
from trajmill.stages.environments.screen_goal import KEY
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata
from trajmill.stages.graphs.explore.deny_list import DenyList, packaged_deny_list
from trajmill.stages.queries.base import Candidate, GoalFacts, Offer, QueryPlan, SourceContext, Written
from trajmill.stages.queries.pathways.programs import PathwayProgram, plain_name
from trajmill.stages.queries.templates import packaged_phrasings, tidy

MOST_QUERIES = 60
_LONGEST_NAME = 40
_ORDER_OF_KINDS = (EndKind.DIALOG, EndKind.TAB, EndKind.PAGE, EndKind.MENU, EndKind.MENU_ITEM)
_FEWEST_TO_HOLD_OUT = 4
"""If one program has fewer pathways of one kind, none of them is held out."""
_SELECTED = "selected"
_WISHES: Final = {
    EndKind.DIALOG: "Open the dialog {name} and leave it open.",
    EndKind.MENU: "Open the menu {name} and leave it open.",
    EndKind.MENU_ITEM: "Open the menu {menu} so that its entry {name} shows, without choosing it.",
    EndKind.TAB: "Show the tab {name} of {menu}.",
    EndKind.PAGE: "Open the page {name}.",
}


class PathwayGoal(NamedTuple):
    pathway: Pathway
    program: PathwayProgram

    @property
    def name(self) -> str:
        return plain_name(self.pathway.end_name)

    @property
    def menu(self) -> str:
        """The menu or window that contains its end; the program if there is none."""
        return plain_name(self.pathway.steps[-2].name) if len(self.pathway.steps) > 1 else self.program.title

    @property
    def task(self) -> str:
        return f"{self.program.name}.{self.pathway.end_kind}"

    def facts(self) -> GoalFacts:
        program = self.program
        wish = _WISHES[self.pathway.end_kind].format(name=self.name, menu=self.menu)
        slots = [KnownSlot("target", "what is wanted", "list", (self.name,), ())]
        if self.pathway.needs_selection:
            wish = f"Select {program.selection} first. {wish}"
            slots.append(KnownSlot("selection", "what is selected", "list", (program.selection,), ()))
        named = enumerate(plain_name(step.name) for step in self.pathway.steps)
        page = PageMetadata("", program.title, f"A window of {program.title}.", (), "")
        pages = (page._replace(page=f"{program.name}.{number}", leave_by=name) for number, name in named)
        return GoalFacts(PathMetadata(self.task, wish, program.platform, tuple(pages), ()), tuple(slots))

    def worded(self, heldout: bool, seed: int) -> Written:
        rng, by_end, title = Random(seed), packaged_phrasings(__package__), self.program.title
        presses = [f"press {plain_name(step.name)}" for step in pressed_steps(self.pathway)]
        template = by_end[self.pathway.end_kind].draw(heldout, rng)
        words = {"name": self.name, "menu": self.menu, "program": title}
        text = template.expand(self.task, words, rng).strip()
        if self.program.opening and title not in text:
            # The program is not on the screen at the start, so the instruction must name it.
            text = f"in {title}, {text}"
        phrasing = f"{self.task}/{template.id}"
        said = {"target": self.name, **({"menu": self.menu} if "menu" in template.names(self.task) else {})}
        if self.pathway.needs_selection:
            clause, said["selection"] = by_end[_SELECTED].draw(heldout, rng), self.program.selection
            text = clause.expand(self.task, {"selection": self.program.selection, "wish": text}, rng)
            phrasing = f"{phrasing} {_SELECTED}/{clause.id}"
            presses.insert(0, f"select {self.program.selection}")
        raw = tidy(f"in {title}, {', '.join(presses)}")
        return Written(raw, tidy(text), phrasing, said, "pathway-grammar-1")

    def plan(self) -> QueryPlan:
        pathway, program, pressed = self.pathway, self.program, pressed_steps(self.pathway)
        values, wanted = {"target": self.name, "menu": self.menu}, {}
        opening = program.opening
        if pathway.needs_selection:
            values["selection"] = program.selection
            opening += program.selecting
            # An entry that needs a selection is visible without one, but disabled.
            wanted = {"state": "clickable"} if pathway.end_kind is EndKind.MENU_ITEM else {}
        places = ["start", *(step.name for step in pressed)]
        names = [f"{program.name}.{'/'.join(places[: end + 1])}" for end in range(len(places))]
        targets = [*(("tap", step.target) for step in pressed), ("finish", "")]
        walked = zip(names, targets, strict=True)
        path = (*opening, *(PathStep(page=page, operation=done, target=target) for page, (done, target) in walked))
        return QueryPlan(
            platform=program.platform,
            apps=(program.name,),
            source=Source.PATHWAY,
            pages={at.page: f"What shows in {program.title} after {at.page.partition('.')[2]}." for at in path},
            slots=tuple(Slot(name=name, value=value, said="", page=program.name) for name, value in values.items()),
            path=path,
            start_state=program.start_state,
            goal=json.dumps({KEY: [shown.model_dump() | wanted for shown in pathway.shows]}),
        )


class PathwaySource(NamedTuple):
    pathways: Sequence[Pathway]
    programs: Sequence[PathwayProgram]
    most: int = MOST_QUERIES
    """Queries of one program. Dialogs, tabs and pages come first, then menus, then the entries of menus."""
    share: float = 0.15
    """Share of the ends of each kind in each program for each held-out split, and for validation."""

    async def candidates(self, context: SourceContext) -> Offer:
        """Return one goal in one split for each end that can be asked for, by the shortest pathway that leads there."""
        deny_list, by_name = packaged_deny_list(), {program.name: program for program in self.programs}
        askable = [each for each in self.pathways if is_askable(each, deny_list)]
        ends: dict[tuple[str, ...], Pathway] = {}
        for pathway in sorted(askable, key=lambda each: len(each.steps)):
            shows = [f"{each.role}:{each.text}" for each in pathway.shows]
            ends.setdefault((pathway.program, pathway.start_state, pathway.end_kind, pathway.end_name, *shows), pathway)
        by_split: dict[Split, list[Pathway]] = {split: [] for split in Split}
        groups: dict[tuple[str, str], list[Pathway]] = defaultdict(list)
        of_program: Counter[str] = Counter()
        for pathway in sorted(ends.values(), key=lambda each: (_ORDER_OF_KINDS.index(each.end_kind), each.pathway_id)):
            of_program[pathway.program] += 1
            if of_program[pathway.program] > self.most:
                continue
            if pathway.program in context.unseen.all:
                by_split[Split.HELDOUT_APPS].append(pathway)
            else:
                groups[pathway.program, pathway.end_kind].append(pathway)
        for group in groups.values():
            by_chance = sorted(group, key=lambda each: content_id("split", each.pathway_id))
            held = round(self.share * len(group)) if len(group) >= _FEWEST_TO_HOLD_OUT else 0
            for number, split in enumerate((Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS, Split.VALIDATION)):
                by_split[split] += by_chance[number * held : (number + 1) * held]
            by_split[Split.TRAIN] += by_chance[3 * held :]

        def stream(split: Split) -> Iterator[Candidate]:
            for pathway in by_split[split]:
                words = int(content_id("pathway words", context.seed, pathway.pathway_id), 16)
                goal = PathwayGoal(pathway, by_name[pathway.program])
                yield Candidate(goal, split, split is Split.HELDOUT_PHRASINGS, words)

        return Offer.of(stream)


def pressed_steps(pathway: Pathway) -> tuple[PathwayStep, ...]:
    """Return the steps that are pressed: an entry of a menu is shown, not chosen."""
    return pathway.steps[:-1] if pathway.end_kind is EndKind.MENU_ITEM else pathway.steps


def is_askable(pathway: Pathway, deny_list: DenyList) -> bool:
    """Whether the end of a pathway can be asked for: it has a name in words, can be reached, and does no harm."""
    names = [step.name for step in pathway.steps]
    has_words = all(any(map(str.isalpha, name)) and len(name) <= _LONGEST_NAME and "/" not in name for name in names)
    reachable = pathway.enabled or pathway.needs_selection is True
    # A menu entry at the top level is visible from the start, so there is nothing to ask for.
    nested = pathway.end_kind is not EndKind.MENU_ITEM or len(names) > 1
    return has_words and reachable and nested and not any(map(deny_list.search, names))
