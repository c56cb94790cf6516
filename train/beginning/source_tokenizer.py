"""The tokenizer of the model that `model.init_from` names, beside that of the shards."""

from __future__ import annotations

from pathlib import Path

from model.checkpoints import imported_tokenizer
from pipeline.errors import ConfigurationError, StorageError
from pipeline.shards import ShardSet, open_shards
from pipeline.tokenizers import find_tokenizer, load_tokenizer
from train.checkpoint.format import steps_in
from train.run_directory import read_config

__all__ = ["compare_tokenizers"]


def compare_tokenizers(source: Path, shards: ShardSet) -> list[str]:
    """Compare the pieces of the ids that both tokenizers have; return what to say of tokenizers that are not equal.

    Args:
        source: a run, or a folder with a model; one without a tokenizer of ours is not compared.
        shards: the first training set.

    Raises:
        ConfigurationError: an id has another piece there, so that its row of the token table is another token's.
    """
    theirs, ours = _folder(source.expanduser()), _of_set(shards)
    if theirs is None or ours is None:
        return []
    there, here = load_tokenizer(theirs), load_tokenizer(ours)
    if there.vocabulary.fingerprint == here.vocabulary.fingerprint:
        return []
    sizes = there.vocabulary.size, here.vocabulary.size
    for token in range(min(sizes)):
        if (piece := there.piece(token)) != (own := here.piece(token)):
            raise ConfigurationError(
                f"model.init_from: {source} has another tokenizer than the shards: id {token} is {piece!r} there, "
                f"{own!r} here; make the shards with the tokenizer of that model ({theirs})"
            )
    return [f"           another tokenizer: {sizes[0]} ids there, {sizes[1]} here; those of both have equal pieces"]


def _folder(source: Path) -> Path | None:
    """Return the folder of a source's tokenizer; None where it has none, or the shards of a run are not there now.

    Raises:
        ClozelineError: what is there is damaged, or of a newer version.
    """
    if not steps_in(source / "checkpoints"):
        beside = source / "tokenizer"
        return imported_tokenizer(source) or (beside if (beside / "vocabulary.json").is_file() else None)
    try:
        return _of_set(open_shards(read_config(source).data.first_set))
    except (ConfigurationError, StorageError):
        return None


def _of_set(shards: ShardSet) -> Path | None:
    try:
        return find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint)
    except ConfigurationError:  # the set was copied without it
        return None
