"""What held-out images tell about a model's probabilities: one temperature and one threshold."""

from dataclasses import dataclass
from typing import Annotated

from aib.config.validation import Positive, Rule, check_fields

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
