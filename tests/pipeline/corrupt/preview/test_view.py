from __future__ import annotations

from typing import get_args

from clozeline.pipeline.corrupt.preview.view import MEANINGS, Passage, Role, Sheet, Token, View


def test_every_role_but_plain_has_a_meaning() -> None:
    assert {*MEANINGS, "plain"} == set(get_args(Role))


def test_the_legend_has_the_roles_that_occur_in_the_order_of_the_meanings() -> None:
    view = View(
        "row",
        (
            Sheet(
                "table", ("a",), ((("text alone",)), ((Token("x", "masked"), Token("y")),), ((Token("z", "span", 2),),))
            ),
            Passage("text", (Token("t"), Token("u", "special"), Token("v", "masked"))),
        ),
    )
    assert [(token.role, token.text) for token in view.legend()] == [
        (role, MEANINGS[role]) for role in ("special", "masked", "span")
    ]
    assert View("empty", (Passage("p", (Token("plain"),)), Sheet("s", (), (("a", "b"),)))).legend() == []
