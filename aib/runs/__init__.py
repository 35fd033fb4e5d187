"""Run folders: settings, split, weights, evaluations; models of the package and the Hub."""
