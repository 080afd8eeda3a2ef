"""Writes the queries of `trajmill env serve` as rows for verl's `RLHFDataset`.

    python verl_rows.py http://127.0.0.1:8000 train rows.parquet

The agent loop gets the real prompts from the server, so `prompt` only has the task, for logs.
"""

import json
import sys
from urllib.request import Request, urlopen

from datasets import Dataset


def main(url: str, split: str, path: str) -> None:
    asked = Request(
        f"{url}/trajmill/tasks", json.dumps({"split": split}).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(asked) as answer:
        tasks = json.load(answer)["tasks"]
    rows = [
        {
            "prompt": [{"role": "user", "content": task["instruction"]}],
            "query_id": task["query_id"],
            "seed": number,  # equal for the attempts of a group
            "data_source": "trajmill",
            "reward_model": {"style": "environment", "ground_truth": ""},  # the loop gives the reward
            "extra_info": {"index": number},
        }
        for number, task in enumerate(tasks)
    ]
    Dataset.from_list(rows).to_parquet(path)
    print(f"{path}: {len(rows)} queries")


if __name__ == "__main__":
    main(*sys.argv[1:])
