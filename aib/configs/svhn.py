"""SVHN: the paper's four models."""

from aib.configs.preset import table_one

PRESETS = table_one("svhn")
