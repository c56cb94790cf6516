"""Every file that a command reads, damaged in every way: the same result, or the file and a way out.

Never a traceback, never another result without a word.
"""

import pytest

from clozeline.seeding import hash64
from tests.clozeline.bench import AGAIN, LINES, READERS, Answer
from tests.clozeline.hunt import DAMAGES, Hunt, Result, judge, kind_of

BRIEF = (
    "train --config train.yaml output=encoder1 steps=4",
    "train --config start.yaml output=new model.init_from=imported1 --dry-run",
    "export-model encoder1 new",
    "finetune --compare scored1",
    "validate-shards task1/out/tasks/sst2/train",
    *(LINES[name] for name in ("fill-mask", "evaluate", "where-is")),
    *(AGAIN[name] for name in ("tasks", "encode")),
)
"""Lines of `make test`: together they read every kind of file."""
FILE = "set/manifest.json"


@pytest.fixture(scope="module")
def hunt(whole, tmp_path_factory):
    return Hunt(whole, tmp_path_factory.mktemp("hunt") / "copy")


def assert_told(hunt, cases):
    wrong = [(*case, problem) for case in cases if (problem := hunt.problem(case))]
    assert not wrong, "\n".join(" | ".join(words) for words in wrong)


@pytest.mark.slow
def test_some_damage_is_never_silent(hunt):
    """One damage of each kind of file, and of each kind of damage."""
    assert {*BRIEF} <= {*READERS, *AGAIN.values()}
    cases = sorted(hunt.cases(BRIEF), key=lambda case: hash64(*case))
    chosen = {key: case for case in cases for key in (kind_of(case.file), case.damage)}
    assert {*DAMAGES} <= chosen.keys()
    assert_told(hunt, dict.fromkeys(chosen.values()))


@pytest.mark.slow
@pytest.mark.parametrize("line", [*READERS, *AGAIN.values()])
def test_no_damage_is_silent(hunt, line):
    assert_told(hunt, hunt.cases([line]))


@pytest.mark.parametrize(
    ("answer", "content", "expected"),
    [
        (Answer(0, "done\n", ""), b"whole", ""),
        (Answer(0, "done\n", ""), b"other", "another result"),
        (Answer(0, "done\nmanifest.json is made again\n", ""), b"other", ""),
        (Answer(65, "", f"error: /bench/{FILE}: damaged; copy it again\n"), b"whole", ""),
        (Answer(65, "", f"error: /bench/{FILE}: damaged\n"), b"whole", "no way out"),
        (Answer(65, "", "error: damaged; copy it again\n"), b"whole", "the file is not named"),
        (Answer(3, "", f"error: /bench/{FILE}: damaged; copy it again\n"), b"whole", "exit code 3"),
        (Answer(1, "", "Traceback (most recent call last):\n"), b"whole", "a traceback"),
    ],
    ids=["same", "other", "said", "refused", "no-way-out", "no-file", "code", "traceback"],
)
def test_outcomes(answer, content, expected):
    good = Result(Answer(0, "done\n", ""), {"out": b"whole"})
    problem = judge(Result(answer, {"out": content}), good, FILE)
    assert problem.startswith(expected) if expected else not problem
