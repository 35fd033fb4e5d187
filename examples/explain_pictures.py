"""Explain pictures of your own: what a model decides, and where it looks.

    python examples/explain_pictures.py cat.jpg dog.png --run runs/photos --out maps

Without pictures it draws some: shapes on a ground whose colour tells the class. Without --run it
trains a small model on such drawings for a few seconds. With --out the maps are kept: do they show
the shape, or the ground around it?
"""

import argparse
import tempfile
from pathlib import Path

import torch
from PIL import Image

import aib
from aib.data import load

DRAWINGS = "shapes_spurious:count=480"


def small_model() -> aib.Classifier:
    """Trained for a few seconds: enough to have something to explain."""
    data = load(DRAWINGS, "train", holdout=0)
    torch.manual_seed(0)
    model = aib.create_model("tiny_aib_qt", 10, width=0.25, preprocessing=data.preprocessing)
    settings = aib.Settings(epochs=4, batch_size=16, schedule="cosine", clip=2.0, beta_warmup=4)
    return aib.fit(model, data, settings).model


def draw_pictures(folder: Path) -> list[Path]:
    """Three that the model has not seen, as picture files of another size than it takes."""
    data = load(DRAWINGS, "train", holdout=0, seed=1)
    paths = []
    for i, pixels in enumerate(data.images[:3]):
        image = Image.fromarray(pixels.permute(1, 2, 0).numpy()).resize((120, 90))
        paths.append(folder / f"{data.class_names[data.labels[i]]}-{i}.png")
        image.save(paths[-1])
    return paths


def explain(model: aib.Classifier, path: Path, out: Path) -> None:
    """One picture: print the decision, write the map."""
    found = aib.explain(model, path)  # resized and normalised as the model was trained
    [(name, probability)] = found.top(0, 1)
    low, high = found.map.aminmax()
    print(f"{path.name}: {name} {100 * probability:.0f}%, map from {low:.2f} to {high:.2f}")

    # The map over the picture at the picture's own size ...
    image = Image.open(path).convert("RGB")
    Image.fromarray(aib.overlay(image, found.map[0])).save(out / f"{path.stem}-map.png")
    # ... and the files of `aib explain`: a figure, the raw map as .npy, and how they were made.
    found.save(out, [f"{path.stem}-figure"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Explain pictures of your own.")
    parser.add_argument("pictures", nargs="*", type=Path)
    parser.add_argument("--run", help="folder of a run or of a saved model")
    parser.add_argument("--out", type=Path, help="folder for the maps")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        model = aib.from_pretrained(options.run) if options.run else small_model()
        pictures = options.pictures or draw_pictures(Path(folder))
        out = options.out or Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        for path in pictures:
            explain(model, path, out)
        print(f"{len(list(out.glob('*-map.png')))} maps written to {out}")


if __name__ == "__main__":
    main()
