"""The replies of `docs/rewards.md`, each with its target and the rewards that the page gives it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.geometry import Size
from trajmill.stages.export.rewards import ReplyTarget

PAGE: Final = Path(__file__).parents[3] / "docs" / "rewards.md"
SCREEN: Final = Size(1000, 1000)


class RewardedReply(NamedTuple):
    target: str
    """JSON of the target, as an exported row has it."""
    reply: str
    rewards: tuple[float, float, float]
    """By the rules `ces`, `coda` and `action`, to two digits."""
    rule: str


def rewarded_replies() -> list[RewardedReply]:
    targets = {
        name: _target(family, platform, action, element)
        for name, family, platform, action, element in _rows("## Targets")
    }
    return [
        RewardedReply(
            targets[name].model_dump_json(),
            _whole(reply, "mobile_use" if targets[name].platform == "phone" else "computer_use"),
            (float(ces), float(coda), float(action)),
            f"{name}: {rule}",
        )
        for name, reply, ces, coda, action, rule in _rows("## Replies")
    ]


def _target(family: str, platform: str, action: str, element: str) -> ReplyTarget:
    return ReplyTarget.model_validate(
        {
            "family": family,
            "platform": platform,
            "action": json.loads(action),
            "box": tuple(map(int, element.split(","))) if element else None,
            "screen": SCREEN,
            "resized": family_named(family).budget.fit(SCREEN),
        }
    )


def _whole(reply: str, tool: str) -> str:
    call = f'<tool_call>↵{{"name": "{tool}", "arguments": {{\\1}}}}↵</tool_call>'
    return re.sub("⟨(.*?)⟩", call, reply).replace("↵", "\n")


def _rows(heading: str) -> Iterator[list[str]]:
    section = PAGE.read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
    for line in [line for line in section.splitlines() if line.startswith("|")][2:]:
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        yield [cell.strip().replace("\\|", "|").removeprefix("`").removesuffix("`") for cell in cells]
