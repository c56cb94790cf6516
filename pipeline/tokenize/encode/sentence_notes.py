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


def find_unsplit(counts: Mapping[str, Any]) -> list[str]:
    """Return the languages with many tokens in documents of one sentence, the most tokens first.

    `counts` are those of the stage, as in `EncodeCounts`.
    """
    totals = counts.get("tokens_by_language", {})
    tokens = {
        language: single["tokens"] for language, single in counts.get("one_sentence", {}).items()
    }
    noticed = [name for name in tokens if tokens[name] >= NOTICED_SHARE * totals[name]]
    return sorted(noticed, key=lambda name: (-tokens[name], name))


def explain_unsplit(counts: Mapping[str, Any], wanted: Sequence[str]) -> str:
    """Return a line about the languages of `find_unsplit`, else "".

    `wanted` are the labels of the objectives that need several sentences.
    """
    found = find_unsplit(counts)
    if not (found and wanted):
        return ""
    amounts = []
    for language in found:
        single = counts["one_sentence"][language]
        documents = counts["text_by_language"][language]["documents"]
        share = single["tokens"] / counts["tokens_by_language"][language]
        amounts.append(
            f"{single['documents']:,} of {plural(documents, 'document')} in {language} "
            f"({100 * share:.0f} % of its tokens)"
        )
    return (
        f"sentences: {', '.join(amounts)} have one sentence, but {', '.join(wanted)} need several. "
        "If each line is a sentence, set encode.sentences: lines. If texts have no marks at the "
        "ends of sentences, encode.sentences: phrases splits them at blanks. If they are short, "
        "choose objectives without sentences"
    )
