"""Parse `checkpoint.at`: tokens or words after which a checkpoint is saved and kept."""

import re
from collections.abc import Sequence
from typing import Final

_SEEN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kMG]?)\s*(tokens|words)")
_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def milestone_tokens(entries: Sequence[str], tokens_per_word: float | None) -> list[float]:
    """Convert entries such as "10M tokens" to tokens, ascending; ["2k words"] at 1.5 tokens per word is [3000.0]."""
    milestones = []
    for entry in entries:
        matched = _SEEN.fullmatch(entry)
        if matched is None:
            raise ValueError(f"checkpoint.at: expected entries such as 10M tokens or 1M words, got {entry!r}")
        per_word = tokens_per_word if matched[3] == "words" else 1.0
        if per_word is None:
            how = "which clozeline tokenizer-report prints"
            raise ValueError(f"checkpoint.at: {entry} needs checkpoint.tokens_per_word, {how}")
        milestones.append(float(matched[1]) * _UNITS[matched[2]] * per_word)
    return sorted(milestones)
