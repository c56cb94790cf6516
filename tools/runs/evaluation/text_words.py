"""Split texts into words for ROUGE and BLEU; in scripts without spaces, every character is a word."""

import unicodedata
from collections.abc import Sequence
from typing import Final

from clozeline.pipeline.text.normal_form import is_unspaced

_TOKENIZERS: Final = {"zh": "zh", **dict.fromkeys(("ja", "th", "lo", "km", "my"), "char")}
"""sacrebleu's tokenizers by language; `ja-mecab` would need MeCab"""
_SHARE: Final = 0.25
"""Share of letters without spaces above which a text is split into characters; names in other letters are longer."""


class Words:
    """Tokenizer for rouge_score, whose own keeps `a` to `z` and digits alone.

    Example:
        >>> Words().tokenize("Hindi हिंदी, 我喜欢 BERT")
        ['hindi', 'हिंदी', '我', '喜', '欢', 'bert']
    """

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a text in lower case; a mark belongs to the character before it."""
        words: list[str] = []
        inside = False
        for character in text.lower():
            kind = unicodedata.category(character)
            if kind in ("Mn", "Mc", "Me") and words:
                words[-1] += character
            elif is_unspaced(character):
                words.append(character)
                inside = False
            elif kind[0] in "LN" or character == "_":
                if inside:
                    words[-1] += character
                else:
                    words.append(character)
                inside = True
            else:
                inside = False
        return words


def bleu_tokenizer(language: str, references: Sequence[str]) -> str:
    """Return sacrebleu's tokenizer for texts: 13a if words are separated by spaces.

    The language code, if known, tells Chinese from Japanese without kana. References are texts of the set, never those
    of a model, so that all models are scored with the same tokenizer.

    Example:
        >>> [bleu_tokenizer("und", [text]) for text in ("我喜欢 BERT", "ねこが好き", "Über uns.")]
        ['zh', 'char', '13a']
    """
    letters = [character for text in references for character in text if character.isalpha()]
    unspaced = [character for character in letters if is_unspaced(character)]
    if len(unspaced) <= _SHARE * len(letters):
        return "13a"
    names = [unicodedata.name(character, "") for character in set(unspaced)]
    chinese = all(name.startswith("CJK") for name in names)
    return _TOKENIZERS.get(language.partition("-")[0], "zh" if chinese else "char")
