"""Keep the states of a model small: {target: 0.5}."""

from clozeline.configuration.config import config_class
from clozeline.model.configuration.capabilities import ALL_STATES, Part
from clozeline.registry import Component
from clozeline.train.configuration.keys import TrainingKey


@config_class
class QuietConfig(TrainingKey):
    """Keep the states of the last layer small."""

    target: float
    """mean square of a state"""
    weight: float = 0.01
    """factor of the loss at the first step"""

    settings = (Part("quiet", needs={ALL_STATES}),)

    def check(self, run):
        if self.target <= 0:
            raise ValueError(f"quiet.target: expected more than 0, got {self.target}")

    def hooks(self):
        from mylab.quiet_states import QuietStates  # imports torch, which --help does not need

        return [Component("quiet", QuietStates, self)]
