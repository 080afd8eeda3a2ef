"""Pushes a release to a Hugging Face hub as a dataset repository: its files, those of its shards, and its card."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.secrets import Secrets
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import MANIFEST, read_release, verify_release

_CARD = "README.md"


class PushPlan(NamedTuple):
    repository: str
    release: str
    files: dict[str, Path | bytes]
    """By their path in the repository, their content or the file that has it."""
    bytes: int


def plan_push(warehouse: Warehouse, release: str, repository: str) -> PushPlan:
    """Check a release, and list the files of its repository; nothing is sent.

    The repository has the release's files at its top and the shards under `shards/`, and the card names them there.

    Raises BadInputError: the repository's name is wrong, or the release or a file of it is missing or damaged.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise BadInputError(f"{repository}: name the repository as OWNER/NAME, e.g. my-team/phone-trajectories")
    verify_release(warehouse, release)
    found, folder = read_release(warehouse, release), warehouse.release(release)
    # The card names the warehouse's folder, which in a repository is the top.
    card = (folder / _CARD).read_text(encoding="utf-8").replace("../../", "").encode()
    files: dict[str, Path | bytes] = {_CARD: card, MANIFEST: folder / MANIFEST}
    files |= {file.path: folder / file.path for file in found.files if file.path != _CARD}
    files |= {file.path: warehouse.root / file.path for file in found.shards}
    return PushPlan(repository, release, files, sum(file.bytes for file in (*found.files, *found.shards)))


def push_planned(plan: PushPlan, private: bool) -> str:
    """Make the repository if there is none, and add the files in one commit; returns its address.

    The hub is that of HF_ENDPOINT, and the token that of HF_TOKEN or of `hf auth login`. Raises BadInputError (the
    repository's name is wrong, or the hub refuses the token), TrajmillError (it does not answer, or refuses the files).
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from httpx2 import HTTPError
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    # Read at each push: huggingface_hub reads the variable once, when it is imported.
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="trajmill")
    try:
        address = api.create_repo(plan.repository, repo_type="dataset", private=private, exist_ok=True)
        added, message = [CommitOperationAdd(*file) for file in plan.files.items()], f"Release {plan.release}"
        api.create_commit(plan.repository, added, commit_message=message, repo_type="dataset")
    except (HFValidationError, LocalTokenNotFoundError, HTTPError, OSError) as error:
        wrong = isinstance(error, HFValidationError | LocalTokenNotFoundError)
        wrong |= isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403)
        text = " ".join(str(error).split())
        reason = Secrets.of(os.environ, get_token() or "").scrub(text)[:300] or type(error).__name__
        raise (BadInputError if wrong else TrajmillError)(
            f"{plan.repository}: {reason}; nothing was sent; correct HF_TOKEN or HF_ENDPOINT and push again"
        ) from error
    return str(address)
