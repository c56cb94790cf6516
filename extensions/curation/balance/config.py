"""Options of `balance`: the shares of languages and sources."""

from dataclasses import field
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.described_keys import Common


@config_class
class BalanceConfig:
    """Share of each language and source in the training data."""

    alpha: Annotated[float, Field(ge=0, le=1), Common()] = 1.0
    """exponent of the shares of languages, 0 (equal) to 1, which leaves languages as they are: 0.7
    in XLM and mBERT, 0.3 in XLM-R and mT5. These draw languages during training; here the number of
    tokens stays as it is, so documents of large languages without a copy are never read. To read
    all of them, make a set of each language, and set `data.weights` of the training"""
    max_copies: Annotated[int, Field(ge=1, le=255)] = 4
    """maximum copies of a document, 1 to 255; a source or language that needs more gets a smaller
    share, and the run says which"""
    sources: Annotated[dict[str, Annotated[float, Field(gt=0)]], Common()] = field(
        default_factory=dict
    )
    """share of the training tokens by source, such as `{en: 0.4, fr: 0.6}`, each above 0 and
    together at most 1; the other sources keep their proportions in the rest"""

    def __post_init__(self) -> None:
        if self.total_share > 1:
            raise ValueError(
                "sources: these are shares of the training tokens, together at most 1, such as "
                f"{{en: 0.4, fr: 0.6}}; got the sum {float(self.total_share):g}"
            )

    @property
    def total_share(self) -> Fraction:
        """Sum of the shares, exact for the decimals that they print as."""
        return sum((Fraction(repr(share)) for share in self.sources.values()), Fraction(0))
