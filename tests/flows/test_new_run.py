"""A changed configuration begins no new run beside the last one without being told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from trajmill.flows.configuration.config import Config
from trajmill.flows.new_run import NewRunError, begin_or_continue


def config(root: Path, **tables: dict[str, object]) -> Config:
    return Config.model_validate({"run": {"root": root}} | tables)


def test_a_changed_configuration_is_named_and_begins_a_run_only_if_it_may(tmp_path: Path) -> None:
    first = config(tmp_path)
    begin_or_continue(first)
    begin_or_continue(first.model_copy(update={"run": first.run.model_copy(update={"rounds": 20})}))
    changed = config(tmp_path, queries={"train": 50}, judge={"channels": ("text",)})
    with pytest.raises(NewRunError, match=r"\A[^\n]+\Z") as refused:
        begin_or_continue(changed)
    assert f"begins a new run {changed.run_id} and does not go on with {first.run_id}" in str(refused.value)
    assert "(judge.channels, queries.train changed since then): say --new-run" in str(refused.value)
    begin_or_continue(changed, new_run=True)
    for each in (changed, first):
        begin_or_continue(each)


def test_a_run_of_another_name_and_an_older_warehouse_are_no_surprise(tmp_path: Path) -> None:
    first = config(tmp_path)
    begin_or_continue(first)
    begin_or_continue(Config.model_validate({"run": {"root": tmp_path, "name": "other", "seed": 3}}))
    for file in tmp_path.rglob("identity.json"):
        file.unlink()
    with pytest.raises(NewRunError, match="its configuration was another"):
        begin_or_continue(
            Config.model_validate({"run": {"root": tmp_path / ".", "seed": 9}, "rollout": {"group_size": 3}})
        )
