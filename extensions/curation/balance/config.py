"""Options of `balance`: the shares of languages and sources."""

from dataclasses import field
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.described_keys import Common


@config_class
class BalanceConfig:
    """Share of each language and source in the training data."""

    alpha: Annotated[float, Field(ge=0, le=1), Common()] = 0.3
    """exponent of the shares of languages, 0 (equal) to 1 (natural): 0.7 in XLM and mBERT, 0.3 in
    XLM-R and mT5. These draw languages during training; here the number of tokens stays as it is,
    so documents of large languages without a copy are never read. To read all of them, make a set
    of each language, and set `data.weights` of the training"""
    max_copies: Annotated[int, Field(ge=1, le=255)] = 4
    """maximum copies of a document, 1 to 255; a language that needs more gets a smaller share, with
    a warning"""
    sources: dict[str, Annotated[float, Field(gt=0, le=255)]] = field(default_factory=dict)
    """factor on the copies of each input source, above 0; default 1"""
