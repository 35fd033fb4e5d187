"""The models that come with the package: aib/pretrained_models/NAME/, each a saved model."""

from pathlib import Path

from aib.errors import AibError
from aib.pretrained import CONFIG, WEIGHTS

FOLDER = Path(__file__).parent / "pretrained_models"


def packaged_models() -> dict[str, Path]:
    """Their folders by name."""
    if not FOLDER.is_dir():
        return {}
    found = sorted(path for path in FOLDER.iterdir() if path.is_dir())
    return {p.name: p for p in found if (p / CONFIG).is_file() and (p / WEIGHTS).is_file()}


def find_model(run: Path | None) -> Path:
    """The folder of a run, of a saved model or, without one, of the first packaged model.

    A packaged model's bare name will do as well.
    """
    known = packaged_models()
    if run is not None:
        return known.get(str(run), run) if not run.exists() else run
    if not known:
        raise AibError(
            "no pretrained model comes with this version; train one "
            "(`aib train shapes_tiny --out runs/demo`) and name it with --run runs/demo"
        )
    return next(iter(known.values()))
