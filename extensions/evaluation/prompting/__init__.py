"""Build prompts from templates and demonstrations, and score the words of labels."""
