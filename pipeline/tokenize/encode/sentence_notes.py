"""What encode says of texts whose sentences its splitter does not find.

Objectives on several sentences learn nothing from a document of one sentence, and little from
phrases.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clozeline.errors import plural
from clozeline.pipeline.text.sentences import SentenceSplitter

NOTICED_SHARE: Final = 0.1
"""share of the tokens of a language in documents of one sentence from which on a line says so"""
NOTICED_CHARACTERS: Final = 500
"""characters of a sentence, on average of a language, from which on a line says so"""


def explain_phrases(
    documents: Mapping[str, int], splitter: SentenceSplitter, wanted: Sequence[str]
) -> str:
    """Return a line about languages whose texts are split into phrases, else "".

    Args:
        documents: documents by language.
        splitter: splitter of the run.
        wanted: labels of the objectives that need several sentences.
    """
    found = [language for language in sorted(documents) if splitter.splits_phrases(language)]
    if not (found and wanted):
        return ""
    number = sum(documents[language] for language in found)
    return (
        f"sentences: {plural(number, 'document')} of {sum(documents.values()):,} "
        f"({', '.join(found)}) have no marks at the ends of sentences, and are split into phrases "
        f"at newlines and blanks: {', '.join(wanted)} learn less from phrases than from sentences"
    )


def describe_unsplit(counts: Mapping[str, Any]) -> list[str]:
    """Return the amounts of each language in which the splitter finds few sentences.

    The languages with the most tokens come first. `counts` are those of the stage, as in
    `EncodeCounts`.
    """
    tokens = counts.get("tokens_by_language", {})
    amounts = []
    for language in sorted(tokens, key=lambda name: (-tokens[name], name)):
        text = counts["text_by_language"][language]
        single = counts.get("one_sentence", {}).get(language, {"documents": 0, "tokens": 0})
        share = single["tokens"] / max(1, tokens[language])
        mean = text["characters"] / max(1, text.get("sentences", text["characters"]))
        if share >= NOTICED_SHARE:
            amounts.append(
                f"{single['documents']:,} of {plural(text['documents'], 'document')} in {language} "
                f"have one sentence ({100 * share:.0f} % of its tokens)"
            )
        elif mean >= NOTICED_CHARACTERS:
            amounts.append(f"{mean:,.0f} characters on average in {language}")
    return amounts


def explain_unsplit(amounts: Sequence[str], wanted: Sequence[str]) -> str:
    """Return a line with the amounts of `describe_unsplit`, else "".

    `wanted` are the labels of the objectives that need several sentences.
    """
    if not (amounts and wanted):
        return ""
    return (
        f"sentences: {', '.join(amounts)}. {', '.join(wanted)} need several in a row. If each line "
        "is a sentence, set encode.sentences: lines. If texts have no marks at the ends of "
        "sentences, encode.sentences: phrases splits them at blanks. If documents are short, "
        "choose objectives without sentences"
    )
