"""Reads the wire format of Protocol Buffers, field by field, and TFRecord files: no schema compiler, no TensorFlow."""

from __future__ import annotations

import gzip
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 512 << 20
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_SIGN = 1 << 63


class TFRecord(NamedTuple):
    """A record of a file."""

    data: bytes
    compressed: int
    """Bytes of the file that were read for it."""


def read_records(file: Path) -> Iterator[TFRecord]:
    """The records of a TFRecord file, one in memory at a time; the file may be compressed with GZIP.

    Raises:
        ValueError: the file is cut short, or a record is too long.
        OSError: it cannot be read, or its compression is damaged.
    """
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        before = 0
        while header := stream.read(_HEADER.size):
            length, _ = _HEADER.unpack(header)
            if length > _MOST_BYTES:
                raise ValueError(f"a record of {length:,} bytes")
            data = stream.read(length)
            if len(data) < length or len(stream.read(_CHECKSUM_BYTES)) < _CHECKSUM_BYTES:
                raise ValueError("the file is cut short")
            yield TFRecord(data, raw.tell() - before)
            before = raw.tell()


class EncodedMessage:
    """The fields of an encoded message, by number."""

    def __init__(self, data: bytes) -> None:
        """Read the fields of a message, not those of messages in it.

        Raises:
            ValueError: the bytes are no message.
        """
        self._numbers: dict[int, list[int]] = defaultdict(list)
        self._bytes: dict[int, list[bytes]] = defaultdict(list)
        position = 0
        while position < len(data):
            tag, position = _varint(data, position)
            field, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                number, position = _varint(data, position)
                self._numbers[field].append(number)
                continue
            length = _FIXED.get(kind)
            if kind == _BYTES:
                length, position = _varint(data, position)
            if length is None or position + length > len(data):
                raise ValueError("these bytes are no message")
            self._bytes[field].append(data[position : position + length])
            position += length

    def number(self, field: int) -> int:
        """The last value of a whole number; 0 without one."""
        return (self.numbers(field) or [0])[-1]

    def numbers(self, field: int) -> list[int]:
        """All values of a whole number, packed or not."""
        found = list(self._numbers[field])
        for packed in self._bytes[field]:
            position = 0
            while position < len(packed):
                value, position = _varint(packed, position)
                found.append(value)
        return [_signed(value) for value in found]

    def strings(self, field: int) -> list[bytes]:
        """All values of a string, or of bytes."""
        return self._bytes[field]

    def text(self, field: int) -> str:
        """The last value of a string; empty without one."""
        return self._bytes[field][-1].decode("utf-8", "replace") if self._bytes[field] else ""

    def messages(self, field: int) -> list[EncodedMessage]:
        """All messages of a field. Raises ValueError if one is none."""
        return [EncodedMessage(data) for data in self._bytes[field]]


def read_example(data: bytes) -> dict[str, EncodedMessage]:
    """The features of a `tf.train.Example` by name; field 1 of each has its byte strings, field 3 its numbers.

    Raises:
        ValueError: the bytes are none.
    """
    found: dict[str, EncodedMessage] = {}
    for features in EncodedMessage(data).messages(1):
        for entry in features.messages(1):
            for feature in entry.messages(2):
                lists = [*feature.strings(1), *feature.strings(3)]
                # A feature has one list: field 1 of it repeats the values, of bytes or of numbers.
                found[entry.text(1)] = EncodedMessage(b"".join(lists))
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("these bytes are no message")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= _SIGN else value
