"""Explores a running app with several environments at a time, and keeps what it finds in a journal."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from trajmill.schemas.errors import EnvironmentFailure, TrajmillError
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.explore.base import (
    BOX,
    SETTING,
    Effect,
    ExploreBounds,
    PlannedTrial,
    Trial,
    TrialKind,
    WalkedScreen,
    seen_screen,
    taken_text,
)
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.graphs.explore.journal import ExploreJournal, Tried
from trajmill.stages.graphs.explore.pages import FoundElement, FoundPage, PageBook
from trajmill.stages.graphs.explore.plan import origin_of, trials_on
from trajmill.stages.graphs.explore.walker import AppWalker, Budget, OutOfBoundsError, WayLost
from trajmill.stages.graphs.operations import graph_start

_MOST_ENVIRONMENT_FAILURES = 5
_SECONDS_BETWEEN_LOOKS = 0.05
_MOST_PAGES_PER_ELEMENT = 4
"""Pages on which one element is tried; a navigation bar is the same on all pages."""
Progress = Callable[[int, int, int], None]
_TrialKey = tuple[int, tuple[TrialKind, str]]
"""The number of a page, and the kind and the target of a trial on it."""


class Explored(NamedTuple):
    book: PageBook
    trials: tuple[Trial, ...]
    left: Mapping[int, int]
    """By number of a page, how many trials are left within the bounds on depth, breadth and pages."""
    actions: int
    """Actions and resets of this call."""
    failures: tuple[str, ...]
    """Crashes and hangs of environments in this call."""


class Findings:
    def __init__(self, bounds: ExploreBounds, deny_list: DenyList, platform: Platform) -> None:
        self.book = PageBook()
        self.trials: list[Trial] = []
        self._bounds, self._deny_list, self._platform = bounds, deny_list, platform
        self._taken: set[_TrialKey] = set()
        """Trials that are done, or that somebody carries out."""
        self._elsewhere: Counter[tuple[TrialKind, str]] = Counter()
        """By kind and element, the pages on which it was tried."""
        self._leaving: set[tuple[TrialKind, str]] = set()
        self._numbers: set[str] = set()
        """Fields that did not take a text."""
        self._changed: set[_TrialKey] = set()
        """Presses of links that are tried again, because their text changed."""
        self.waiting = 0
        """Trials that were left when the last one was claimed."""

    def add(self, tried: Tried) -> None:
        trial = tried.trial
        page = self.book.add(tried.before, trial.way)
        name = (trial.kind, trial.target)
        self._taken.add((page.number, name))
        self._elsewhere[name] += trial.kind is not TrialKind.SCROLL
        self.trials.append(trial)
        if trial.effect is Effect.LEFT:
            self._leaving.add(name)
        if trial.kind is TrialKind.FILL and not taken_text(trial, tried.after):
            self._numbers.add(trial.target)
        after = tried.after if trial.effect is Effect.CHANGED else None
        end = page.number if trial.effect is Effect.NOTHING else -1
        if after is not None and trial.kind in SETTING:
            self.book.add_filled(page, after)
        elif after is not None and trial.kind is TrialKind.SCROLL:
            self.book.add_scrolled(page, after, (*trial.way, *trial.steps), trial.region)
        elif after is not None:
            origin = None if _stays(page, trial.target, after) else origin_of(page, trial.target)
            if self.book.knows(after, origin) or len(self.book.pages) < self._bounds.pages:
                end = self.book.add(after, (*trial.way, *trial.steps), origin).number
        # What says something else now, such as the number of things in a cart, may lead elsewhere.
        if after is not None and end == page.number:
            for target, each in after.by_target.items():
                known = page.elements.get(target)
                is_link, press = each.role == "link" and each.clickable, (page.number, (TrialKind.PRESS, target))
                if is_link and known is not None and each.text != known.element.text and press not in self._changed:
                    page.elements[target] = FoundElement(each, (*trial.way, *trial.steps), after.screen_id)
                    self._changed.add(press)
                    self._taken.discard(press)
        if trial.kind is TrialKind.PRESS:
            page.results[trial.target] = end
            pressed = page.elements.get(trial.target)
            if after is not None and pressed is not None and pressed.element.role == BOX:
                before, shown = tried.before.by_target, after.by_target.items()
                options = (name for name, each in shown if each.role == "list_item" and "disabled" not in each.states)
                page.options[trial.target] = tuple(name for name in options if name not in before)

    def claim(self, at: tuple[PathStep, ...] | None) -> PlannedTrial | None:
        """Claim the next trial, preferably at the current position of the walker."""
        waiting = [(page, trial) for page in self.book.pages for trial in self._planned(page)]
        self.waiting = len(waiting)
        if not waiting:
            return None
        # Each page in turn: the first ones may have more to try than the time allows.
        done = Counter(number for number, _ in self._taken)
        fewest = min(waiting, key=lambda each: done[each[0].number])
        page, trial = next((each for each in waiting if each[1].way == at), fewest)
        self._taken.add((page.number, trial.name))
        return trial

    def give_back(self, trial: PlannedTrial) -> None:
        page = self.book.page_of(trial.screen_id)
        if page is not None:
            self._taken.discard((page.number, trial.name))

    @property
    def left(self) -> dict[int, int]:
        """By number of a page, the trials that are left on it."""
        return {page.number: count for page in self.book.pages if (count := len(self._planned(page)))}

    def _planned(self, page: FoundPage) -> list[PlannedTrial]:
        shared = (self.book.shared(page, other) & other.results.keys() for other in self.book.pages)
        elsewhere = self.book.below(page).union(*shared)
        planned = trials_on(page, elsewhere, self._numbers, self._bounds, self._deny_list, self._platform)
        return [
            trial
            for trial in planned
            if (page.number, trial.name) not in self._taken
            and trial.name not in self._leaving
            and self._elsewhere[trial.name] < _MOST_PAGES_PER_ELEMENT
        ]


def _stays(page: FoundPage, target: str, after: WalkedScreen) -> bool:
    """Whether what was pressed belongs to a menu, which the next page has too."""
    group = page.group_of(target)
    return group is not None and group.is_run and after.by_target.keys() >= set(group.items.values())


class Exploration:
    """One call: goes on with what the journal holds, until all is tried or the bounds are reached."""

    def __init__(
        self,
        pool: EnvironmentPool,
        app: AppGraph,
        bounds: ExploreBounds,
        deny_list: DenyList,
        journal: ExploreJournal,
        keep_picture: Callable[[Observation], None],
    ) -> None:
        """`keep_picture` is called with each screen by which a page was found, maybe several times."""
        self._pool, self._app, self._journal, self._keep_picture = pool, app, journal, keep_picture
        self._start = graph_start(app)
        self._findings = Findings(bounds, deny_list, app.platform)
        self._budget = Budget(bounds.actions, bounds.seconds)
        self._busy = 0
        self._failures: list[str] = []

    async def run(self, workers: int, progress: Progress = lambda pages, tried, left: None) -> Explored:
        """Explore in `workers` environments; `progress` gets the numbers of pages and of trials, done and left.

        Raises BadInputError if the journal belongs to another app, TrajmillError if the app could not be started.
        """
        for tried in self._journal.read():
            self._findings.add(tried)
        self._journal.open()
        try:
            if not self._findings.book.pages:
                await self._first_screen()
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(progress))
        finally:
            self._journal.close()
        found = self._findings
        return Explored(found.book, tuple(found.trials), found.left, self._budget.used, tuple(self._failures))

    async def _first_screen(self) -> None:
        try:
            async with self._pool.lease() as environment:
                seen = await AppWalker(environment, self._start, self._app.opening, self._budget).go(())
        except EnvironmentFailure as error:
            raise TrajmillError(f"{self._app.app} does not start: {error}; correct how it opens") from error
        self._findings.book.add(seen_screen(seen), ())
        self._keep(seen)

    async def _work(self, progress: Progress) -> None:
        while len(self._failures) <= _MOST_ENVIRONMENT_FAILURES and not self._budget.is_spent:
            try:
                async with self._pool.lease() as environment:
                    await self._walk(AppWalker(environment, self._start, self._app.opening, self._budget), progress)
                return
            except OutOfBoundsError:
                return
            except EnvironmentFailure as error:
                self._failures.append(str(error))

    async def _walk(self, walker: AppWalker, progress: Progress) -> None:
        """Try one thing after the other, until nothing is left and nobody may find more."""
        while True:
            planned = self._findings.claim(walker.way)
            if planned is None:
                if not self._busy:
                    return
                await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
                continue
            self._busy += 1
            try:
                await self._try(walker, planned)
            finally:
                self._busy -= 1
            progress(len(self._findings.book.pages), len(self._findings.trials), self._findings.waiting)

    async def _try(self, walker: AppWalker, planned: PlannedTrial) -> None:
        try:
            result = await walker.attempt(planned)
        except OutOfBoundsError:
            self._findings.give_back(planned)
            raise
        except EnvironmentFailure as error:
            self._add(planned.carried_out(planned.screen_id, Effect.FAILED, reason=str(error)), None, None)
            if not isinstance(error, WayLost):
                raise
        else:
            self._add(*result)

    def _add(self, trial: Trial, before: Observation | None, after: Observation | None) -> None:
        first = seen_screen(before) if before else self._findings.book.screen(trial.before)
        tried = Tried(trial, first, seen_screen(after) if after else None)
        self._journal.add(tried)
        self._findings.add(tried)
        for seen in (before, after):
            if seen is not None:
                self._keep(seen)

    def _keep(self, seen: Observation) -> None:
        page = self._findings.book.page_of(seen.screen.screen_id)
        if page is not None and page.first.screen_id == seen.screen.screen_id:
            self._keep_picture(seen)
