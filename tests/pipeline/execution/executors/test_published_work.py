"""Files with the work of a round: which of them a worker reads, and where it then is."""

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.executors import Assignment, load_work, publish_work
from tests.pipeline.execution.noting_steps import Noting
from tests.refusals import refused


@pytest.fixture
def work(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    publish_work(tmp_path / "tasks.pickle", Assignment(Noting(tmp_path), [4, 7], 1))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tasks.pickle"


def test_work_is_for_its_user_alone(work, monkeypatch):
    assert work.stat().st_mode & 0o777 == 0o600
    assert load_work(work).units == [4, 7]

    for mode in (0o660, 0o644, 0o602):
        work.chmod(mode)
        with pytest.raises(IntegrityError, match="mode 600"):
            load_work(work)

    work.chmod(0o600)
    monkeypatch.setattr("os.geteuid", lambda: work.stat().st_uid + 1)
    with pytest.raises(IntegrityError, match="so it is not read"):
        load_work(work)


def test_a_machine_without_the_folder_of_the_driver_is_told(work, tmp_path):
    (tmp_path / "here").rmdir()
    with refused(str(tmp_path / "here")):
        load_work(work)
