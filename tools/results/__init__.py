"""From finished runs to results/*.json, and from those files to the tables of the docs."""
