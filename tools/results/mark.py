"""Mark stored studies by what their post-hoc maps attribute.

    python -m tools.results.mark FILE...

Studies of schema 1 attributed `Output.logits`. In profile `paper` those are log-probabilities, not
the raw class scores that Grad-CAM and Integrated Gradients are defined on and that are attributed
now. No metric is changed; the pages of docs/results/ show the note.
"""

import argparse
from pathlib import Path
from typing import Any

from aib.files import read_json
from tools.results.collect import write

NOTE = (
    "Grad-CAM and Integrated Gradients attribute the log-probability of the class here, not its "
    "raw score: measured with an earlier version, and the weights were not kept"
)


def mark(found: dict[str, Any]) -> int:
    """Add the note to every study that it applies to; return how many.

    `found` is a results file of runs, or one study: an interpret.json.
    """
    if found.get("kind") == "runs":
        studies = [run["interpret"] for run in found["runs"] if run["interpret"]]
    else:
        studies = [found] if "faithfulness" in found else []
    marked = [maps for maps in studies if _attributes_log_probabilities(maps)]
    for maps in marked:
        maps["posthoc_note"] = NOTE
    return len(marked)


def _attributes_log_probabilities(maps: dict[str, Any]) -> bool:
    has_posthoc = "gradcam" in maps["faithfulness"]
    return maps["schema"] == 1 and maps["profile"] == "paper" and has_posthoc


def main(argv: list[str] | None = None) -> None:
    """Entry point of `python -m tools.results.mark`."""
    parser = argparse.ArgumentParser(prog="python -m tools.results.mark", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="results files, or interpret.json")
    for path in parser.parse_args(argv).files:
        found = read_json(path) or {}
        if count := mark(found):
            write(path, found)
            print(f"{path}: {count} marked")


if __name__ == "__main__":
    main()
