"""The content of a run's page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aib.config.settings import Settings
from aib.evaluation.error import Evaluation
from aib.interpret.results import Study


@dataclass(frozen=True)
class RunContent:
    """What is known of one run; a note names the command for what is missing."""

    label: str
    model: str
    environment: dict[str, Any]  # of the training
    settings: Settings | None
    metrics: list[dict[str, Any]]  # rows of metrics.jsonl
    evaluations: dict[str, Evaluation]
    study: Study | None  # interpret.json
    pictures: tuple[Path, ...] = ()  # that `aib interpret` drew
    notes: tuple[str, ...] = ()

    @property
    def own_evaluation(self) -> Evaluation | None:
        """On test images if they were evaluated, else on held-out ones."""
        name = self.settings.own_evaluation(self.evaluations) if self.settings else None
        return self.evaluations[name] if name else None
