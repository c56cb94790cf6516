"""Options of code-switching, apart from its work, which imports numpy: help does not need it."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class


@config_class
class CodeSwitchConfig:
    """Dictionaries, and how many words they replace."""

    dictionaries: Annotated[list[Path], Field(min_length=1)]
    """one file per language: lines of a word and its translation, separated by a tab or a space"""
    sentence_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """share of the rows or sentences in which words are replaced"""
    word_rate: Annotated[float, Field(gt=0, le=1)] = 0.9
    """share of the words of such a row or sentence that are replaced, among those in a
    dictionary"""
