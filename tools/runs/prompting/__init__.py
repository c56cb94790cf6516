"""Prompts: templates, demonstrations, and the scores that a model gives to the words of each label."""
