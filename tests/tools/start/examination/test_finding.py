from __future__ import annotations

from dataclasses import asdict

from clozeline.tools.start.examination.finding import Finding


def test_a_finding_without_advice() -> None:
    assert asdict(Finding("cores", "ok", "4")) == {"name": "cores", "status": "ok", "found": "4", "advice": ""}
