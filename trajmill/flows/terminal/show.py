"""What is shown on the terminal: one trajectory, the figures of a round, and those of a calibration."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trajmill.pipelines.reading.episodes import places_of, read_episodes_of_rounds
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import RoundSummary, SplitSuccess
from trajmill.schemas.tables.trajectory import Step
from trajmill.schemas.tables.verdict import Calibration, Ingredient
from trajmill.schemas.text import printable
from trajmill.stages.critics.calibration.agreement import agreement
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.layout import Warehouse

if TYPE_CHECKING:
    from trajmill.flows.judging import Calibrated

_LABEL_STYLES = {"GOOD": "green", "HARMFUL": "red"}
_SHOWN: Final = (
    *("outcome", "feedback", "notes", "completed", "plan", "knowledge"),  # Mobile-Agent-v3; CODA has a plan, too
    *("instruction", "state"),  # CES
    *("device", "atomic_tasks", "answers"),  # LightManus, which has an instruction, too
)
"""The role outputs that are shown, in order; others are kept for the agent alone."""


def find_trajectory(warehouse: Warehouse, start: str, with_calls: bool = False) -> Episode:
    """Read the trajectory whose id starts with `start`, with the verdicts of the run's own judge.

    Raises BadInputError if there is none, or more than one.
    """
    places, named = places_of(warehouse, start), printable(start)[:40]
    if not places:
        advice = '`trajmill sql "SELECT trajectory_id FROM trajectories"` lists them'
        raise BadInputError(f"no trajectory starts with {named!r}; {advice}")
    if len(places) > 1:
        raise BadInputError(f"several trajectories start with {named!r}; give more of the id")
    [place] = places
    rounds_of = {place.trajectory_id: place.round}
    return read_episodes_of_rounds(warehouse, place.run_id, rounds_of, True, True, with_calls)[place.trajectory_id]


def write_images(episode: Episode, warehouse: Warehouse, folder: Path) -> int:
    """Write the screen before each step with its action drawn, and the last screen; return the number of files.

    Raises BadInputError if the folder cannot be made or written to.
    """
    # Without pictures a tenth of a second is saved.
    from trajmill.stages.critics.model.marking import marked_picture
    from trajmill.warehouse.screens import WarehouseScreens

    screens, pictures = WarehouseScreens(warehouse), {}
    for step in episode.steps:
        action = re.sub(r"[^a-z_]", "_", step.action_kind)[:40]
        pictures[folder / f"{step.index + 1:02d}-{action}.png"] = marked_picture(step, screens).encode()
    if episode.steps:
        pictures[folder / f"{len(episode.steps) + 1:02d}-end.png"] = screens.image(episode.steps[-1].screen_after)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, picture in pictures.items():
            path.write_bytes(picture)
    except OSError as error:
        raise BadInputError(f"{folder}: pictures cannot be written ({error.strerror}); name another folder") from None
    return len(pictures)


def trajectory_lines(episode: Episode) -> Iterator[Text]:
    trajectory = episode.trajectory
    yield _line(episode.query.instruction, "bold")
    yield _line(
        f"trajectory {trajectory.trajectory_id}, round {trajectory.round}, {trajectory.purpose} attempt of "
        f"{trajectory.agent} ({trajectory.model_version}) on {episode.query.platform}"
    )
    reward = "none" if trajectory.reward is None else f"{trajectory.reward:g}"
    yield _line(f"{trajectory.steps} steps, stopped by {trajectory.stop_reason}, reward {reward}")
    if trajectory.failure_message:
        yield _line(f"failed ({trajectory.failure_class}): {trajectory.failure_message}", "red")
    if episode.guidance:
        yield _line(f"guidance: {episode.guidance}")
    if (judgement := episode.judgement) is not None:
        verdict, style = ("correct", "green") if judgement.correct else ("not correct", "red")
        yield _line(f"judged {verdict} by {judgement.rule}", style)
    for vote in episode.trajectory_verdicts:
        yield _line(f"  {vote.channel.value}: {'correct' if vote.correct else 'not correct'}; {vote.reason}")
    verdicts = {verdict.index: verdict for verdict in episode.step_verdicts}
    for step in episode.steps:
        yield Text()
        yield _line(f"{step.index + 1:>3}  {step.action or 'no action could be read'}", "bold")
        yield _line(f"     thought     {step.thought}")
        yield _line(f"     conclusion  {step.conclusion}")
        for name, text in role_lines(step).items():
            yield _line(f"     {name:<10}  {text}", "cyan")
        if (found := verdicts.get(step.index)) is not None:
            line = _line(f"     critic      {found.label}", _LABEL_STYLES.get(found.label, "dim"))
            yield line.append(printable(f"  {found.analysis}"))
        for call in episode.calls:
            if call.step_index == step.index and call.response is not None:
                parts = [
                    part if isinstance(part, str) else f"[screen {part['screen'][:8]}]"
                    for message in json.loads(call.messages)
                    if message["role"] != "system"  # The same at every step.
                    for part in message["content"]
                ]
                yield _line(f"     {call.role} is asked: {' | '.join(parts)}", "dim")
                said = f"{call.response} ({call.made_by}, {call.output_tokens} tokens)"
                yield _line(f"     {call.role} says: {said}", "dim")


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def role_lines(step: Step) -> dict[str, str]:
    """Return the shown role outputs by name, each on one line: the items of a list are separated by semicolons."""
    outputs = json.loads(step.role_outputs)
    return {name: "; ".join(outputs[name].splitlines()) for name in _SHOWN if outputs.get(name)}


_Block = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]


def round_table(summary: RoundSummary) -> RenderableType:
    """Lay out the round's success, judge and stages, side by side where the terminal is wide enough."""
    tables = []
    for headings, rows in _blocks(summary):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        tables.append(table)
    # One line, however long: it can be searched for in a log, and paths in it can be copied.
    headline = Text(f"Round {summary.round}: {_headline(summary)}", style="bold", no_wrap=True, overflow="ignore")
    return Group(Text(), headline, Columns(tables, padding=(0, 2)))


def round_markdown(summary: RoundSummary) -> str:
    parts = [f"# Round {summary.round}", html.escape(_headline(summary), quote=False)]
    for headings, rows in _blocks(summary):
        rules = ("---", *("--:" for _ in headings[1:]))
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rules, *rows)))
    return "\n\n".join(parts) + "\n"


def _headline(summary: RoundSummary) -> str:
    if not summary.trained:
        return f"not trained, the policy stays: {summary.reason}"
    if summary.policy_after == summary.policy_before:
        return f"trained, not promoted: {summary.reason}"
    return f"promoted {summary.policy_after}"


def _blocks(summary: RoundSummary) -> tuple[_Block, ...]:
    # It imports all settings, a third of the time of `trajmill show`, which needs none of them.
    from trajmill.flows.report.figures import SPLIT_NAMES

    before, after = ({each.split: each for each in of} for of in (summary.success_before, summary.success_after))
    success = [
        (name, *_share(before.get(split))[:1], *_share(after.get(split)))
        for split, name in SPLIT_NAMES.items()
        if split in before or split in after
    ]
    judge = []
    for quality in summary.judge:
        found = agreement(quality)
        values = ((found.precision.value, ".3f"), (found.recall.value, ".3f"), (found.kappa, ".2f"))
        judge.append((quality.level, *(_number(value, form) for value, form in values)))
    stages = [(each.stage, f"{each.rows_in:,}", f"{each.rows_out:,}", f"{each.seconds:.1f}") for each in summary.stages]
    total = sum(each.seconds for each in summary.stages)
    return (
        (("success", "before", "after", "95 %"), success),
        (("judge", "precision", "recall", "kappa"), judge),
        (("stage", "in", "out", "seconds"), [*stages, ("all", "", "", f"{total:.1f}")]),
    )


def _share(entry: SplitSuccess | None) -> tuple[str, str]:
    if entry is None or entry.queries == 0:
        return "-", "-"
    low, high = wilson(entry.successes, entry.queries)
    return f"{entry.successes / entry.queries:.0%}", f"{low:.0%}-{high:.0%}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


_HEADINGS = ("", "votes", "precision", "95 %", "recall", "95 %", "F1", "kappa", "n", "open", "calls", "tokens", "s")


def calibration_table(calibrated: Calibrated) -> RenderableType:
    """Lay out the figures of one judge; calls, tokens and seconds are per verdict."""
    labels = "programmatic rewards" if calibrated.labels is None else f"the labels of {calibrated.labels}"
    found = calibrated.evaluated
    counts = [f"{found.trajectories - found.unjudged:,} of {found.trajectories:,} labelled trajectories judged"]
    for count, what in (
        (found.unjudged, "could not be judged"),
        (found.void, "void"),
        (found.unlabelled, "without a label"),
        (found.absent, "of the set are not there"),
    ):
        counts += [f"{count:,} {what}"] if count else []
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if number else "left", no_wrap=number > 0)
    for row in calibrated.rows:
        table.add_row(*map(Text, _cells(row)), end_section=row.ingredient is Ingredient.CHANNEL)
    headline = Text(f'Judge "{calibrated.judge}" against {labels}: {calibrated.rows[-1].rule}', style="bold")
    why = [Text(found.why_unjudged)] if found.unjudged else []
    cached = max(row.cached for row in calibrated.rows)
    note = Text(f"Up to {cached:.0%} of the calls were answered from the request cache and took no time.")
    return Group(Text(), headline, Text("; ".join(counts)), *why, table, *([note] if cached else []))


def _cells(row: Calibration) -> Iterable[str]:
    name = "voting, multi-resolution" if row.ingredient is Ingredient.MULTI_RESOLUTION else row.ingredient.value
    if row.channel is not None:
        # E.g. `multimodal: voting at 0.5, judge-72b`; a fine-tuned model shows in its name.
        at = f" at {row.resolution}" if row.resolution not in (None, "full") else ""
        models = dict.fromkeys(made_by.partition("@")[2] or made_by for made_by in row.models.split("+"))
        name = f"{row.channel}: {name}{at}, {' + '.join(models)}"
    yield from (name, str(row.votes))
    yield from (_percent(row.precision), f"{100 * row.precision_low:.1f}-{100 * row.precision_high:.1f}")
    yield from (_percent(row.recall), f"{100 * row.recall_low:.1f}-{100 * row.recall_high:.1f}")
    yield from (_percent(row.f1), _number(row.kappa, ".2f"))
    yield f"{row.true_positive + row.false_positive + row.true_negative + row.false_negative:,}"
    yield from (f"{row.undecided:,}", f"{row.calls:.1f}", f"{row.tokens:,.0f}", f"{row.seconds:.2f}")


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f}"
