"""The format layer's side of the account of a file: bytes decoded, bytes passed over, records found.

It is compared with the items that a reader gives, which others count. A byte or a record that is lost on either side
makes the two differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Account:
    """Bytes and records of one range of a file.

    `decoded + sum(undecoded) - read_twice` is the size of the range, and of what was read `companion` it. `content -
    separators` is the sum over all items of the bytes that each takes. `records` is the number of items that are no
    notes.
    """

    decoded: int = 0
    """bytes of the file that were read, and decompressed where they had to be"""
    undecoded: dict[str, int] = field(default_factory=dict)
    """bytes of the file that could not be decoded, by reason"""
    read_twice: int = 0
    """bytes after the range, which a record that began in it claims as well as the next range"""
    companion: int = 0
    """bytes of other files that belong to the range"""
    content: int = 0
    """bytes of content, after decompression"""
    separators: int = 0
    """bytes of the content that are ends of lines, between records"""
    records: int = 0
    """records found, whole or damaged"""

    def pass_over(self, reason: str, count: int) -> None:
        """Count bytes of the file that are not decoded."""
        if count > 0:
            self.undecoded[reason] = self.undecoded.get(reason, 0) + count
