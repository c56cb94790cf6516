"""Compare the tokenizer of the model that `model.init_from` names with the tokenizer of the shards."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clozeline.errors import ConfigurationError, StorageError
from clozeline.model.checkpoints import find_imported_tokenizer
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, find_tokenizer, load_tokenizer
from clozeline.train.checkpoint.format import steps_in
from clozeline.train.data.sets.recorded_sets import read_sets, tokenizer_of_run
from clozeline.train.startup.run_directory import read_config


@dataclass(frozen=True)
class OtherTokenizer:
    """A tokenizer that extends the source's.

    Args:
        known: vocabulary size of the source.
        size: vocabulary size of the shards.
        parts: new id → ids of its text in the source's tokenizer; empty for an id without text.
    """

    known: int
    size: int
    parts: Mapping[int, tuple[int, ...]]

    def line(self) -> str:
        """Return what a start prints."""
        return f"           another tokenizer: {self.known} ids there, {self.size} here; shared ids have equal pieces"


def compare_tokenizers(source: Path, shards: ShardSet) -> OtherTokenizer | None:
    """Compare the pieces of the ids that both tokenizers have; return the extension, or None if they are equal.

    Args:
        source: run or model folder; without a tokenizer nothing is compared.
        shards: the first training set.

    Raises:
        ConfigurationError: an id has another piece there.
    """
    theirs, ours = _folder(source.expanduser()), _of_set(shards)
    if theirs is None or ours is None:
        return None
    there, here = load_tokenizer(theirs), load_tokenizer(ours)
    if there.vocabulary.fingerprint == here.vocabulary.fingerprint:
        return None
    sizes = there.vocabulary.size, here.vocabulary.size
    for token in range(min(sizes)):
        if (piece := there.piece(token)) != (own := here.piece(token)):
            raise ConfigurationError(
                f"model.init_from: {source} has another tokenizer than the shards: id {token} is {piece!r} there, "
                f"{own!r} here; make the shards with the tokenizer of that model ({theirs})"
            )
    return OtherTokenizer(*sizes, {token: _parts(here, token, there) for token in range(*sizes)})


def _parts(here: Tokenizer, token: int, there: Tokenizer) -> tuple[int, ...]:
    text = "" if here.vocabulary.special[token] else here.decode_part([token])
    return () if not text or "\ufffd" in text else tuple(there.encode([text])[0].ids.tolist())


def _folder(source: Path) -> Path | None:
    """Return the folder of a source's tokenizer, or None."""
    if not steps_in(source / "checkpoints"):
        own = source / "tokenizer"
        return find_imported_tokenizer(source) or (own if (own / "vocabulary.json").is_file() else None)
    try:
        return tokenizer_of_run(source, read_sets(source, read_config(source).data)[0])
    except (ConfigurationError, StorageError):
        return None


def _of_set(shards: ShardSet) -> Path | None:
    try:
        return find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint)
    except ConfigurationError:  # the set was copied without it
        return None
