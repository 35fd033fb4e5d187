"""Figures that are kept: from runs to results/*.json, and from those to docs/results.md."""
