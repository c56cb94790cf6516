"""Lists of stop words, a file for each language: `en.txt` has a word in each line."""

from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.text.text_statistics import TextStatistics

STRINGS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("zh", "ja"), (1, 2)),
    **dict.fromkeys(("th", "lo", "km", "my"), (2, 3)),
}
"""Languages without blanks between words, and the lengths of the strings that stand for words there."""


def read_stop_words(folder: Path) -> dict[str, list[str]]:
    """Read the lists of a folder, by language code.

    Raises:
        ConfigurationError: if the folder has no lists.
        StorageError: if a list cannot be read.
    """
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise ConfigurationError(
            f"stop_words_from: {folder}: expected files such as en.txt with a word in each line, got none"
        )
    try:
        return {file.stem: file.read_text(encoding="utf-8").split() for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{folder}: {error}") from error


def count_stop_words(statistics: TextStatistics, words: frozenset[str], language: str) -> int:
    """Return how many different stop words a text has: among its tokens, or as strings in scripts without blanks."""
    if language in STRINGS:
        return sum(word in statistics.text for word in words)
    return statistics.count_listed(words)
