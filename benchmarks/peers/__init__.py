"""What runs in the environment of the peers."""
