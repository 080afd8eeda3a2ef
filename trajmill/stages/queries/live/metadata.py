"""What a writer is told about a sample: its pages, its values, and the words for them (GUI-Owl 6.2, step 2)."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.graphs.base import AppGraph, GraphTransition, SlotKind
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.queries.live.base import LiveBrief, LiveSample, Setting


def live_brief(sample: LiveSample, heldout: bool, seed: int) -> LiveBrief:
    """The input of a writer for a sample; `heldout` asks for a held-out phrasing."""
    slots = tuple(known_slot(sample.graph, setting) for setting in sample.settings)
    if not slots:
        slots = (KnownSlot("page", "page", "list", (page_name(sample.graph, sample.end),), ()),)
    return LiveBrief(sample, path_metadata(sample), slots, heldout, seed)


def app_name(graph: AppGraph) -> str:
    """The name of an app in instructions."""
    return graph.title or graph.app


def page_name(graph: AppGraph, page: str) -> str:
    """The name of a page in instructions."""
    return graph.pages[page].title or page.replace("-", " ")


def page_description(graph: AppGraph, page: str) -> str:
    """The content and purpose of a page; its name if nobody has described it."""
    return graph.pages[page].description or f"{page_name(graph, page)} of {app_name(graph)}"


def label(graph: AppGraph, setting: Setting) -> str:
    """What people call a slot."""
    return setting.spec(graph).name or setting.slot.replace("-", " ")


def pressed_name(graph: AppGraph, page: str, transition: GraphTransition) -> str:
    """What people call the element of a transition; its keys for one without an element, if it has any."""
    element = graph.pages[page].elements.get(transition.by)
    if element is None:
        return transition.keys
    name = element.name or transition.by.replace("-", " ")
    # A sentence would swallow a name such as `.` or `+`.
    return name if any(letter.isalnum() for letter in name) else f'"{name}"'


def path_metadata(sample: LiveSample) -> PathMetadata:
    """The facts about the route of a sample."""
    graph = sample.graph
    pages = [
        PageMetadata(
            f"{graph.app}.{move.page}",
            app_name(graph),
            page_description(graph, move.page),
            tuple(_value(graph, setting) for setting in move.settings),
            pressed_name(graph, move.page, move.transition),
        )
        for move in sample.moves
    ]
    last = tuple(_value(graph, setting) for setting in sample.final)
    pages.append(
        PageMetadata(f"{graph.app}.{sample.end}", app_name(graph), page_description(graph, sample.end), last, "")
    )
    constraints = tuple(_value(graph, setting) for setting in sample.settings)
    return PathMetadata(sample.task, _description(sample), graph.platform, tuple(pages), constraints)


def _description(sample: LiveSample) -> str:
    done = [move.transition.does for move in sample.moves if move.transition.does]
    return " ".join(done) or f"Get to {page_name(sample.graph, sample.end)} in {app_name(sample.graph)}."


def _value(graph: AppGraph, setting: Setting) -> SlotValue:
    return SlotValue(
        name=setting.name,
        page=f"{graph.app}.{setting.page}",
        label=label(graph, setting),
        kind=setting.spec(graph).kind.value,
        value=setting.value,
        words=(setting.value,),
        optional=False,
        carried_from="",
    )


def known_slot(graph: AppGraph, setting: Setting) -> KnownSlot:
    """The words for a value that the user asks for."""
    spec, named = setting.spec(graph), label(graph, setting)
    if spec.kind is SlotKind.SWITCH:
        # The check reads a `not` before an option as a mistake, so an option that is wanted off is a choice of words.
        kind = "switch" if setting.value == ON else "choice"
        words = switch_words(named, setting.value)
        return KnownSlot(setting.name, named, kind, (named,) if setting.value == ON else words, ())
    others = _others(spec.values, setting.value)
    return KnownSlot(setting.name, named, spec.kind.value, (setting.value,), others)


def switch_words(named: str, value: str) -> tuple[str, ...]:
    """Phrases that ask to turn an option on or off."""
    if value == OFF:
        return (f"turn off {named}", f"switch off {named}")
    return (f"turn on {named}", f"switch on {named}")


def _others(values: Sequence[str], wanted: str) -> tuple[str, ...]:
    """The other values of a slot, without those that are a part of the wanted one."""
    return tuple(value for value in values if value.casefold() not in wanted.casefold())
