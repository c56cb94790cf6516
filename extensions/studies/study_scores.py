"""Measure the runs of a study, and print its tables.

Tables are losses, claims, steps of the pipeline, and minimal pairs.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final, TypeAlias

from clozeline.errors import plural
from clozeline.extensions.evaluation.minimal_pairs import Pair, pair_scores, read_pairs
from clozeline.extensions.evaluation.perplexity import WordNgrams
from clozeline.extensions.studies.study_plan import Ordering, PlannedRun, Study, Variant
from clozeline.extensions.studies.study_sets import PreparedDocuments
from clozeline.extensions.studies.verdict import judge
from clozeline.extensions.tasks.finetuning_scores import difference_text, mean_text
from clozeline.extensions.tasks.score_notes import note_few_items
from clozeline.files import publish_text
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.inference.text_likelihoods import open_scorer
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.logs.json_lines import read_lines

_PER_PARADIGM: Final = 100
_PAIR_FIGURES: Final = ("n", "accuracy", "ties", "baselines", "correlation_with_bigram")

Runs: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""the scores of each seed, by variant"""


@dataclass(frozen=True)
class PairTest:
    """Minimal pairs, and a word model of the training texts, which gives the n-gram baselines."""

    pairs: Sequence[Pair]
    words: WordNgrams

    @classmethod
    def read(cls, pairs: Path, documents: Path) -> "PairTest":
        """Read the first hundred pairs of each paradigm, and count words of documents.

        The counts describe the documents after a stage.
        """
        texts = (document.text for document in read_all_documents(documents))
        return cls(read_pairs(pairs, _PER_PARADIGM), WordNgrams(texts))


def write_scores(
    variant: Variant,
    plan: PlannedRun,
    test: PairTest | None,
    texts: Mapping[str, str],
    scores: Path,
) -> None:
    """Measure a finished run on its held-out sets, on texts, and on minimal pairs.

    Minimal pairs are measured by each score of its variant.
    """
    from clozeline.extensions.evaluation.heldout_score import label_loss
    from clozeline.extensions.evaluation.perplexity import perplexity_scores

    run = Path(plan.config["output"])
    trained = TrainedModel.open(run)
    max_rows = int(plan.config["evaluate"]["max_rows"])
    heldout = {
        measure: label_loss(trained.model, open_shards(path), max_rows)
        for measure, path in plan.config["data"]["heldout"].items()
    }
    figures: dict[str, object] = {
        "steps": sum(plan.steps),
        "flops": plan.total,
        "tokens": sum(record["tokens"] for record in read_lines(run / "metrics.jsonl")[-1:]),
        "losses": {measure: loss.nats for measure, loss in heldout.items()},
        "heldout": {
            measure: {"documents": loss.documents, "standard_error": loss.standard_error}
            for measure, loss in heldout.items()
        },
        "bits": {
            name: perplexity_scores(trained, Path(files), None, None)["bits_per_byte"]
            for name, files in texts.items()
        },
    }

    if test is not None:
        scorers = {
            scorer_name: open_scorer(trained, scorer_name)[0] for scorer_name in variant.pairs
        }
        scores_by_name = {
            scorer_name: pair_scores(test.pairs, scorer, test.words)
            for scorer_name, scorer in scorers.items()
        }
        figures["pairs"] = {
            scorer_name: {key: each[key] for key in _PAIR_FIGURES}
            for scorer_name, each in scores_by_name.items()
        }

    publish_text(scores, json.dumps(figures) + "\n")


def _read_measures(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the losses of a run in nats, and the bits per byte that it gives texts, by measure."""
    return {**figures["losses"], **figures.get("bits", {})}


def measures_of(runs: Runs) -> list[str]:
    """Return the measures that some variant has."""
    return list(
        dict.fromkeys(measure for seeds in runs.values() for measure in _read_measures(seeds[0]))
    )


def _losses_of(seeds: Sequence[Mapping[str, object]], measure: str) -> list[float]:
    """Return the loss of each seed of a variant.

    Empty if its training did not prepare it for the measure.
    """
    return [measured[measure] for measured in map(_read_measures, seeds) if measure in measured]


def loss_lines(study: Study, runs: Runs) -> Iterator[str]:
    """Yield the losses of each variant, then by how much each claim holds."""
    measures = measures_of(runs)
    number = len(next(iter(runs.values())))
    seeds_text = "one seed" if number == 1 else f"{number} seeds"
    bits = ", ".join(next(iter(runs.values()))[0].get("bits") or {})
    units = f"nats on held-out rows, bits per byte of {bits}" if bits else "nats on held-out rows"
    length = f"{study.steps:,} steps" if study.steps else f"{study.flops:.3g} operations"
    yield f"{study.title}: {length} per run, {seeds_text}; {units}"
    yield f"{'variant':<22}{'steps':>8}{'tokens':>12}" + "".join(
        f"{measure:>18}" for measure in measures
    )

    for name, seeds in runs.items():
        of_measures = (_losses_of(seeds, measure) for measure in measures)
        cells = "".join(f"{mean_text(losses, 3) if losses else '':>18}" for losses in of_measures)
        yield f"{name:<22}{seeds[0]['steps']:>8,}{seeds[0]['tokens']:>12,}{cells}"

    yield from _note_few_documents(runs)

    for claim in study.orderings:
        if {claim.lower, claim.higher} <= runs.keys():
            yield _judge_claim(claim, runs)


def _judge_claim(claim: Ordering, runs: Runs) -> str:
    """Return the verdict on a claim, and both losses."""
    both = (runs[claim.lower], runs[claim.higher])
    lower, higher = (_losses_of(of_seeds, claim.measure) for of_seeds in both)
    seeds = min(len(lower), len(higher))
    spent = [of_seeds[0][claim.equal] for of_seeds in both]
    error = stdev(lower) + stdev(higher) if seeds > 1 else 0
    verdict = judge(fmean(higher) - fmean(lower), error, seeds, spent, claim.equal)
    return (
        f"{claim.measure}: does {claim.lower} beat {claim.higher}? {verdict}: "
        f"{difference_text(higher, lower, 3)} ({fmean(lower):.3f} against {fmean(higher):.3f}; "
        f"lower is better). {claim.said}"
    )


def _note_few_documents(runs: Runs) -> Iterator[str]:
    """Yield a line for each measure of few documents, with the standard error of a loss."""
    measured = {
        measure: entry
        for seeds in runs.values()
        for measure, entry in seeds[0].get("heldout", {}).items()
    }
    for measure, entry in measured.items():
        error = entry["standard_error"]
        if entry["documents"] == 1:
            yield (
                f"{measure}: one held-out document decides nothing; give more texts, or raise "
                "heldout.fraction"
            )
        elif error is not None:
            few = plural(entry["documents"], "held-out document")
            yield f"{measure}: {few} decide little: the standard error of a loss is {error:.3f}"


def pair_lines(runs: Runs) -> Iterator[str]:
    """Yield each variant's accuracy by score, then the accuracy of n-grams.

    Each has its correlation with the bigram.
    """
    baselines: Mapping[str, float] = {}
    pairs = 0

    for name, figures in runs.items():
        for scorer_name in figures[0].get("pairs", {}):
            scores = [of_seed["pairs"][scorer_name] for of_seed in figures]
            accuracy = mean_text([100 * of_seed["accuracy"] for of_seed in scores], 1)
            correlations = [of_seed["correlation_with_bigram"] for of_seed in scores]
            correlation = (
                ""
                if None in correlations
                else f"; correlation with the bigram {fmean(correlations):.2f}"
            )
            pairs = scores[0]["n"]
            yield (
                f"minimal pairs, {name} by {scorer_name}: {accuracy} %, mean of the paradigms of "
                f"{pairs:,}{correlation}"
            )
            baselines = scores[0]["baselines"]

    if baselines:
        listed = ", ".join(
            f"{scorer_name} {100 * accuracy:.1f} %" for scorer_name, accuracy in baselines.items()
        )
        yield f"minimal pairs, baselines: {listed}"

    if few := note_few_items(pairs, "pair"):
        yield f"minimal pairs: {few}"


def step_lines(
    variants: Mapping[str, Variant], runs: Runs, left: Mapping[str, PreparedDocuments]
) -> Iterator[str]:
    """Yield what each step from a variant to the next keeps, and the nats it gains."""
    heads = ("documents", "removed", "characters", "seconds")
    yield f"{'step':<18}" + "".join(f"{head:>12}" for head in heads)
    steps = {
        name: variant.base
        for name, variant in variants.items()
        if variant.base and variant.base in left
    }

    for name, variant_left in left.items():
        cells = [f"{variant_left.count:,}"]
        if name in steps:
            base = left[steps[name]]
            share = variant_left.characters / max(1, base.characters)
            cells += [
                f"{base.count - variant_left.count:,}",
                f"{share:.3f}",
                f"{variant_left.seconds - base.seconds:+.1f}",
            ]
        yield f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells)

    for measure in measures_of(runs):
        for name, base_name in steps.items():
            before, after = (_losses_of(runs[each], measure) for each in (base_name, name))
            unit = "nats" if measure in runs[name][0]["losses"] else "bits"
            yield f"{measure}: {name} gains {difference_text(before, after, 3)} {unit}"
