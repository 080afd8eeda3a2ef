"""A calibration for the terminal: the figures of CODA's Table 2, and the cost of a verdict."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trajmill.flows.judging import Calibrated
from trajmill.schemas.tables.verdict import Calibration, Ingredient

_HEADINGS = ("", "votes", "precision", "95 %", "recall", "95 %", "F1", "kappa", "n", "open", "calls", "tokens", "s")
_NAMES = {
    Ingredient.SINGLE: "single",
    Ingredient.VOTING: "voting",
    Ingredient.MULTI_RESOLUTION: "voting, multi-resolution",
    Ingredient.ENSEMBLE: "ensemble",
    Ingredient.CHANNEL: "channel",
    Ingredient.CONSENSUS: "consensus",
}


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


def _cells(row: Calibration) -> tuple[str, ...]:
    name = _NAMES[row.ingredient]
    if row.channel is not None:
        # E.g. `multimodal: voting at 0.5, judge-72b`; a fine-tuned model shows in its name.
        at = f" at {row.resolution}" if row.resolution not in (None, "full") else ""
        models = dict.fromkeys(made_by.partition("@")[2] or made_by for made_by in row.models.split("+"))
        name = f"{row.channel}: {name}{at}, {' + '.join(models)}"
    n = row.true_positive + row.false_positive + row.true_negative + row.false_negative
    precision, recall, f1 = (
        "-" if rate is None else f"{100 * rate:.1f}" for rate in (row.precision, row.recall, row.f1)
    )
    precise, recalled = (
        f"{100 * low:.1f}-{100 * high:.1f}"
        for low, high in ((row.precision_low, row.precision_high), (row.recall_low, row.recall_high))
    )
    kappa = "-" if row.kappa is None else f"{row.kappa:.2f}"
    cost = (f"{row.calls:.1f}", f"{row.tokens:,.0f}", f"{row.seconds:.2f}")
    return name, str(row.votes), precision, precise, recall, recalled, f1, kappa, f"{n:,}", f"{row.undecided:,}", *cost
