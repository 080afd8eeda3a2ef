"""A task for an agent."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from trajmill.schemas.record import Record, Row, content_id


class Platform(StrEnum):
    """The sort of device, which decides the actions."""

    PHONE = "phone"
    DESKTOP = "desktop"
    WEB = "web"


class Source(StrEnum):
    """How a query was made."""

    DAG = "dag"
    GRAPH = "graph"
    """Sampled from the graph of a live app; its path is walked by element ids."""
    ATOMIC = "atomic"
    PATHWAY = "pathway"
    SCREENSHOT = "screenshot"
    CURRICULUM = "curriculum"
    CAUSAL = "causal"
    """A chain of atomic tasks in several apps; the answer of each is a slot of the next (NaturalGAIA 3)."""
    IMPORTED = "imported"

    @property
    def in_real_programs(self) -> bool:
        """Whether the paths are walked by the ids of elements alone, with nothing in between that interrupts."""
        return self in (self.IMPORTED, self.PATHWAY, self.ATOMIC, self.GRAPH, self.CAUSAL)


class Split(StrEnum):
    """The use of a query, fixed before training; only `train` is trained on."""

    TRAIN = "train"
    HELDOUT_SLOTS = "heldout_slots"
    """New slot combinations, phrased as in training."""
    HELDOUT_PHRASINGS = "heldout_phrasings"
    """New slot combinations in phrasings that training never sees."""
    HELDOUT_APPS = "heldout_apps"
    """Apps that training never sees."""
    VALIDATION = "validation"
    """New slot combinations, and an app of its own that training never sees; they decide which policy is promoted."""


HELDOUT_SPLITS = (Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS, Split.HELDOUT_APPS)
"""The splits that are reported; nothing is decided by them."""

ASKED = "?"
PASSED = "passed"
"""The validation of a query that agents may attempt."""
RECORDED = "recorded"
"""The validation of a query that stands for recordings from elsewhere: nothing here can start it."""
FEASIBLE = "feasible: one attempt was judged correct"
"""The validation of a proposed query that was tried before training."""
INFEASIBLE = "refused: one attempt was judged incorrect"
"""The validation of a proposed query that was tried and that is never attempted again."""


class Slot(Record):
    """One constraint of the user: a slot of a page and the wanted value."""

    name: str
    """The slot's name, unique within its task, e.g. `size`."""
    value: str
    """The value as the screen shows it, e.g. `Large`; `?` (`ASKED`) if the user asks for it: the answer is not here."""
    said: str
    """The value in the words of the instruction, e.g. `big`; empty if it is not said (carried from another app)."""
    page: str
    """The page on which the slot is set, as `app.screen`."""


class PathStep(Record):
    """One operation of the annotated reference path."""

    page: str
    """The page of the operation, as `app.screen`."""
    operation: str
    """`open` (an app), `tap`, `type`, or the end: `finish`, `answer`, or `give_up` (scroll down to the end of the page,
    then report failure). In real programs also `double_tap`, `right_tap`,
    `replace` (the text of a field), `key`, `drag`, `select` (drag from the left edge of an element to the right edge
    of another) and `scroll` (down, and from the end up, until an element is visible)."""
    target: str
    """Element id to tap or type into; for `open` the app's name; empty for `finish` and for the focused element."""
    text: str = ""
    """Text to type; for `key` the keys (`ctrl+s`); for `drag` and `select` the element id at the end."""


class CausalTask(Record):
    """A node of a causal pathway (NaturalGAIA 3.1)."""

    device: Platform
    """Where it is done."""
    app: str
    """The app that it is done in."""
    instruction: str
    """What is to be done; the name of an earlier answer stands in braces."""
    answer: str
    """The name of its answer, e.g. `answer_1`; empty for the last task, which gives none."""
    value: str
    """The right answer."""


class Query(Row):
    """A task for an agent, with its start state, reference path and goal check."""

    query_id: str
    """Content hash of platform, task, slots, start state and instruction. Equal in all runs: join by `run_id`, too."""
    platform: Platform
    """The sort of device."""
    apps: tuple[str, ...]
    """Apps of the task, in order of use."""
    source: Source
    """How the query was made."""
    task: str
    """Name of the task template (`app.task`), or of the MiniWoB page."""
    raw_instruction: str
    """The explicit instruction, synthesised from the path's metadata (paper 6.2, step 3)."""
    instruction: str
    """The refined instruction, which the agent gets (paper 6.2, step 4)."""
    phrasing: str
    """Id of the instruction's phrasing."""
    pages: tuple[str, ...]
    """The sampled path of the navigation DAG, as `app.screen` (paper 6.2, step 1)."""
    page_descriptions: tuple[str, ...]
    """The purpose of each page (paper 6.2, step 2)."""
    slots: tuple[Slot, ...]
    """The constraints that the user gave."""
    path: tuple[PathStep, ...]
    """The annotated reference path; empty without one."""
    start_state: str
    """The start state, as JSON for the environment's reset; `{}` for its default state."""
    goal: str
    """JSON of the programmatic goal check; `{}` without one. Agents never see it; a judge by app graphs reads what it
    says about screens."""
    difficulty: int
    """1 to 3 as in NaturalGAIA 3.4: by path length and number of apps."""
    max_steps: int
    """Step limit of an episode."""
    split: Split
    """Its use, fixed before training."""
    validation: str
    """`passed`; `recorded` if it was imported with its recordings and is never attempted here; or why the query was
    dropped (paper 6.2, step 5). Of a proposed task it begins with `feasible` or `refused` if it was tried."""
    atomic_tasks: tuple[CausalTask, ...] | None = None
    """The atomic tasks of a causal pathway, in their order; null for other queries."""

    @staticmethod
    def make_id(platform: Platform, task: str, slots: tuple[Slot, ...], start_state: str, instruction: str) -> str:
        return content_id("query", platform, task, [s.model_dump() for s in slots], start_state, instruction)

    def goal_key(self) -> str:
        """Identifies the goal, which does not depend on the words: task, slot values and start state."""
        values: list[Any] = sorted((s.name, s.value) for s in self.slots)
        return content_id("goal", self.task, values, self.start_state)
