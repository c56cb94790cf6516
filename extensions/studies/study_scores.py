"""Measure the runs of a study, and print its tables.

Tables are losses, claims, steps of the pipeline, and minimal pairs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeAlias

from clozeline.errors import plural
from clozeline.extensions.evaluation.heldout_score import label_loss
from clozeline.extensions.evaluation.minimal_pairs import Pair, pair_scores, read_pairs
from clozeline.extensions.evaluation.perplexity import WordNgrams, perplexity_scores
from clozeline.extensions.studies.study_plan import Ordering, PlannedRun, Study, Variant
from clozeline.extensions.studies.study_sets import PreparedDocuments
from clozeline.extensions.studies.verdict import judge
from clozeline.extensions.tasks.finetuning_scores import difference_text, mean_text, standard_error
from clozeline.extensions.tasks.score_notes import note_few_items
from clozeline.files import publish_json
from clozeline.pipeline.execution.stages import last_documents
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.shards import open_shards
from clozeline.terminal import align_rows
from clozeline.tools.runs.inference.text_likelihoods import Score, open_scorer
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.logs.json_lines import read_lines

_PER_PARADIGM: Final = 100
_PAIR_FIGURES: Final = ("n", "accuracy", "baselines", "correlation_with_bigram")

Runs: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""the scores of each seed, by variant"""


def write_losses(plan: PlannedRun, scores: Path) -> None:
    """Measure a finished run on its held-out sets."""
    run = Path(plan.config["output"])
    model = TrainedModel.open(run).model
    max_rows = int(plan.config["evaluate"]["max_rows"])
    heldout = {
        measure: label_loss(model, open_shards(path), max_rows)
        for measure, path in plan.config["data"]["heldout"].items()
    }
    figures = {
        "steps": sum(plan.steps),
        "flops": plan.total,
        "tokens": read_lines(run / "metrics.jsonl")[-1]["tokens"],
        "losses": {measure: loss.nats for measure, loss in heldout.items()},
        "heldout": {
            measure: {"documents": loss.documents, "standard_error": loss.standard_error}
            for measure, loss in heldout.items()
        },
    }
    publish_json(scores, figures)


def write_bits(run: Path, texts: str, scores: Path) -> None:
    """Measure the bits per byte that a finished run gives texts."""
    scored = perplexity_scores(TrainedModel.open(run), Path(texts), None, None)
    publish_json(scores, {"bits": scored["bits_per_byte"]})


@dataclass(frozen=True)
class PairTest:
    """Minimal pairs, and a word model of the training texts, which gives the n-gram baselines."""

    pairs: Sequence[Pair]
    words: WordNgrams

    @classmethod
    def read(cls, pairs: Path, output: Path) -> "PairTest":
        """Read the first hundred pairs of each paradigm, and count words of a pipeline's texts."""
        documents = read_all_documents(last_documents(output))
        texts = (document.text for document in documents)
        return cls(read_pairs(pairs, _PER_PARADIGM), WordNgrams(texts))

    def write(self, run: Path, kinds: Sequence[Score], scores: Path) -> None:
        """Measure a finished run by each kind of score."""
        trained = TrainedModel.open(run)
        figures = {
            kind: pair_scores(self.pairs, open_scorer(trained, kind)[0], self.words)
            for kind in kinds
        }
        kept = {kind: {key: of[key] for key in _PAIR_FIGURES} for kind, of in figures.items()}
        publish_json(scores, kept)


def _read_measures(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the losses of a run in nats, and the bits per byte that it gives texts, by measure."""
    return {**figures["losses"], **figures.get("bits", {})}


def measures_of(runs: Runs) -> list[str]:
    """Return the measures that some variant has."""
    return [*{measure: None for seeds in runs.values() for measure in _read_measures(seeds[0])}]


def _losses_of(seeds: Sequence[Mapping[str, object]], measure: str) -> list[float]:
    """Return the loss of each seed of a variant.

    Empty if its training did not prepare it for the measure.
    """
    return [measured[measure] for measured in map(_read_measures, seeds) if measure in measured]


def loss_lines(study: Study, runs: Runs) -> Iterator[str]:
    """Yield the losses of each variant, then by how much each claim holds."""
    measures = measures_of(runs)
    first = next(iter(runs.values()))
    bits = ", ".join(first[0].get("bits", {}))
    units = f"nats on held-out rows{f', bits per byte of {bits}' if bits else ''}"
    length = plural(study.steps, "step") if study.steps else f"{study.flops:.3g} FLOPs"
    yield f"{study.title}: {length} per run, {plural(len(first), 'seed')}; {units}"
    table = [["variant", "steps", "tokens", *measures]]

    for name, seeds in runs.items():
        losses = (_losses_of(seeds, measure) for measure in measures)
        shown = (mean_text(of, 3) if of else "" for of in losses)
        table.append([name, f"{seeds[0]['steps']:,}", f"{seeds[0]['tokens']:,}", *shown])

    yield from align_rows(table, right=True)
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
    error = standard_error(higher, lower) if seeds > 1 else 0
    verdict = judge(fmean(higher) - fmean(lower), error, seeds, spent, claim.equal)
    return (
        f"{claim.measure}: does {claim.lower} beat {claim.higher}? {verdict}: "
        f"{difference_text(higher, lower, 3)} ({fmean(lower):.3f} against {fmean(higher):.3f}; "
        f"lower is better). {claim.said}"
    )


def _note_few_documents(runs: Runs) -> Iterator[str]:
    """Yield a line for each measure of few documents, with the standard error of a loss."""
    heldout = (seeds[0].get("heldout", {}) for seeds in runs.values())
    measured = {measure: entry for of in heldout for measure, entry in of.items()}

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
    """Yield each variant's accuracy by score with its correlation, and that of n-grams."""
    table = []
    scores: list[Mapping[str, Any]] = []

    for name, seeds in runs.items():
        for kind in seeds[0].get("pairs", {}):
            scores = [of_seed["pairs"][kind] for of_seed in seeds]
            accuracy = mean_text([100 * of_seed["accuracy"] for of_seed in scores], 1)
            correlations = [of_seed["correlation_with_bigram"] for of_seed in scores]
            known = None not in correlations
            table.append(
                [f"{name} by {kind}", accuracy, f"{fmean(correlations):.2f}" if known else ""]
            )

    if scores:
        baselines = scores[0]["baselines"].items()
        table += [[name, f"{100 * accuracy:.1f}", ""] for name, accuracy in baselines]
        heads = [f"{scores[0]['n']:,} minimal pairs", "%", "correlation with the bigram"]
        yield from align_rows([heads, *table], right=True)
        if few := note_few_items(scores[0]["n"], "pair"):
            yield f"minimal pairs: {few}"


def step_lines(
    variants: Mapping[str, Variant], runs: Runs, left: Mapping[str, PreparedDocuments]
) -> Iterator[str]:
    """Yield what each step from a variant to the next keeps, and the nats it gains."""
    table = [["step", "documents", "removed", "characters", "seconds"]]
    based = [(name, variant.base) for name, variant in variants.items()]
    bases = {name: base for name, base in based if base is not None and base in left}

    for name, kept in left.items():
        row = [name, f"{kept.count:,}", "", "", ""]
        if name in bases:
            base = left[bases[name]]
            share = kept.characters / max(1, base.characters)
            seconds = kept.seconds - base.seconds
            row[2:] = [f"{base.count - kept.count:,}", f"{share:.3f}", f"{seconds:+.1f}"]
        table.append(row)

    yield from align_rows(table, right=True)

    for measure in measures_of(runs):
        for name, base_name in bases.items():
            before, after = (_losses_of(runs[each], measure) for each in (base_name, name))
            unit = "nats" if measure in runs[name][0]["losses"] else "bits"
            yield f"{measure}: {name} gains {difference_text(before, after, 3)} {unit}"
