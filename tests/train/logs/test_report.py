from pathlib import Path

import pytest

from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import Index
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.logs import report
from clozeline.train.logs.curves import read_run
from clozeline.train.logs.journal import Journal
from clozeline.train.logs.report import closing_lines, show_guesses, write_report
from tests.pages import checked
from tests.pipeline.corruption_cases import vocabulary
from tests.train.synthetic import tiny


def journal_of(folder):
    return Journal(folder, LogConfig(tensorboard=False), 0)


def page_of(folder):
    return checked(write_report(tiny(output=str(folder))).read_text())


def entered(folder, name="heldout"):
    """Three steps with all their figures, the last two with a held-out loss."""
    journal = journal_of(folder)
    journal.begin(0)
    journal.event("start", step=0, note=name)

    for step in range(1, 4):
        found = {"loss": 2.0 + 1 / step, "losses": {}, "labels": 5, "unigram_entropy": 2.75}
        record = {
            "step": step,
            "loss": 5.0 - step,
            "losses": {"a": 1.0 * step, name: 2.0},
            "learning_rate": 0.1 * step,
            "gradient_norm": None if step == 2 else 1.0,
            "tokens": 100 * step,
            "tokens_per_s": 50.0 * step,
            "memory_bytes": step * 2**20,
        }

        journal.step(record)
        if step > 1:
            journal.step({"step": step, "heldout": {name: found}})


def test_the_page_shows_the_records(tmp_path):
    entered(tmp_path)
    page = page_of(tmp_path)

    assert page.pictures[:3] == [
        "Loss: training from 4 to 2; held-out from 2.5 to 2.333; unigram entropy of 5 labels 2.75",
        "Loss by head: a from 1 to 3; heldout from 2 to 2",
        f"Gradient norm before clipping: {tmp_path.name} from 1 to 1",
    ]

    assert page.cells[page.cells.index("optimizer.learning_rate") + 1] == "0.003"
    assert ("td", {"data-name": "value"}) in page.tags, "its name where the table stacks"


def test_the_first_sentences_say_how_it_ended(tmp_path):
    entered(tmp_path)
    heldout = "3 of 8 steps. Lowest held-out loss: 2.3333 at step 3."

    assert f"Still training: {heldout}" in page_of(tmp_path).texts

    journal = journal_of(tmp_path)
    journal.begin(3, evaluated=True)
    journal.event("stop", step=3, reason="SIGTERM", exit_code=75)
    page = page_of(tmp_path)

    assert f"Stopped: {heldout}" in page.texts
    assert any("below the unigram entropy 2.7500" in text for text in page.texts)


def test_a_run_without_a_finite_loss_has_a_page(tmp_path):
    page_of(tmp_path)
    lost = {"loss": None, "losses": {}, "labels": 5, "unigram_entropy": 2.0}
    journal_of(tmp_path).step(
        {
            "step": 1,
            "loss": float("nan"),
            "heldout": {"heldout": lost},
        }
    )
    page = page_of(tmp_path)

    assert page.pictures == []
    assert any("held-out: loss not finite" in text.lower() for text in page.texts)


@pytest.mark.parametrize(
    ("training", "losses", "said"),
    [
        (
            (4.1, 3.1),
            (4.0, 3.05),
            ("learned only how frequent each label is", "may need 4,000,000 tokens", "1,000"),
        ),
        (
            (2.4, 1.1),
            (2.5, 3.5),
            ("2.5000 at step 100", "step=best", "rising since", "steps=100", "data.corrupt"),
        ),
        ((2.4, 2.9), (2.5, None), ("2.5000 at step 100", "rising since")),
    ],
)
def test_the_end_says_what_both_losses_mean_and_where_the_best_state_is(
    tmp_path, training, losses, said
):
    """With numbers: too few tokens, too low a rate, or too many passes."""
    journal = journal_of(tmp_path)

    for step, trained, loss in zip((100, 200), training, losses, strict=True):
        heldout = {"heldout": {"loss": loss, "losses": {}, "labels": 5, "unigram_entropy": 3.0}}
        journal.step({"step": step, "loss": trained, "tokens": 5 * step})
        journal.step({"step": step, "heldout": heldout})
        (tmp_path / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
        Index({"heldout_loss": loss}, {}, {}, [], {}).write(
            tmp_path / "checkpoints" / f"step-{step:08d}"
        )

    journal.begin(200, evaluated=True)
    journal.status("done", heldout=heldout)
    config = tiny(output=str(tmp_path), steps=200)
    state = TrainState(step=200, samples=16, tokens=1000)
    usual = 3
    stopped = "the state is saved: start the same command again to continue"
    more = " ".join(closing_lines(config, state, None)[usual:])

    assert all(text in more for text in said)
    assert ("by heart" in more) == (training[1] < losses[0] < (losses[1] or 0))
    assert closing_lines(config, state, "SIGTERM")[usual:] == [stopped]


@pytest.mark.parametrize(
    ("head", "figures", "guesses", "said"),
    [
        (
            "classification",
            {"classification/accuracy": 0.7},
            [],
            "7 of 10 answers right; always the most frequent one, about 4",
        ),
        (
            "masked_lm",
            {},
            [{"form": "masked", "labels": [[1, 5, 5, 0.5], [2, 6, 5, 0.5]]}],
            "1 of 2 hidden pieces right; always the most frequent one, about 1",
        ),
        ("lm", {}, [{"form": "continued", "labels": [[1, 5, 6, 0.5]]}], "0 of 1 next pieces right"),
    ],
)
def test_the_first_sentence_counts_right_answers(tmp_path, head, figures, guesses, said):
    """And the title has two levels of the path; accuracy and baseline are the first figures."""
    (output := tmp_path / "mine" / "run").mkdir(parents=True)
    journal = journal_of(output)
    journal.begin(0)
    result = {"loss": 1.5, "losses": {head: 1.5}, "labels": 10, "unigram_entropy": 2.0}
    result |= {"figures": figures, "majorities": {head: 0.4}}
    journal.step({"step": 1, "loss": 2.0, "heldout": {"heldout": result}})
    journal.event("guesses", step=1, sets={"heldout": guesses})
    page = page_of(output)

    assert said in " ".join(page.texts)
    assert page.texts[0].startswith("mine/run: ")

    names = [name for name, _ in read_run(output, "run").figures()]

    assert ("accuracy" in names[0]) == bool(figures)


def test_heads_that_predict_no_tokens_have_no_entropy_to_compare_with(tmp_path):
    journal = journal_of(tmp_path)
    pairs = {
        "loss": 0.5,
        "losses": {"similarity": 0.5},
        "labels": 5,
        "unigram_entropy": 0.0,
        "unit": "rows",
    }

    journal.step({"step": 1, "loss": 0.75, "heldout": {"heldout": pairs}})
    journal.begin(1, evaluated=True)
    journal.status("done", heldout={"heldout": pairs})
    lines = closing_lines(
        tiny(output=str(tmp_path)), TrainState(step=1, samples=16, tokens=1000), None
    )

    assert lines[-1] == "held-out: loss 0.5000 over 5 rows"


@pytest.fixture(autouse=True)
def numbers(monkeypatch):
    monkeypatch.setattr(report, "load_tokenizer", lambda _: vocabulary(200))


def drawn(*rows):
    _, section, _ = show_guesses(
        [
            {
                "event": "guesses",
                "step": 1234,
                "sets": {"heldout": list(rows)},
            }
        ],
        Path("tokenizer"),
    )
    return section.parts


def plain(passage):
    """Text with (right) and [wrong > label]."""
    marks = {"right": "({})", "wrong": "[{} > ", "special": "{}]"}
    return "".join(marks.get(s.role, s.text).format(s.text.strip()) for s in passage.spans)


def test_a_masked_row_has_its_labels_in_their_positions():
    row = {
        "tokens": [101, 102, 7, 104, 7],
        "form": "masked",
        "labels": [[2, 133, 133, 0.75], [4, 155, 156, 0.5]],
    }

    (shown,) = drawn(row)

    assert "101 102 (133)104 [156 > 155]" in plain(shown)
    assert shown.origin == "held-out, row 1: 1 of 2 guesses are right"
    assert [span.remark for span in shown.spans if span.remark] == ["75.0%", "50.0%"]


def test_a_decoder_row_goes_on_after_its_first_label_and_is_continued():
    row = {
        "tokens": [101, 102, 103, 104],
        "form": "continued",
        "labels": [[1, 103, 109, 0.1], [2, 104, 104, 0.2]],
        "prompt": 2,
        "continued": [111, 112],
    }
    shown = plain(*drawn(row))

    assert "101 102 [109 > 103](104)" in shown
    assert "111 112" in shown.partition("Continued by the model:")[2]
