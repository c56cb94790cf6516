"""The stage that turns documents into token documents."""
