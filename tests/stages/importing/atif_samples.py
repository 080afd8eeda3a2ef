"""Documents of ATIF written by hand from the published schema, as several agents write them, with their pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.stages.importing.samples import DESKTOP, PHONE, picture, write

Json = dict[str, Any]
PROMPT = """You are computer-1, an autonomous agent that controls a desktop computer.

Task instructions:
{instruction}

You interact with the computer through a private runtime.
"""
_UNSET = dict.fromkeys(("x", "y", "end_x", "end_y", "text", "keys", "url", "scroll_x", "scroll_y", "button", "result"))


def image(path: str, media_type: str = "image/png") -> Json:
    return {"type": "image", "source": {"media_type": media_type, "path": path}}


def call(number: int, name: str, arguments: Mapping[str, Any]) -> Json:
    return {"tool_call_id": f"call_{number}", "function_name": name, "arguments": dict(arguments)}


def result(number: int | None, content: Any) -> Json:
    return {"content": content} | ({} if number is None else {"source_call_id": f"call_{number}"})


def turn(message: Any, calls: Sequence[Json] = (), results: Sequence[Json] = (), **fields: Any) -> Json:
    """A step of the agent, without its number."""
    acted = {"tool_calls": list(calls)} if calls else {}
    seen = {"observation": {"results": list(results)}} if results else {}
    return {"source": "agent", "message": message, **acted, **seen, **fields}


def document(steps: Sequence[Json], version: str = "ATIF-v1.8", agent: str = "computer-1", **fields: Any) -> Json:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    return {
        "schema_version": version,
        "session_id": "s",
        "agent": {"name": agent, "version": "1.0", "model_name": "openai/some-model"},
        "steps": numbered,
        **fields,
    }


def computer_1(instruction: str = "Save the file") -> Json:
    """A success of Harbor's agent with its JSON prompt: two calls at the end, which it has to say twice."""
    acts: list[Json] = [
        {"type": "click", "x": 150, "y": 50},
        {"type": "scroll", "x": 10, "y": 20, "scroll_y": 300, "scroll_x": 0},
        {"type": "keypress", "keys": ["ctrl", "s"]},
    ]
    steps: list[Json] = [{"source": "user", "message": PROMPT.format(instruction=instruction)}]
    for number, act in enumerate(acts):
        shown = [{"type": "text", "text": "done"}, image(f"screenshot_ep{number}.webp", "image/webp")]
        made = call(number, "computer_action", {**_UNSET, **act, "source": "native_prescaled"})
        said = f"Analysis: a{number}\nPlan: p{number}"
        steps.append(
            turn(said, [made], [result(number, shown)], metrics={"prompt_tokens": 900, "completion_tokens": 9})
        )
    for number in (3, 4):
        ended = [
            call(number, "computer_action", {**_UNSET, "type": "done", "result": "saved"}),
            {**call(number, "mark_task_complete", {"result": "saved"}), "tool_call_id": f"call_{number}_complete"},
        ]
        shown = [{"type": "text", "text": "Terminal"}, image("screenshot_ep2.webp", "image/webp")]
        steps.append(turn("Analysis: it is saved", ended, [result(number, shown)]))
    return document(steps, final_metrics={"total_prompt_tokens": 2700, "total_steps": len(steps)})


def harbor(folder: Path, trial: str = "save__1", reward: Any = 1.0, instruction: str = "Save the file") -> None:
    """A trial folder of Harbor."""
    write(folder, f"{trial}/agent/trajectory.json", computer_1(instruction))
    for name in ("init", *(f"ep{number}" for number in range(3))):
        write(folder, f"{trial}/agent/screenshot_{name}.webp", picture(len(name) * 7 + ord(name[-1]), DESKTOP))
    write(folder, f"{trial}/verifier/reward.json", {"reward": reward})
    write(folder, f"{trial}/config.json", {"trial_name": trial})
    write(folder, f"{trial}/result.json", {"trial_name": trial})
    write(folder, f"{trial}/trial.log", b"")


def anthropic() -> Json:
    """The tool `computer` with its first screenshot, a batch of two calls, a zoom, and last words."""
    look = call(0, "computer", {"action": "screenshot"})
    batch = [
        call(1, "computer", {"action": "left_click", "coordinate": [30, 40]}),
        call(2, "computer", {"action": "type", "text": "hello"}),
    ]
    zoom = call(3, "computer", {"action": "zoom", "region": [0, 0, 10, 10]})
    drag = call(4, "computer", {"action": "left_click_drag", "start_coordinate": [1, 2], "coordinate": [3, 4]})
    steps: list[Json] = [
        {"source": "system", "message": "You use a computer."},
        {"source": "user", "message": [{"type": "text", "text": "Write hello"}]},
        turn("", [look], [result(0, [image("0.png")])]),
        turn("Typing", batch, [result(1, "ok"), result(2, [image("1.png")])], reasoning_content="I see a field"),
        turn("", [zoom], [result(3, [image("part.png")])]),
        turn("", [drag], [result(4, [image("2.png")])]),
        turn("", [call(5, "bash", {"command": "ls"})], [result(5, "a.txt")]),
        turn("I wrote hello."),
    ]
    return document(steps, "ATIF-v1.7", "claude")


def published(tool: str, arguments: Sequence[Json], **fields: Any) -> Json:
    """Calls of `computer_use` or `mobile_use`, with the tokens of each reply."""
    steps: list[Json] = [{"source": "user", "message": [{"type": "text", "text": "Open it"}, image("images/0.png")]}]
    for number, given in enumerate(arguments):
        tokens = {"completion_token_ids": [1, 2], "logprobs": [-0.5, -0.25], "completion_tokens": 2}
        seen = [result(number, [image(f"images/{number + 1}.png")])]
        said = turn(f"step {number}", [call(number, tool, given)], seen, reasoning_content="why", metrics=tokens)
        steps.append(said)
    return document(steps, agent="qwen", **fields)


def pictures(folder: Path, names: Sequence[str], size: tuple[int, int] = DESKTOP) -> None:
    for number, name in enumerate(names):
        write(folder, name, picture(number, size))


def tap(folder: Path, **fields: Any) -> Json:
    """A tap and its end on a phone; the pictures lie in `images/`."""
    pictures(folder, [f"images/{number}.png" for number in range(3)], PHONE)
    acts: list[Json] = [{"action": "click", "coordinate": [20, 30]}, {"action": "terminate", "status": "success"}]
    return published("mobile_use", acts, **fields)
