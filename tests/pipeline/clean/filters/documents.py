"""Documents near and far from every threshold of the filters, the same on every machine."""

import json
import random

import xxhash

from clozeline.pipeline.text.normal_form import normalize

WORDS = (
    "the of and to in is was for on with house river garden morning people question "
    "answer light window children teacher music winter summer letter paper mountain "
    "village bridge station journey evening kitchen bread market friend story"
).split()
ODD = (
    "# ... 1234 x — $%& extraordinarily internationalisation it's a-b { [1] • don't we've "
    "e.g. https://example.org/a-b?c=d f(x): “quoted” 3.5 10km and/or U.S. x=3 'single' "
    "state-of-the-art $5 50% … cannot Mr. os.path end.Begin 1,000 snake_case"
).split()
LINES = [
    "Home",
    "Read more",
    "We use cookies on this site to make it better for you.",
    "Please enable javascript now.",
    "- one thing of the list",
    "• another thing of it",
    "and so it goes on...",
    "Lorem ipsum dolor sit amet here.",
    "x" * 1200,
    "A line [citation needed] with a note [12].",
]


def sentence(draw, odd=0.0):
    words = [
        draw.choice(ODD) if draw.random() < odd else draw.choice(WORDS)
        for _ in range(draw.randint(4, 16))
    ]
    return " ".join(words).capitalize() + draw.choice([".", ".", ".", "!", "?", "...", ""])


def document(draw):
    """Paragraphs with some defect of a random strength: copies, lists, symbols, short or long."""
    odd = draw.choice([0.0, 0.0, 0.05, 0.15, 0.3])
    pool = [sentence(draw, odd) for _ in range(draw.choice([2, 8, 40, 400]))]
    paragraphs = []

    for _ in range(draw.choice([1, 2, 6, 20])):
        lines = [
            draw.choice(pool) if draw.random() < 0.8 else sentence(draw)
            for _ in range(draw.randint(1, 6))
        ]
        if draw.random() < 0.15:
            lines.append(draw.choice(LINES))
        paragraphs.append(draw.choice(["\n", " "]).join(lines))
        if draw.random() < draw.choice([0.0, 0.1, 0.5]):
            paragraphs.append(draw.choice(paragraphs))

    return normalize("\n\n".join(paragraphs))


def documents(count, seed=0):
    draw = random.Random(seed)
    return [document(draw) for _ in range(count)]


def digest(texts):
    return xxhash.xxh64_hexdigest("\0".join(texts).encode())


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "digest": digest(documents(400)),
                "texts": documents(400),
            }
        )
    )
