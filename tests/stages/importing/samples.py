"""Small folders in the published layouts, each with one whole trajectory.

Names of files, keys, and how values are written are those of the public sets: `introduction.md` and `data/` of
OpenGVLab/GUI-Odyssey, `data-example/` of IMNearth/CoAT (AITZ), the card of xlangai/AgentNet,
`android_control/README.md` of google-research, and public readers of AMEX.
"""

import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from PIL import Image

from tests.stages.models.pictures import as_png
from trajmill.schemas.record import Origin
from trajmill.stages.importing.base import BadRecording, Recording, layout_spec

ORIGIN = Origin(round=1, run_id="run", code_version="1")
PHONE = (120, 200)
DESKTOP = (300, 200)


def picture(number: int, size: tuple[int, int] = PHONE) -> bytes:
    return as_png(Image.new("RGB", size, (number * 37 % 256, number * 91 % 256, 40)))


def write(folder: Path, name: str, content: bytes | object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def read(kind: str, folder: Path, **settings: str) -> list[Recording | BadRecording]:
    layout = layout_spec(kind, settings)
    return [found.recording for file in layout.checked_lists(folder) for found in layout.read(file, folder)]


def gui_odyssey(folder: Path, episode: str = "7", instruction: str = "Find a note and share it") -> None:
    actions = [
        ("CLICK", [[500, 250]]),
        ("CLICK", "KEY_HOME"),
        ("SCROLL", [[500, 800], [500, 200]]),
        ("TYPE", "milk"),
        ("LONG_PRESS", [[1000, 1000]]),
        ("COMPLETE", ""),
    ]
    steps = []
    for number, (kind, info) in enumerate(actions):
        said = {"intention": f"think {number}", "low_level_instruction": f"did {number}"}
        box = [0, 0, 10, 10] if kind in ("CLICK", "LONG_PRESS") else []
        named = {"step": number, "screenshot": f"{episode}_{number}.png", "action": kind, "info": info}
        steps.append(named | said | {"sam2_bbox": box})
        # As they are downloaded, and as the project's own script moves them.
        place = "screenshots/data_1" if number % 2 else "screenshots"
        write(folder, f"{place}/{episode}_{number}.png", picture(number))
    task = {"category": "Multi_Apps", "app": ["Notes", "Mail"], "task": "Find a note", "instruction": instruction}
    device = {"product": "husky", "device_name": "Pixel 8 Pro", "h": PHONE[1], "w": PHONE[0]}
    whole = {"episode_id": episode, "device_info": device, "task_info": task, "step_length": len(steps), "steps": steps}
    write(folder, f"annotations/{episode}.json", whole)


def amex(folder: Path) -> None:
    """`device_dim` has twice the sides of the stored pictures."""
    wide, high = 2 * PHONE[0], 2 * PHONE[1]
    actions: list[tuple[str, list[int], list[int], str]] = [
        ("TAP", [wide // 2, high // 4], [wide // 2, high // 4], ""),
        ("SWIPE", [wide // 2, high * 4 // 5], [wide // 2, high // 5], ""),
        ("TYPE", [0, 0], [0, 0], "milk"),
        *((kind, [0, 0], [0, 0], "") for kind in ("PRESS_ENTER", "PRESS_BACK", "PRESS_HOME", "TASK_COMPLETE")),
    ]
    steps = []
    for number, (kind, touch, lift, text) in enumerate(actions):
        write(folder, f"screenshot/2024_{number}.png", picture(number))
        placed = {"touch_coord": touch, "lift_coord": lift, "type_text": text, "device_dim": [wide, high]}
        steps.append({"action": kind, "image_path": f"2024_{number}.png"} | placed)
    write(folder, "instruction_anno/2024_ab.json", {"instruction": "Add milk to the list", "steps": steps})


def aitz(folder: Path) -> None:
    actions = [
        (4, "[0.5, 0.25]", "[0.5, 0.26]"),
        (4, "[0.8, 0.5]", "[0.2, 0.5]"),
        (3, "[-1.0, -1.0]", "[-1.0, -1.0]"),
        (5, "[-1.0, -1.0]", "[-1.0, -1.0]"),
        (10, "[-1.0, -1.0]", "[-1.0, -1.0]"),
    ]
    steps = []
    for number, (kind, touch, lift) in enumerate(actions):
        path = f"general/GENERAL-1/GENERAL-1_{number}.png"
        write(folder, path, picture(number))
        named = {"episode_id": "1", "step_id": number, "instruction": "open the settings", "image_path": path}
        typed = {"result_action_type": kind, "result_action_text": "words" if kind == 3 else ""}
        placed = {"result_touch_yx": touch, "result_lift_yx": lift}
        seen = {"ui_positions": "[[90, 20, 20, 40]]", "ui_text": '["Wi-Fi"]', "ui_types": '["TEXT"]'}
        said = {"coat_action_think": f"think {number}", "coat_action_desc": f"did {number}"}
        steps.append(named | typed | placed | seen | said)
    write(folder, "general/GENERAL-1/GENERAL-1.json", steps)


def agentnet_task(number: int) -> dict[str, Any]:
    codes = (
        "pyautogui.click(x=0.5, y=0.25)",
        "pyautogui.moveTo(x=0.1, y=0.1)\npyautogui.dragTo(x=0.2, y=0.5, button='left')",
        "pyautogui.hotkey(['ctrl', 's'])",
        "computer.terminate(status='success')",
    )
    traj = []
    for index, text in enumerate(codes):
        value = {"thought": f"think {index}", "action": f"did {index}", "code": text}
        value["observation"] = "a window of an editor"
        traj.append({"index": index, "image": f"{index}.png", "value": value})
    return {
        "task_id": f"20240927235321_task-{number}",
        "instruction": f"save the file, number {number}",
        "task_completed": True,
        "actual_task": "Save a file in an editor.",
        "traj": traj,
    }


def agentnet(folder: Path, tasks: int = 1) -> None:
    lines = [json.dumps(agentnet_task(number)) for number in range(tasks)]
    write(folder, "agentnet.jsonl", "\n".join(lines).encode() + b"\n")
    about = {"task_id": "20240927235321_task-0", "system": "Ubuntu", "domains": "Office"}
    write(folder, "meta_data_merged.jsonl", about)
    for number in range(4):
        write(folder, f"ubuntu_images/{number}.png", picture(number, DESKTOP))


def _message(name: str, *fields: tuple[str, int, str]) -> descriptor_pb2.DescriptorProto:
    """A message whose fields all repeat; a type that is no scalar names another message."""
    scalars = {"bytes": 12, "int64": 3, "string": 9}
    made = descriptor_pb2.DescriptorProto(name=name)
    for field, number, kind in fields:
        added = made.field.add(name=field, number=number, label=3, type=scalars.get(kind, 11))
        if kind not in scalars:
            added.type_name = f".sample.{kind}"
    return made


_SIDES = ("left", "top", "right", "bottom")
_FLAGS = (("flag14", 14, "int64"), ("flag16", 16, "int64"), ("flag23", 23, "int64"))
_FILE = descriptor_pb2.FileDescriptorProto(
    name="sample.proto",
    package="sample",
    syntax="proto3",
    message_type=[
        _message("BytesList", ("value", 1, "bytes")),
        _message("Int64List", ("value", 1, "int64")),
        _message("Feature", ("bytes_list", 1, "BytesList"), ("int64_list", 3, "Int64List")),
        _message("Entry", ("key", 1, "string"), ("value", 2, "Feature")),
        _message("Features", ("feature", 1, "Entry")),
        _message("Example", ("features", 1, "Features")),
        _message("Rect", *((side, number, "int64") for number, side in enumerate(_SIDES, 1))),
        _message("Node", ("bounds", 2, "Rect"), ("class_name", 3, "string"), ("text", 7, "string"), *_FLAGS),
        _message("Tree", ("nodes", 1, "Node")),
        _message("Window", ("tree", 11, "Tree")),
        _message("Forest", ("windows", 1, "Window")),
    ],
)
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_FILE)


def _make(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"sample.{name}"))()


def forest(label: str, box: tuple[int, int, int, int]) -> bytes:
    """An accessibility forest with one button, encoded by Google's library."""
    found = _make("Forest")
    node = found.windows.add().tree.add().nodes.add(class_name=["android.widget.Button"], text=[label])
    for flag, *_ in _FLAGS:
        getattr(node, flag).append(1)
    node.bounds.add(**dict(zip(_SIDES, ([side] for side in box), strict=True)))
    return bytes(found.SerializeToString())


def example(features: dict[str, list[bytes] | list[int]]) -> bytes:
    found = _make("Example")
    entries = found.features.add()
    for name, values in features.items():
        feature = entries.feature.add(key=[name]).value.add()
        chosen = feature.int64_list if isinstance(values[0], int) else feature.bytes_list
        chosen.add(value=values)
    return bytes(found.SerializeToString())


_OPENS_AN_APP: dict[str, str | int] = {"action_type": "open_app", "app_name": "Clock"}


def android_control_record(
    episode: int = 3, screenshots: int = 4, first: Mapping[str, str | int] = _OPENS_AN_APP, goal: str = "set an alarm"
) -> bytes:
    """An episode of AndroidControl, whose first action can be another one."""
    actions = [first, {"action_type": "click", "x": 20, "y": 30}, {"action_type": "scroll", "direction": "down"}]
    return example(
        {
            "episode_id": [episode],
            "goal": [goal.encode()],
            "screenshots": [picture(number) for number in range(screenshots)],
            "accessibility_trees": [forest("Alarm", (10, 20, 60, 50)) for _ in range(screenshots)],
            "screenshot_widths": [PHONE[0]] * screenshots,
            "screenshot_heights": [PHONE[1]] * screenshots,
            "actions": [json.dumps(action).encode() for action in actions],
            "step_instructions": [f"step {number}".encode() for number in range(len(actions))],
        }
    )


def tfrecords(records: Sequence[bytes]) -> bytes:
    framed = (struct.pack("<QI", len(record), 0) + record + b"\0\0\0\0" for record in records)
    return gzip.compress(b"".join(framed))


def android_control(folder: Path) -> None:
    write(folder, "android_control-00000-of-00020", tfrecords([android_control_record()]))
