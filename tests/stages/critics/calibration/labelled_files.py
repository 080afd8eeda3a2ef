"""Writes the smallest files in AgentRewardBench's layout."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image

AGENT = "GenericAgent-tiny"
HEADER = "annotator_name,benchmark,task_id,model_name,exp_name,trajectory_success"


def label_row(task_id: str, success: str) -> str:
    return f"A,webarena,{task_id},{AGENT},{AGENT}_on_webarena,{success}"


def write_set(folder: Path, labels: Mapping[str, str], actions: Sequence[str]) -> None:
    rows = [label_row(task_id, success) for task_id, success in labels.items()]
    folder.mkdir(exist_ok=True)
    (folder / "annotations.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    for task_id in labels:
        write_trajectory(folder, task_id, actions)


def write_trajectory(folder: Path, task_id: str, actions: Sequence[str], **changes: object) -> Path:
    """Writes a trajectory file without the key `drop`, and its screenshots, one more than its actions."""
    pictures = folder / "screenshots" / "webarena" / AGENT / task_id
    pictures.mkdir(parents=True)
    steps: list[dict[str, object]] = []
    for number, action in enumerate([*actions, None]):
        Image.new("RGB", (80, 60), (number, 90, 90)).save(pictures / f"screenshot_step_{number}.png")
        shot = f"trajectories/screenshots/webarena/{AGENT}/{task_id}/screenshot_step_{number}.png"
        steps.append(
            {
                "action": action,
                "screenshot_path": changes.get("screenshot_path", shot),
                "axtree_pruned": "RootWebArea 'Shop', focused\n\t[147] button 'Buy', clickable",
                "extra_element_properties": {"147": {"bbox": [10.0, 20.0, 20.0, 40.0], "clickable": True}},
            }
        )
    found = {
        "goal": "Buy the red shoes",
        "summary_info": {"n_steps": len(actions), "cum_reward": changes.get("reward", 0.0)},
        "steps": changes.get("steps", steps),
    }
    found.pop(str(changes.get("drop")), None)
    path = folder / "cleaned" / "webarena" / AGENT / f"{AGENT}_on_webarena" / f"{task_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    return path
