"""What the product refuses, with the message that says why."""

import pytest

from clozeline.errors import ConfigurationError


def refused(message):
    """`with refused(message)`: a block that must end in a ConfigurationError which matches."""
    return pytest.raises(ConfigurationError, match=message)
