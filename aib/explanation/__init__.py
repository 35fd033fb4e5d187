"""What a model says of an image: its decision, and the map behind it."""

from aib.explanation.explanation import Explanation, Region

__all__ = ["Explanation", "Region"]
