"""Writes and reads releases: training sets as plain files, with a manifest that is written last."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import ValidationError

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import Origin, Record
from trajmill.warehouse.atomic import sync, write_bytes
from trajmill.warehouse.layout import Warehouse

MANIFEST = "manifest.json"
_DIGITS = re.compile(r"([0-9]+)")


class ReleaseFile(Record):
    path: str
    """Relative to the release's folder, with `/`; for a file of a shard, relative to the warehouse's folder."""
    sha256: str
    rows: int | None
    """None for a file that is not Parquet."""
    bytes: int


class Release(Record):
    name: str
    created_at: str
    code_version: str
    run_id: str
    round: int
    schema_version: int
    tables: dict[str, int]
    """Version of every table that it was made from."""
    files: tuple[ReleaseFile, ...]
    shards: tuple[ReleaseFile, ...] = ()
    """Files of shards, which other releases share; their paths are relative to the warehouse's folder."""
    previous: str | None
    sha256: str | None = None
    """Hash of the manifest without this field; None for a release of an earlier trajmill."""

    def own_hash(self) -> str:
        """What `sha256` is to be: a hash of what stands in the file, without what later versions of trajmill add."""
        stands = self.model_dump_json(exclude={"sha256"}, exclude_unset=True)
        return hashlib.sha256(stands.encode()).hexdigest()


def write_release(
    warehouse: Warehouse,
    name: str,
    origin: Origin,
    tables: Mapping[str, int],
    created_at: str,
    previous: str | None = None,
    shards: Collection[Path] = (),
) -> Release:
    """Make the files that lie in `warehouse.release(name)` a release, by writing its manifest.

    A second call with the same files changes nothing. Files of `shards` that another release names are not read again.
    Raises BadInputError if there is a release of this name with other contents, and TrajmillError if the disk is full.
    """
    folder = warehouse.release(name)
    known = named_shards(warehouse)
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    release = Release(
        name=name,
        created_at=created_at,
        code_version=origin.code_version,
        run_id=origin.run_id,
        round=origin.round,
        schema_version=SCHEMA_VERSION,
        tables=dict(sorted(tables.items())),
        files=tuple(_describe(path, folder) for path in paths if not path.name.startswith(".")),
        shards=tuple(known.get(path) or _describe(path, warehouse.root) for path in sorted(shards)),
        previous=previous,
    )
    if is_release(warehouse, name):
        existing = read_release(warehouse, name)
        if (existing.files, existing.shards) != (release.files, release.shards):
            raise BadInputError(f"release {name}: exists with other contents, and releases never change; name another")
        return existing
    new = [warehouse.name(path) for path in (*paths, *(path for path in shards if path not in known))]
    for file in new:
        warehouse.store.publish(file)
    warehouse.store.sync(new)
    release = release.model_copy(update={"sha256": release.own_hash()})
    manifest = warehouse.name(folder / MANIFEST)
    warehouse.store.put(manifest, (release.model_dump_json(indent=1) + "\n").encode())
    warehouse.store.sync([manifest])
    return release


def read_release(warehouse: Warehouse, name: str) -> Release:
    """The manifest of a release. Raises BadInputError if there is no such release, or its manifest is damaged."""
    manifest = warehouse.name(warehouse.release(name) / MANIFEST)
    written, path = warehouse.store.get(manifest), warehouse.store.uri(manifest)
    restore = f"restore it from a copy, or drop the release (`trajmill releases drop {name}`)"
    if written is None:
        raise _no_release(warehouse, name)
    try:
        release = Release.model_validate_json(written.decode())
    except (ValidationError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}:1: not a release's manifest; {restore}") from error
    if release.sha256 is not None and release.sha256 != release.own_hash():
        raise BadInputError(f"{path}:1: changed since release {name} was made; {restore}")
    return release


def run_of_release(warehouse: Warehouse, name: str) -> str:
    """The run that made a release, by its name if the manifest is damaged. Raises BadInputError if neither tells it."""
    try:
        return read_release(warehouse, name).run_id
    except BadInputError:
        runs = [run for run in warehouse.store.folders("staging") if name.startswith(f"{run}-")]
        if runs and is_release(warehouse, name):
            return max(runs, key=len)
        raise


def drop_release(warehouse: Warehouse, name: str) -> None:
    """Delete a release; `vacuum` then deletes what only it has named. Raises BadInputError if there is none."""
    folder = warehouse.release(name)
    if not is_release(warehouse, name):
        raise _no_release(warehouse, name)
    # What is left if this is interrupted is no release, and `vacuum` deletes it.
    warehouse.store.delete(warehouse.name(folder / MANIFEST))
    warehouse.store.delete(*(file.name for file in warehouse.store.files(warehouse.name(folder))))
    shutil.rmtree(folder, ignore_errors=True)


def older_releases(warehouse: Warehouse, keep: int) -> dict[str, list[str]]:
    """By run, the names of the releases beyond the newest `keep`, the oldest first; none if `keep` is 0."""
    of_run: dict[str, list[Release]] = defaultdict(list)
    for name in release_names(warehouse) if keep else ():
        release = read_release(warehouse, name)
        of_run[release.run_id].append(release)
    # Those of one round stay in the order of their numbers.
    older = {run: sorted(made, key=lambda release: release.round)[:-keep] for run, made in of_run.items()}
    return {run: [release.name for release in made] for run, made in older.items() if made}


def named_shards(warehouse: Warehouse) -> dict[Path, ReleaseFile]:
    names = release_names(warehouse)
    return {warehouse.root / file.path: file for name in names for file in read_release(warehouse, name).shards}


def release_names(warehouse: Warehouse) -> list[str]:
    """Names of the finished releases, in alphabetical order, numbers within them by their size."""
    names = [name for name in warehouse.store.folders("releases") if is_release(warehouse, name)]
    return sorted(names, key=lambda name: [int(part) if part.isdecimal() else part for part in _DIGITS.split(name)])


def is_release(warehouse: Warehouse, name: str) -> bool:
    return warehouse.store.size(warehouse.name(warehouse.release(name) / MANIFEST)) is not None


def newest_release(warehouse: Warehouse) -> str:
    """Name of the finished release that was made last. Raises BadInputError if there is none."""
    made = [read_release(warehouse, name) for name in release_names(warehouse)]
    if not made:
        raise BadInputError(f"{warehouse.address}: there is no release yet; `trajmill evolve` makes them")
    # Of those of the same second, the one with the highest number.
    return sorted(made, key=lambda release: release.created_at)[-1].name


def verify_release(warehouse: Warehouse, name: str) -> Release:
    """Check every file of a release by its manifest. Raises BadInputError if one is missing or changed."""
    release = read_release(warehouse, name)
    for line in _damage(warehouse, release):
        raise BadInputError(line)
    return release


def damaged_release(warehouse: Warehouse, name: str, stored: bool = False) -> Iterator[str]:
    """Name the files of a release as `changed_files` does. Raises BadInputError if its manifest is damaged."""
    yield from _damage(warehouse, read_release(warehouse, name), stored)


def _damage(warehouse: Warehouse, release: Release, stored: bool = False) -> Iterator[str]:
    hashes = {path: file.sha256 for path, file in _paths(warehouse, release).items()}
    manifest, made = f"the manifest of release {release.name}", f"release {release.name} was made"
    return changed_files(warehouse, hashes, manifest, made, stored)


def release_folder(warehouse: Warehouse, name: str) -> Path:
    """Bring a release with its shards to this machine. Raises BadInputError if it or a file is missing."""
    release, folder = read_release(warehouse, name), warehouse.release(name)
    if not warehouse.store.is_local:
        try:
            for path in _paths(warehouse, release):
                warehouse.store.fetch(path)
        except FileNotFoundError as error:
            raise BadInputError(f"{error}: missing; restore it from a copy") from None
        warehouse.store.fetch(warehouse.name(folder / MANIFEST))
    return folder


def _paths(warehouse: Warehouse, release: Release) -> dict[str, ReleaseFile]:
    folder = warehouse.name(warehouse.release(release.name))
    own = {f"{folder}/{file.path}": file for file in release.files}
    return own | {file.path: file for file in release.shards}


def _no_release(warehouse: Warehouse, name: str) -> BadInputError:
    return BadInputError(f"there is no release {name!r:.80}; {instead_of(name, release_names(warehouse))}")


def _describe(path: Path, folder: Path) -> ReleaseFile:
    rows = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else None
    size = path.stat().st_size
    return ReleaseFile(path=path.relative_to(folder).as_posix(), sha256=file_hash(path), rows=rows, bytes=size)


SUMS = "SHA256SUMS"


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_folder(folder: Path) -> None:
    """Write the hashes of all files of a folder into it; the files and their names are then on the disk."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    for path in paths:
        sync(path)
    lines = (f"{file_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths)
    write_bytes(folder / SUMS, "".join(lines).encode())
    sync(folder)


def keep_weights(warehouse: Warehouse, fresh: Path, place: Path) -> None:
    """Seal a folder of weights and store it in its place, unless it is stored there already."""
    if not place.exists():
        seal_folder(fresh)
        fresh.rename(place)
        sync(place.parent)
    publish_weights(warehouse, place)


def publish_weights(warehouse: Warehouse, folder: Path) -> None:
    """Store the files of a sealed folder of weights; its hashes come last."""
    store, sums = warehouse.store, warehouse.name(folder / SUMS)
    if store.is_local or store.size(sums) is not None:
        return
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS):
        store.publish(warehouse.name(path))
    store.publish(sums)


def checked_weights(warehouse: Warehouse, folder: Path) -> None:
    """Bring a folder of weights to this machine, and check it. Raises BadInputError if a file is missing or changed."""
    for line in damaged_weights(warehouse, warehouse.name(folder)):
        raise BadInputError(line)


def damaged_weights(warehouse: Warehouse, folder: str, stored: bool = False) -> Iterator[str]:
    """Name the files of a folder that are not what its hashes say, as `changed_files`; none if it was never sealed."""
    sums, where = warehouse.store.get(f"{folder}/{SUMS}"), warehouse.store.uri(f"{folder}/{SUMS}")
    if sums == b"" or (sums is None and not (stored or warehouse.store.is_local)):
        yield f"{where}: {'missing' if sums is None else 'empty'}; restore it from a copy"
    lines = (line.partition("  ") for line in (sums or b"").decode(errors="replace").splitlines())
    yield from changed_files(
        warehouse, {f"{folder}/{place}": digest for digest, _, place in lines}, SUMS, stored=stored
    )


def changed_files(
    warehouse: Warehouse, hashes: Mapping[str, str], by: str, since: str = "it was stored", stored: bool = False
) -> Iterator[str]:
    """Name the files of `by` that are missing or changed; `stored`: in the bucket, not in a copy."""
    for name, digest in hashes.items():
        where = warehouse.store.uri(name)
        try:
            # On this machine there may be a whole copy, or a damaged one of a whole file.
            copy = warehouse.root / name
            is_whole = not stored and copy.is_file() and file_hash(copy) == digest
            if not is_whole and file_hash(warehouse.store.fetch(name, anew=True)) != digest:
                yield f"{where}: changed since {since}; restore it from a copy"
        except FileNotFoundError:
            yield f"{where}: missing, though named in {by}; restore it from a copy"
