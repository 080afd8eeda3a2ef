"""Reads CUAVerifierBench (arXiv 2604.06240): attempts of Fara-7B in a browser, each judged by one or two people.

    FOLDER/annotations/SPLIT-*.parquet    a row for each person: task_id, human_judgement_outcome, ...
    FOLDER/trajectories/SPLIT-*.parquet   a row for each attempt: instruction, screenshots, web_surfer_log, ...

The label is what most people said before they saw a verdict of a model; a tie is no label. `web_surfer_log` has a JSON
line for each action; screenshot N shows the page before action N. Verdicts of the set's own verifiers are not read.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from trajmill.schemas import actions
from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace, PixelBudget
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin
from trajmill.schemas.text import storable
from trajmill.stages.agents.base import Decision
from trajmill.stages.critics.calibration.labelled_set import (
    Label,
    LabelledEpisode,
    LabelledScreens,
    LabelledTrajectory,
    UnreadableError,
    episode_of,
)
from trajmill.stages.models.prompts import refuse_constant

_AGENT: Final = "fara-7b"
_VERDICTS: Final = {"Correct": True, "Incorrect": False}
_COLUMNS: Final = ("task_id", "instruction", "final_answer", "web_surfer_log", "screenshots")
_NO_ANSWER: Final = "<no_answer>"
_SEEN_BY_FARA: Final = PixelBudget(factor=28, min_pixels=4 * 28 * 28, max_pixels=16_384 * 28 * 28)
"""Positions in the log are pixels of the picture that the model saw."""
_NOTCH: Final = 100


class CuaVerifierBench:
    holds = "trajectories/SPLIT-*.parquet"

    def __init__(self, folder: Path) -> None:
        """Read the labels. Raises BadInputError for a damaged file, or for none."""
        self._folder = folder
        votes: dict[tuple[str, str], Counter[bool | None]] = defaultdict(Counter)
        for path in sorted(folder.glob("annotations/*.parquet")):
            try:
                rows = pq.read_table(path, columns=["task_id", "human_judgement_outcome"]).to_pylist()
            except (OSError, pa.ArrowInvalid) as error:
                raise BadInputError(f"{path}: the labels cannot be read: {' '.join(str(error).split())}") from None
            if rows and "human_judgement_outcome" not in rows[0]:
                raise BadInputError(f"{path}: column human_judgement_outcome is missing; it is no file of the set")
            for row in rows:
                votes[_split(path), str(row["task_id"])][_VERDICTS.get(row["human_judgement_outcome"])] += 1
        self._labels = {
            (split, task_id): Label(
                split, _AGENT, task_id, None if given[True] == given[False] else given[True] > given[False]
            )
            for (split, task_id), given in votes.items()
        }
        if not self._labels:
            raise BadInputError(f"{folder / 'annotations'}: there is no label in it")

    def __iter__(self) -> Iterator[LabelledTrajectory]:
        without = dict(self._labels)
        for path in sorted(self._folder.glob("trajectories/*.parquet")):
            try:
                # Pictures of one attempt are some tens of megabytes.
                for batch in pq.ParquetFile(path).iter_batches(1, columns=list(_COLUMNS)):
                    row = batch.to_pylist()[0]
                    label = without.pop((_split(path), str(row["task_id"])), None)
                    if label is not None:
                        yield LabelledTrajectory(label, partial(_read, row, label))
            except (OSError, pa.ArrowInvalid, KeyError) as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                raise BadInputError(f"{path}: the attempts cannot be read: {reason}") from None
        for label in without.values():
            yield LabelledTrajectory(label, lambda screens, origin: None)


def _split(path: Path) -> str:
    return path.name.partition("-")[0]


def _read(row: Mapping[str, Any], label: Label, screens: LabelledScreens, origin: Origin) -> LabelledEpisode:
    added = []
    try:
        log = [line for line in row["web_surfer_log"].split("\n") if line.strip()]
        events = [json.loads(line, parse_constant=refuse_constant) for line in log]
        if not events or not row["screenshots"]:
            raise ValueError("it has no actions" if not events else "it has no screenshots")
        for number, picture in enumerate(row["screenshots"][: len(events) + 1]):
            content: bytes = picture["bytes"]
            added.append(screens.add(f"{number} of {label.task_id}", partial(bytes, content), (), label.benchmark))
        around = [added[min(index, len(added) - 1)] for index in range(len(events) + 1)]
        decisions = [
            _decision(event["arguments"], seen.screen.size, row["final_answer"])
            for event, seen in zip(events, around, strict=False)
        ]
        fields = {"model_version": _AGENT, "environment": "cua-verifier-bench", "status": "finished"}
        return episode_of(label, row["instruction"], decisions, around, added, origin, fields)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        screens.drop(each.screen.screen_id for each in added)
        raise UnreadableError.of_layout(label.task_id, error) from None
    except UnreadableError:
        screens.drop(each.screen.screen_id for each in added)
        raise


def _decision(arguments: Mapping[str, Any], screen: Size, answer: str | None) -> Decision:
    thought, raw = storable(str(arguments.get("thoughts") or "")), storable(json.dumps(arguments))
    fact = storable(str(arguments.get("fact") or ""))
    return Decision(thought, read_fara_action(arguments, screen, answer), fact, raw_response=raw)


def read_fara_action(arguments: Mapping[str, Any], screen: Size, final_answer: str | None = None) -> Action | None:
    """Return the action of a call of Fara's `computer_use`; None if it is none.

    What ends the attempt is its answer, if it has one.
    """
    try:
        name = arguments["action"]
        if name in ("terminate", "stop") and final_answer not in (None, "", _NO_ANSWER):
            return actions.Answer(text=storable(str(final_answer)))
        if name in _POINTING:
            frame = CoordinateFrame(CoordinateSpace.RESIZED_PIXELS, screen, _SEEN_BY_FARA.fit(screen))
            return _POINTING[name](**frame.to_pixels(*map(float, arguments["coordinate"]))._asdict())
        return _READERS[name](arguments)
    except (LookupError, TypeError, ValueError, ArithmeticError, ValidationError, ModelFailure):
        return None


def _type(given: Mapping[str, Any]) -> Action:
    # Without being told, Fara presses Enter and keeps the text of the field.
    clear, enter = given.get("delete_existing_text", False), given.get("press_enter", True)
    return actions.TypeText(text=storable(str(given["text"])), clear=clear, enter=enter)


def _scroll(given: Mapping[str, Any]) -> Action:
    pixels = int(given["pixels"])
    return actions.Scroll(clicks=round(pixels / _NOTCH) or (1 if pixels > 0 else -1))


_POINTING: Final[Mapping[str, type[actions.Click | actions.MoveMouse]]] = {
    **dict.fromkeys(("left_click", "click"), actions.Click),
    **dict.fromkeys(("mouse_move", "hover"), actions.MoveMouse),
}
_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Action]]] = {
    **dict.fromkeys(("type", "input_text"), _type),
    **dict.fromkeys(("key", "keypress"), lambda given: actions.PressKeys(keys=tuple(given["keys"]))),
    **dict.fromkeys(
        ("wait", "sleep"), lambda given: actions.Wait(seconds=float(given.get("time", given.get("duration", 3))))
    ),
    "scroll": _scroll,
    "visit_url": lambda given: actions.OpenApp(app=str(given["url"])),
    "web_search": lambda given: actions.OpenApp(app=f"https://www.bing.com/search?q={quote_plus(given['query'])}"),
    "history_back": lambda given: actions.SystemButton(button="Back"),
    "refresh": lambda given: actions.PressKeys(keys=("F5",)),
    "pause_and_memorize_fact": lambda given: actions.Wait(seconds=0),
    "terminate": lambda given: actions.Terminate(status=given.get("status", "success")),
    "stop": lambda given: actions.Terminate(status="success"),
}
