"""Train on a Hugging Face data set, evaluate, and explain one of its images.

    pip install 'aib[datasets]'
    python examples/hugging_face.py beans --out leaves

It takes any data set with the splits train and test, and in them one column of images and one of
labels, of type ClassLabel. `aib train --data hf:beans` trains the packaged model on it instead.
"""

import argparse
from pathlib import Path

import datasets  # type: ignore[import-not-found]

import aib


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on a Hugging Face data set.")
    parser.add_argument("name", help="name of the data set on the hub, or of a local folder")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=96, help="side that images are resized to")
    parser.add_argument("--out", type=Path, default=Path("my_model"))
    options = parser.parse_args()

    splits = datasets.load_dataset(options.name)
    train, test = splits["train"], splits["test"]
    classes = next(f for f in train.features.values() if isinstance(f, datasets.ClassLabel))

    policy = aib.Preprocessing(options.size)
    model = aib.create_model("tiny_aib_masked", len(classes.names), preprocessing=policy)
    settings = aib.Settings(
        epochs=options.epochs,
        batch_size=options.batch_size,
        optimizer="adamw",
        lr=4e-3,
        schedule="cosine",
        clip=2.0,
        beta_warmup=options.epochs / 2,
    )
    aib.fit(model, train, settings)  # decoded, resized, normalised and augmented
    print(f"test error {aib.evaluate(model, test).top1_error:.1f}%")

    model.save_pretrained(options.out)
    image = next(value for value in test[0].values() if hasattr(value, "convert"))
    [picture] = aib.explain(model, image).save(options.out / "maps")
    print(f"the model is in {options.out}, a map in {picture}")


if __name__ == "__main__":
    main()
