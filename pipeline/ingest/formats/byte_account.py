"""Count the bytes and records that the format layer finds in a file, to compare with the items a reader yields.

A byte or record that is lost on either side makes the two differ.
"""

from dataclasses import dataclass, field


@dataclass
class Account:
    """Bytes and records of a range of a file.

    `decoded + sum(undecoded) - read_twice` is the size of the range plus `companion`. `content - separators` is the sum
    of the bytes of all items. `records` is the number of items that are not notes.
    """

    decoded: int = 0  # bytes read, and decompressed if necessary
    undecoded: dict[str, int] = field(default_factory=dict)  # bytes that could not be decoded, by reason
    read_twice: int = 0  # bytes after the range that its last record claims, as does the next range
    companion: int = 0  # bytes of other files that belong to the range
    content: int = 0  # bytes after decompression
    separators: int = 0  # content bytes that are line ends between records
    records: int = 0  # records found, intact or damaged

    def pass_over(self, reason: str, count: int) -> None:
        """Count bytes that are not decoded."""
        if count > 0:
            self.undecoded[reason] = self.undecoded.get(reason, 0) + count
