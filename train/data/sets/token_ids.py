"""Compare the ids of weights with those of rows: an id must mean the same piece in both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, find_tokenizer, load_tokenizer


class UnknownIds(ConfigurationError):
    """It was not recorded what the ids mean, and there is no tokenizer."""


_REMEDY: Final = "make the set with the tokenizer of the other: tokenizer.path=FOLDER"


@dataclass(frozen=True)
class KnownIds:
    """The tokenizer whose ids weights were trained on, or rows were made with."""

    owner: Path | str
    """what has these ids, for messages"""
    fingerprint: str | None
    """fingerprint of the tokenizer; None: it was not recorded"""
    load: Callable[[], Tokenizer]
    """returns the tokenizer; ConfigurationError if it is missing"""

    @staticmethod
    def of_set(shards: ShardSet) -> "KnownIds":
        """Return the ids of the rows of a set."""
        fingerprint = shards.manifest.tokenizer.fingerprint
        return KnownIds(
            shards.path,
            fingerprint,
            lambda: load_tokenizer(find_tokenizer(shards.path, fingerprint)),
        )


@dataclass(frozen=True)
class OtherTokenizer:
    """A tokenizer that extends the source's."""

    known: int
    """vocabulary size of the source"""
    size: int
    """vocabulary size of the shards"""
    parts: Mapping[int, tuple[int, ...]]
    """new id → ids of its text in the source's tokenizer; empty for an id without text"""
    roles: str = ""
    """the first role, such as `pad`, that another id has here; or ''"""

    def line(self) -> str:
        """Return the line that a start prints."""
        return (
            f"           another tokenizer: {self.known} ids there, {self.size} here; the first "
            f"{min(self.known, self.size)} have the same pieces {self.roles}"
        )


def compare_ids(
    source: KnownIds, shards: ShardSet, key: str, remedy: str = _REMEDY
) -> OtherTokenizer | None:
    """Check that each id of a source means the same piece in the rows of a set.

    Args:
        source: what has ids, such as the weights of a run.
        shards: the set.
        key: what names the source or the set in the configuration, for messages.
        remedy: what to do about other ids, for messages.

    Returns:
        how the tokenizer of the set extends the source's; None if they are equal.

    Raises:
        ConfigurationError: an id has another piece, or the fingerprints differ and a tokenizer is
            missing.
        UnknownIds: no tokenizer is known of the source.
    """
    expected = shards.manifest.tokenizer.fingerprint
    if source.fingerprint == expected:
        return None

    # load both tokenizers
    try:
        there, here = source.load(), KnownIds.of_set(shards).load()
    except ConfigurationError as error:
        kind = UnknownIds if source.fingerprint is None else ConfigurationError
        raise kind(
            f"{key}: {source.owner} has the tokenizer {(source.fingerprint or 'unknown')[:16]}, "
            f"{shards.path} has {expected[:16]}, and their pieces cannot be compared: {error}; "
            f"copy the missing tokenizer back, or {remedy}"
        ) from error
    if there.vocabulary.fingerprint == here.vocabulary.fingerprint:
        return None

    # compare the pieces of shared ids
    sizes = there.vocabulary.size, here.vocabulary.size
    for token in range(min(sizes)):
        if (piece := there.piece(token)) != (other := here.piece(token)):
            raise ConfigurationError(
                f"{key}: {source.owner} has another tokenizer than {shards.path}: id {token} is "
                f"{piece!r} there, {other!r} in the set; {remedy}"
            )

    # encode the texts of new ids with the tokenizer of the source
    texts = {
        token: "" if here.vocabulary.special[token] else here.decode_part([token])
        for token in range(*sizes)
    }
    parts = {
        token: () if not text or "\ufffd" in text else tuple(there.encode([text])[0].ids.tolist())
        for token, text in texts.items()
    }

    # compare the ids of special tokens, which both have
    roles = _list_roles(here)
    moved = [
        f"{role} is id {token} there, {roles[role]} in the set"
        for role, token in _list_roles(there).items()
        if roles.get(role, token) != token
    ]
    return OtherTokenizer(*sizes, parts, "; ".join(moved[:1]))


def refuse_other_ids(source: KnownIds, shards: ShardSet, key: str, remedy: str = _REMEDY) -> None:
    """Refuse a set whose tokenizer has other or more ids than the source's.

    `key` and `remedy`: as for `compare_ids`.
    """
    other = compare_ids(source, shards, key, remedy)
    if other is not None and (other.known != other.size or other.roles):
        reason = other.roles or f"{other.known} ids there, {other.size} in the set"
        raise ConfigurationError(
            f"{key}: {source.owner} has another tokenizer than {shards.path}: {reason}; {remedy}"
        )


def _list_roles(tokenizer: Tokenizer) -> dict[str, int]:
    sentinels = enumerate(tokenizer.vocabulary.sentinels)
    return tokenizer.vocabulary.specials | {f"sentinel {n}": token for n, token in sentinels}
