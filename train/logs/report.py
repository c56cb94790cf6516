"""Report on a run from its own files: report.html, and closing lines for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import flatten, to_data
from clozeline.configuration.redaction import redact
from clozeline.errors import plural
from clozeline.files import choose_page_path, publish_text
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.report.html_page import page
from clozeline.report.views import Part, Passage, Section, Span, Table, merge_equal
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.recorded_sets import TOKENIZER_FOLDER
from clozeline.train.logs.curves import curves, read_run
from clozeline.train.logs.diagnosis import diagnose_run
from clozeline.train.logs.display import describe_event, format_count, heldout_title
from clozeline.train.logs.figures import Record, last_heldout, scores_of
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.logs.plan import describe_unfallen_rate

_MAX_CARDS: Final = 5
"""Figures at the head of the page; the others need words that only experts know."""
_MAX_LISTED_EVENTS: Final = 200
"""The report lists at most this many events, the latest ones."""
_ENDINGS: Final = {"done": "Complete", "stop": "Stopped", "failed": "Failed"}
"""Events that end a start of a run, with their names on the page."""
_UNLISTED_EVENTS: Final = ("memory", "guesses")
"""Events that the page shows elsewhere."""

_LEGEND: Final = (
    "Green and bold: a right guess. Struck out: a wrong guess, with the right label after it. "
    "Point at a guess to read its probability."
)


def write_report(
    config: TrainConfig, scores: Sequence[tuple[str, str]] = (), answers: Part = ""
) -> Path:
    """Write report.html into the run directory, in place of an older one; return its path.

    A page of somebody else stays, see `choose_page_path`. A run that was scored on a task begins
    with these `scores` by name, and with its right and wrong `answers`.
    """
    output = config.output
    run = read_run(output, output.name)
    values = flatten(redact(to_data(config)))
    settings = [(key, "" if value is None else str(value)) for key, value in values.items()]

    events = read_lines(output / "events.jsonl")
    figures = run.figures()
    first = 0 if scores else _MAX_CARDS
    losses, *others = curves([run])
    tokenizer = output / TOKENIZER_FOLDER
    plans = [event["plan"] for event in events if "plan" in event]
    parts: list[Part] = [
        _outcome(run.records, events, config),
        Table("", (), merge_equal(scores or figures[:first])),
        answers,
        *(Table("What it does", ("", ""), [*plan.items()]) for plan in plans[-1:]),
        Section("", [losses], is_row=True),
        Section(
            "Guesses on held-out rows",
            show_guesses(events, tokenizer) if tokenizer.is_dir() else [],
        ),
        Section(
            "More figures",
            [
                *_heldout_lines(last_heldout(run.records)),
                Table("", (), merge_equal(figures[first:])),
                Section("", others, is_row=True),
            ],
            is_folded=True,
        ),
        Section("Events", [_events(events)], is_folded=True),
        Section("Configuration", [Table("", ("key", "value"), settings)], is_folded=True),
    ]

    path = choose_page_path(output / "report.html")
    publish_text(path, page(Section(_title(config, events), parts)))
    return path


def _title(config: TrainConfig, events: Sequence[Record]) -> str:
    """Return the last two levels of the path, what was trained, and the day."""
    folders = "/".join(config.output.absolute().parts[-2:])
    trained = f"{config.model.family} with {', '.join(config.model.heads)}"
    days = [f", {datetime.fromtimestamp(event['time']):%-d %b %Y}" for event in events[-1:]]
    return f"{folders}: {trained}{''.join(days)}"


def _outcome(records: Sequence[Record], events: Sequence[Record], config: TrainConfig) -> str:
    """Return a few sentences on what the model can do, how the run ended, and what to change."""
    # how it ended
    steps = config.last_step
    steps_done = max((record["step"] for record in records), default=0)
    names = [str(event.get("event")) for event in events]
    ending = next(
        (_ENDINGS[name] for name in reversed(names) if name in _ENDINGS), "Still training"
    )
    ending = "Stopped early" if names[-1:] == ["done"] and steps_done < steps else ending
    sentences = [f"{ending}: {steps_done:,} of {steps:,} steps."]
    if rollbacks := names.count("rollback"):
        sentences.append(f"Rollbacks after a divergence: {rollbacks}.")

    advice = (f"{line[0].upper()}{line[1:]}." for line in diagnose_run(config, records))
    return " ".join([*_describe_skill(last_heldout(records), events), *sentences, *advice])


def _describe_skill(by_set: Mapping[str, Any], events: Sequence[Record]) -> Iterator[str]:
    """Yield how many answers are right on the first held-out set, next to the most frequent one."""
    for name, result in [*by_set.items()][:1]:
        accuracy, majority = scores_of(result)
        total = result["labels"]
        texts = "texts"
        answers = "answers"
        if accuracy is None:  # the rows whose guesses are stored
            rows = _latest_guesses(events)["sets"].get(name, [])
            guesses = [label == guess for row in rows for _, label, guess, _ in row["labels"]]
            if not guesses:
                continue
            total = len(guesses)
            accuracy = sum(guesses) / total
            texts = plural(len(rows), "text")
            answers = f"{'hidden' if rows[0]['form'] == 'masked' else 'next'} pieces"
        alone = (
            ""
            if majority is None
            else f"; always the most frequent one, about {majority * total:,.0f}"
        )
        yield (
            f"On {texts} that it was not trained on, the model guesses {accuracy * total:,.0f} of "
            f"{total:,} {answers} right{alone}."
        )


def _heldout_lines(by_set: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for the loss on each held-out set, compared with the unigram entropy."""
    for name, result in by_set.items():
        loss = result["loss"]
        entropy = result["unigram_entropy"]
        labels = format_count(result)
        comparison = "below" if loss is not None and loss < entropy else "not below"
        compared = (
            f", {comparison} the unigram entropy {entropy:.4f} of the same {labels}"
            if entropy
            else f" over {labels}"
        )
        shown = "not finite" if loss is None else f"{loss:.4f}"
        yield f"{heldout_title(name)}: loss {shown}{compared}"


def closing_lines(config: TrainConfig, state: TrainState, reason: str | None) -> list[str]:
    """Return the lines to print at the end; `reason`: why it stopped, None if it is complete."""
    steps = config.last_step
    ending = "done" if reason is None else f"stopped ({reason})"
    read = f"{state.rows:,} rows read, {state.tokens:,} tokens"
    lines = [f"{ending}: step {state.step} of {steps}, {read}"]

    # first and last loss
    records = read_lines(config.output / "metrics.jsonl")
    if losses := [record for record in records if record.get("loss") is not None]:
        first, last = losses[0], losses[-1]
        lines.append(
            f"loss {first['loss']:.4f} at step {first['step']}, {last['loss']:.4f} at step "
            f"{last['step']}"
        )

    if state.skipped:
        lines.append(
            f"{state.skipped} steps were skipped because their gradient was not finite: see "
            "events.jsonl"
        )

    if state.rollbacks:
        skipped = f"{state.samples - state.rows:,} rows were skipped"
        lines.append(
            f"rollbacks after a divergence: {state.rollbacks}; {skipped}: see events.jsonl"
        )

    lines += _heldout_lines(last_heldout(records))
    if reason is None:
        lines += diagnose_run(config, records)
    if state.step == steps and (unfallen := describe_unfallen_rate(config)):
        horizon = config.schedule.options.steps
        lines.append(f"{unfallen}; for a finished model, start again with steps={horizon}")

    # early stopping, and how to continue
    if best := state.best:
        since = ""
        if best.evaluations:
            since = (
                f", {best.evaluations} evaluations ago; every {config.evaluate.every} steps count"
            )
        value = (
            "never finite"
            if best.value is None
            else f"best at step {best.step}, {best.value:.4f}{since}"
        )
        lines.append(f"early_stop: {best.metric} was {value}")

    if reason is not None:
        lines.append("the state is saved: start the same command again to continue")
    return lines


def _events(events: Sequence[Record]) -> Table:
    rows = [
        (event["event"], event.get("step", ""), describe_event(event))
        for event in events
        if event.get("event", "memory") not in _UNLISTED_EVENTS
    ]
    return Table("", ("event", "step", "what"), rows[-_MAX_LISTED_EVENTS:])


def show_guesses(events: Sequence[Mapping[str, Any]], tokenizer: Path) -> list[Part]:
    """Return the rows of the latest `guesses` event; none without such an event.

    `tokenizer`: the folder of the run's tokenizer.
    """
    latest = _latest_guesses(events)
    if not any(latest["sets"].values()):
        return []
    pieces = TokenRenderer(load_tokenizer(tokenizer))
    rows = [
        _show_row(pieces, row, f"{heldout_title(name)}, row {number}")
        for name, rows in latest["sets"].items()
        for number, row in enumerate(rows, 1)
    ]
    return [f"At step {latest['step']:,}.", Section("", rows, is_row=True), _LEGEND]


def _latest_guesses(events: Sequence[Record]) -> Record:
    """Return the latest `guesses` event; one without sets if the run has not made any."""
    found = (event for event in reversed(events) if event.get("event") == "guesses")
    return next(found, {"sets": {}})


def _show_row(pieces: TokenRenderer, row: Mapping[str, Any], title: str) -> Passage:
    labels = {position: guess for position, *guess in row["labels"]}
    right = sum(label == guess for label, guess, _ in labels.values())
    tokens = row["tokens"]

    # the text with its guesses in place, or after the tokens that were read
    if row["form"] == "masked":
        spans = [*_masked_spans(pieces, tokens, labels)]
    else:
        is_apart = row["form"] == "target"
        read = tokens if is_apart else tokens[: min(labels) + 1]
        spans = [Span(pieces.text(read) + "\n" * is_apart)]
        spans += (span for _, guess in sorted(labels.items()) for span in _mark(pieces, *guess))

    # the text that a decoder continues
    if row.get("continued"):
        begun = pieces.text(tokens[: row["prompt"]])
        spans.append(Span(f"\nContinued by the model: {begun}", "marker"))
        spans.append(Span(pieces.text(row["continued"]), "predicted"))

    origin = f"{title}: {right} of {len(labels)} guesses are right"
    return Passage("", tuple(spans), origin)


def _masked_spans(
    pieces: TokenRenderer, tokens: Sequence[int], labels: Mapping[int, Sequence[Any]]
) -> Iterator[Span]:
    """Yield the text of a row; tokens between two labels are decoded together."""
    unlabeled: list[int] = []
    for position, token in enumerate(tokens):
        if position not in labels:
            unlabeled.append(token)
            continue
        yield Span(pieces.text(unlabeled))
        yield from _mark(pieces, *labels[position])
        unlabeled = []
    yield Span(pieces.text(unlabeled))


def _mark(pieces: TokenRenderer, label: int, guess: int, share: float) -> Iterator[Span]:
    # only the sign of a line break is shown: a break at each wrong guess would break up the text
    right, guessed = (pieces.piece(token).replace("\n", "") for token in (label, guess))
    yield Span(guessed, "right" if label == guess else "wrong", f"{share:.1%}")
    if label != guess:
        yield Span(right, "special")
