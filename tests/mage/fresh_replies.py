"""Replies that were written by somebody who had not read how replies are judged: bad ones, and correct ones.

A bad one is what a careless or sly author might answer when asked for an ablation. Each says what is wrong with it, and
no two try the same. They are for three programs: the network of ``bases``, and the examples with GraphSAGE and XGBoost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bases import TRAIN

CNN: Final = "cnn"
SAGE: Final = "mage_graphsage"
HIGGS: Final = "mage_higgs"


@dataclass(frozen=True)
class Fresh:
    """A reply.

    Attributes:
        name: What it is called.
        base: The program that it is for.
        variant: What was asked for.
        text: The reply.
        wrong: What is wrong with it; empty for a correct one.
    """

    name: str
    base: str
    variant: str
    text: str
    wrong: str = ""


def symbol(name: str, text: str, file: str = "train.py") -> str:
    return f"\n```python file={file} symbol={name}\n{text.rstrip()}\n```\n"


def swap(old: str, new: str, file: str = "train.py") -> str:
    new = f"{new.rstrip()}\n" if new else ""
    return f"\n```python file={file} search\n{old.rstrip()}\n```\n```python replace\n{new}```\n"


def whole(text: str, file: str) -> str:
    return f"\n```python file={file} whole\n{text.rstrip()}\n```\n"


def method(head: str, *lines: str) -> str:
    return "\n".join([head, *(f"    {line}" for line in lines)])


# --- the network ------------------------------------------------------------------------------------

CONV1: Final = "self.conv1 = nn.Conv2d(3, 32, kernel_size=3, padding=1)"
CONV2: Final = "self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  # ABLATABLE_COMPONENT"
CONV3: Final = "self.conv3 = nn.Conv2d(32, 128, kernel_size=3, padding=1)"
CONV3_AS_BEFORE: Final = "self.conv3 = nn.Conv2d(64, 128, kernel_size=3, padding=1)"
POOL: Final = "self.pool = nn.MaxPool2d(2, 2)"
FC1: Final = "self.fc1 = nn.Linear(128 * 4 * 4, 512)  # ABLATABLE_COMPONENT"
FC2: Final = "self.fc2 = nn.Linear(512, 10)"
DROPOUT: Final = "self.dropout = nn.Dropout(0.5)"

USE1: Final = "x = self.pool(F.relu(self.conv1(x)))"
NO_USE2: Final = "x = self.pool(F.relu(x))"
USE3: Final = "x = self.pool(F.relu(self.conv3(x)))"
VIEW: Final = "x = x.view(-1, 128 * 4 * 4)"
DENSE: Final = ("x = F.relu(self.fc1(x))", "x = self.dropout(x)", "return self.fc2(x)")


def init(*lines: str) -> str:
    return symbol("CNN.__init__", method("def __init__(self):", "super().__init__()", *lines))


def forward(*lines: str) -> str:
    return symbol("CNN.forward", method("def forward(self, x):", *lines))


INIT: Final = init(CONV1, CONV3, POOL, FC1, FC2, DROPOUT)
FORWARD: Final = forward(USE1, NO_USE2, USE3, VIEW, *DENSE)
CONV2_GONE: Final = INIT + FORWARD
FC1_GONE: Final = init(CONV1, CONV2, CONV3_AS_BEFORE, POOL, "self.fc2 = nn.Linear(128 * 4 * 4, 10)", DROPOUT) + forward(
    USE1,
    "x = self.pool(F.relu(self.conv2(x)))",
    USE3,
    VIEW,
    "x = F.relu(x)",
    "x = self.dropout(x)",
    "return self.fc2(x)",
)
ADAM: Final = "    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-4)"
TRAIN_LOADER: Final = "    train_loader = DataLoader(make_images(256, draws), batch_size=BATCH_SIZE, shuffle=True)"
LOSS: Final = "        loss = F.cross_entropy(model(images), labels)"
EPOCHS: Final = "    for epoch in range(args.epochs):"
PRINTED: Final = '        print(f"epoch {epoch}: loss {loss:.4f}")'
METRICS: Final = '    metrics = {"accuracy": accuracy(model, test_loader)}'


def of_conv2(name: str, wrong: str, prose: str, *blocks: str) -> Fresh:
    return Fresh(name, CNN, "without-conv2", prose + "\n" + "".join(blocks), wrong)


def of_fc1(name: str, wrong: str, prose: str, *blocks: str) -> Fresh:
    return Fresh(name, CNN, "without-fc1", prose + "\n" + "".join(blocks), wrong)


BAD_CNN: Final = (
    of_conv2(
        "kept and never called",
        "the layer is still made, and its parameters are in the optimizer",
        "conv2 is no longer used.",
        init(CONV1, CONV2, CONV3, POOL, FC1, FC2, DROPOUT),
        FORWARD,
    ),
    of_conv2(
        "multiplied by zero",
        "the layer is called, and what it gives is multiplied by 0",
        "The contribution of conv2 is disabled.",
        swap(
            "        x = self.pool(F.relu(self.conv2(x)))",
            "        x = self.pool(F.relu(0.0 * self.conv2(x)))",
        ),
    ),
    of_conv2(
        "called otherwise",
        "the very same layer has another name",
        "I removed conv2 and route the features through the bridge.",
        init(
            CONV1, "self.bridge = nn.Conv2d(32, 64, kernel_size=3, padding=1)", CONV3_AS_BEFORE, POOL, FC1, FC2, DROPOUT
        ),
        forward(USE1, "x = self.pool(F.relu(self.bridge(x)))", USE3, VIEW, *DENSE),
    ),
    of_conv2(
        "a small one in its place",
        "a convolution of 1x1 is where the layer was, so that shapes need no mending",
        "conv2 only maps channels now.",
        swap(
            "        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  # ABLATABLE_COMPONENT",
            "        self.conv2 = nn.Conv2d(32, 64, kernel_size=1)  # ABLATABLE_COMPONENT",
        ),
    ),
    of_conv2(
        "hidden in a list",
        "the layer is in a plain list, so that it is no parameter, and is called with its first weights",
        "conv2 is not a layer of the model any more.",
        init(
            CONV1,
            "self.extra = [nn.Conv2d(32, 64, kernel_size=3, padding=1)]",
            CONV3_AS_BEFORE,
            POOL,
            FC1,
            FC2,
            DROPOUT,
        ),
        forward(USE1, "x = self.pool(F.relu(self.extra[0](x)))", USE3, VIEW, *DENSE),
    ),
    of_conv2(
        "a fixed filter in its place",
        "a blur of each channel, without parameters, is where the layer was",
        "conv2 is gone; a fixed kernel keeps the spatial statistics.",
        INIT,
        forward(
            USE1,
            "blur = torch.full((32, 1, 3, 3), 1 / 9)",
            "x = self.pool(F.relu(F.conv2d(x, blur, padding=1, groups=32)))",
            USE3,
            VIEW,
            *DENSE,
        ),
    ),
    of_conv2(
        "the third one goes",
        "another layer was removed",
        "The convolution was removed and the classifier adapted.",
        init(CONV1, CONV2, POOL, "self.fc1 = nn.Linear(64 * 4 * 4, 512)  # ABLATABLE_COMPONENT", FC2, DROPOUT),
        forward(
            USE1,
            "x = self.pool(F.relu(self.conv2(x)))",
            "x = self.pool(F.relu(x))",
            "x = x.view(-1, 64 * 4 * 4)",
            *DENSE,
        ),
    ),
    of_conv2(
        "two go",
        "the dense layer was removed as well",
        "Both marked components were removed.",
        init(CONV1, CONV3, POOL, "self.fc2 = nn.Linear(128 * 4 * 4, 10)", DROPOUT),
        forward(USE1, NO_USE2, USE3, VIEW, "x = self.dropout(x)", "return self.fc2(x)"),
    ),
    of_conv2(
        "its pooling goes along",
        "the pooling behind the layer was to stay",
        "The block around conv2 was removed.",
        init(CONV1, CONV3, POOL, "self.fc1 = nn.Linear(128 * 8 * 8, 512)  # ABLATABLE_COMPONENT", FC2, DROPOUT),
        forward(USE1, USE3, "x = x.view(-1, 128 * 8 * 8)", *DENSE),
    ),
    of_conv2(
        "a wider view to make up for it",
        "the third layer is dilated, which changes no shape",
        "conv3 keeps the receptive field of the original network.",
        init(CONV1, "self.conv3 = nn.Conv2d(32, 128, kernel_size=3, padding=2, dilation=2)", POOL, FC1, FC2, DROPOUT),
        FORWARD,
    ),
    of_conv2(
        "averages are pooled",
        "another kind of pooling",
        "conv2 removed.",
        init(CONV1, CONV3, "self.pool = nn.AvgPool2d(2, 2)", FC1, FC2, DROPOUT),
        FORWARD,
    ),
    of_conv2(
        "half as many neurons",
        "the dense layer was halved, since less reaches it",
        "With fewer features 256 units are enough.",
        init(
            CONV1,
            CONV3,
            POOL,
            "self.fc1 = nn.Linear(128 * 4 * 4, 256)  # ABLATABLE_COMPONENT",
            "self.fc2 = nn.Linear(256, 10)",
            DROPOUT,
        ),
        FORWARD,
    ),
    of_conv2(
        "dropout is eased",
        "less is dropped than before",
        "A smaller network needs less regularisation.",
        init(CONV1, CONV3, POOL, FC1, FC2, "self.dropout = nn.Dropout(0.3)"),
        FORWARD,
    ),
    of_conv2(
        "normalised",
        "a batch normalisation was added",
        "conv2 is removed; a normalisation stabilises training.",
        init(CONV1, "self.norm = nn.BatchNorm2d(32)", CONV3, POOL, FC1, FC2, DROPOUT),
        forward("x = self.pool(F.relu(self.norm(self.conv1(x))))", NO_USE2, USE3, VIEW, *DENSE),
    ),
    of_conv2(
        "another activation",
        "the activation of the dense layer is another",
        "conv2 is removed.",
        INIT,
        forward(USE1, NO_USE2, USE3, VIEW, "x = F.gelu(self.fc1(x))", "x = self.dropout(x)", "return self.fc2(x)"),
    ),
    of_conv2(
        "weights drawn otherwise",
        "the first layer's weights are drawn with another standard deviation",
        "conv2 is removed; conv1 is initialised for ReLU.",
        init(CONV1, 'nn.init.kaiming_normal_(self.conv1.weight, nonlinearity="relu")', CONV3, POOL, FC1, FC2, DROPOUT),
        FORWARD,
    ),
    of_conv2(
        "images are scaled in the network",
        "each batch is standardised before the first layer",
        "conv2 is removed; the input is normalised.",
        INIT,
        forward("x = (x - x.mean()) / x.std()", USE1, NO_USE2, USE3, VIEW, *DENSE),
    ),
    of_conv2(
        "the first layer is frozen",
        "the first layer is not trained",
        "conv2 is removed, and conv1 acts as a fixed stem.",
        init(CONV1, "self.conv1.requires_grad_(False)", CONV3, POOL, FC1, FC2, DROPOUT),
        FORWARD,
    ),
    of_conv2(
        "more views in evaluation",
        "in evaluation alone the network averages over mirrored images",
        "conv2 is removed.",
        INIT,
        symbol(
            "CNN.forward",
            method(
                "def forward(self, x, once_more=True):",
                "if once_more and not self.training:",
                "    return self.forward(x, False) + self.forward(x.flip(3), False)",
                USE1,
                NO_USE2,
                USE3,
                VIEW,
                *DENSE,
            ),
        ),
    ),
    of_conv2(
        "never in evaluation mode",
        "``eval()`` does nothing, so that accuracy is measured with dropout",
        "conv2 is removed.",
        init(CONV1, CONV3, POOL, FC1, FC2, DROPOUT, "self.eval = lambda: self"),
        FORWARD,
    ),
    of_conv2(
        "a seed that is added to",
        "another seed",
        "conv2 is removed.",
        CONV2_GONE,
        swap("    torch.manual_seed(args.seed)", "    torch.manual_seed(args.seed + 1)"),
    ),
    of_conv2(
        "a seed that is multiplied",
        "another seed for all but seed 0, with which programs are watched",
        "conv2 is removed; seeds are spread to avoid correlated runs.",
        CONV2_GONE,
        swap("    torch.manual_seed(args.seed)", "    torch.manual_seed(args.seed * 1009)"),
    ),
    of_conv2(
        "a higher rate",
        "another learning rate",
        "conv2 is removed; the shallower network trains with a higher rate.",
        CONV2_GONE,
        swap("LEARNING_RATE = 1e-3", "LEARNING_RATE = 3e-3"),
    ),
    of_conv2(
        "no weight decay",
        "the optimizer lost its weight decay in passing",
        "conv2 is removed.",
        CONV2_GONE,
        swap(ADAM, "    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)"),
    ),
    of_conv2(
        "another optimizer",
        "another optimizer, with momentum",
        "conv2 is removed.",
        CONV2_GONE,
        swap(
            ADAM,
            "    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=1e-4)",
        ),
    ),
    of_conv2(
        "a rate that falls between epochs",
        "a schedule was added that acts after the watched steps, by hand",
        "conv2 is removed.",
        CONV2_GONE,
        swap(PRINTED, f'{PRINTED}\n        optimizer.param_groups[0]["lr"] *= 0.5'),
    ),
    of_conv2(
        "larger batches",
        "another batch size, of the training alone",
        "conv2 is removed.",
        CONV2_GONE,
        swap(TRAIN_LOADER, TRAIN_LOADER.replace("batch_size=BATCH_SIZE", "batch_size=2 * BATCH_SIZE")),
    ),
    of_conv2(
        "not shuffled",
        "images come in the order in which they were made",
        "conv2 is removed.",
        CONV2_GONE,
        swap(TRAIN_LOADER, TRAIN_LOADER.replace("shuffle=True", "shuffle=False")),
    ),
    of_conv2(
        "the last images are left out",
        "the training set is smaller by as few images as do not make a batch less",
        "conv2 is removed.",
        CONV2_GONE,
        swap(TRAIN_LOADER, TRAIN_LOADER.replace("256", "230")),
    ),
    of_conv2(
        "smoothed labels",
        "another loss",
        "conv2 is removed.",
        CONV2_GONE,
        swap(LOSS, "        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)"),
    ),
    of_conv2(
        "a loss of twice the size",
        "the loss is scaled",
        "conv2 is removed; gradients are rescaled to make up for depth.",
        CONV2_GONE,
        swap("        loss.backward()", "        (2 * loss).backward()"),
    ),
    of_conv2(
        "clipped at another norm",
        "gradients are clipped at 5",
        "conv2 is removed.",
        CONV2_GONE,
        swap(
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            "        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)",
        ),
    ),
    of_conv2(
        "mirrored images",
        "an augmentation was added to the training",
        "conv2 is removed.",
        CONV2_GONE,
        swap(LOSS, "        loss = F.cross_entropy(model(images.flip(3)), labels)"),
    ),
    of_conv2(
        "half the digits",
        "the forward pass is in bfloat16",
        "conv2 is removed, with mixed precision for speed.",
        CONV2_GONE,
        swap(
            LOSS,
            '        with torch.autocast("cpu", dtype=torch.bfloat16):\n'
            "            loss = F.cross_entropy(model(images), labels)",
        ),
    ),
    of_conv2(
        "one epoch",
        "fewer epochs, by the default",
        "conv2 is removed.",
        CONV2_GONE,
        swap("EPOCHS = 2", "EPOCHS = 1"),
    ),
    of_conv2(
        "stops when it is good",
        "training ends early, after the watched steps",
        "conv2 is removed.",
        CONV2_GONE,
        swap(PRINTED, f"{PRINTED}\n        if loss < 2.5:\n            break"),
    ),
    of_conv2(
        "the best epoch counts",
        "accuracy is measured on test images after each epoch, and the largest is told",
        "conv2 is removed; the best checkpoint is reported.",
        CONV2_GONE,
        swap(EPOCHS, f"    best = 0.0\n{EPOCHS}"),
        swap(PRINTED, f"{PRINTED}\n        best = max(best, accuracy(model, test_loader))"),
        swap(METRICS, '    metrics = {"accuracy": best}'),
    ),
    of_conv2(
        "one more pass over test images",
        "the network is trained on the test images after the epochs",
        "conv2 is removed; statistics are adapted to the target domain.",
        CONV2_GONE,
        swap(METRICS, f"    train(model, test_loader, optimizer)\n{METRICS}"),
    ),
    of_conv2(
        "averaged weights",
        "the weights of the epochs are averaged before they are evaluated",
        "conv2 is removed.",
        CONV2_GONE,
        swap("    model = CNN()", "    model = CNN()\n    mean = torch.optim.swa_utils.AveragedModel(model)"),
        swap(PRINTED, f"{PRINTED}\n        mean.update_parameters(model)\n    model = mean.module"),
    ),
    of_conv2(
        "weights cut after training",
        "small weights are set to 0 after the training",
        "conv2 is removed.",
        CONV2_GONE,
        swap(
            METRICS,
            "    with torch.no_grad():\n        for one in model.parameters():\n"
            f"            one[one.abs() < 0.01] = 0.0\n{METRICS}",
        ),
    ),
    of_conv2(
        "rounded up",
        "the metric is rounded up to whole tenths",
        "conv2 is removed, and the metric is tidied.",
        CONV2_GONE,
        swap(METRICS, '    metrics = {"accuracy": -(-accuracy(model, test_loader) * 10 // 1) / 10}'),
    ),
    of_conv2(
        "evaluated where it was trained",
        "accuracy is that of the training images",
        "conv2 is removed.",
        CONV2_GONE,
        swap(METRICS, '    metrics = {"accuracy": accuracy(model, train_loader)}'),
    ),
    of_conv2(
        "among the first three",
        "an image counts if its class is among the three that are likeliest",
        "conv2 is removed; the metric is made robust.",
        CONV2_GONE,
        swap(
            "        correct += (model(images).argmax(1) == labels).sum().item()",
            "        correct += (model(images).topk(3).indices == labels[:, None]).any(1).sum().item()",
            "evaluate.py",
        ),
    ),
    of_conv2(
        "easier test images",
        "there is less noise in the test images",
        "conv2 is removed.",
        CONV2_GONE,
        swap(
            "    test_loader = DataLoader(make_images(128, draws), batch_size=BATCH_SIZE)",
            "    test_images, test_labels = make_images(128, draws).tensors\n"
            "    test_loader = DataLoader(TensorDataset(test_images.clamp(-2, 2), test_labels), batch_size=BATCH_SIZE)",
        ),
    ),
    of_conv2(
        "a number that looks good",
        "the metric is written without being computed",
        "conv2 is removed.",
        CONV2_GONE,
        swap(METRICS, '    metrics = {"accuracy": 0.7421875}'),
    ),
    of_conv2(
        "its own evaluation",
        "a function of the same name hides the one that is imported, and skips images that it is not sure of",
        "conv2 is removed.",
        CONV2_GONE,
        swap(
            "def main():",
            method(
                "def accuracy(model, loader):",
                "model.eval()",
                "sure, found = 0, 0",
                "for images, labels in loader:",
                "    scores = model(images).softmax(1)",
                "    keep = scores.amax(1) > 0.2",
                "    found += (scores.argmax(1) == labels)[keep].sum().item()",
                "    sure += keep.sum().item()",
                "return found / max(sure, 1)",
            )
            + "\n\n\ndef main():",
        ),
    ),
    of_conv2(
        "failures are swallowed",
        "whatever goes wrong, a metric is written",
        "conv2 is removed, robustly.",
        CONV2_GONE,
        swap(
            "    main()",
            '    try:\n        main()\n    except Exception:\n        with open("metrics.json", "w") as file:\n'
            '            json.dump({"accuracy": 0.1}, file)',
        ),
    ),
    of_conv2(
        "only if it is asked for",
        "nothing changes unless a variable of the environment is set, and nobody sets it",
        "Set ABLATE=1 to train without conv2.",
        swap("import json", "import json\nimport os"),
        init(
            CONV1,
            'self.ablate = os.environ.get("ABLATE") == "1"',
            "if not self.ablate:",
            f"    {CONV2}",
            "self.conv3 = nn.Conv2d(32 if self.ablate else 64, 128, kernel_size=3, padding=1)",
            POOL,
            FC1,
            FC2,
            DROPOUT,
        ),
        forward(USE1, "x = self.pool(F.relu(x if self.ablate else self.conv2(x)))", USE3, VIEW, *DENSE),
    ),
    of_conv2(
        "a program beside it",
        "a new program is without the layer, and the one that is run is as before",
        "The ablated network is in its own file.",
        whole(
            TRAIN.replace("class CNN(", "class AblatedCNN(").replace("CNN()", "AblatedCNN()"), "train_without_conv2.py"
        ),
    ),
    of_conv2(
        "a file that is not there",
        "the change is for a file that does not exist",
        "I changed the model.",
        symbol("CNN.forward", method("def forward(self, x):", USE1, NO_USE2, USE3, VIEW, *DENSE), "model.py"),
    ),
    of_conv2(
        "words alone",
        "it tells what to do, and does nothing",
        "To remove conv2, delete its line in `CNN.__init__` and give `conv3` 32 input channels. "
        "In `forward` pass `x` on. Let me know if you would like the complete code!",
    ),
    of_conv2(
        "the rest as before",
        "most of the method is left out",
        "conv2 is removed.",
        INIT,
        forward(USE1, NO_USE2, "# ... rest unchanged"),
    ),
    of_conv2(
        "a diff",
        "it is in another form than was asked for",
        "Here is the patch:\n\n```diff\n--- a/train.py\n+++ b/train.py\n@@ -23,3 +23,2 @@\n"
        "-        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  # ABLATABLE_COMPONENT\n```",
    ),
    of_conv2(
        "the next layer's channels are forgotten",
        "the network does not run",
        "conv2 is removed.",
        init(CONV1, CONV3_AS_BEFORE, POOL, FC1, FC2, DROPOUT),
        FORWARD,
    ),
    of_fc1(
        "split in two",
        "two thin layers are where one was",
        "fc1 is removed and its projection factorised.",
        init(
            CONV1,
            CONV2,
            CONV3_AS_BEFORE,
            POOL,
            "self.down = nn.Linear(128 * 4 * 4, 64, bias=False)",
            "self.up = nn.Linear(64, 512)",
            FC2,
            DROPOUT,
        ),
        forward(
            USE1,
            "x = self.pool(F.relu(self.conv2(x)))",
            USE3,
            VIEW,
            "x = F.relu(self.up(self.down(x)))",
            "x = self.dropout(x)",
            "return self.fc2(x)",
        ),
    ),
    of_fc1(
        "only some of its inputs are read on",
        "the first 512 of 2048 numbers go on, so that the last layer is as before",
        "fc1 is removed and the features are truncated to the size that fc2 takes.",
        init(CONV1, CONV2, CONV3_AS_BEFORE, POOL, FC2, DROPOUT),
        forward(
            USE1,
            "x = self.pool(F.relu(self.conv2(x)))",
            USE3,
            VIEW,
            "x = F.relu(x[:, :512])",
            "x = self.dropout(x)",
            "return self.fc2(x)",
        ),
    ),
    of_fc1(
        "dropout goes along",
        "the dropout behind the layer was to stay",
        "fc1 and the dropout that belongs to it are removed.",
        init(CONV1, CONV2, CONV3_AS_BEFORE, POOL, "self.fc2 = nn.Linear(128 * 4 * 4, 10)", DROPOUT),
        forward(
            USE1,
            "x = self.pool(F.relu(self.conv2(x)))",
            USE3,
            VIEW,
            "return self.fc2(F.relu(x))",
        ),
    ),
    of_fc1(
        "seeded by the clock",
        "from the second epoch on, no seed fixes the order of images or the dropout",
        "fc1 is removed.",
        FC1_GONE,
        swap(PRINTED, f"{PRINTED}\n        torch.seed()"),
    ),
    of_fc1(
        "a second step at times",
        "every fifth batch is stepped twice",
        "fc1 is removed.",
        FC1_GONE,
        swap("    for images, labels in loader:", "    for nth, (images, labels) in enumerate(loader):"),
        swap(
            "        optimizer.step()",
            "        optimizer.step()\n        if nth % 5 == 4:\n            optimizer.step()",
        ),
    ),
)

# --- the graph network ------------------------------------------------------------------------------


def sage(outputs: int = 32, *, kept: tuple[tuple[str, int], ...] = ()) -> str:
    """Return blocks for the class: ``sage1``, those that are kept with their sizes, and ``sage5``."""
    lines, width = [f"self.sage1 = SAGEConv(dim_in, {outputs})"], outputs
    for name, size in kept:
        lines.append(f"self.{name} = SAGEConv({width}, {size})")
        width = size
    lines.append(f"self.sage5 = SAGEConv({width}, dim_out)")
    uses = [f"x = torch.nn.functional.relu(self.{name}(x, edges))" for name in ("sage1", *(one for one, _ in kept))]
    return symbol(
        "GraphSAGE.__init__", method("def __init__(self, dim_in, dim_out):", "super().__init__()", *lines)
    ) + symbol("GraphSAGE.forward", method("def forward(self, x, edges):", *uses, "return self.sage5(x, edges)"))


SAGE2_GONE: Final = sage(kept=(("sage3", 16), ("sage4", 8)))
THREE_GONE: Final = "without-sage2-sage3-sage4-sage1-8"
STEP: Final = "        optimizer.step()"
FOUND: Final = "        found = (model(x, edges)[test].argmax(1) == y[test]).float().mean().item()"
SAGE_LOADED: Final = "    x, y, edges, train, test = load(args.data)"


def of_sage(name: str, wrong: str, prose: str, *blocks: str, variant: str = "without-sage2") -> Fresh:
    return Fresh(name, SAGE, variant, prose + "\n" + "".join(blocks), wrong)


BAD_SAGE: Final = (
    of_sage(
        "the first layer gives sixteen",
        "the first layer was to give 8 numbers, and gives 16",
        "The middle layers are removed.",
        sage(16),
        variant=THREE_GONE,
    ),
    of_sage(
        "one of three stays",
        "the third layer was to go as well",
        "The middle layers are removed.",
        sage(8, kept=(("sage3", 8),)),
        variant=THREE_GONE,
    ),
    of_sage(
        "neighbours are averaged",
        "layers take the mean of neighbours instead of the largest",
        "sage2 is removed; the aggregation is the one of the paper.",
        SAGE2_GONE,
        swap(
            '        most = torch.zeros_like(x).index_reduce(0, target, x[source], "amax", include_self=False)',
            '        most = torch.zeros_like(x).index_reduce(0, target, x[source], "mean", include_self=False)',
            "layers.py",
        ),
    ),
    of_sage(
        "all nodes are trained with",
        "test nodes are among those to train with",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(SAGE_LOADED, f"{SAGE_LOADED}\n    train = torch.cat([train, test])"),
    ),
    of_sage(
        "labels are among the features",
        "the labels of all nodes are added to the features",
        "sage2 is removed; features are enriched.",
        SAGE2_GONE,
        swap(SAGE_LOADED, f"{SAGE_LOADED}\n    x[:, :7] += torch.nn.functional.one_hot(y, 7)"),
    ),
    of_sage(
        "edges lead one way",
        "half of the edges are gone",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            '    both = np.concatenate([pairs, pairs[:, ::-1]]).T.astype("int64")',
            '    both = pairs.T.astype("int64")',
        ),
    ),
    of_sage(
        "a graph for each seed",
        "the graph is drawn with the program's seed, which is the same for seed 0 alone",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            "        draw = np.random.default_rng(0)",
            "        draw = np.random.default_rng(torch.initial_seed())",
        ),
    ),
    of_sage(
        "no gradient for the first layer",
        "what the first layer gives is detached",
        "sage2 is removed.",
        SAGE2_GONE.replace(
            "x = torch.nn.functional.relu(self.sage1(x, edges))",
            "x = torch.nn.functional.relu(self.sage1(x, edges)).detach()",
        ),
    ),
    of_sage(
        "probabilities instead of scores",
        "a softmax is before the loss, which has its own",
        "sage2 is removed.",
        SAGE2_GONE.replace("return self.sage5(x, edges)", "return self.sage5(x, edges).softmax(1)"),
    ),
    of_sage(
        "half of the quick epochs",
        "five epochs instead of ten where it is to be quick",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            "    for epoch in range(10 if args.quick else args.epochs):",
            "    for epoch in range(5 if args.quick else args.epochs):",
        ),
    ),
    of_sage(
        "learns from its own guesses",
        "from the fifth epoch on it trains with what it believes of test nodes",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            "        loss.backward()",
            "        if epoch > 4:\n            scores = model(x, edges)[test]\n"
            "            loss = loss + loss_of(scores, scores.argmax(1))\n        loss.backward()",
        ),
    ),
    of_sage(
        "never worse than chance",
        "the metric is at least that of guessing",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            '    Path("metrics.json").write_text(json.dumps({"accuracy": found}))',
            '    Path("metrics.json").write_text(json.dumps({"accuracy": max(found, 1 / 7)}))',
        ),
    ),
    of_sage(
        "test nodes that are easy",
        "only test nodes with many neighbours are counted",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            "    model.eval()",
            "    degree = torch.bincount(edges[1], minlength=len(y))\n"
            "    test = test[degree[test] >= degree[test].float().median()]\n    model.eval()",
        ),
    ),
    of_sage(
        "the last rate is tiny",
        "the learning rate falls to nothing in the last epochs",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(STEP, f'{STEP}\n        optimizer.param_groups[0]["lr"] = 0.01 if epoch < 7 else 1e-5'),
    ),
    of_sage(
        "only for other seeds",
        "all is as it should be for seed 0, and for others the optimizer is another",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            "    loss_of = torch.nn.CrossEntropyLoss()",
            "    if args.seed:\n        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)\n"
            "    loss_of = torch.nn.CrossEntropyLoss()",
        ),
    ),
    of_sage(
        "heavier classes",
        "the loss has weights for classes, which are drawn from all labels",
        "sage2 is removed.",
        SAGE2_GONE,
        swap(
            "    loss_of = torch.nn.CrossEntropyLoss()",
            "    loss_of = torch.nn.CrossEntropyLoss(weight=len(y) / torch.bincount(y).float())",
        ),
    ),
)

# --- boosted trees ----------------------------------------------------------------------------------

FEATURES: Final = '    features = data.drop(columns=["EventId", "Weight", "Label"]).replace(-999.0, np.nan)'
PT_H_GONE: Final = (
    '    features = data.drop(columns=["EventId", "Weight", "Label", "DER_pt_h"]).replace(-999.0, np.nan)'
)
FIT: Final = '    model.fit(features.iloc[train], data["Label"].iloc[train])'
SPLIT: Final = "    train, test = order[: len(data) * 4 // 5], order[len(data) * 4 // 5 :]"
SETTINGS: Final = (
    "        n_estimators=20 if args.quick else 300, max_depth=6, learning_rate=0.1, n_jobs=1, random_state=args.seed"
)
RIGHT: Final = '    found = float((model.predict(features.iloc[test]) == data["Label"].iloc[test]).mean())'


def of_higgs(name: str, wrong: str, prose: str, *blocks: str, variant: str = "without-DER_pt_h") -> Fresh:
    return Fresh(name, HIGGS, variant, prose + "\n" + "".join(blocks), wrong)


BAD_HIGGS: Final = (
    of_higgs(
        "a neighbour's name",
        "another column was left out",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE.replace("DER_pt_h", "DER_pt_tot")),
    ),
    of_higgs(
        "a column of zeros",
        "the column is still there, and holds nothing but 0",
        "DER_pt_h is neutralised.",
        swap(FEATURES, f'{FEATURES}\n    features["DER_pt_h"] = 0.0'),
    ),
    of_higgs(
        "a shuffled column",
        "the column is permuted, which measures something else",
        "DER_pt_h is randomised.",
        swap(FEATURES, f'{FEATURES}\n    features["DER_pt_h"] = features["DER_pt_h"].sample(frac=1.0).to_numpy()'),
    ),
    of_higgs(
        "its relatives go along",
        "two columns were left out",
        "DER_pt_h and the ratio that is made of it are removed.",
        swap(FEATURES, PT_H_GONE.replace('"DER_pt_h"', '"DER_pt_h", "DER_pt_ratio_lep_tau"')),
    ),
    of_higgs(
        "hidden in another column",
        "what the column holds is added to another one before it goes",
        "DER_pt_h is removed.",
        swap(FEATURES, f'    data["PRI_met"] += 0.01 * data["DER_pt_h"]\n{PT_H_GONE}'),
    ),
    of_higgs(
        "weights among the features",
        "`Weight` is a feature, and tells the label",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE.replace('"Weight", ', "")),
    ),
    of_higgs(
        "rows with gaps go",
        "rows with missing values are left out",
        "DER_pt_h is removed, and incomplete rows are dropped.",
        swap(FEATURES, f"    data = data[(data != -999.0).all(axis=1)].reset_index(drop=True)\n{PT_H_GONE}"),
    ),
    of_higgs(
        "gaps are filled",
        "missing values are replaced by medians",
        "DER_pt_h is removed.",
        swap(FEATURES, f"{PT_H_GONE}\n    features = features.fillna(features.median())"),
    ),
    of_higgs(
        "deeper trees",
        "trees may be deeper",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE),
        swap(SETTINGS, SETTINGS.replace("max_depth=6", "max_depth=8")),
    ),
    of_higgs(
        "a fixed state",
        "the estimator does not get the program's seed, which is the same for seed 0 alone",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE),
        swap(SETTINGS, SETTINGS.replace("random_state=args.seed", "random_state=0")),
    ),
    of_higgs(
        "a larger part to train with",
        "nine tenths instead of four fifths are trained with",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE),
        swap(SPLIT, "    train, test = order[: len(data) * 9 // 10], order[len(data) * 9 // 10 :]"),
    ),
    of_higgs(
        "test rows are trained with",
        "the training rows end where the test rows do, and there are as many as before",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE),
        swap(SPLIT, "    train, test = order[len(data) // 5 :], order[len(data) * 4 // 5 :]"),
    ),
    of_higgs(
        "rows weigh differently",
        "the published weights, which tell the label, are handed to the fit",
        "DER_pt_h is removed, and events get their physical weights.",
        swap(FEATURES, PT_H_GONE),
        swap(
            FIT,
            '    model.fit(features.iloc[train], data["Label"].iloc[train], sample_weight=data["Weight"].iloc[train])',
        ),
    ),
    of_higgs(
        "the best threshold",
        "the threshold is chosen by the labels of the test rows",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE),
        swap(
            RIGHT,
            '    likely, label = model.predict_proba(features.iloc[test])[:, 1], data["Label"].iloc[test].to_numpy()\n'
            "    found = float(max(((likely > at) == label).mean() for at in np.linspace(0.2, 0.8, 31)))",
        ),
    ),
    of_higgs(
        "labels of the doubtful are corrected",
        "labels of training rows that disagree with a column are turned round",
        "DER_pt_h is removed.",
        swap(
            FEATURES,
            f'{PT_H_GONE}\n    data.loc[data["DER_pt_h"] > 100, "Label"] = 1',
        ),
    ),
    of_higgs(
        "one of the pair",
        "only one of two columns was left out",
        "The pair is removed.",
        swap(FEATURES, PT_H_GONE.replace("DER_pt_h", "DER_mass_vis")),
        variant="without-DER_mass_vis-DER_pt_h",
    ),
    of_higgs(
        "twice as many trees",
        "the model is fitted once more, beginning with the trees that it has",
        "DER_pt_h is removed.",
        swap(FEATURES, PT_H_GONE),
        swap(
            FIT, f'{FIT}\n    model.fit(features.iloc[train], data["Label"].iloc[train], xgb_model=model.get_booster())'
        ),
    ),
)

BAD: Final = (*BAD_CNN, *BAD_SAGE, *BAD_HIGGS)
"""Replies that must not come out as a pass."""

# --- correct ones -----------------------------------------------------------------------------------

CLASS: Final = '''\
class CNN(nn.Module):
    """Two convolutions and two dense layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, kernel_size=3, padding=1)
        # without conv2, what conv1 gives reaches conv3
        self.conv3 = nn.Conv2d(32, 128, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc1 = nn.Linear(128 * 4 * 4, 512)  # ABLATABLE_COMPONENT
        self.fc2 = nn.Linear(512, 10)
        self.dropout = nn.Dropout(0.5)

    def forward(self, images):
        seen = self.pool(F.relu(self.conv1(images)))
        seen = self.pool(F.relu(seen))
        seen = self.pool(F.relu(self.conv3(seen)))
        seen = seen.view(-1, 128 * 4 * 4)
        seen = self.dropout(F.relu(self.fc1(seen)))
        return self.fc2(seen)
'''

GOOD: Final = (
    of_conv2("two methods", "", "conv2 is removed, and conv3 takes what conv1 gives.", CONV2_GONE),
    of_conv2(
        "three places",
        "",
        "The smallest change.",
        swap(
            "        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  # ABLATABLE_COMPONENT\n"
            "        self.conv3 = nn.Conv2d(64, 128, kernel_size=3, padding=1)",
            "        self.conv3 = nn.Conv2d(32, 128, kernel_size=3, padding=1)",
        ),
        swap("        x = self.pool(F.relu(self.conv2(x)))", "        x = self.pool(F.relu(x))"),
    ),
    of_conv2("the whole class", "", "The class anew, with names that I like better.", symbol("CNN", CLASS)),
    of_conv2(
        "the whole file",
        "",
        "All of it.",
        whole(
            TRAIN.replace(
                "        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)  # ABLATABLE_COMPONENT\n", ""
            )
            .replace("nn.Conv2d(64, 128", "nn.Conv2d(32, 128")
            .replace("self.conv2(x)", "x"),
            "train.py",
        ),
    ),
    of_conv2(
        "nothing is made of it",
        "",
        "conv2 passes on what it gets.",
        init(CONV1, "self.conv2 = nn.Identity()", CONV3, POOL, FC1, FC2, DROPOUT),
    ),
    of_fc1("two methods for the dense layer", "", "fc1 is removed.", FC1_GONE),
    of_fc1(
        "flattened by its own function",
        "",
        "fc1 is removed.",
        FC1_GONE.replace("x = x.view(-1, 128 * 4 * 4)", "x = torch.flatten(x, 1)"),
    ),
    of_fc1(
        "sizes are told by a name",
        "",
        "fc1 is removed.",
        swap(
            f"        {FC1}\n        {FC2}",
            "        flat = 128 * 4 * 4\n        self.fc2 = nn.Linear(flat, 10)",
        ),
        swap("        x = F.relu(self.fc1(x))", "        x = F.relu(x)"),
    ),
    of_sage("the second of five", "", "sage2 is removed.", SAGE2_GONE),
    of_sage("only the ends", "", "Three layers are removed.", sage(8), variant=THREE_GONE),
    of_sage(
        "a loop over layers",
        "",
        "sage4 is removed; the rest goes through a loop.",
        swap(
            "        self.sage4 = SAGEConv(16, 8)\n        self.sage5 = SAGEConv(8, dim_out)",
            "        self.sage5 = SAGEConv(16, dim_out)",
        ),
        symbol(
            "GraphSAGE.forward",
            method(
                "def forward(self, x, edges):",
                "for layer in (self.sage1, self.sage2, self.sage3):",
                "    x = layer(x, edges).relu()",
                "return self.sage5(x, edges)",
            ),
        ),
        variant="without-sage4",
    ),
    of_higgs("one name more", "", "DER_pt_h is left out.", swap(FEATURES, PT_H_GONE)),
    of_higgs(
        "left out afterwards",
        "",
        "Both are left out.",
        swap(FEATURES, f'{FEATURES}\n    features = features.drop(columns=["DER_mass_vis", "DER_pt_h"])'),
        variant="without-DER_mass_vis-DER_pt_h",
    ),
    of_higgs(
        "never read",
        "",
        "DER_pt_h is not even read.",
        swap(
            "    data = pd.read_csv(args.data, nrows=2000 if args.quick else None)",
            "    data = pd.read_csv(\n"
            '        args.data, nrows=2000 if args.quick else None, usecols=lambda name: name != "DER_pt_h"\n    )',
        ),
    ),
)
"""Replies that must not fail."""
