import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from trajmill.schemas.actions import Action, Click, action_from_json
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import FAMILIES, family_named
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.rewards import (
    ReplyTarget,
    action_rewards,
    ces_rewards,
    coda_rewards,
    compute_score,
    score_reply,
)

SCREEN = Size(1000, 2000)
BOX = Box(400, 900, 600, 1100)


def target(
    action: Action,
    box: Box | None = None,
    family: str = "qwen3-vl",
    platform: Platform = Platform.PHONE,
    screen: Size = SCREEN,
) -> str:
    resized = family_named(family).budget.fit(screen)
    made = ReplyTarget(family=family, platform=platform, action=action, box=box, screen=screen, resized=resized)
    return made.model_dump_json()


def reply(action: Action, family: str = "qwen3-vl", platform: Platform = Platform.PHONE) -> str:
    chosen = family_named(family)
    return chosen.dialect(platform).render(Reply("So.", action, "Do it."), chosen.frame(SCREEN))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_stored_action_earns_everything_in_every_family(family: str) -> None:
    wanted = Click(x=500, y=1000)
    said, held = reply(wanted, family), target(wanted, BOX, family)
    assert ces_rewards([said], [held]) == pytest.approx([1.0])
    assert action_rewards([said], [held]) == [1.0]
    assert coda_rewards([said], [held]) == pytest.approx([2.0], abs=0.002)


def test_each_of_sixty_replies_earns_what_the_page_says() -> None:
    rules, table = (ces_rewards, coda_rewards, action_rewards), rewarded_replies()
    assert len(table) == len(set(table)) == 60
    for row in table:
        earned = tuple(round(rule([row.reply], [row.target])[0], 2) for rule in rules)
        assert earned == row.rewards, row.rule


def test_trl_gives_messages_in_either_form() -> None:
    wanted, said = target(Click(x=500, y=1000)), reply(Click(x=500, y=1000))
    for content in (said, [{"type": "text", "text": said}]):
        completion: Any = [{"role": "assistant", "content": content}]
        assert ces_rewards([completion], [wanted], prompts=[None], round=[1]) == pytest.approx([1.0])


def test_verl_is_given_the_score_and_its_parts() -> None:
    wanted, said = target(Click(x=500, y=1000), BOX), reply(Click(x=500, y=1000))
    made = compute_score("trajmill/simulated", said, wanted, {"index": 0}, rule="action")
    assert made["score"] == 1.0 and made["reward_format"] == made["reward_parameters"] == 1.0
    with pytest.raises(ValueError, match="no reward rule 'cess'; there are ces, coda, action"):
        compute_score("trajmill/simulated", said, wanted, rule="cess")


@pytest.mark.parametrize("text", ["", "<tool_call>", "[" * 100_000, "\x00\ud800", '{"coordinate": [1e999, NaN]}'])
def test_no_text_raises(text: str) -> None:
    assert score_reply(text, target(Click(x=1, y=1))).format == 0.0


PAGE: Final = Path(__file__).parents[3] / "docs" / "rewards.md"
PAGE_SCREEN: Final = Size(1000, 1000)


class RewardedReply(NamedTuple):
    target: str
    """JSON of the target, as an exported row has it."""
    reply: str
    rewards: tuple[float, ...]
    """By the rules `ces`, `coda` and `action`, to two digits."""
    rule: str


def rewarded_replies() -> list[RewardedReply]:
    targets, tools = dict[str, str](), dict[str, str]()
    for name, family, platform, action, element in _rows("## Targets"):
        box = Box(*map(int, element.split(","))) if element else None
        targets[name] = target(action_from_json(action), box, family, Platform(platform), PAGE_SCREEN)
        tools[name] = "mobile_use" if platform == "phone" else "computer_use"
    return [
        RewardedReply(targets[name], _whole(reply, tools[name]), tuple(map(float, earned)), f"{name}: {rule}")
        for name, reply, *earned, rule in _rows("## Replies")
    ]


def _whole(reply: str, tool: str) -> str:
    call = f'<tool_call>↵{{"name": "{tool}", "arguments": {{\\1}}}}↵</tool_call>'
    return re.sub("⟨(.*?)⟩", call, reply).replace("↵", "\n")


def _rows(heading: str) -> Iterator[list[str]]:
    section = PAGE.read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
    for line in [line for line in section.splitlines() if line.startswith("|")][2:]:
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        yield [cell.strip().replace("\\|", "|").removeprefix("`").removesuffix("`") for cell in cells]
