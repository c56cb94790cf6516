"""The race: entries that must reach one held-out loss on fixed sets, and what they took."""
