"""The embedded writer of queries from graphs: a wish from the annotations, put into a template (6.2, steps 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple, Protocol

from trajmill.stages.graphs.base import SlotKind
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.graph.grammar import GrammarWriter
from trajmill.stages.queries.live.base import LiveBrief, LiveSample, RouteMove, Setting
from trajmill.stages.queries.live.metadata import app_name, label, page_name, switch_words
from trajmill.stages.queries.live.way import pressing, way_in_words
from trajmill.stages.queries.packaged_phrasings import packaged_phrasings
from trajmill.stages.queries.phrasing_template import parse_template, tidy

_VISIT, _OPEN, _DO = "visit", "open", "do"


class LiveWriter(Protocol):
    """Writes instructions for samples: the grammar, or a language model."""

    @property
    def version(self) -> str:
        """Name and version; stored with every query that it writes."""
        ...

    async def write_live(self, brief: LiveBrief) -> Written:
        """Steps 3 and 4: synthesise and refine. Equal briefs give equal queries if the writer is deterministic.

        Raises:
            StageError: the written text is not what the brief asks for.
            ModelFailure: its model did not answer.
        """
        ...


class Wish(NamedTuple):
    """What is to be done, as the end of `I want you to ...`."""

    text: str
    said: dict[str, str]
    """By slot, the words for its value."""


class LiveGrammar:
    """Makes wishes of what transitions do, and puts them into the templates of `phrasings.yaml`."""

    version = "live-grammar-3"

    def __init__(self) -> None:
        """Read the templates."""
        self._by_kind = packaged_phrasings("trajmill.stages.queries.live")

    async def write_live(self, brief: LiveBrief) -> Written:
        """Draw a template and the words of the wish."""
        rng = Random(brief.seed)
        kind, words, said = self._content(brief.sample, rng)
        template = self._by_kind[kind].draw(brief.heldout, rng)
        text = parse_template(template.text, brief.sample.task).expand(words, rng)
        raw = GrammarWriter().synthesise(brief.metadata)
        return Written(raw, tidy(text), f"{brief.sample.task}/{template.id}", said)

    def _content(self, sample: LiveSample, rng: Random) -> tuple[str, dict[str, str], dict[str, str]]:
        """The kind of template, the words for it, and by slot the words for its value."""
        app = {"app": app_name(sample.graph)}
        acts = sample.acts
        if not (acts or sample.final):
            page = page_name(sample.graph, sample.end)
            return _VISIT, {**app, "page": page}, {"page": page}
        if _opens_item(sample, acts):
            (setting,) = acts[0].settings
            return _OPEN, {**app, "item": setting.value}, {setting.name: setting.value}
        wishes = [*_moves(sample, rng), *(wish_for(sample, setting, rng) for setting in sample.final)]
        said = {name: words for wish in wishes for name, words in wish.said.items()}
        return _DO, {**app, "wish": " and ".join(wish.text for wish in wishes)}, said


def _opens_item(sample: LiveSample, acts: Sequence[RouteMove]) -> bool:
    """Whether nothing is asked for but an item of a list, without words of its own."""
    if len(acts) != 1 or sample.final or len(acts[0].settings) != 1 or acts[0].transition.does:
        return False
    return acts[0].settings[0].spec(sample.graph).kind is SlotKind.LIST and acts[0].transition.to != acts[0].page


def _moves(sample: LiveSample, rng: Random) -> Iterator[Wish]:
    """What is done on the way, each after the way to its page; then the way to the last page."""
    acts, way = sample.acts, list[RouteMove]()
    for move in sample.moves:
        if move in acts:
            yield from _way(sample, way, rng)
            yield _act(sample, move, rng)
            way = []
        else:
            way.append(move)
    yield from _way(sample, way, rng)


def _way(sample: LiveSample, way: Sequence[RouteMove], rng: Random) -> Iterator[Wish]:
    if way:
        going = rng.choice(("go to", "open", "get to"))
        yield from (Wish(words, {}) for words in way_in_words(sample.graph, way, going))


def _act(sample: LiveSample, move: RouteMove, rng: Random) -> Wish:
    """The wish for a transition: what it does, with the values that this does not name added."""
    text = pressing(sample.graph, move)
    said: dict[str, str] = {}
    left: list[Wish] = []
    for setting in move.settings:
        place = f"{{{setting.slot}}}"
        if place in text:
            text = text.replace(place, _quoted(sample, setting))
            said[setting.name] = setting.value
        else:
            left.append(wish_for(sample, setting, rng))
    before = [wish.text for wish in left]
    said |= {name: words for wish in left for name, words in wish.said.items()}
    then = [f"then {text}" if before else text] if text else []
    return Wish(", ".join([*before, *then]), said)


def wish_for(sample: LiveSample, setting: Setting, rng: Random) -> Wish:
    """The wish for one value."""
    named = label(sample.graph, setting)
    match setting.spec(sample.graph).kind:
        case SlotKind.SWITCH:
            words = rng.choice(switch_words(named, setting.value))
            return Wish(words, {setting.name: words})
        case SlotKind.FIELD:
            return Wish(f'{rng.choice(("put", "enter"))} "{setting.value}" into {named}', {setting.name: setting.value})
        case SlotKind.CHOICE | SlotKind.SLIDER if setting.spec(sample.graph).name:
            return Wish(f"{rng.choice(('set', 'change'))} {named} to {setting.value}", {setting.name: setting.value})
        case _:
            return Wish(f"{rng.choice(('choose', 'pick'))} {setting.value}", {setting.name: setting.value})


def _quoted(sample: LiveSample, setting: Setting) -> str:
    """A value in a sentence; a typed text stands in quotes."""
    return f'"{setting.value}"' if setting.spec(sample.graph).kind is SlotKind.FIELD else setting.value
