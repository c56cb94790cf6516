"""Complete facts with one masked word (LAMA, arXiv 1909.01066)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.tasks.score_notes import note_few_items, note_if_worse
from clozeline.model.scoring.masked import candidate_scores
from clozeline.pipeline.tables import find_text_files, read_list, read_rows
from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.tools.runs.inference.text_likelihoods import choose_score, ready_scores
from clozeline.train.checkpoint.trained_model import TrainedModel

_MASK: Final = "[MASK]"
_TOP_WORDS: Final = 10
_FEWEST_CANDIDATES: Final = 10 * _TOP_WORDS
"""Number of candidates from which precision at 10 is reported: with fewer candidates, many correct
words are in the top ten by chance."""


class Fact(NamedTuple):
    """A sentence with a blank, the word that fills it, and its relation."""

    before: str
    after: str
    word: str
    relation: str


def read_facts(path: Path, form: NormalForm = "prose") -> list[Fact]:
    """Return the facts of a file or folder.

    Rows have `masked_sentence` (or `masked_sentences`) and `obj_label`.

    The relation is `predicate_id`, or else the name of the file. Several sentences are joined.
    """
    facts = []

    for file in find_text_files(path, with_rows=True):
        for where, fields in read_rows(file, form):
            sentence = fields.get("masked_sentence", fields.get("masked_sentences"))
            text = " ".join(map(str, sentence)) if isinstance(sentence, list) else str(sentence)
            before, mask, after = text.partition(_MASK)
            word = fields.get("obj_label")
            if not mask or _MASK in after or not isinstance(word, str) or not word.strip():
                raise IntegrityError(
                    f"{where}: expected obj_label, and a masked_sentence with one {_MASK}, got "
                    f"{', '.join(fields) or 'nothing'}"
                )
            relation = str(fields.get("predicate_id", file.name.partition(".")[0]))
            facts.append(Fact(before, after, word.strip(), relation))

    if not facts:
        raise ConfigurationError(f"{path}: expected facts, got none")
    return facts


def score(
    trained: TrainedModel, path: Path, candidates: Path | None, form: NormalForm = "prose"
) -> dict[str, Any]:
    """Return how often a masked LM finds the word of a fact, where its training predicts a mask.

    At once, or among the top ten; means are over relations.

    Words compete with the candidates: those of a file, or of all facts, as far as they are single
    tokens. A fact is skipped and counted if its sentence has another word or other tokens there, as
    at its start or after a quote. The baseline is the most frequent word of each relation. To
    compare models with different vocabularies, give the words that all of them have.
    """
    previous = trained.predicts_next
    choose_score(ready_scores(trained.objectives), trained, "mntp" if previous else "pll")
    facts = read_facts(path, form)
    words = [fact.word for fact in facts] if candidates is None else read_list(candidates, form)
    cls, sep, mask = trained.masked_row_ids("suite=lama")
    tokens = _single_tokens(trained, [word.strip() for word in words])
    if not tokens:
        raise ConfigurationError(
            "suite=lama: none of the words is one token of the run's tokenizer"
        )

    known = [fact for fact in facts if fact.word in tokens]
    sentences = [fact.before + fact.word + fact.after for fact in known]
    asked, rows, positions = list[Fact](), list[list[int]](), list[int]()

    # put the mask where the sentence has the token of the word: elsewhere it is spelled otherwise
    for fact, encoding in zip(known, trained.tokenizer.encode(sentences), strict=True):
        after_blank = encoding.starts >= len(fact.before.removesuffix(" "))
        inside = after_blank & (encoding.starts < len(fact.before) + len(fact.word))
        if encoding.ids[inside].tolist() == [tokens[fact.word]]:
            asked.append(fact)
            rows.append([cls, *np.where(inside, mask, encoding.ids).tolist(), sep])
            # a model of masked next-token prediction answers at the position before the mask
            positions.append(1 + int(inside.argmax()) - previous)

    choices = list(dict.fromkeys(tokens.values()))
    # rank of the correct word among the candidates [N]
    scores = candidate_scores(trained.model, rows, positions, choices).numpy()
    correct = np.array([choices.index(tokens[fact.word]) for fact in asked], np.int64)
    correct_scores = scores[np.arange(len(asked)), correct][:, None]
    # a tie is wrong
    ranks = (scores > correct_scores).sum(axis=1) + (scores == correct_scores).sum(axis=1)
    counts = {
        "suite": "lama",
        "n": len(asked),
        "skipped": len(facts) - len(asked),
        "candidates": len(choices),
    }

    return counts | _mean_over_relations(asked, ranks, len(choices))


def _single_tokens(trained: TrainedModel, words: Sequence[str]) -> dict[str, int]:
    """Return the token of each word that is one token inside a sentence."""
    distinct = list(dict.fromkeys(words))
    texts = ["a", *(f"a {word}" for word in distinct)]
    (first,), *encoded = (encoding.ids for encoding in trained.tokenizer.encode(texts))
    unknown = trained.tokenizer.vocabulary.specials.get("unk")
    return {
        word: int(ids[1])
        for word, ids in zip(distinct, encoded, strict=True)
        if len(ids) == 2 and ids[0] == first and ids[1] != unknown
    }


def _mean_over_relations(
    asked: Sequence[Fact], ranks: np.ndarray[Any, Any], candidates: int
) -> dict[str, object]:
    tops = (1, _TOP_WORDS) if candidates >= _FEWEST_CANDIDATES else (1,)
    facts_by_relation: dict[str, list[int]] = defaultdict(list)
    for number, fact in enumerate(asked):
        facts_by_relation[fact.relation].append(number)
    relations = {
        name: {
            "n": len(indices),
            **{f"p_at_{top}": float((ranks[indices] <= top).mean()) for top in tops},
            "majority": Counter(asked[index].word for index in indices).most_common(1)[0][1]
            / len(indices),
        }
        for name, indices in sorted(facts_by_relation.items())
    }

    rows = relations.values()
    names = (*(f"p_at_{top}" for top in tops), "majority")
    means = {name: float(np.mean([row[name] for row in rows])) if rows else 0.0 for name in names}
    return {**means, "relations": relations}


def fact_lines(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield readable lines; a score below the most frequent word is marked."""
    asked = f"{scores['n']:,} of {scores['n'] + scores['skipped']:,} facts"
    skipped = (
        f"; {scores['skipped']:,} skipped: the word in their blank is not one of these tokens"
        if scores["skipped"]
        else ""
    )

    candidates = (
        f"the candidates are {scores['candidates']:,} words that are single tokens of this "
        "vocabulary"
    )
    yield f"{scores['suite']}: {asked}, step {scores['step']:,}; {candidates}{skipped}"
    for relation_name, row in scores["relations"].items():
        yield f"  {relation_name:<22}{_format_precision(row)}  ({row['n']:,})"
    baseline = f"most frequent word {scores['majority']:.4f}"
    worse = note_if_worse(scores["p_at_1"], scores["majority"], "higher")
    yield f"  {'mean over relations':<22}{_format_precision(scores)}  {baseline}{worse}"
    if few := note_few_items(scores["n"], "fact"):
        yield f"  {few}"


def _format_precision(row: Mapping[str, object]) -> str:
    top = row.get(f"p_at_{_TOP_WORDS}")
    return f"P@1 {row['p_at_1']:.4f}" + (f"  P@{_TOP_WORDS} {top:.4f}" if top is not None else "")
