"""Compare the tokenizer of the model that `model.init_from` names with the tokenizer of the shards."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clozeline.errors import ConfigurationError, StorageError
from clozeline.model.checkpoints import find_imported_tokenizer
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.train.checkpoint.format import steps_in
from clozeline.train.data.sets.recorded_sets import read_sets, tokenizer_of_run


@dataclass(frozen=True)
class OtherTokenizer:
    """A tokenizer that extends the source's."""

    known: int
    """vocabulary size of the source"""
    size: int
    """vocabulary size of the shards"""
    parts: Mapping[int, tuple[int, ...]]
    """new id → ids of its text in the source's tokenizer; empty for an id without text"""

    def line(self) -> str:
        """Return what a start prints."""
        return f"           another tokenizer: {self.known} ids there, {self.size} here; shared ids have equal pieces"


def compare_tokenizers(source: Path, shards: ShardSet, key: str = "model.init_from") -> OtherTokenizer | None:
    """Compare the pieces of the ids that both tokenizers have; return the extension, or None if they are equal.

    The source is a run or model folder, which `key` names; without a tokenizer nothing is compared. Another piece of an
    id is refused.
    """
    try:
        ours = find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint)
    except ConfigurationError:  # the set was copied without it
        return None
    if (theirs := find_source_tokenizer(source.expanduser())) is None:
        return None
    there, here = load_tokenizer(theirs), load_tokenizer(ours)
    if there.vocabulary.fingerprint == here.vocabulary.fingerprint:
        return None
    sizes = there.vocabulary.size, here.vocabulary.size
    for token in range(min(sizes)):
        if (piece := there.piece(token)) != (own := here.piece(token)):
            raise ConfigurationError(
                f"{key}: {source} has another tokenizer than the shards: id {token} is {piece!r} there, "
                f"{own!r} here; make the shards with the tokenizer of that model ({theirs})"
            )
    texts = {token: "" if here.vocabulary.special[token] else here.decode_part([token]) for token in range(*sizes)}
    parts: dict[int, tuple[int, ...]] = {}
    for token, text in texts.items():
        parts[token] = () if not text or "\ufffd" in text else tuple(there.encode([text])[0].ids.tolist())
    return OtherTokenizer(*sizes, parts)


def find_source_tokenizer(source: Path) -> Path | None:
    """Return the folder of the tokenizer of a run or model folder, or None."""
    if not steps_in(source / "checkpoints"):
        own = source / "tokenizer"
        return find_imported_tokenizer(source) or (own if (own / "vocabulary.json").is_file() else None)
    try:
        return tokenizer_of_run(source, read_sets(source)[0])
    except (ConfigurationError, StorageError):
        return None


def refuse_other_tokenizer(source: Path, shards: ShardSet, key: str) -> None:
    """Refuse a teacher that was not trained on the ids of the shards."""
    expected = shards.manifest.tokenizer.fingerprint
    is_run = bool(steps_in(source / "checkpoints"))
    if is_run:
        theirs = read_sets(source)[0].tokenizer.fingerprint
        if theirs == expected:
            return
    if find_source_tokenizer(source) is None:
        what = f"was trained with the tokenizer {theirs[:16]}" if is_run else "has no tokenizer"
        raise ConfigurationError(
            f"{key}: {source} {what}, the shards have {expected[:16]}, and without its files their ids cannot be "
            "compared: copy the files of the teacher's tokenizer into its folder, or make the shards with it"
        )
    find_tokenizer(shards.path, expected)  # raises where the set was copied without it
    refuse_other_ids(source, shards, key)


def refuse_other_ids(source: Path, shards: ShardSet, key: str) -> None:
    """Refuse shards whose tokenizer has other ids than that of a run or a model folder, or more."""
    other = compare_tokenizers(source, shards, key)
    if other is not None and other.known != other.size:
        raise ConfigurationError(
            f"{key}: {source} has a tokenizer of {other.known} ids, {shards.path} has {other.size}: expected the same "
            "ids; make the shards with the tokenizer of that model"
        )
