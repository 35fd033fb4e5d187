"""Files, the machine and progress bars. Knows nothing of models."""
