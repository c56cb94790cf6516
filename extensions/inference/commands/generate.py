"""Continue a text with a trained model: `clozeline generate mine/run 'It was' [key=value ...]`.

A decoder continues the text, an encoder-decoder answers it. Special tokens are written as pieces:
`<mask>`, `<extra_0>`. By default, each token is the most probable one (greedy); `mode=sample
top_p=0.95` samples, `mode=beam width=4` searches for the most probable continuation. `mode=unmask
steps=16` fills the masks of a text, or as many after it as `max_tokens`, with an encoder, in the
order in which it is certain of them.
"""

from collections.abc import Sequence
from typing import Annotated

from rich.markup import escape

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.extensions.inference.generation import (
    Settings,
    blank_after,
    continuations,
    parts_note,
)
from clozeline.terminal import Terminal
from clozeline.tools.command import run_as_script, run_tool
from clozeline.tools.options import RunArgument
from clozeline.tools.runs.inference.generated_text import find_end_ids, read_allowed, text_before
from clozeline.train.checkpoint.trained_model import TrainedModel


@config_class
class GenerateOptions(Settings, RunArgument):
    """A model, the text that it continues, and how."""

    text: Annotated[str, Positional(1)]
    """the text to continue, or to answer"""


def _generate(settings: GenerateOptions) -> None:
    if settings.samples > 1 and not (
        settings.is_random or settings.width or settings.mode == "beam"
    ):
        way_out = "set mode=sample, mode=beam, or with mode=unmask a temperature or width"
        raise ConfigurationError(f"samples: greedy continuations are all the same; {way_out}")

    from clozeline.model.generation.beam import DEFAULT_WIDTH

    if not settings.is_random and settings.samples > (width := settings.width or DEFAULT_WIDTH):
        raise ConfigurationError(
            f"samples: a beam of width {width} has as many continuations, got {settings.samples}"
        )

    trained = TrainedModel.open(settings.run, settings.step)
    console = Terminal()
    if settings.mode == "unmask":
        _unmask(console, trained, settings.text, settings)
        return

    if all(head.target != "lm" for head in trained.model.heads.values()):
        raise ConfigurationError(
            f"{settings.run}: continuations need a head that predicts the next token, the model "
            f"has {', '.join(trained.model.heads)}; a masked LM fills masks: clozeline fill-mask "
            f"{settings.run} text='a <mask> word', or mode=unmask"
        )

    if note := parts_note(trained.tokenizer, trained.objectives[0].frame):
        console.print(f"[dim]{escape(note)}[/dim]", highlight=False)

    ends = find_end_ids(trained.tokenizer)
    if ends - {trained.tokenizer.vocabulary.specials.get("eos")}:
        pieces = ", ".join(trained.tokenizer.piece(token) for token in sorted(ends))
        console.print(
            f"[dim]ends at {escape(pieces)}, by the publisher's files[/dim]", highlight=False
        )

    # blanks belong to the allowed texts
    prompt = settings.text if settings.allowed is None else settings.text.rstrip()
    prompt += blank_after(trained.tokenizer, prompt)

    stop = read_allowed(settings.stop, settings.normalize)
    for continuation in continuations(trained, settings.text, settings):
        text = escape(text_before(stop, trained.tokenizer.decode_part(continuation.ids)))
        before = escape(prompt) if trained.objectives[0].continues_text else ""
        line = (
            f"[dim]{before}[/dim]{text} [dim](stopped at {continuation.stop}, log-probability "
            f"{continuation.score:.3f})[/dim]"
        )
        console.print(line, highlight=False, soft_wrap=True)


def _unmask(console: Terminal, trained: TrainedModel, text: str, settings: Settings) -> None:
    from clozeline.extensions.inference.filled_text import fill_text, parts_of

    for filling in fill_text(trained, text, settings, settings.samples):
        parts = parts_of(trained, filling)
        line = "".join(escape(part) if new else f"[dim]{escape(part)}[/dim]" for part, new in parts)
        console.print(f"{line} [dim]({filling.score:.3f})[/dim]", highlight=False, soft_wrap=True)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, GenerateOptions, _generate, prints=True)


if __name__ == "__main__":
    run_as_script(main)
