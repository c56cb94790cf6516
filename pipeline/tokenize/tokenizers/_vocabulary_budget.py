"""Parts of the algorithms that are trained here rather than by a library: room, letters, reserved pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.tokenizers._pieces import SPECIAL_PIECES, special_pieces
from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.pipeline.vocabulary import MODES, SENTINELS


def check_room(name: str, options: Any, more: int = 1) -> None:
    """Raise ConfigurationError where `size` has no room for `more` pieces beside the reserved ones."""
    reserved = len(special_pieces(options.reserved))
    if options.size < reserved + more:
        raise ConfigurationError(
            f"{name}: size {options.size} is too small: {reserved} reserved pieces and {more} more need "
            f"{reserved + more}"
        )


def count_letters(words: Mapping[str, int], letters: Callable[[str], Sequence[str]]) -> list[str]:
    """Return the letters of words, most frequent first, those met first before others as frequent."""
    counts: dict[str, int] = {}
    for word, count in words.items():
        for letter in letters(word):
            counts[letter] = counts.get(letter, 0) + count
    return sorted(counts, key=counts.__getitem__, reverse=True)  # stable: a tie keeps the order of first appearance


def special_piece_roles(spares: int, *, lower_case: bool = False) -> Published:
    """Return the roles of the reserved pieces, as every vocabulary trained here has them."""
    return Published(
        specials=dict(SPECIAL_PIECES),
        sentinels=[f"<extra_{number}>" for number in range(SENTINELS)],
        modes={mode: f"<{mode}>" for mode in MODES},
        spares=[f"<reserved_{number}>" for number in range(spares)],
        lower_case=lower_case,
    )
