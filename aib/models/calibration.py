"""What held-out images tell about a model's probabilities: one temperature and one threshold."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from aib.config.validation import Positive, Rule, check_fields, parse_json

Share = Annotated[float, Rule("from 0 to 1", lambda share: 0 <= share <= 1)]


@dataclass(frozen=True)
class Calibration:
    """Fitted after training, and stored in config.json.

    The calibrated probabilities are softmax(log probabilities / temperature). A decision is unsure
    if its calibrated probability is below `unsure_below`: half of those on held-out images were
    wrong.
    """

    temperature: Positive
    unsure_below: Share

    def __post_init__(self) -> None:
        check_fields(self)

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any, where: Path) -> "Calibration":
        """The inverse of `to_dict`; an error names the file."""
        read: Calibration = parse_json(cls, values, where)
        return read
