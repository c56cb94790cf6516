"""Options of `tokenizer`: the published files, and metadata that they lack."""

from dataclasses import field
from pathlib import Path
from typing import Annotated, ClassVar

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.configuration.described_keys import Common
from clozeline.hub import TOKENIZER_FETCHED


@config_class
class TokenizerConfig:
    """The published tokenizer to import, instead of `train_tokenizer`."""

    SHORTHAND_KEY: ClassVar = "path"

    path: Annotated[Path, HOME_EXPANDED, TOKENIZER_FETCHED, Common()]
    """`tokenizer.json`, `vocab.txt`, `vocab.json` or `encoder.json` next to its merges, a
    SentencePiece `.model`, a tiktoken file, or a Hugging Face folder, also as `hf://org/name`; or a
    tokenizer folder, a pipeline output or a training run of Clozeline"""
    specials: dict[str, str] = field(default_factory=dict)
    """pieces of roles (`pad cls sep mask bos eos unk`) that the files do not name"""
    sentinels: str | list[str] = field(default_factory=list)
    """sentinel pieces in order of use, or a pattern with `{}` for their numbers, such as
    `[unused{}]`; default: pieces with names such as `<extra_id_0>`"""
    tokenizer_class: str | None = None
    """class of transformers that reads the files; default: the class that the folder names, else a
    guess from the file, which the log reports"""
    add: bool = False
    """append special tokens that the tokenizer lacks and that objectives, the task template or
    padding need; false: rows without a pad token are padded with the end token"""

    def __post_init__(self) -> None:
        # imports numpy, which help does not need
        from clozeline.pipeline.vocabulary import SPECIALS

        if unknown := sorted(self.specials.keys() - set(SPECIALS)):
            raise ValueError(
                f"specials: expected roles among {' '.join(SPECIALS)}, got {' '.join(unknown)}"
            )
