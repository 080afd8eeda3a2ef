"""The address of a warehouse: a folder, or the URL of a folder in a bucket."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import PlainValidator

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.store.base import FileStore

SCHEMES = ("s3", "gs", "abfs", "abfss")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/.*", re.DOTALL)


class BucketUrl(str):
    """The URL of a folder in a bucket, as `s3://bucket/folder`, without a `/` at the end."""

    __slots__ = ()


def address_of(written: object) -> Path | BucketUrl:
    """Parse what a user has written as the place of a warehouse: an URL, or a path, which is taken as it is.

    Raises ValueError if it is neither, or an URL that no store can open.
    """
    if isinstance(written, Path | BucketUrl):
        return written
    if not isinstance(written, str):
        raise ValueError("not a folder or an URL")
    match = _URL.fullmatch(written)
    if match is None:
        return Path(written)
    if match["scheme"] not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(f"{written} is none of the URLs that a warehouse can have ({known})")
    _, _, rest = written.partition("://")
    if not re.fullmatch(r"[^/?#*\[%]+(/[^/?#*\[%]+)*/?", rest):
        raise ValueError(f"{written} must be {match['scheme']}://BUCKET/FOLDER, without any of ? * [ % #")
    return BucketUrl(written.rstrip("/"))


Root = Annotated[Path | BucketUrl, PlainValidator(address_of)]
"""The place of a warehouse in a configuration."""


def store_at(address: Path | str) -> FileStore:
    """Return the store at an address; a folder need not be there. Raises BadInputError for an impossible address."""
    try:
        place = address_of(address)
    except ValueError as error:
        raise BadInputError(f"{error}; correct the address of the warehouse") from None
    if isinstance(place, BucketUrl):
        # obstore takes a twentieth of a second to import.
        from trajmill.warehouse.store.bucket import BucketStore

        return BucketStore(str(place))
    root = place.resolve()
    if set("%?*[") & set(str(root)):
        # Delta decodes per cent signs; DuckDB takes the others for patterns.
        raise BadInputError(f"warehouse {root}: its path must have none of % ? * [; choose another folder")
    return FileStore(str(root))


def local_folder(address: Path | str) -> Path:
    """Return the folder on this machine for what only this machine needs."""
    return address if isinstance(address, Path) else store_at(address).local
