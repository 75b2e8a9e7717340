"""Decompress Spark event logs piece by piece, whatever codec Spark wrote them with.

The codec is told by the first bytes, not by the name. Spark's lz4 and snappy are streams of blocks
of their own making (lz4-java's `LZ4Block`, snappy-java's `\\x82SNAPPY`), not the standard frames;
both kinds are read.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import cramjam
import lz4.block
import lz4.frame
import zstandard

__all__ = ["CodecError", "TruncatedStream", "codec_of", "decompressed"]

CHUNK_BYTES = 1 << 20
LARGEST_BLOCK_BYTES = 1 << 28
"""lz4-java and snappy-java write blocks of 32 KB to 32 MB; a larger length is garbage."""

Codec = Callable[[BinaryIO], Iterator[bytes]]


class CodecError(Exception):
    """The compressed bytes are damaged."""


class TruncatedStream(CodecError):
    """The compressed bytes end too early: normal for an application that is still running."""


def codec_of(head: bytes) -> str | None:
    """The codec that the first bytes of a file belong to; None for plain text.

    >>> codec_of(b"LZ4Block\\x25"), codec_of(b'{"Event":"SparkListenerLogStart"')
    ('lz4', None)
    """
    return next((name for name, magic, _ in _CODECS if head.startswith(magic)), None)


def decompressed(file: BinaryIO) -> Iterator[bytes]:
    """The file's text in pieces; raises CodecError at the first damaged byte."""
    try:
        head = file.read(16)
        file.seek(0)
        codec = next((codec for _, magic, codec in _CODECS if head.startswith(magic)), _plain)
        yield from codec(file)
    except (zlib.error, zstandard.ZstdError, lz4.block.LZ4BlockError, RuntimeError) as problem:
        raise CodecError(str(problem)) from None
    except (cramjam.DecompressionError, zipfile.BadZipFile, EOFError) as problem:
        raise CodecError(str(problem)) from None


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _frames(file: BinaryIO, new_decoder: Callable[[], object]) -> Iterator[bytes]:
    """Any codec with the zlib way of working; frames may follow one another."""
    decoder, waiting = new_decoder(), b""
    fresh = True
    while chunk := waiting or file.read(CHUNK_BYTES):
        text = decoder.decompress(chunk)  # pyright: ignore[reportAttributeAccessIssue]
        fresh, waiting = False, b""
        if text:
            yield text
        if decoder.eof:  # pyright: ignore[reportAttributeAccessIssue]
            waiting = decoder.unused_data or b""  # pyright: ignore[reportAttributeAccessIssue]
            decoder, fresh = new_decoder(), True
    if not fresh:
        raise TruncatedStream("the compressed data ends in the middle of a frame")


def _gzip(file: BinaryIO) -> Iterator[bytes]:
    return _frames(file, lambda: zlib.decompressobj(wbits=31))


def _zstd(file: BinaryIO) -> Iterator[bytes]:
    return _frames(file, lambda: zstandard.ZstdDecompressor().decompressobj())


def _lz4_frame(file: BinaryIO) -> Iterator[bytes]:
    return _frames(file, lz4.frame.LZ4FrameDecompressor)


def _lz4_block(file: BinaryIO) -> Iterator[bytes]:
    """lz4-java: magic, method, packed and plain length (little endian), checksum, block."""
    while header := file.read(21):
        if len(header) < 21:
            raise TruncatedStream("the lz4 stream ends in a block header")
        magic, token, packed, plain, _ = struct.unpack("<8sBiiI", header)
        method = token & 0xF0
        sound = magic == b"LZ4Block" and method in (0x10, 0x20) and min(packed, plain) >= 0
        if not sound or max(packed, plain) > LARGEST_BLOCK_BYTES:
            raise CodecError("an lz4 block header is damaged")
        if plain == 0:
            continue
        block = _exactly(file, packed)
        yield block if method == 0x10 else lz4.block.decompress(block, uncompressed_size=plain)


SNAPPY_JAVA = b"\x82SNAPPY\x00"


def _snappy_java(file: BinaryIO) -> Iterator[bytes]:
    """snappy-java: magic and two versions, then (length, raw block), big endian; may repeat."""
    while size_bytes := file.read(4):
        if size_bytes == SNAPPY_JAVA[:4]:
            _exactly(file, 12)
            continue
        if len(size_bytes) < 4:
            raise TruncatedStream("the snappy stream ends in a chunk header")
        (size,) = struct.unpack(">i", size_bytes)
        if not 0 < size <= LARGEST_BLOCK_BYTES:
            raise CodecError("a snappy chunk header is damaged")
        yield bytes(cramjam.snappy.decompress_raw(_exactly(file, size)))


def _snappy_framed(file: BinaryIO) -> Iterator[bytes]:
    """The standard framing: chunk type, 3 bytes of length (little endian), checksum, block."""
    while header := file.read(4):
        if len(header) < 4:
            raise TruncatedStream("the snappy stream ends in a chunk header")
        kind, size = header[0], int.from_bytes(header[1:], "little")
        body = _exactly(file, size)
        if kind in (0x00, 0x01):
            yield bytes(cramjam.snappy.decompress_raw(body[4:])) if kind == 0 else body[4:]
        elif kind < 0x80:
            raise CodecError(f"a snappy chunk of unknown kind {kind}")


def _lzf(file: BinaryIO) -> Iterator[bytes]:
    raise CodecError("lzf is not supported, have Spark write zstd")


def _exactly(file: BinaryIO, size: int) -> bytes:
    block = file.read(size)
    if len(block) < size:
        raise TruncatedStream("the compressed data ends in the middle of a block")
    return block


_CODECS: tuple[tuple[str, bytes, Codec], ...] = (
    ("gzip", b"\x1f\x8b", _gzip),
    ("zstd", b"\x28\xb5\x2f\xfd", _zstd),
    ("lz4", b"LZ4Block", _lz4_block),
    ("lz4", b"\x04\x22\x4d\x18", _lz4_frame),
    ("snappy", SNAPPY_JAVA, _snappy_java),
    ("snappy", b"\xff\x06\x00\x00sNaPpY", _snappy_framed),
    ("lzf", b"ZV", _lzf),
)
