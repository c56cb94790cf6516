"""Compare the tokenizer of the model that `model.init_from` names with the tokenizer of the shards."""

from collections.abc import Mapping
from dataclasses import dataclass

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.train.checkpoint.trained_model import TrainedModel


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


def compare_tokenizers(source: TrainedModel, shards: ShardSet, key: str = "model.init_from") -> OtherTokenizer | None:
    """Compare the pieces of the ids that both tokenizers have; return the extension, or None if they are equal.

    Without a tokenizer nothing is compared. Another piece of an id is refused, with the `key` that names the source.
    """
    try:
        ours = find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint)
    except ConfigurationError:  # the set was copied without it
        return None
    if source.tokenizer_folder is None:
        return None
    there, here = source.tokenizer, load_tokenizer(ours)
    if there.vocabulary.fingerprint == here.vocabulary.fingerprint:
        return None
    sizes = there.vocabulary.size, here.vocabulary.size
    for token in range(min(sizes)):
        if (piece := there.piece(token)) != (own := here.piece(token)):
            raise ConfigurationError(
                f"{key}: {source.folder} has another tokenizer than the shards: id {token} is {piece!r} there, "
                f"{own!r} here; make the shards with the tokenizer of that model ({source.tokenizer_folder})"
            )
    texts = {token: "" if here.vocabulary.special[token] else here.decode_part([token]) for token in range(*sizes)}
    parts: dict[int, tuple[int, ...]] = {}
    for token, text in texts.items():
        parts[token] = () if not text or "\ufffd" in text else tuple(there.encode([text])[0].ids.tolist())
    return OtherTokenizer(*sizes, parts)


def refuse_other_tokenizer(source: TrainedModel, shards: ShardSet, key: str) -> None:
    """Refuse a teacher that was not trained on the ids of the shards."""
    expected = shards.manifest.tokenizer.fingerprint
    theirs = source.recorded[0].tokenizer.fingerprint if source.recorded else None
    if theirs == expected:
        return
    if source.tokenizer_folder is None:
        what = "has no tokenizer" if theirs is None else f"was trained with the tokenizer {theirs[:16]}"
        raise ConfigurationError(
            f"{key}: {source.folder} {what}, the shards have {expected[:16]}, and without its files their ids cannot "
            "be compared: copy the files of the teacher's tokenizer into its folder, or make the shards with it"
        )
    find_tokenizer(shards.path, expected)  # raises where the set was copied without it
    refuse_other_ids(source, shards, key)


def refuse_other_ids(source: TrainedModel, shards: ShardSet, key: str) -> None:
    """Refuse shards whose tokenizer has other ids than that of a run or a model folder, or more."""
    other = compare_tokenizers(source, shards, key)
    if other is not None and other.known != other.size:
        raise ConfigurationError(
            f"{key}: {source.folder} has a tokenizer of {other.known} ids, {shards.path} has {other.size}: expected "
            "the same ids; make the shards with the tokenizer of that model"
        )
