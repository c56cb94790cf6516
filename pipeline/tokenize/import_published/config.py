"""Options of `tokenizer`: the published files and what they do not say."""

from dataclasses import field
from pathlib import Path
from typing import Annotated, ClassVar

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.configuration.described_keys import Common
from clozeline.hub import TOKENIZER_FETCHED


@config_class
class TokenizerConfig:
    """The published tokenizer to import, instead of `train_tokenizer`."""

    WORD: ClassVar = "path"

    path: Annotated[Path, HOME_EXPANDED, TOKENIZER_FETCHED, Common()]
    """`tokenizer.json`, `vocab.txt`, `vocab.json` or `encoder.json` next to its merges, a
    SentencePiece `.model`, a tiktoken file, or a Hugging Face folder, also as `hf://org/name`; or a
    tokenizer, an output of the pipeline or a run of Clozeline"""
    specials: dict[str, str] = field(default_factory=dict)
    """piece of each role (`pad cls sep mask bos eos unk`) that the files do not name"""
    sentinels: str | list[str] = field(default_factory=list)
    """sentinel pieces in order of use, or a pattern with `{}` for their numbers: `[unused{}]`;
    default: those named `<extra_id_0>`"""
    tokenizer_class: str | None = None
    """transformers' class of the tokenizer; default: as the folder says, else a guess by the file
    that the log names"""
    add: bool = False
    """append the special tokens that the recipe's objectives, task template and padding need and
    the tokenizer lacks; otherwise rows are filled up with the end token if there is no pad"""

    def __post_init__(self) -> None:
        from clozeline.pipeline.vocabulary import (
            SPECIALS,
        )  # imports numpy, which help does not need

        if unknown := sorted(self.specials.keys() - set(SPECIALS)):
            raise ValueError(
                f"specials: expected roles among {' '.join(SPECIALS)}, got {' '.join(unknown)}"
            )
