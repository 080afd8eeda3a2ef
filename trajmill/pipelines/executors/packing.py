"""Packs work for machines that share nothing but a store.

A file or folder that the work names travels as a reference. Files of the warehouse keep their names there; the user's
own files are stored once, under a hash of their bytes. A worker fetches what it lacks. Files named by `OPERATIONAL`
fields (tokens, programs, weights of a model server) belong to the machine that uses them: their paths stay as they are.
"""

from __future__ import annotations

import io
import pickle
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.schemas.spec import Spec, content_of, decisive_fields
from trajmill.warehouse.atomic import replacing
from trajmill.warehouse.store.base import FileStore

_USER_FILES = "files"
"""Folder of the store for files that the user has outside of the warehouse."""
_LARGEST_MESSAGE = 64 << 10
"""Bytes above which a value is stored instead of sent: engines bound the size of a job's graph."""


class Packed(NamedTuple):
    """A value that another machine can open."""

    pickled: bytes | None
    """None if the store has it."""
    name: str
    store: FileStore

    def open(self) -> Any:
        """Return the value, once its files are on this machine."""
        pickled = self.pickled if self.pickled is not None else self.store.get(self.name)
        assert pickled is not None, "a stage stores its work before it is started"
        return _Unpickler(pickled, self.store).load()


def packed(value: object, store: FileStore, name: str) -> Packed:
    """Pack a value; it is stored under `name` if it is too large for a message."""
    buffer = io.BytesIO()
    _Pickler(buffer, store).dump(value)
    pickled = buffer.getvalue()
    if len(pickled) <= _LARGEST_MESSAGE:
        return Packed(pickled, name, store)
    store.put(name, pickled)
    return Packed(None, name, store)


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, store: FileStore) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._store = store

    def persistent_id(self, value: object) -> str | None:
        """Return the name in the store of a file or folder, which gets a copy there.

        None for other values, for paths with nothing there, and where all machines see the same folder.
        """
        if not isinstance(value, Path) or self._store.is_local:
            return None
        path, store = value.absolute(), self._store
        if path.is_relative_to(store.local):
            return path.relative_to(store.local).as_posix()
        if not path.exists():
            return None
        name = f"{_USER_FILES}/{content_of(path)}/{path.name}"
        for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
            copy = f"{name}/{file.relative_to(path).as_posix()}" if path.is_dir() else name
            if store.size(copy) is None:
                with replacing(store.local / copy) as temporary:
                    shutil.copyfile(file, temporary)
                store.publish(copy)
        return name

    def reducer_override(self, value: object) -> Any:
        """Pickle the `OPERATIONAL` fields of a spec without references."""
        if not isinstance(value, Spec):
            return NotImplemented
        decisive = decisive_fields(type(value))
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        shared = {name: each for name, each in fields.items() if name in decisive}
        own = {name: each for name, each in fields.items() if name not in decisive}
        return _spec, (type(value), value.model_fields_set, shared, pickle.dumps(own))


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, store: FileStore) -> None:
        super().__init__(io.BytesIO(pickled))
        self._store = store

    def persistent_load(self, name: str) -> Path:
        """Fetch a file unless this machine has it, and return its path."""
        if self._store.size(name) is not None:
            return self._store.fetch(name)
        for file in self._store.files(name):
            self._store.fetch(file.name)
        # What is not stored, such as the folder of a cache, is made where it is used.
        return self._store.local / name


def _spec(kind: type[Spec], given: set[str], shared: dict[str, object], own: bytes) -> Spec:
    return kind.model_construct(given, **shared, **pickle.loads(own))
