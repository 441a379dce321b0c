"""What do the first seven modules of InceptionV3 contribute? Each is taken out in turn, by one, two or four workers.

    python examples/inception_modules.py path/to/cifar10
    python examples/inception_modules.py path/to/cifar10 --workers 4 --images 5000 --epochs 40

It is the third experiment of Sheikholeslami et al. 2021, "AutoAblation: Automated Parallel Ablation Studies for Deep
Learning", with Keras. The paper's radar images are not public as a file; here are those of CIFAR-10: `train-*.npz` and
`test.npz`, with images in `x` and labels in `y`. By default there are 160 of them, made as small as the network takes
them, one epoch and random weights, so that this is done in minutes: it shows how this is done, and not what helps.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np

import etude

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras

SIZE = 75  # the least that the network takes
ENDS = ["max_pooling2d_1", *(f"mixed{nth}" for nth in range(7))]  # where a module begins: where the one before it ends
MODULES = [f"between:{begin}..{end}" for begin, end in itertools.pairwise(ENDS)]


def model() -> Any:
    keras.utils.clear_session()  # Keras numbers its layers: max_pooling2d_1 would be another one in a second model
    net = keras.applications.InceptionV3(weights=None, input_shape=(SIZE, SIZE, 3), classes=10)
    net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return net


def data(folder: etude.Stateless[str], images: int = 160) -> etude.Data:
    there = Path(folder)
    pixels = np.arange(SIZE) * 32 // SIZE  # of the small image, for each of the large one

    def part(files: list[Path], most: int) -> tuple[Any, Any]:
        parts = [np.load(file) for file in files]
        x, y = (np.concatenate([part[name] for part in parts])[:most] for name in "xy")
        return x[:, pixels][:, :, pixels].astype("float32") / 127.5 - 1, y.astype("int64")

    return etude.Data(part(sorted(there.glob("train-*.npz")), images), None, part([there / "test.npz"], images // 4))


def train(model: Any, data: Any, epochs: int = 1, batch_size: int = 16) -> float:
    net, parts = model(), data()
    net.fit(*parts.train, batch_size=batch_size, epochs=epochs, verbose=0)
    return float(net.evaluate(*parts.test, verbose=0)[1])


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where train-*.npz and test.npz are")
    parser.add_argument("--images", type=int, default=160, help="how many images to train on")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--modules", type=int, default=len(MODULES), help="how many of the seven")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if not (Path(args.folder) / "test.npz").is_file():
        parser.error(f"{args.folder} has no test.npz.")
    modules = MODULES[: args.modules]
    at = {"folder": args.folder, "images": args.images, "epochs": args.epochs}
    # One seed decides nothing about a module: how long the arms take together is the question here.
    ablation: Any = experiment.ablate(modules, at=at, seeds=args.seeds, workers=args.workers, force=True)
    for arm in ablation.arms:
        size = f", {arm.parameters:,} parameters" if arm.parameters is not None else ""
        print(f"{arm.name:32} accuracy {arm.mean:.3f}, effect {arm.effect:+.3f}{size}")
    took_s = max(trial.ended_at for trial in ablation.trials) - min(trial.started_at for trial in ablation.trials)
    print(f"{len(ablation.trials)} trials in {took_s:.0f} s with {args.workers} workers")


if __name__ == "__main__":
    main()
