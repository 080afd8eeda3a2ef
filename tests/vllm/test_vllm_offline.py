"""vLLM in a process of its own environment, without a server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.flows.process_groups import is_gone
from tests.stages.models.tiny_vlm import CONTEXT, build_tiny_vlm
from tests.vllm.tiny_server import ENVIRONMENT

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
TOKENS_OF_THE_PICTURE = 10 * 5 + 2


def test_an_engine_in_this_process_answers_as_a_server_does(vllm_python: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [vllm_python, "-m", "tests.vllm.offline_script", build_tiny_vlm(tmp_path / "tiny")],
        env=os.environ | ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said, trouble = process.communicate()
    assert process.returncode == 0, trouble[-2000:]
    answers = json.loads(said.splitlines()[-1])
    assert answers["version"].startswith("tiny-")
    assert len(answers["texts"]) == 8
    assert len(set(answers["texts"])) == 1
    without, seen = answers["tokens"]
    assert seen == without + TOKENS_OF_THE_PICTURE
    assert len(set(answers["samples"])) == 3
    assert all(logprob == candidates[0][1] for _, logprob, candidates in answers["logprobs"])
    assert json.loads(answers["in_a_form"]) in ({"correct": True}, {"correct": False})
    assert str(CONTEXT) in answers["too_long"]
    assert "\n" not in answers["too_long"]
    assert is_gone(process.pid)
