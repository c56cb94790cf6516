"""Check the tokenizer of a shard set: its files, and how the manifest describes it."""

from pathlib import Path

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.execution.unit_record import records
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of
from clozeline.tools.shards.provenance.tokenizer import tokenizer_folder


def vocabulary_for(shards: ShardSet, folder: Path | None = None) -> Vocabulary | None:
    """Return the vocabulary of a set's tokenizer after comparing it with the manifest; None if it is not above the set.

    The tokenizer is loaded, and its files are compared with the record of the stage that wrote them, if there is one. A
    folder with only `vocabulary.json` is compared by its vocabulary.
    """
    facts = shards.manifest.tokenizer
    try:
        location = tokenizer_folder(shards, folder)
    except ConfigurationError:
        if folder is not None:
            raise
        return None
    for record in records(location.parent, "main"):
        if gap := record.gap(location.parent, temporary=False, verify=True):
            raise IntegrityError(f"{gap}; {repair_of(location / record.pass_name)}")
    if [file.name for file in location.iterdir()] == [VOCABULARY_FILE]:
        vocabulary = Vocabulary.load(location / VOCABULARY_FILE)
    else:
        vocabulary = load_tokenizer(location).vocabulary
    recorded = (facts.vocab_size, facts.special_ids, facts.sentinels)
    actual = (vocabulary.size, vocabulary.specials, vocabulary.sentinels)
    for name, expected, got in zip(("vocab_size", "special_ids", "sentinels"), actual, recorded, strict=True):
        if got != expected:
            raise IntegrityError(f"{shards.path}: tokenizer.{name}: expected {expected} as {location} has, got {got}")
    return vocabulary
