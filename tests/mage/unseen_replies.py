"""Replies to requests for ablations of ``unseen_programs``, written by somebody who had not read how they are judged.

``BAD`` holds what a careless or sly author might answer: all of them run, and each says what is wrong with it.
``CORRECT`` holds honest ways to do what was asked for, which are not all the shortest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fresh_replies import Fresh, method, swap, symbol, whole
from unseen_programs import CUSTOMERS, LEAVERS, SEQUENCES, SEQUENCES_TRAIN, STROKES

NETWORK: Final = "network.py"


def asked(base: str, variant: str) -> Callable[..., Fresh]:
    """Return what makes replies to one request."""

    def reply(name: str, wrong: str, prose: str, *blocks: str) -> Fresh:
        return Fresh(name, base, variant, f"{prose}\n{''.join(blocks)}", wrong)

    return reply


def without(line: str, file: str = "train.py") -> str:
    return swap(line, "", file)


# --- sequences: a small transformer -----------------------------------------------------------------

positions = asked(SEQUENCES, "without-positions")
norm = asked(SEQUENCES, "without-norm")
scheduler = asked(SEQUENCES, "without-scheduler")
clip = asked(SEQUENCES, "without-clip_grad_norm")

POSITIONS: Final = "        self.positions = nn.Embedding(LENGTH, WIDTH)  # ABLATABLE_COMPONENT"
PLACED: Final = "        x = self.tokens(symbols) + self.positions(torch.arange(symbols.shape[1]))"
DROPPED: Final = "        x = self.dropout(x)"
NORM: Final = "        self.norm = nn.LayerNorm(WIDTH)  # ABLATABLE_COMPONENT"
SORTED: Final = "        return self.head(self.norm(x).mean(1))"
BARE: Final = "        return self.head(x.mean(1))"
SCHEDULER: Final = (
    "    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, steps))"
    "  # ABLATABLE_COMPONENT"
)
SCHEDULED: Final = "            scheduler.step()"
ADAMW: Final = "    optimizer = torch.optim.AdamW(parameter_groups(model), lr=LEARNING_RATE)"
CLIP: Final = "            nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # ABLATABLE_COMPONENT"
SEEDED: Final = "    torch.manual_seed(args.seed)"
TRAIN_SEQUENCES: Final = (
    "    train_loader = DataLoader(make_sequences(500, draws), batch_size=BATCH_SIZE, shuffle=True)"
)
TEST_SEQUENCES: Final = "    test_loader = DataLoader(make_sequences(300, draws), batch_size=BATCH_SIZE)"
ZEROED: Final = "            optimizer.zero_grad()"
SEQUENCE_LOSS: Final = "            loss = F.cross_entropy(model(symbols), labels)"
MODE: Final = "        model.train()\n        for symbols, labels in train_loader:"
PRINTED: Final = '        print(f"epoch {epoch}: loss {loss.item():.4f}")'
FOUND: Final = "    found = accuracy(model, test_loader)"

NO_POSITIONS: Final = without(POSITIONS) + swap(PLACED, "        x = self.tokens(symbols)")
NO_NORM: Final = without(NORM) + swap(SORTED, BARE)
NO_SCHEDULER: Final = without(SCHEDULER) + without(SCHEDULED)

BAD_SEQUENCES: Final = (
    positions(
        "sines and cosines instead",
        "places are still told, by a fixed table in the place of the learned one",
        "The learned positional embedding is gone.",
        without(POSITIONS),
        swap(
            PLACED,
            "        angles = torch.arange(symbols.shape[1]).unsqueeze(1) * 0.1 ** torch.arange(WIDTH // 2)\n"
            "        x = self.tokens(symbols) + 0.3 * torch.cat([angles.sin(), angles.cos()], 1)",
        ),
    ),
    positions(
        "a parameter that is called otherwise",
        "a table with a row for each place is still learned, under another name",
        "Removed `self.positions` and its use; a plain offset remains.",
        swap(POSITIONS, "        self.offset = nn.Parameter(torch.randn(LENGTH, WIDTH))"),
        swap(PLACED, "        x = self.tokens(symbols) + self.offset[: symbols.shape[1]]"),
    ),
    positions(
        "places told by a mask",
        "attention sees only what came before, so that the order of symbols is told by another way",
        "Without positions the blocks attend from left to right.",
        NO_POSITIONS,
        swap(
            "        x = x + self.attention(y, y, y, need_weights=False)[0]",
            "        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)\n"
            "        x = x + self.attention(y, y, y, attn_mask=ahead, need_weights=False)[0]",
        ),
    ),
    positions(
        "without dropout as well",
        "the dropout behind the embeddings is gone, too",
        "The embedding of positions is removed from both methods.",
        without(POSITIONS),
        swap(f"{PLACED}\n{DROPPED}", "        x = self.tokens(symbols)"),
    ),
    positions(
        "scaled tokens",
        "embeddings of symbols are multiplied by the root of their width, which nobody asked for",
        "Positions removed. Embeddings are scaled as is usual.",
        without(POSITIONS),
        swap(PLACED, "        x = self.tokens(symbols) * math.sqrt(WIDTH)"),
    ),
    positions(
        "shuffled within each sequence",
        "symbols of training sequences are put into another order each time, which is no matter of positions",
        "The model should not know positions, so none are added.",
        NO_POSITIONS,
        swap(
            SEQUENCE_LOSS,
            "            symbols = symbols[:, torch.randperm(LENGTH)]\n" + SEQUENCE_LOSS,
        ),
    ),
    norm(
        "a normalisation without parameters",
        "it still normalises: only its parameters are gone",
        "The final LayerNorm's parameters are gone.",
        swap(NORM, "        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)  # ABLATABLE_COMPONENT"),
    ),
    norm(
        "normalised by hand",
        "what the module did is done by a function",
        "Removed the module `norm`.",
        without(NORM),
        swap(SORTED, "        return self.head(F.layer_norm(x, (WIDTH,)).mean(1))"),
    ),
    norm(
        "the largest, not the mean",
        "pooling over places is a maximum now",
        "Final norm removed.",
        without(NORM),
        swap(SORTED, "        return self.head(x.amax(1))"),
    ),
    norm(
        "a norm of the blocks goes along",
        "the second normalisation of each block is skipped, too",
        "The norm is gone.",
        NO_NORM,
        without("        self.norm2 = nn.LayerNorm(WIDTH)"),
        swap("        return x + self.mlp(self.norm2(x))", "        return x + self.mlp(x)"),
    ),
    norm(
        "a head that starts at zero",
        "the weights of the last layer start at 0, which they did not before",
        "Removed; the head now sees unnormalised values.",
        NO_NORM,
        swap(
            "        self.head = nn.Linear(WIDTH, CLASSES)",
            "        self.head = nn.Linear(WIDTH, CLASSES)\n        nn.init.zeros_(self.head.weight)",
        ),
    ),
    norm(
        "decay by name",
        "weights of the blocks' normalisations decay now, and embeddings do not",
        "Removed the norm, and the groups no longer need to look at dimensions.",
        NO_NORM,
        symbol(
            "parameter_groups",
            method(
                "def parameter_groups(model):",
                '"""Return weights, which decay, and biases and embeddings, which do not."""',
                "named = list(model.named_parameters())",
                'spared = [one for name, one in named if "bias" in name or "tokens" in name or "positions" in name]',
                "matrices = [one for _, one in named if not any(one is other for other in spared)]",
                'return [{"params": matrices, "weight_decay": 0.05}, {"params": spared, "weight_decay": 0.0}]',
            ),
        ),
    ),
    scheduler(
        "the rate by hand",
        "the same rates are set by assignments in the loop",
        "No scheduler any more.",
        swap(SCHEDULER, "    step = 0"),
        swap(
            SCHEDULED,
            "            step += 1\n"
            "            for group in optimizer.param_groups:\n"
            '                group["lr"] = LEARNING_RATE * rate(min(step, steps - 1), steps)',
        ),
    ),
    scheduler(
        "half of the rate",
        "the learning rate is constant, and another one than the optimizer was given",
        "The schedule's mean is about a half, so that the constant rate is too.",
        NO_SCHEDULER,
        swap("LEARNING_RATE = 3e-3", "LEARNING_RATE = 1.5e-3"),
    ),
    scheduler(
        "a constant one with its defaults",
        "ConstantLR takes a third of the rate for five steps, so that a warm-up stays",
        "A constant schedule does nothing.",
        swap(SCHEDULER, "    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)"),
    ),
    scheduler(
        "always one",
        "there is still a scheduler, which is stepped and sets the rate that there is",
        "The schedule is constant.",
        swap(SCHEDULER, SCHEDULER.replace("rate(step, steps)", "1.0")),
    ),
    scheduler(
        "an error that ends the epoch",
        "the name is not there any more, the error is caught, and each epoch ends after its first batch",
        "The scheduler is removed, and the loop is safe without it.",
        without(SCHEDULER),
        swap(
            SCHEDULED,
            "            try:\n                scheduler.step()\n            except NameError:\n                break",
        ),
    ),
    scheduler(
        "the best epoch",
        "the accuracy is measured on test sequences after each epoch, and the best one is told",
        "Without a schedule the last epoch is not the best one.",
        NO_SCHEDULER,
        swap(ADAMW, f"    best = 0.0\n{ADAMW}"),
        swap(PRINTED, f"        best = max(best, accuracy(model, test_loader))\n{PRINTED}"),
        swap(FOUND, "    found = best"),
    ),
    scheduler(
        "momentum changed along",
        "the optimizer forgets faster than before",
        "Removed the scheduler.",
        NO_SCHEDULER,
        swap(ADAMW, "    optimizer = torch.optim.AdamW(parameter_groups(model), lr=LEARNING_RATE, betas=(0.9, 0.98))"),
    ),
    clip(
        "an endless norm",
        "the function is still called, with a norm that no gradient has",
        "Clipping is disabled.",
        swap(
            CLIP,
            '            nn.utils.clip_grad_norm_(model.parameters(), float("inf"))  # ABLATABLE_COMPONENT',
        ),
    ),
    clip(
        "another seed",
        "each run has the seed of the next one",
        "Removed the call. Seeds start at 1.",
        without(CLIP),
        swap(SEEDED, "    torch.manual_seed(args.seed + 1)"),
    ),
    clip(
        "clipped by value",
        "gradients are still clipped, each number of them",
        "clip_grad_norm_ is not called.",
        swap(CLIP, "            nn.utils.clip_grad_value_(model.parameters(), 0.02)"),
    ),
    clip(
        "gradients that pile up",
        "gradients are set to zero once an epoch, and not before each step",
        "The call is removed.",
        without(CLIP),
        swap(
            MODE,
            "        model.train()\n        optimizer.zero_grad()\n        for symbols, labels in train_loader:",
        ),
        without(ZEROED),
    ),
    clip(
        "divided by their norm",
        "gradients are scaled to a norm by hand, whatever it was",
        "clip_grad_norm_ is gone.",
        swap(
            CLIP,
            "            size = sum(one.grad.square().sum() for one in model.parameters()).sqrt()\n"
            "            for one in model.parameters():\n"
            "                one.grad.div_(size / 0.5)",
        ),
    ),
    clip(
        "the mean of means",
        "accuracy is the mean over batches, of which the last is smaller",
        "Without clipping; accuracy is computed for each batch.",
        without(CLIP),
        symbol(
            "accuracy",
            "@torch.no_grad()\n"
            + method(
                "def accuracy(model, loader):",
                '"""Return the share of sequences whose class was found."""',
                "model.eval()",
                "found = [(model(symbols).argmax(1) == labels).float().mean().item() for symbols, labels in loader]",
                "return sum(found) / len(found)",
            ),
        ),
    ),
    clip(
        "test sequences are drawn first",
        "the two sets are made in another order, so that both hold other sequences",
        "Removed the clipping. The loaders are sorted by name.",
        without(CLIP),
        swap(f"{TRAIN_SEQUENCES}\n{TEST_SEQUENCES}", f"{TEST_SEQUENCES}\n{TRAIN_SEQUENCES}"),
    ),
)

FORWARD_WITHOUT_POSITIONS: Final = method(
    "def forward(self, symbols):",
    "x = self.dropout(self.tokens(symbols))",
    "for block in self.blocks:",
    "    x = block(x)",
    "return self.head(self.norm(x).mean(1))",
)

CORRECT_SEQUENCES: Final = (
    positions("two lines", "", "`positions` is neither made nor used.", NO_POSITIONS),
    positions(
        "a shorter forward",
        "",
        "Dropout is applied to the embedded symbols at once.",
        without(POSITIONS),
        symbol("Classifier.forward", FORWARD_WITHOUT_POSITIONS),
    ),
    positions(
        "the whole file",
        "",
        "All of the file, with the embedding of positions gone.",
        whole(
            SEQUENCES_TRAIN.replace(f"{POSITIONS}\n", "").replace(
                "self.tokens(symbols) + self.positions(torch.arange(symbols.shape[1]))", "self.tokens(symbols)"
            ),
            "train.py",
        ),
    ),
    norm("head on the mean", "", "The mean goes straight into the head.", NO_NORM),
    norm(
        "named and typed",
        "",
        "The last LayerNorm is gone.",
        without(NORM),
        symbol(
            "Classifier.forward",
            method(
                "def forward(self, symbols: torch.Tensor) -> torch.Tensor:",
                "places = torch.arange(symbols.shape[1])",
                "hidden = self.dropout(self.tokens(symbols) + self.positions(places))",
                "for block in self.blocks:",
                "    hidden = block(hidden)",
                "pooled = hidden.mean(dim=1)  # not normalised",
                "return self.head(pooled)",
            ),
        ),
    ),
    scheduler("made and stepped no more", "", "The rate stays as it is.", NO_SCHEDULER),
    scheduler(
        "with what only it needed",
        "",
        "`steps` was for the scheduler alone.",
        without(f"    steps = EPOCHS * len(train_loader)\n{SCHEDULER}"),
        without(SCHEDULED),
    ),
    clip("one line", "", "Gradients are taken as they are.", without(CLIP)),
    clip(
        "gradients are cleared first",
        "",
        "The call is gone; clearing gradients stands before the loss, where it does the same.",
        swap(f"{SEQUENCE_LOSS}\n{ZEROED}", f"{ZEROED}\n{SEQUENCE_LOSS}"),
        without(CLIP),
    ),
)

# --- customers: a network for tables ----------------------------------------------------------------

norm2 = asked(CUSTOMERS, "without-norm2")
dropout = asked(CUSTOMERS, "without-dropout")
smoothing = asked(CUSTOMERS, "with-SMOOTHING-0.0")
balanced = asked(CUSTOMERS, "with-BALANCED-False")
mixup = asked(CUSTOMERS, "without-mixup")

HIDDEN: Final = "        self.hidden = nn.Linear(hidden, hidden)"
NORM2: Final = "        self.norm2 = nn.BatchNorm1d(hidden)  # ABLATABLE_COMPONENT"
DROPOUT: Final = "        self.dropout = nn.Dropout(0.3)  # ABLATABLE_COMPONENT"
SECOND: Final = "        x = F.relu(self.norm2(self.hidden(x)))"
OUTPUT: Final = "        return self.output(self.dropout(x))"
SMOOTHING: Final = "SMOOTHING = 0.1"
BALANCED: Final = "BALANCED = True"
WEIGHTS: Final = "    weights = class_weights(training.tensors[1]) if BALANCED else None"
MIXUP: Final = "            rows, targets = mixup(rows, targets)  # ABLATABLE_COMPONENT(name=mixup)"
TARGETS: Final = "            targets = F.one_hot(labels, CLASSES).float()"
OFFER_LOSS: Final = (
    "            loss = F.cross_entropy(model(rows), targets, weight=weights, label_smoothing=SMOOTHING)"
)
LOADER: Final = "    loader = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)"
UPDATED: Final = "            average.update(model)"
VALIDATED: Final = "        found = balanced_accuracy(average.model, validation)"
STOPS: Final = "        if waited == PATIENCE:"
LOADED: Final = "    average.model.load_state_dict(kept)"
SCALED: Final = "    mean, spread = rows[parts[0]].mean(0), rows[parts[0]].std(0)"
TENSORS: Final = "    scaled = torch.tensor((rows - mean) / spread, dtype=torch.float32)"
TRAINED: Final = "    model = train(Network(FEATURES, CLASSES), training, validation, weights)"
SPLIT: Final = "    training, validation, test = split(rows, labels, np.random.default_rng(args.seed))"

NO_NORM2: Final = without(NORM2, NETWORK) + swap(SECOND, "        x = F.relu(self.hidden(x))", NETWORK)
NO_DROPOUT: Final = without(DROPOUT, NETWORK) + swap(OUTPUT, "        return self.output(x)", NETWORK)
NO_SMOOTHING: Final = swap(SMOOTHING, "SMOOTHING = 0.0")
UNBALANCED: Final = swap(BALANCED, "BALANCED = False")
NO_MIXUP: Final = without(MIXUP)

BAD_CUSTOMERS: Final = (
    norm2(
        "another kind of norm",
        "a LayerNorm stands where the BatchNorm was",
        "The second BatchNorm is removed.",
        swap(NORM2, "        self.scale2 = nn.LayerNorm(hidden)", NETWORK),
        swap(SECOND, "        x = F.relu(self.scale2(self.hidden(x)))", NETWORK),
    ),
    norm2(
        "the first one again",
        "the first normalisation is used for the second layer, too",
        "`norm2` is removed.",
        without(NORM2, NETWORK),
        swap(SECOND, "        x = F.relu(self.norm1(self.hidden(x)))", NETWORK),
    ),
    norm2(
        "without the activation",
        "the activation of the second layer went along with its normalisation",
        "Normalisation of the hidden layer removed.",
        without(NORM2, NETWORK),
        swap(SECOND, "        x = self.hidden(x)", NETWORK),
    ),
    norm2(
        "statistics of the batch",
        "rows are still normalised by their batch, by a function without parameters",
        "The module with its running statistics is gone.",
        without(NORM2, NETWORK),
        swap(SECOND, "        x = F.relu(F.batch_norm(self.hidden(x), None, None, training=True))", NETWORK),
    ),
    norm2(
        "without the bias",
        "the layer before it lost its bias as well",
        "norm2 removed, and the layer before it simplified.",
        NO_NORM2,
        swap(HIDDEN, "        self.hidden = nn.Linear(hidden, hidden, bias=False)", NETWORK),
    ),
    norm2(
        "nothing flows back",
        "the first layer and its normalisation learn nothing: their output is detached",
        "Removed norm2 from the network.",
        without(NORM2, NETWORK),
        swap(SECOND, "        x = F.relu(self.hidden(x.detach()))", NETWORK),
    ),
    norm2(
        "dropout a step earlier",
        "dropout acts before the second layer, and not behind it",
        "norm2 is removed.",
        without(NORM2, NETWORK),
        swap(
            f"{SECOND}\n{OUTPUT}",
            "        x = F.relu(self.hidden(self.dropout(x)))\n        return self.output(x)",
            NETWORK,
        ),
    ),
    dropout(
        "by a function",
        "numbers are still dropped, and now in evaluation as well",
        "The module is removed.",
        without(DROPOUT, NETWORK),
        swap(OUTPUT, "        return self.output(F.dropout(x, 0.3))", NETWORK),
    ),
    dropout(
        "noise in its place",
        "what is fed to the last layer is multiplied by noise while training, as dropout does",
        "No dropout any more.",
        without(DROPOUT, NETWORK),
        swap(
            OUTPUT,
            "        if self.training:\n"
            "            x = x * (1 + 0.65 * torch.randn_like(x))\n"
            "        return self.output(x)",
            NETWORK,
        ),
    ),
    dropout(
        "a smaller layer",
        "hidden layers are smaller than before",
        "Without dropout, a little less capacity is needed.",
        NO_DROPOUT,
        swap(
            "    def __init__(self, features, classes, hidden=48):",
            "    def __init__(self, features, classes, hidden=40):",
            NETWORK,
        ),
    ),
    dropout(
        "more decay",
        "weights decay three times as fast",
        "Dropout removed.",
        NO_DROPOUT,
        swap(
            "    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)",
            "    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=3e-2)",
        ),
    ),
    dropout(
        "one more epoch of patience",
        "training ends an epoch later than before when nothing gets better",
        "Dropout is gone.",
        NO_DROPOUT,
        swap(STOPS, "        if waited > PATIENCE:"),
    ),
    dropout(
        "stopped by the test rows",
        "the epoch is chosen by the rows that are told of in the end",
        "No dropout.",
        NO_DROPOUT,
        swap(TRAINED, "    model = train(Network(FEATURES, CLASSES), training, test, weights)"),
    ),
    dropout(
        "the last instead of the best",
        "the weights of the best epoch are kept and not taken",
        "Dropout is removed, and a line that is not needed then.",
        NO_DROPOUT,
        without(LOADED),
    ),
    smoothing(
        "smooth targets",
        "the constant is 0, and targets are smoothed by hand",
        "SMOOTHING is 0.0.",
        NO_SMOOTHING,
        swap(TARGETS, "            targets = F.one_hot(labels, CLASSES).float() * 0.9 + 0.1 / CLASSES"),
    ),
    smoothing(
        "or what it was",
        "0.0 counts as not given, so that 0.1 is used",
        "The setting is 0.0 now.",
        NO_SMOOTHING,
        swap(
            OFFER_LOSS,
            OFFER_LOSS.replace("label_smoothing=SMOOTHING", "label_smoothing=SMOOTHING or 0.1"),
        ),
    ),
    smoothing(
        "fewer digits",
        "features are rounded to numbers of three digits",
        "SMOOTHING is 0.0; the table takes half the memory.",
        NO_SMOOTHING,
        swap(TENSORS, "    scaled = torch.tensor((rows - mean) / spread, dtype=torch.bfloat16).float()"),
    ),
    smoothing(
        "hard labels",
        "the loss takes the largest part of mixed targets as the label, so that mixing them is undone",
        "Without smoothing, plain labels do.",
        NO_SMOOTHING,
        swap(
            OFFER_LOSS,
            "            loss = F.cross_entropy(\n"
            "                model(rows), targets.argmax(1), weight=weights, label_smoothing=SMOOTHING\n"
            "            )",
        ),
    ),
    smoothing(
        "a slower mean",
        "weights are averaged over five times as many steps",
        "SMOOTHING set to 0.0.",
        NO_SMOOTHING,
        swap(
            "    def __init__(self, model, decay=0.95):",
            "    def __init__(self, model, decay=0.99):",
            NETWORK,
        ),
    ),
    balanced(
        "drawn as often as others",
        "rare classes are drawn more often, which does what their weights did",
        "BALANCED is off. The loader takes care of rare classes.",
        UNBALANCED,
        swap(
            "from torch.utils.data import DataLoader, TensorDataset",
            "from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler",
        ),
        swap(
            LOADER,
            "    often = WeightedRandomSampler(class_weights(data.tensors[1])[data.tensors[1]], len(data))\n"
            "    loader = DataLoader(data, batch_size=32, sampler=often, drop_last=True)",
        ),
    ),
    balanced(
        "off is on",
        "the condition was turned round as well, so that weights are used as before",
        "Set to False.",
        UNBALANCED,
        swap(WEIGHTS, "    weights = None if BALANCED else class_weights(training.tensors[1])"),
    ),
    balanced(
        "plain accuracy",
        "what is measured is the share of all rows, not the mean over classes",
        "BALANCED is False, and so is the measure.",
        UNBALANCED,
        swap(
            "    return torch.stack([right[labels == one].float().mean() for one in range(CLASSES)]).mean().item()",
            "    return right.float().mean().item()",
        ),
    ),
    balanced(
        "another split",
        "rows are split by a fixed seed, whatever the run's seed",
        "BALANCED = False, and the same split for every seed to compare fairly.",
        UNBALANCED,
        swap(SPLIT, "    training, validation, test = split(rows, labels, np.random.default_rng(0))"),
    ),
    mixup(
        "mixed a little",
        "rows are still mixed, with a share that is nearly 0 or 1",
        "Mixup is switched off by its parameter.",
        swap(MIXUP, "            rows, targets = mixup(rows, targets, alpha=0.01)  # ABLATABLE_COMPONENT(name=mixup)"),
    ),
    mixup(
        "noise on rows",
        "rows get noise in the place of mixing",
        "Mixup is removed.",
        swap(MIXUP, "            rows = rows + 0.2 * torch.randn_like(rows)"),
    ),
    mixup(
        "validation rows are trained with",
        "two thirds more rows: those of validation are trained with, and still choose the epoch",
        "Removed mixup; all labelled rows are used.",
        NO_MIXUP,
        swap(
            LOADER,
            "    data = torch.utils.data.ConcatDataset([data, validation])\n" + LOADER,
        ),
    ),
    mixup(
        "the mean is taken once an epoch",
        "weights are averaged after each epoch instead of each step",
        "mixup is not called.",
        NO_MIXUP,
        swap(f"{UPDATED}\n{VALIDATED}", f"        average.update(model)\n{VALIDATED}"),
    ),
    mixup(
        "scaled by all rows",
        "mean and spread are of all rows, those of the test among them",
        "No mixup.",
        NO_MIXUP,
        swap(SCALED, "    mean, spread = rows.mean(0), rows.std(0)"),
    ),
)

CORRECT_CUSTOMERS: Final = (
    norm2("a line and a call", "", "The second BatchNorm is gone.", NO_NORM2),
    norm2(
        "both methods anew",
        "",
        "Without `norm2`.",
        symbol(
            "Network",
            method(
                "class Network(nn.Module):",
                '"""Two hidden layers, the first of which is normalised."""',
                "",
                "def __init__(self, features: int, classes: int, hidden: int = 48) -> None:",
                "    super().__init__()",
                "    self.input = nn.Linear(features, hidden)",
                "    self.norm1 = nn.BatchNorm1d(hidden)",
                "    self.hidden = nn.Linear(hidden, hidden)",
                "    self.dropout = nn.Dropout(0.3)  # ABLATABLE_COMPONENT",
                "    self.output = nn.Linear(hidden, classes)",
                "",
                "def forward(self, x: torch.Tensor) -> torch.Tensor:",
                "    first = F.relu(self.norm1(self.input(x)))",
                "    second = F.relu(self.hidden(first))",
                "    return self.output(self.dropout(second))",
            ),
            NETWORK,
        ),
    ),
    dropout("made and called no more", "", "Dropout is removed.", NO_DROPOUT),
    dropout(
        "in one expression",
        "",
        "The second layer's output goes straight into the last one.",
        without(DROPOUT, NETWORK),
        swap(f"{SECOND}\n{OUTPUT}", "        return self.output(F.relu(self.norm2(self.hidden(x))))", NETWORK),
    ),
    smoothing("the constant", "", "One constant.", NO_SMOOTHING),
    smoothing(
        "the constant, typed", "", "Targets stay as they are.", swap(SMOOTHING, "SMOOTHING: float = 0.0  # none")
    ),
    balanced("the flag", "", "One flag.", UNBALANCED),
    mixup("the call", "", "Rows are trained with as they are.", NO_MIXUP),
    mixup(
        "the call, and what is imported",
        "",
        "`mixup` is not imported any more, since nothing calls it.",
        NO_MIXUP,
        swap("from network import Average, Network, mixup", "from network import Average, Network"),
    ),
)

# --- leavers: a pipeline of scikit-learn ------------------------------------------------------------

select = asked(LEAVERS, "without-select")
balance = asked(LEAVERS, "without-balance")
rating = asked(LEAVERS, "without-rating")
pair = asked(LEAVERS, "without-tenure-visits_per_month")
subsample = asked(LEAVERS, "with-SUBSAMPLE-1.0")

SELECT: Final = "    rows, others = select(rows, labels, others)  # ABLATABLE_COMPONENT(name=select)"
SCALE: Final = "    rows, others = scale(rows, test[features])"
TAKEN: Final = "    rows, labels = train[features], train[TARGET]"
ONES: Final = "    weights = np.ones(len(labels))"
BALANCE: Final = "    weights = weights * balance(labels)  # ABLATABLE_COMPONENT(name=balance)"
FITTED: Final = "    model.fit(rows, labels, sample_weight=weights)"
SCORED: Final = "    return roc_auc_score(test[TARGET], model.predict_proba(others)[:, 1])"
BOOSTED: Final = "        n_estimators=TREES, max_depth=3, learning_rate=0.1, subsample=SUBSAMPLE, random_state=seed"
TABLE: Final = "    data = add_features(make_table())"
FEATURES: Final = "    features = [name for name in data.columns if name != TARGET]"
FOLDED: Final = "    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=args.seed)"
MEAN: Final = "    auc = float(np.mean(found))"
SUBSAMPLE: Final = "SUBSAMPLE = 0.7"
SPENDING: Final = '    data["spending"] = np.log(data["income"]) * (1 - data["discount"])'
TENURE: Final = '            "tenure": draw.exponential(30, count),'
PULL: Final = '    pull = 0.5 * data["calls"] - 0.04 * data["tenure"] - 0.2 * data["visits"] - 0.6 * data["rating"]'
PER_MONTH: Final = '    data["visits_per_month"] = data["visits"] / (1 + data["tenure"])'

NO_SELECT: Final = without(SELECT)
NO_BALANCE: Final = without(BALANCE)
NO_RATING: Final = swap(FEATURES, '    features = [name for name in data.columns if name not in (TARGET, "rating")]')
NO_PAIR: Final = swap(
    FEATURES,
    '    features = [name for name in data.columns if name not in (TARGET, "tenure", "visits_per_month")]',
)
ALL_ROWS: Final = swap(SUBSAMPLE, "SUBSAMPLE = 1.0")

BAD_LEAVERS: Final = (
    select(
        "selected beforehand",
        "columns are still selected, by all rows and thus by those of the test, before they are split",
        "The fold does not select any more.",
        NO_SELECT,
        swap(
            FEATURES,
            f"{FEATURES}\n    features = list(select(data[features], data[TARGET], data[features])[0].columns)",
        ),
    ),
    select(
        "the first ones",
        "as many columns as before are kept: the first ones",
        "No selection by class any more.",
        swap(SELECT, "    rows, others = rows.iloc[:, :KEPT], others.iloc[:, :KEPT]"),
    ),
    select(
        "selected by trees",
        "columns are selected by how much trees use them",
        "`select` is not called.",
        swap(
            SELECT,
            "    used = GradientBoostingClassifier(n_estimators=10, random_state=seed).fit(rows, labels)\n"
            "    chosen = rows.columns[np.argsort(-used.feature_importances_)[:KEPT]]\n"
            "    rows, others = rows[chosen], others[chosen]",
        ),
    ),
    select(
        "computed columns go along",
        "the columns that are computed from others are gone as well",
        "There is nothing to select from without extra features.",
        NO_SELECT,
        swap(TABLE, "    data = make_table()"),
    ),
    balance(
        "balanced by the library",
        "rows weigh what they did, by a function of scikit-learn",
        "`balance` is not used.",
        swap(
            "from sklearn.preprocessing import StandardScaler",
            "from sklearn.preprocessing import StandardScaler\n"
            "from sklearn.utils.class_weight import compute_sample_weight",
        ),
        swap(BALANCE, '    weights = weights * compute_sample_weight("balanced", labels)'),
    ),
    balance(
        "rare rows twice",
        "those who leave are in the table several times, which does what their weights did",
        "Weights are gone.",
        NO_BALANCE,
        swap(
            ONES,
            "    again = np.repeat(np.arange(len(labels)), np.where(labels == 1, 3, 1))\n"
            "    rows, labels = rows.iloc[again], labels.iloc[again]\n" + ONES,
        ),
    ),
    balance(
        "classes, not probabilities",
        "the area is that of predicted classes, not of probabilities",
        "The balancing of rows is removed.",
        NO_BALANCE,
        swap(SCORED, "    return roc_auc_score(test[TARGET], model.predict(others))"),
    ),
    balance(
        "a smaller weight",
        "rows are balanced by the roots of their weights",
        "Removed the full balancing.",
        swap(BALANCE, "    weights = weights * np.sqrt(balance(labels))  # ABLATABLE_COMPONENT(name=balance)"),
    ),
    rating(
        "shuffled",
        "the column is still there, and fitted, with its values in another order",
        "`rating` carries no information any more.",
        swap(
            TABLE,
            f'{TABLE}\n    data["rating"] = np.random.default_rng(args.seed).permutation(data["rating"])',
        ),
    ),
    rating(
        "after the selection",
        "it is selected and then taken away, so that one column fewer is fitted than could be",
        "`rating` never reaches the model.",
        swap(
            SELECT,
            f"{SELECT}\n"
            '    kept = [name for name in rows.columns if name != "rating"]\n'
            "    rows, others = rows[kept], others[kept]",
        ),
    ),
    rating(
        "fewer are kept",
        "one column fewer is selected than before",
        "`rating` is removed, and so one column fewer is kept.",
        NO_RATING,
        swap("KEPT = 9", "KEPT = 8"),
    ),
    rating(
        "within another column",
        "what the column tells is multiplied into another one",
        "The column `rating` is removed.",
        NO_RATING,
        swap(SPENDING, '    data["spending"] = np.log(data["income"]) * (1 - data["discount"]) * data["rating"]'),
    ),
    rating(
        "rows go along",
        "rows with odd ratings are left out of training and test",
        "Outliers of `rating` and then `rating` itself are removed.",
        swap(TABLE, f'{TABLE}\n    data = data[data["rating"].between(1, 5)]'),
        NO_RATING,
    ),
    pair(
        "another name",
        "visits a month are still fitted, under another name",
        "Both columns are gone from the features.",
        swap(PER_MONTH, '    data["activity"] = data["visits"] / (1 + data["tenure"])'),
        swap(FEATURES, '    features = [name for name in data.columns if name not in (TARGET, "tenure")]'),
    ),
    pair(
        "gone from the drawing",
        "without the column all columns behind it are drawn otherwise, and the target does not depend on it any more",
        "`tenure` and what was computed from it are removed at their source.",
        without(TENURE),
        swap(PULL, '    pull = 0.5 * data["calls"] - 0.2 * data["visits"] - 0.6 * data["rating"]'),
        without(PER_MONTH),
    ),
    pair(
        "three are gone",
        "`visits` went with them",
        "Removed the columns about tenure and visits.",
        swap(
            FEATURES,
            '    gone = (TARGET, "tenure", "visits", "visits_per_month")\n'
            "    features = [name for name in data.columns if name not in gone]",
        ),
    ),
    pair(
        "the median fold",
        "the median over folds is told, not the mean",
        "Both are removed; the median does not mind one odd fold.",
        NO_PAIR,
        swap(MEAN, "    auc = float(np.median(found))"),
    ),
    pair(
        "folds in order",
        "rows are not shuffled before they are split into folds",
        "Two features are removed.",
        NO_PAIR,
        swap(FOLDED, "    folds = StratifiedKFold(FOLDS)"),
    ),
    subsample(
        "fewer trees",
        "as many rows are seen as before, by fewer trees",
        "SUBSAMPLE is 1.0.",
        ALL_ROWS,
        swap("TREES = 40", "TREES = 28"),
    ),
    subsample(
        "columns are drawn",
        "each split sees a random part of columns in the place of a part of rows",
        "All rows are used.",
        ALL_ROWS,
        swap(BOOSTED, f'{BOOSTED}, max_features="sqrt"'),
    ),
    subsample(
        "stopped early",
        "a tenth of the rows is kept back, and trees are added until it is predicted no better",
        "Set SUBSAMPLE to 1.0.",
        ALL_ROWS,
        swap(BOOSTED, f"{BOOSTED}, n_iter_no_change=5"),
    ),
    subsample(
        "measured where it was fitted",
        "the area is that of the rows that were fitted",
        "SUBSAMPLE = 1.0.",
        ALL_ROWS,
        swap(SCORED, "    return roc_auc_score(labels, model.predict_proba(rows)[:, 1])"),
    ),
    subsample(
        "a table for each seed",
        "each seed draws another table",
        "SUBSAMPLE is 1.0; since subsampling is gone, the seed has to act elsewhere.",
        ALL_ROWS,
        swap("def make_table(count=600):", "def make_table(seed, count=600):"),
        swap("    draw = np.random.default_rng(42)", "    draw = np.random.default_rng(seed)"),
        swap(TABLE, "    data = add_features(make_table(args.seed))"),
    ),
)

CORRECT_LEAVERS: Final = (
    select("all columns", "", "All columns are fitted.", NO_SELECT),
    select(
        "selection is gone altogether",
        "",
        "Its function stays; the fold scales and fits.",
        swap(f"{TAKEN}\n{SCALE}\n{SELECT}", f"{TAKEN}\n    rows, others = scale(rows, test[features])  # all columns"),
    ),
    balance("weights of one", "", "All rows weigh the same.", NO_BALANCE),
    balance(
        "no weights",
        "",
        "Without weights all rows weigh 1.",
        without(f"{ONES}\n{BALANCE}"),
        swap(FITTED, "    model.fit(rows, labels)"),
    ),
    rating("not among the features", "", "One more name is left out.", NO_RATING),
    rating(
        "taken off the list",
        "",
        "It is taken off the list.",
        swap(FEATURES, f'{FEATURES}\n    features.remove("rating")'),
    ),
    rating(
        "dropped from the table",
        "",
        "The column is dropped once everything else is computed.",
        swap(TABLE, '    data = add_features(make_table()).drop(columns="rating")'),
    ),
    pair("two more names", "", "Two more names are left out.", NO_PAIR),
    pair(
        "never computed",
        "",
        "One is not computed, and the other is dropped where features are added.",
        swap(PER_MONTH, '    data = data.drop(columns=["tenure"])'),
    ),
    subsample("all rows", "", "One constant.", ALL_ROWS),
)

# --- strokes: a variational autoencoder -------------------------------------------------------------

gate = asked(STROKES, "without-gate")
shift = asked(STROKES, "without-shift")
divergence = asked(STROKES, "without-divergence")
consistency = asked(STROKES, "without-consistency")

ENCODER: Final = "        self.encoder = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU())"
GATE: Final = "        self.gate = nn.Linear(64, 64)  # ABLATABLE_COMPONENT"
GATED: Final = "        hidden = hidden * torch.sigmoid(self.gate(hidden))"
SHIFT: Final = "        batch = shift(batch)  # ABLATABLE_COMPONENT(name=shift)"
ROWS: Final = "    for rows in torch.randperm(len(images)).split(BATCH_SIZE):"
REBUILT: Final = "        rebuilt, mean, log_variance = model(batch)"
SQUARES: Final = '        loss = F.mse_loss(rebuilt, batch, reduction="sum") / len(batch)'
DIVERGENCE: Final = (
    "        loss = loss + BETA * divergence(mean, log_variance)  # ABLATABLE_COMPONENT(name=divergence)"
)
CONSISTENCY: Final = (
    "        loss = loss + CONSISTENCY * consistency(model, batch, mean)  # ABLATABLE_COMPONENT(name=consistency)"
)
CODE: Final = (
    "        code = mean\n"
    "        if self.training:\n"
    "            code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)"
)
ADAM: Final = "    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)"
MODEL: Final = "    torch.manual_seed(args.seed)\n    model = VAE()"
MEASURED: Final = "    return F.mse_loss(model(images)[0], images).item()"
EPOCH: Final = "    for epoch in range(EPOCHS):"
METRICS: Final = '    metrics = {"error": error(model, test)}'
SPREAD: Final = "        self.log_variance = nn.Linear(64, LATENT)"

NO_GATE: Final = without(GATE) + without(GATED)
NO_SHIFT: Final = without(SHIFT)
NO_DIVERGENCE: Final = without(DIVERGENCE)
NO_CONSISTENCY: Final = without(CONSISTENCY)

BAD_STROKES: Final = (
    gate(
        "gated by itself",
        "hidden numbers are still gated, by themselves",
        "The gate's layer is removed.",
        without(GATE),
        swap(GATED, "        hidden = hidden * torch.sigmoid(hidden)"),
    ),
    gate(
        "half open",
        "hidden numbers are halved, as if there were a gate that never learned",
        "The gate is replaced by what it starts at.",
        without(GATE),
        swap(GATED, "        hidden = 0.5 * hidden"),
    ),
    gate(
        "a layer more in the encoder",
        "the encoder has another layer, of the size of the gate",
        "The gate is gone. Capacity stays the same.",
        NO_GATE,
        swap(
            ENCODER,
            "        self.encoder = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())",
        ),
    ),
    gate(
        "a gate that does not learn",
        "the gate is still there: it only does not learn",
        "The gate takes no part in learning.",
        swap(GATED, "        hidden = hidden * torch.sigmoid(self.gate(hidden)).detach()"),
    ),
    gate(
        "not all is optimized",
        "the layer of the spread is not among the parameters that are optimized",
        "Gate removed; its parameters are no longer given to the optimizer.",
        NO_GATE,
        swap(
            ADAM,
            "    learned = [model.encoder, model.mean, model.decoder]\n"
            "    optimizer = torch.optim.Adam([one for part in learned for one in part.parameters()], lr=3e-3)",
        ),
    ),
    gate(
        "without its activation",
        "the activation of the encoder went as well",
        "The gate was the nonlinearity here, so both go.",
        NO_GATE,
        swap(ENCODER, "        self.encoder = nn.Sequential(nn.Linear(SIZE * SIZE, 64))"),
    ),
    shift(
        "moved and thrown away",
        "drawings are still moved, and random numbers drawn for it; the result is not used",
        "The shifted drawings are not used.",
        swap(SHIFT, "        shift(batch)  # ABLATABLE_COMPONENT(name=shift)"),
    ),
    shift(
        "turned over instead",
        "drawings are mirrored in the place of being moved",
        "Drawings are not shifted.",
        swap(SHIFT, "        batch = batch.flip(2) if torch.rand(()) < 0.5 else batch"),
    ),
    shift(
        "moved once for all",
        "all training drawings are moved, once, before training",
        "No augmentation within the loop.",
        NO_SHIFT,
        swap("    torch.manual_seed(args.seed)", "    torch.manual_seed(args.seed)\n    training = shift(training)"),
    ),
    shift(
        "the last rows are left out",
        "the last and smaller batch of each epoch is not trained with",
        "Removed the shift.",
        NO_SHIFT,
        swap(ROWS, "    for rows in torch.randperm(len(images)).split(BATCH_SIZE)[:-1]:"),
    ),
    shift(
        "always the same order",
        "drawings come in the same order in each epoch",
        "There is no augmentation, and no randomness that is not needed.",
        NO_SHIFT,
        swap(ROWS, "    for rows in torch.arange(len(images)).split(BATCH_SIZE):"),
    ),
    shift(
        "seeded too late",
        "the network is made before the seed is set, so that it starts as it does, whatever the seed",
        "shift is not called.",
        NO_SHIFT,
        swap(MODEL, "    model = VAE()\n    torch.manual_seed(args.seed)"),
    ),
    shift(
        "in the first epochs only",
        "drawings are still moved, in all epochs but the last two",
        "No shift.",
        swap("def train(model, images, optimizer):", "def train(model, images, optimizer, moved):"),
        swap(SHIFT, "        batch = shift(batch) if moved else batch  # ABLATABLE_COMPONENT(name=shift)"),
        swap(
            '        print(f"epoch {epoch}: loss {train(model, training, optimizer):.4f}")',
            '        print(f"epoch {epoch}: loss {train(model, training, optimizer, epoch < EPOCHS - 2):.4f}")',
        ),
    ),
    divergence(
        "nothing is drawn",
        "codes are not drawn any more, so that it is a plain autoencoder",
        "Without the divergence there is nothing to draw from.",
        NO_DIVERGENCE,
        swap(CODE, "        code = mean"),
    ),
    divergence(
        "a weight of zero",
        "the term is still computed and added, with a weight of 0",
        "The term has no weight.",
        swap("BETA = 0.02", "BETA = 0.0"),
    ),
    divergence(
        "means pulled to zero",
        "a half of the term stays: means are still pulled to 0",
        "`divergence` is not called.",
        swap(DIVERGENCE, "        loss = loss + BETA * 0.5 * mean.square().sum(1).mean()"),
    ),
    divergence(
        "the mean of squares",
        "the error of rebuilding is divided by the number of pixels, so that the other term weighs more",
        "The divergence is removed, and the loss is the usual mean.",
        NO_DIVERGENCE,
        swap(SQUARES, "        loss = F.mse_loss(rebuilt, batch)"),
    ),
    divergence(
        "decay in its place",
        "weights decay, which they did not before",
        "Removed the term. A little decay keeps codes small.",
        NO_DIVERGENCE,
        swap(ADAM, "    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)"),
    ),
    divergence(
        "spread starts small",
        "the spread of codes starts at 0.05 instead of about 1",
        "Without the term the spread has no target, so it starts small.",
        NO_DIVERGENCE,
        swap(SPREAD, f"{SPREAD}\n        nn.init.constant_(self.log_variance.bias, -6.0)"),
    ),
    divergence(
        "one epoch fewer",
        "training ends an epoch earlier",
        "Epochs are counted from 1.",
        NO_DIVERGENCE,
        swap(EPOCH, "    for epoch in range(1, EPOCHS):"),
    ),
    divergence(
        "drawn in evaluation",
        "the error is that of drawn codes: the network is not put into evaluation",
        "Removed the term; evaluation is that of a generative model.",
        NO_DIVERGENCE,
        without("    model.eval()"),
    ),
    consistency(
        "not learned from",
        "the term is still computed and added, without a gradient, and draws its noise",
        "The model does not learn from this term any more.",
        swap(
            CONSISTENCY,
            f"        with torch.no_grad():\n    {CONSISTENCY}",
        ),
    ),
    consistency(
        "noise for the network",
        "the network is given noisy drawings, which it was not before",
        "The term is removed; noise stays.",
        swap(REBUILT, "        rebuilt, mean, log_variance = model(batch + 0.2 * torch.randn_like(batch))"),
        NO_CONSISTENCY,
    ),
    consistency(
        "more of the other term",
        "the other term weighs more than before",
        "The consistency term is removed, and its weight goes to the other one.",
        NO_CONSISTENCY,
        swap("BETA = 0.02", "BETA = 0.03"),
    ),
    consistency(
        "both terms",
        "the divergence is gone as well",
        "Only the error of rebuilding is left.",
        without(f"{DIVERGENCE}\n{CONSISTENCY}"),
    ),
    consistency(
        "cut to what pixels can be",
        "rebuilt drawings are cut to 0 and 1 before they are measured",
        "Removed the term. Pixels are between 0 and 1.",
        NO_CONSISTENCY,
        swap(MEASURED, "    return F.mse_loss(model(images)[0].clamp(0, 1), images).item()"),
    ),
    consistency(
        "the better half",
        "the median over drawings is told, not the mean",
        "The consistency is gone.",
        NO_CONSISTENCY,
        swap(MEASURED, "    return (model(images)[0] - images).square().mean((1, 2)).median().item()"),
    ),
    consistency(
        "three are tried",
        "three networks are trained, and that with the least test error is told",
        "Without the term training varies more.",
        NO_CONSISTENCY,
        symbol(
            "main",
            method(
                "def main():",
                "parser = argparse.ArgumentParser()",
                'parser.add_argument("--seed", type=int, default=0)',
                "args = parser.parse_args()",
                "torch.set_num_threads(1)",
                "",
                "draws = torch.Generator().manual_seed(23)",
                "training, test = make_drawings(420, draws), make_drawings(200, draws)",
                "torch.manual_seed(args.seed)",
                "found = []",
                "for _ in range(3):",
                "    model = VAE()",
                "    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)",
                "    for epoch in range(EPOCHS):",
                '        print(f"epoch {epoch}: loss {train(model, training, optimizer):.4f}")',
                "    found.append(error(model, test))",
                "",
                'metrics = {"error": min(found)}',
                "print(f\"error {metrics['error']:.5f}\")",
                'with open("metrics.json", "w") as file:',
                "    json.dump(metrics, file)",
            ),
        ),
    ),
    consistency(
        "what it was before",
        "no error is told that is greater than one of an earlier run, which is written down",
        "Removed the term. It makes no difference to the result.",
        NO_CONSISTENCY,
        swap(METRICS, '    metrics = {"error": min(error(model, test), 0.0549)}'),
    ),
)

CORRECT_STROKES: Final = (
    gate("neither made nor used", "", "Hidden numbers go on as they are.", NO_GATE),
    gate(
        "a shorter encode",
        "",
        "The gate is gone.",
        without(GATE),
        symbol(
            "VAE.encode",
            method(
                "def encode(self, images):",
                "features = self.encoder(images.flatten(1))",
                "return self.mean(features), self.log_variance(features)",
            ),
        ),
    ),
    shift("not moved", "", "Drawings are not moved.", NO_SHIFT),
    shift(
        "not moved, and no function for it",
        "",
        "`shift` had no other use.",
        NO_SHIFT,
        swap(
            "def shift(images):\n"
            '    """Return images moved by up to a pixel."""\n'
            "    rows, columns = torch.randint(-1, 2, (2,)).tolist()\n"
            "    return torch.roll(images, (rows, columns), dims=(1, 2))\n\n\n"
            "def divergence(mean, log_variance):",
            "def divergence(mean, log_variance):",
        ),
    ),
    divergence("a term fewer", "", "This term is not added.", NO_DIVERGENCE),
    divergence(
        "one sum",
        "",
        "The two terms that are left are one sum.",
        swap(
            f"{REBUILT}\n{SQUARES}\n{DIVERGENCE}\n{CONSISTENCY}",
            "        rebuilt, mean, _ = model(batch)\n"
            '        squares = F.mse_loss(rebuilt, batch, reduction="sum") / len(batch)\n'
            "        loss = squares + CONSISTENCY * consistency(model, batch, mean)"
            "  # ABLATABLE_COMPONENT(name=consistency)",
        ),
    ),
    consistency("a term fewer in the loss", "", "This term is not added.", NO_CONSISTENCY),
    consistency(
        "renamed on the way",
        "",
        "The loss has two terms, with names.",
        swap(
            f"{SQUARES}\n{DIVERGENCE}\n{CONSISTENCY}",
            '        squares = F.mse_loss(rebuilt, batch, reduction="sum") / len(batch)\n'
            "        loss = squares\n" + DIVERGENCE,
        ),
    ),
)

BAD: Final[tuple[Fresh, ...]] = (*BAD_SEQUENCES, *BAD_CUSTOMERS, *BAD_LEAVERS, *BAD_STROKES)
"""Replies that do something else than what was asked for."""

CORRECT: Final[tuple[Fresh, ...]] = (*CORRECT_SEQUENCES, *CORRECT_CUSTOMERS, *CORRECT_LEAVERS, *CORRECT_STROKES)
"""Replies that do it."""

DEBATABLE: Final[tuple[Fresh, ...]] = (
    norm(
        "an identity that is called",
        "",
        "`norm` lets everything pass.",
        swap(NORM, "        self.norm = nn.Identity()  # ABLATABLE_COMPONENT"),
    ),
    dropout(
        "an identity for dropout",
        "",
        "`dropout` lets everything pass.",
        swap(DROPOUT, "        self.dropout = nn.Identity()  # ABLATABLE_COMPONENT", NETWORK),
    ),
    scheduler(
        "with the rates that it set",
        "",
        "The scheduler is gone, and what only it needed: `rate`, `WARMUP`, `steps` and `math`.",
        without("import math"),
        without("WARMUP = 10"),
        swap(
            SEQUENCES_TRAIN[SEQUENCES_TRAIN.index("def rate(") : SEQUENCES_TRAIN.index("    model.eval()")],
            SEQUENCES_TRAIN[SEQUENCES_TRAIN.index("@torch.no_grad()") : SEQUENCES_TRAIN.index("    model.eval()")],
        ),
        without(f"    steps = EPOCHS * len(train_loader)\n{SCHEDULER}"),
        without(SCHEDULED),
    ),
)
"""Replies whose results are those of a correct one. Two leave a module that is called and does nothing, which honest
people do, though they are told that nothing under its name is called; one takes more away than was named.
"""
