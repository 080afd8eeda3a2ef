"""The embedded writer of queries from graphs: a wish from the annotations, put into a template (6.2, steps 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol

from trajmill.stages.graphs.base import SlotKind
from trajmill.stages.graphs.plain_does import written
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.graph.grammar import GrammarWriter
from trajmill.stages.queries.live.base import LiveBrief, LiveSample, RouteMove, Setting
from trajmill.stages.queries.live.metadata import app_name, label, page_name, pressed_name, switch_words
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

    version = "live-grammar-2"

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
        wishes = [_act(sample, move, rng) for move in acts]
        if sample.moves and sample.moves[-1] not in acts:
            going = rng.choice(("go to", "open", "get to"))
            wishes.append(Wish(f"{going} {page_name(sample.graph, sample.end)}", {}))
        wishes += [wish_for(sample, setting, rng) for setting in sample.final]
        said = {name: words for wish in wishes for name, words in wish.said.items()}
        return _DO, {**app, "wish": " and ".join(wish.text for wish in wishes)}, said


def _opens_item(sample: LiveSample, acts: Sequence[RouteMove]) -> bool:
    """Whether nothing is asked for but an item of a list, without words of its own."""
    if len(acts) != 1 or sample.final or len(acts[0].settings) != 1 or acts[0].transition.does:
        return False
    return acts[0].settings[0].spec(sample.graph).kind is SlotKind.LIST and acts[0].transition.to != acts[0].page


def _act(sample: LiveSample, move: RouteMove, rng: Random) -> Wish:
    """The wish for a transition: what it does, with the values that this does not name added."""
    element = sample.graph.pages[move.page].elements.get(move.transition.by)
    does = move.transition.does or (written(element.does) if element else "")
    pressed = pressed_name(sample.graph, move.page, move.transition)
    text = as_wish(does) if does else f"press {pressed}" if pressed else ""
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


def as_wish(does: str) -> str:
    """A sentence about an element as a wish: `Adds the entry.` is `add the entry`."""
    first, _, rest = does.strip().rstrip(".").partition(" ")
    verb = first[:1].lower() + first[1:]
    if verb.endswith("ies") and len(verb) > 4:
        verb = f"{verb[:-3]}y"
    elif verb.endswith(("sses", "shes", "ches", "xes", "zes", "oes")):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    return f"{verb} {rest}".strip()


def _quoted(sample: LiveSample, setting: Setting) -> str:
    """A value in a sentence; a typed text stands in quotes."""
    return f'"{setting.value}"' if setting.spec(sample.graph).kind is SlotKind.FIELD else setting.value
