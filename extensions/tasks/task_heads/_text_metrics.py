"""Metrics of generated texts: exact match, BLEU and chrF by sacrebleu, ROUGE by rouge_score.

In scripts without spaces, every character is a word.
"""

import unicodedata
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, get_args

from clozeline.extensions.tasks.readers.text_to_text import Metric as TextMetric
from clozeline.extensions.tasks.task_heads._task_head import Judged, Metric, mean
from clozeline.pipeline.text.language_codes import base_language
from clozeline.pipeline.text.normal_form import is_unspaced
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.text.text_statistics import UNSPACED_LANGUAGES

_CORPUS_METRICS: Final = ("bleu", "chrf")
"""Metrics over the corpus, by sacrebleu."""
_SPLITTER: Final = Regex(Regex.Options())
_SHARE: Final = 0.25
"""Share of letters without spaces above which a text is split into characters; names in other
letters are longer."""


class UnicodeTokenizer:
    """Tokenizer for rouge_score, whose default drops all characters but `a` to `z` and digits.

    Example:
        >>> UnicodeTokenizer().tokenize("Hindi हिंदी, 我喜欢 BERT")
        ['hindi', 'हिंदी', '我', '喜', '欢', 'bert']
    """

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a text in lower case; a mark belongs to the character before it."""
        words: list[str] = []
        inside = False

        for character in text.lower():
            category = unicodedata.category(character)
            if category in ("Mn", "Mc", "Me") and words:
                words[-1] += character
            elif is_unspaced(character):
                words.append(character)
                inside = False
            elif category[0] in "LN" or character == "_":
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

    The language code, if known, distinguishes Chinese from Japanese without kana. References are
    texts of the set, not of a model: all models are scored with the same tokenizer.

    Example:
        >>> [bleu_tokenizer("und", [text]) for text in ("我喜欢 BERT", "ねこが好き", "Über uns.")]
        ['zh', 'char', '13a']
    """
    letters = [character for text in references for character in text if character.isalpha()]
    unspaced = [character for character in letters if is_unspaced(character)]
    if len(unspaced) <= _SHARE * len(letters):
        return "13a"
    names = [unicodedata.name(character, "") for character in set(unspaced)]
    is_han = all(name.startswith("CJK") for name in names)
    base = base_language(language)
    # `ja-mecab` would need MeCab
    return "zh" if base == "zh" or (is_han and base not in UNSPACED_LANGUAGES) else "char"


def signatures(names: Sequence[str], judged: Judged) -> dict[str, str]:
    """Return metric → signature of sacrebleu, which describes how it is computed."""
    by_metric = {}
    for name in names:
        if name in _CORPUS_METRICS:
            metric = _sacrebleu_metric(name, judged)
            metric.num_refs = max(map(len, judged.gold))
            by_metric[name] = str(metric.get_signature())
    return by_metric


def _sacrebleu_metric(name: str, judged: Judged) -> Any:
    """Return sacrebleu's metric, with the tokenizer of the language for BLEU."""
    from sacrebleu.metrics import BLEU, CHRF

    texts = [text for gold in judged.gold for text in gold]
    return BLEU(tokenize=bleu_tokenizer(judged.language, texts)) if name == "bleu" else CHRF()


def text_metric(name: str, judged: Judged) -> float:
    """Return a metric of texts, from 0 to 1.

    BLEU and chrF are over the corpus, the others are means over texts. `judged.gold` are the
    accepted texts of each text. If its language is und, their script decides how BLEU tokenizes.
    """
    texts = judged.guesses
    golds = judged.gold
    if name == "exact_match":
        pairs = zip(texts, golds, strict=True)
        return mean(text.strip() in set(map(str.strip, accepted)) for text, accepted in pairs)

    # over the corpus, by sacrebleu
    if name in _CORPUS_METRICS:
        most = max(map(len, golds))
        references = [
            [gold[index] if index < len(gold) else None for gold in golds] for index in range(most)
        ]
        score = _sacrebleu_metric(name, judged).corpus_score(list(texts), references).score
        return float(score) / 100

    from rouge_score.rouge_scorer import RougeScorer

    # ROUGE stems words of texts that are mostly in ASCII letters
    letters = [letter for gold in golds for text in gold for letter in text if letter.isalpha()]
    is_ascii = 2 * sum(letter.isascii() for letter in letters) >= len(letters)
    scorer = (
        RougeScorer([name], use_stemmer=True)
        if is_ascii
        else RougeScorer([name], tokenizer=UnicodeTokenizer())
    )
    if name == "rougeLsum":  # expects one sentence per line
        texts = ["\n".join(sentences_of(text)) for text in texts]
        golds = [["\n".join(sentences_of(text)) for text in gold] for gold in golds]

    scored = (scorer.score_multi(list(gold), text) for text, gold in zip(texts, golds, strict=True))
    return mean(scores[name].fmeasure for scores in scored)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text."""
    starts = [*_SPLITTER.starts(text, "und"), len(text)]
    return [text[begin:end].strip() for begin, end in pairwise(starts)]


TEXT_METRICS: Final = {name: Metric(partial(text_metric, name)) for name in get_args(TextMetric)}
SUMMARY_METRICS: Final = TEXT_METRICS.keys() - {"exact_match", *_CORPUS_METRICS}
"""Metrics that count the words of a reference, in any order or place."""
