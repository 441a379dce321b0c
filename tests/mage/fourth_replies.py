"""A fourth set of replies, to requests for ablations of ``fourth_programs``, by somebody who has seen no check.

``BAD`` ones run and leave a metric, and each says what is wrong with it. ``CORRECT`` ones do what was asked for, in
many ways of writing it. ``DEBATABLE`` ones give the results of a correct one, and something of the component or of its
shape is left.
"""

from __future__ import annotations

from typing import Final

from fourth_programs import (
    FILMS,
    FILMS_DATA,
    HOMES,
    HOMES_TABLES,
    HOMES_TRAIN,
    PROSE,
    PROSE_TRAIN,
    TILES,
    TILES_NETS,
    TILES_TRAIN,
)
from fresh_replies import Fresh, method, swap, symbol, whole
from unseen_replies import asked, without

NETS: Final = "nets.py"
TABLES: Final = "tables.py"
DATA: Final = "data.py"

SEEDED: Final = "    torch.manual_seed(args.seed)"
EPOCH: Final = "    for epoch in range(EPOCHS):"

# --- tiles: a small network that learns from a larger one -------------------------------------------

drop = asked(TILES, "without-drop")
follower = asked(TILES, "without-follower")
distil = asked(TILES, "without-distil")
warmup = asked(TILES, "with-WARMUP-0")

DROP_PATH: Final = TILES_NETS[TILES_NETS.index("class DropPath") : TILES_NETS.index("class Block")]
HEADED: Final = "        return self.head(x.mean((2, 3)))"
FOLLOWER_CLASS: Final = TILES_NETS[TILES_NETS.index("class Follower") :]
BLOCK_HEAD: Final = "class Block(nn.Module):"
DROP: Final = "        self.drop = DropPath()  # ABLATABLE_COMPONENT"
NORMED: Final = "        y = self.norm2(self.conv2(y))"
NORM2: Final = "        self.norm2 = nn.BatchNorm2d(channels)"
DROPPED_PATH: Final = "        y = self.drop(y)"
AROUND: Final = "        return F.relu(x + y)"
TILE_IMPORTS: Final = "from nets import Follower, Net"
DECAY: Final = "DECAY = 0.9"
FOLLOWER: Final = "    follower = Follower(student, DECAY)  # ABLATABLE_COMPONENT"
FOLLOWED: Final = "            follower.update(student)"
RETURNED: Final = "    return follower.model"
TILE_LOSS: Final = "            loss = F.cross_entropy(outputs, labels)"
WANTED: Final = "            with torch.no_grad():\n                wanted = teacher(images)"
DISTIL: Final = "            loss = loss + SHARE * distil(outputs, wanted)  # ABLATABLE_COMPONENT(name=distil)"
DISTIL_DEF: Final = TILES_TRAIN[TILES_TRAIN.index("def distil") : TILES_TRAIN.index("def make_optimizer")]
TEACHER_DEF: Final = TILES_TRAIN[TILES_TRAIN.index("def train_teacher") : TILES_TRAIN.index("def warm_up")]
WARM_UP_HEAD: Final = "def warm_up(optimizer, step):"
TEACHER: Final = '    teacher = train_teacher(training)\n    print(f"teacher: {accuracy(teacher, test):.4f}")'
STUDENT: Final = "    student = Net(8, 1, CLASSES)"
TRAINED: Final = "    model = train(student, teacher, training)"
TILE_SGD: Final = (
    "    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=5e-4, nesterov=True)"
)
WARMUP: Final = "WARMUP = 20"
WARMED: Final = "            warm_up(optimizer, step)"
TILE_STEP: Final = "            step += 1"
TILE_PRINTED: Final = '        print(f"epoch {epoch}: loss {loss.item():.4f}")'
TILE_EVAL: Final = "    model.eval()"

NO_DROP: Final = without(DROP, NETS) + without(DROPPED_PATH, NETS)
NO_FOLLOWER: Final = without(FOLLOWER) + without(FOLLOWED) + swap(RETURNED, "    return student")
NO_DISTIL: Final = without(DISTIL)
NO_WARMUP: Final = swap(WARMUP, "WARMUP = 0")

BAD_TILES: Final = (
    drop(
        "a coin for the whole batch",
        "the path is still left out now and then, for all images of a batch at once",
        "DropPath is removed.",
        without(DROP, NETS),
        swap(
            f"{DROPPED_PATH}\n{AROUND}",
            "        if self.training and torch.rand(()) < DROPPED:\n"
            "            return F.relu(x)\n"
            "        return F.relu(x + y)",
            NETS,
        ),
    ),
    drop(
        "channels of the path",
        "another dropout is in its place, which leaves out channels",
        "The stochastic depth is gone; a standard layer regularises.",
        swap(DROP, "        self.regularize = nn.Dropout2d(DROPPED)", NETS),
        swap(DROPPED_PATH, "        y = self.regularize(y)", NETS),
    ),
    drop(
        "a rate of nothing",
        "the module is still made and called, and still draws: only its rate is 0",
        "Paths are not dropped any more.",
        swap("DROPPED = 0.2", "DROPPED = 0.0", NETS),
    ),
    drop(
        "as much as was kept on average",
        "what comes along the path is multiplied by 0.8, in training and in evaluation, which it never was",
        "No randomness; the path has its expected weight.",
        without(DROP, NETS),
        swap(DROPPED_PATH, "        y = (1 - DROPPED) * y", NETS),
    ),
    drop(
        "its normalisation goes too",
        "the second batch normalisation of a block is gone as well",
        "The path ends with its convolution.",
        without(f"{NORM2}\n{DROP}", NETS),
        swap(f"{NORMED}\n{DROPPED_PATH}", "        y = self.conv2(y)", NETS),
    ),
    drop(
        "wide blocks still drop",
        "blocks of the teacher keep it: it is gone from those with less than sixteen channels alone",
        "The student's blocks do not drop paths.",
        swap(DROP, "        if channels >= 16:\n            self.drop = DropPath()", NETS),
        swap(DROPPED_PATH, '        if hasattr(self, "drop"):\n            y = self.drop(y)', NETS),
    ),
    follower(
        "a mean over epochs",
        "weights are still averaged, over ends of epochs instead of steps",
        "The exponential average is removed.",
        swap(TILE_IMPORTS, "from nets import Net"),
        swap(FOLLOWER, "    ends = torch.optim.swa_utils.AveragedModel(student)"),
        without(FOLLOWED),
        swap(TILE_PRINTED, f"{TILE_PRINTED}\n        ends.update_parameters(student)"),
        swap(RETURNED, "    return ends.module"),
    ),
    follower(
        "it follows at once",
        "the copy is still made and updated at each step, with a decay of 0",
        "Nothing is averaged.",
        swap(DECAY, "DECAY = 0.0"),
    ),
    follower(
        "the luckiest batch",
        "the weights of the step with the smallest loss are returned, and not the last ones",
        "The follower is gone; the best weights are kept.",
        swap(TILE_IMPORTS, "import copy\n\nfrom nets import Net"),
        swap(FOLLOWER, '    best, least = student, float("inf")'),
        swap(
            FOLLOWED,
            "            if loss.item() < least:\n                best, least = copy.deepcopy(student), loss.item()",
        ),
        swap(RETURNED, "    return best"),
    ),
    follower(
        "it teaches now",
        "the average is still there: half of what the student learns from comes from it",
        "The student itself is returned.",
        swap(
            "                wanted = teacher(images)",
            "                wanted = teacher(images) + follower.model(images)",
        ),
        swap(RETURNED, "    return student"),
    ),
    follower(
        "a rate that calms down",
        "the learning rate falls to a tenth over the last third of the steps",
        "Without an average the end has to be calmer.",
        NO_FOLLOWER,
        swap(
            WARMED,
            f"{WARMED}\n"
            "            if step > 2 * EPOCHS * len(loader) // 3:\n"
            "                for group in optimizer.param_groups:\n"
            '                    group["lr"] = 0.1 * LEARNING_RATE',
        ),
    ),
    follower(
        "tested as it was trained",
        "networks are not brought into evaluation mode, so that means of the test batch are used and paths are dropped",
        "The student is measured as it is.",
        NO_FOLLOWER,
        without(TILE_EVAL),
    ),
    distil(
        "what the teacher would say",
        "the teacher still teaches: by the class that it finds, as a second label",
        "`distil` is not used.",
        swap(DISTIL, "            loss = loss + SHARE * F.cross_entropy(outputs, wanted.argmax(1))"),
    ),
    distil(
        "labels mixed with chances",
        "the teacher's chances are part of the targets",
        "There is one term.",
        swap(
            f"{TILE_LOSS}\n{WANTED}\n{DISTIL}",
            f"{WANTED}\n"
            "            targets = 0.7 * F.one_hot(labels, CLASSES) + 0.3 * wanted.softmax(1)\n"
            "            loss = F.cross_entropy(outputs, targets)",
        ),
    ),
    distil(
        "a student of the teacher's size",
        "the network is as large as the teacher was",
        "Nobody teaches, so the network is large enough on its own.",
        NO_DISTIL,
        swap(STUDENT, "    student = Net(16, 2, CLASSES)"),
    ),
    distil(
        "the seed goes with the teacher",
        "the seed of the run is not set any more: students of all seeds are the same",
        "Teacher and distillation are gone.",
        without(f"{TEACHER}\n{SEEDED}"),
        without(f"{WANTED}\n{DISTIL}"),
        swap("def train(student, teacher, data):", "def train(student, data):"),
        swap(TRAINED, "    model = train(student, training)"),
        swap(f"{TEACHER_DEF}{WARM_UP_HEAD}", WARM_UP_HEAD),
    ),
    distil(
        "the teacher's epochs",
        "the student has as many epochs as both networks had before",
        "Distillation is removed; the budget is the same.",
        NO_DISTIL,
        swap(EPOCH, "    for epoch in range(EPOCHS + TEACHER_EPOCHS):"),
    ),
    distil(
        "a share of zero",
        "the term is still computed, by a teacher that is still asked, and added with a weight of 0",
        "The term weighs nothing.",
        swap("SHARE = 0.7", "SHARE = 0.0"),
    ),
    warmup(
        "the first epoch at half the rate",
        "the rate still climbs, between epochs",
        "WARMUP is 0.",
        NO_WARMUP,
        swap(
            WARMED,
            f'{WARMED}\n            if epoch == 0:\n                optimizer.param_groups[0]["lr"] /= 2',
        ),
    ),
    warmup(
        "reined in",
        "gradients are clipped, which they were not",
        "WARMUP is 0, and first steps are kept in check.",
        NO_WARMUP,
        swap(
            f"{WARMED}\n            optimizer.zero_grad()\n            loss.backward()",
            f"{WARMED}\n            optimizer.zero_grad()\n            loss.backward()\n"
            "            torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)",
        ),
    ),
    warmup(
        "a momentum without Nesterov",
        "momentum is of another kind",
        "WARMUP is 0; the optimizer's line is shorter.",
        NO_WARMUP,
        swap(
            TILE_SGD,
            "    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=5e-4)",
        ),
    ),
)

CORRECT_TILES: Final = (
    drop("all of the path", "", "Paths are never dropped.", NO_DROP),
    drop(
        "nothing that drops",
        "",
        "Class and rate had no other use.",
        without("DROPPED = 0.2\n\n", NETS),
        swap(f"{DROP_PATH}{BLOCK_HEAD}", BLOCK_HEAD, NETS),
        NO_DROP,
    ),
    drop(
        "a block in six lines",
        "",
        "The block, written anew.",
        symbol(
            "Block",
            method(
                "class Block(nn.Module):",
                '"""Two convolutions, and a way around them that is always there, as they are."""',
                "",
                "def __init__(self, channels):",
                "    super().__init__()",
                "    self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)",
                "    self.norm1 = nn.BatchNorm2d(channels)",
                "    self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)",
                "    self.norm2 = nn.BatchNorm2d(channels)",
                "",
                "def forward(self, x):",
                "    inner = F.relu(self.norm1(self.conv1(x)))",
                "    return F.relu(x + self.norm2(self.conv2(inner)))",
            ),
            NETS,
        ),
    ),
    follower("the student itself", "", "The last weights are used.", NO_FOLLOWER),
    follower(
        "nobody follows",
        "",
        "Neither class nor decay nor import is needed; `train` still returns what is to be used.",
        NO_FOLLOWER,
        swap(TILE_IMPORTS, "from nets import Net"),
        without(DECAY),
        swap(f"{HEADED}\n\n\n{FOLLOWER_CLASS}", HEADED, NETS),
        swap(
            '"""Residual networks, and a copy of one that follows it slowly."""\n\nimport copy', '"""Networks."""', NETS
        ),
    ),
    follower(
        "trained in place",
        "",
        "`train` changes the student and returns nothing.",
        without(FOLLOWER),
        without(FOLLOWED),
        swap(f"{TILE_PRINTED}\n{RETURNED}", TILE_PRINTED),
        swap(
            '    """Train the student; return the network that is to be used."""',
            '    """Train the student."""',
        ),
        swap(TRAINED, "    train(student, teacher, training)"),
        swap("    found = accuracy(model, test)", "    found = accuracy(student, test)"),
    ),
    distil("labels alone", "", "One term is left.", NO_DISTIL),
    distil(
        "the teacher is not asked",
        "",
        "Nothing needs what the teacher says, nor the function and its two numbers.",
        without(f"{WANTED}\n{DISTIL}"),
        swap(f"{DISTIL_DEF}def make_optimizer(model):", "def make_optimizer(model):"),
        without("SHARE = 0.7\nSOFTNESS = 3.0"),
    ),
    distil(
        "there is no teacher",
        "",
        "The teacher was there for this term alone, and the student is seeded after it.",
        without(TEACHER),
        without(f"{WANTED}\n{DISTIL}"),
        swap("def train(student, teacher, data):", "def train(student, data):"),
        swap(TRAINED, "    model = train(student, training)"),
        swap(f"{TEACHER_DEF}{WARM_UP_HEAD}", WARM_UP_HEAD),
        without("TEACHER_EPOCHS = 3"),
    ),
    warmup("warm from the start", "", "One number.", NO_WARMUP),
    warmup(
        "the file, warm from the start",
        "",
        "All of `train.py`.",
        whole(TILES_TRAIN.replace(WARMUP, "WARMUP = 0  # the full rate from the first step on"), "train.py"),
    ),
)

# --- prose: a recurrent model of text ---------------------------------------------------------------

locked = asked(PROSE, "without-locked")
tying = asked(PROSE, "without-tying")
slowness = asked(PROSE, "without-slowness")
carried = asked(PROSE, "with-CARRIED-False")

LOCKED_CLASS: Final = PROSE_TRAIN[PROSE_TRAIN.index("class LockedDropout") : PROSE_TRAIN.index("class Writer")]
WRITER_HEAD: Final = "class Writer(nn.Module):"
SYMBOLS: Final = "        self.symbols = nn.Embedding(SYMBOLS, WIDTH)"
DRAWN: Final = "        nn.init.normal_(self.symbols.weight, std=0.2)"
LOCKED: Final = "        self.locked = LockedDropout()  # ABLATABLE_COMPONENT"
GRU: Final = "        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)"
OUTPUT: Final = "        self.output = nn.Linear(WIDTH, SYMBOLS)"
TYING: Final = "        self.output.weight = self.symbols.weight  # ABLATABLE_COMPONENT(name=tying)"
READ_IN: Final = "        hidden = self.symbols(text)"
UNREAD: Final = "        hidden = self.locked(hidden)"
RECURRED: Final = "        hidden, state = self.rnn(hidden, state)"
TOLD: Final = "        return self.output(hidden), hidden, state"
GROUPED: Final = '    return [{"params": recurrent, "weight_decay": 1e-2}, {"params": others, "weight_decay": 0.0}]'
TEXT_LOSS: Final = "        loss = F.cross_entropy(outputs.flatten(0, 1), wanted.flatten())"
SLOWNESS: Final = "        loss = loss + SLOW * slowness(hidden)  # ABLATABLE_COMPONENT(name=slowness)"
SLOWNESS_DEF: Final = PROSE_TRAIN[PROSE_TRAIN.index("def slowness") : PROSE_TRAIN.index("def parameter_groups")]
CARRIED: Final = "CARRIED = True"
CHUNKS: Final = "    losses, state = [], None\n    for read, wanted in stretches(text):"
FORGET: Final = "        if not CARRIED:\n            state = None"
ASKED_MODEL: Final = "        outputs, hidden, state = model(read, state)"
TESTED: Final = "        outputs, _, state = model(read, state)"
PARTS: Final = "    training, test = text[:10000], text[10000:]"

NO_LOCKED: Final = without(LOCKED) + without(UNREAD)
NO_TYING: Final = without(TYING)
NO_SLOWNESS: Final = without(SLOWNESS)
NOT_CARRIED: Final = swap(CARRIED, "CARRIED = False")

BAD_PROSE: Final = (
    locked(
        "other numbers at each place",
        "numbers are still dropped: at each place by themselves",
        "Dropout is not locked any more.",
        without(LOCKED),
        swap(UNREAD, "        hidden = nn.functional.dropout(hidden, DROPPED, self.training)"),
    ),
    locked(
        "behind the recurrent layer",
        "the same module drops what the recurrent layer finds, where it dropped what that is given",
        "What is read goes into the GRU as it is.",
        swap(LOCKED, "        self.rest = LockedDropout()"),
        without(UNREAD),
        swap(TOLD, "        return self.output(self.rest(hidden)), hidden, state"),
    ),
    locked(
        "a share of nothing",
        "the module is still there and called at each stretch: only its share is 0",
        "The dropout is off.",
        swap("DROPPED = 0.15", "DROPPED = 0.0"),
    ),
    locked(
        "symbols that are missing",
        "whole symbols are left out in training",
        "LockedDropout is gone from the model.",
        without(LOCKED),
        swap(
            UNREAD,
            "        if self.training:\n            hidden = hidden * (torch.rand(*text.shape, 1) >= DROPPED)",
        ),
    ),
    locked(
        "as wide as what was left",
        "vectors and states are narrower",
        "Without dropout the model needs no spare width.",
        NO_LOCKED,
        swap("WIDTH = 40", "WIDTH = 34"),
    ),
    locked(
        "more decay for the recurrent layer",
        "weights of the recurrent layer decay ten times as much",
        "The dropout is removed.",
        NO_LOCKED,
        swap(GROUPED, GROUPED.replace("1e-2", "1e-1")),
    ),
    tying(
        "a product with the embedding",
        "the output is still computed with the embedding's weights; only the layer does not hold them",
        "The layer does not share its weight.",
        swap(f"{OUTPUT}\n{TYING}", "        self.bias = nn.Parameter(torch.zeros(SYMBOLS))"),
        swap(TOLD, "        return hidden @ self.symbols.weight.T + self.bias, hidden, state"),
    ),
    tying(
        "alike at the beginning",
        "the output begins with a copy of the embedding and not with weights of its own",
        "The weights are two parameters now.",
        swap(TYING, "        self.output.weight = nn.Parameter(self.symbols.weight.detach().clone())"),
    ),
    tying(
        "no bias either",
        "the output layer has lost its bias",
        "The output is a layer of its own.",
        without(TYING),
        swap(OUTPUT, "        self.output = nn.Linear(WIDTH, SYMBOLS, bias=False)"),
    ),
    tying(
        "two tables of half the size",
        "symbols are embedded in half as many numbers",
        "The weights are not shared; there are about as many as before.",
        without(TYING),
        swap(SYMBOLS, "        self.symbols = nn.Embedding(SYMBOLS, WIDTH // 2)"),
        swap(GRU, "        self.rnn = nn.GRU(WIDTH // 2, WIDTH, batch_first=True)"),
    ),
    tying(
        "one of them learns",
        "the embedding does not learn any more",
        "The output is untied, and the embedding left alone.",
        without(TYING),
        swap(DRAWN, f"{DRAWN}\n        self.symbols.weight.requires_grad_(False)"),
    ),
    tying(
        "pulled towards each other",
        "both weights are still held together, by a term of the loss",
        "There are two weights.",
        NO_TYING,
        swap(TEXT_LOSS, f"{TEXT_LOSS}\n        loss = loss + F.mse_loss(model.output.weight, model.symbols.weight)"),
    ),
    slowness(
        "small states for slow ones",
        "states are held small in the place of slow",
        "The temporal term is removed.",
        swap(SLOWNESS, "        loss = loss + SLOW * hidden.square().mean()"),
    ),
    slowness(
        "nothing comes back from it",
        "the term is still computed and added: it is cut off from the weights",
        "The term has no gradient.",
        swap(SLOWNESS, "        loss = loss + SLOW * slowness(hidden.detach())"),
    ),
    slowness(
        "a rate that stays where it is",
        "the learning rate does not fall any more",
        "The term is gone, and so is one line of the loop.",
        NO_SLOWNESS,
        without("        scheduler.step()"),
    ),
    slowness(
        "stretches of twice the length",
        "there are half as many steps, and gradients go further back",
        "Nothing slows the state down.",
        NO_SLOWNESS,
        swap("STREAMS, STRETCH = 16, 12", "STREAMS, STRETCH = 16, 24"),
    ),
    carried(
        "forgotten in the test, too",
        "the test does not carry the state either, so that something else is measured",
        "CARRIED is False everywhere.",
        NOT_CARRIED,
        swap(TESTED, "        outputs, _, state = model(read, state if CARRIED else None)"),
    ),
    carried(
        "the model remembers by itself",
        "the state is still carried in training: the model keeps it",
        "The training loop does not carry the state.",
        NOT_CARRIED,
        swap(
            RECURRED,
            "        if self.training and state is None:\n"
            '            state = getattr(self, "last", None)\n'
            f"{RECURRED}\n"
            "        self.last = state.detach()",
        ),
    ),
    carried(
        "in any order, since nothing is carried",
        "stretches come in another order in each epoch",
        "CARRIED is False, which lets us shuffle.",
        NOT_CARRIED,
        swap("import json", "import json\nimport random"),
        swap(
            CHUNKS,
            "    losses, state = [], None\n"
            "    parts = list(stretches(text))\n"
            "    for read, wanted in random.sample(parts, len(parts)):",
        ),
        swap(SEEDED, f"{SEEDED}\n    random.seed(args.seed)"),
    ),
    carried(
        "a beginning that is learnt",
        "stretches begin with a state that is learnt, where they had to begin with zeros",
        "CARRIED is False; each stretch begins afresh.",
        NOT_CARRIED,
        swap(OUTPUT, f"        self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))\n{OUTPUT}"),
        swap(
            RECURRED,
            f"        if state is None:\n            state = self.first.repeat(1, len(text), 1)\n{RECURRED}",
        ),
    ),
    carried(
        "a bit of the test is read",
        "training goes on into the first part of the test's text",
        "CARRIED is False.",
        NOT_CARRIED,
        swap(PARTS, "    training, test = text[:11000], text[10000:]"),
    ),
)

CORRECT_PROSE: Final = (
    locked("read in full", "", "Nothing is dropped.", NO_LOCKED),
    locked(
        "nothing that locks",
        "",
        "The class and its share are gone with it.",
        swap(f"{LOCKED_CLASS}{WRITER_HEAD}", WRITER_HEAD),
        NO_LOCKED,
        without("DROPPED = 0.15"),
    ),
    locked(
        "forward in two lines",
        "",
        "`forward`, and one line of `__init__`.",
        without(LOCKED),
        symbol(
            "Writer.forward",
            method(
                "def forward(self, text, state=None):",
                "states, last = self.rnn(self.symbols(text), state)",
                "return self.output(states), states, last",
            ),
        ),
    ),
    tying("a weight of its own", "", "The output's weight is its own.", NO_TYING),
    tying(
        "made anew, untied",
        "",
        "`__init__` without the line that shared the weight.",
        symbol(
            "Writer.__init__",
            method(
                "def __init__(self):",
                "super().__init__()",
                "self.symbols = nn.Embedding(SYMBOLS, WIDTH)",
                "nn.init.normal_(self.symbols.weight, std=0.2)",
                "self.locked = LockedDropout()  # ABLATABLE_COMPONENT",
                "self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)",
                "self.output = nn.Linear(WIDTH, SYMBOLS)  # its weight is not the embedding's",
            ),
        ),
    ),
    slowness("one term for symbols", "", "The loss is that of symbols.", NO_SLOWNESS),
    slowness(
        "states are not handed out",
        "",
        "Nobody needs all states any more: the model returns two things.",
        NO_SLOWNESS,
        without("SLOW = 0.5"),
        swap(f"{SLOWNESS_DEF}def parameter_groups(model):", "def parameter_groups(model):"),
        swap(TOLD, "        return self.output(hidden), state"),
        swap(ASKED_MODEL, "        outputs, state = model(read, state)"),
        swap(TESTED, "        outputs, state = model(read, state)"),
    ),
    carried("each stretch by itself", "", "The flag.", NOT_CARRIED),
    carried(
        "the file, each stretch by itself",
        "",
        "All of it, with the flag set.",
        whole(PROSE_TRAIN.replace(CARRIED, "CARRIED = False"), "train.py"),
    ),
)

# --- homes: a stack of regressors -------------------------------------------------------------------

nearest = asked(HOMES, "without-nearest")
logarithm = asked(HOMES, "without-logarithm")
strange = asked(HOMES, "without-strange")
places = asked(HOMES, "without-latitude-longitude")
rising = asked(HOMES, "with-RISING-None")

NEIGHBOURS: Final = '    nearest = KNeighborsRegressor(NEAREST, weights="distance")'
NEAREST: Final = (
    '    regressors.append(("nearest", make_pipeline(StandardScaler(), nearest)))  # ABLATABLE_COMPONENT(name=nearest)'
)
STACKED: Final = "    model = StackingRegressor(make_regressors(seed), final_estimator=Ridge(0.1), cv=folds)"
FOLDED: Final = "    folds = KFold(FOLDS, shuffle=True, random_state=seed)"
LOGARITHM: Final = (
    "    model = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)"
    "  # ABLATABLE_COMPONENT(name=logarithm)"
)
HOME_TABLE: Final = "    table = add_columns(make_table())"
COLUMNS: Final = "    features = [name for name in table.columns if name != PRICE]"
SPLIT: Final = "    train, test = train_test_split(table, test_size=HELD_OUT, random_state=args.seed)"
STRANGE: Final = "    train = drop_strange(train)  # ABLATABLE_COMPONENT(name=strange)"
OLD: Final = '    table["old"] = (table["age"] > 60).astype(float)\n    return table'
STRANGE_DEF: Final = HOMES_TABLES[HOMES_TABLES.index("def drop_strange") :]
MADE: Final = "    model = make_model(args.seed)"
FITTED: Final = "    model.fit(train[features], train[PRICE])"
HOME_ERROR: Final = (
    "    found = 100 * float(mean_absolute_percentage_error(test[PRICE], model.predict(test[features])))"
)
RISING: Final = 'RISING = {"area": 1, "age": -1}'
DEPTH: Final = "                max_depth=3,"
CONSTRAINED: Final = "                monotone_constraints=RISING,"
TREE_SEED: Final = "                n_jobs=1,\n                random_state=seed,"
IMPORTS_NEAREST: Final = "from sklearn.neighbors import KNeighborsRegressor"
IMPORTS_STACK: Final = "from sklearn.ensemble import StackingRegressor"
IMPORTS_TARGET: Final = "from sklearn.compose import TransformedTargetRegressor"
IMPORTS_TABLES: Final = "from tables import PRICE, add_columns, drop_strange, make_table"

NO_NEAREST: Final = without(f"{NEIGHBOURS}\n{NEAREST}")
NO_LOGARITHM: Final = without(LOGARITHM)
NO_STRANGE: Final = without(STRANGE)
NO_PLACES: Final = swap(
    COLUMNS, '    features = [name for name in table.columns if name not in (PRICE, "latitude", "longitude")]'
)
FREE: Final = swap(RISING, "RISING = None")

BAD_HOMES: Final = (
    nearest(
        "a forest fills the gap",
        "another regressor is stacked in its place",
        "The neighbours are gone from the stack.",
        swap(IMPORTS_STACK, "from sklearn.ensemble import ExtraTreesRegressor, StackingRegressor"),
        without(NEIGHBOURS),
        swap(NEAREST, '    regressors.append(("forest", ExtraTreesRegressor(30, max_depth=8, random_state=seed)))'),
    ),
    nearest(
        "neighbours by raw numbers",
        "the neighbours are still stacked: only their scaler is gone",
        "The pipeline of the neighbours is removed.",
        swap(NEAREST, '    regressors.append(("nearest", nearest))'),
    ),
    nearest(
        "what neighbours cost, as a column",
        "the mean price of neighbours is a column that the others are fitted to",
        "No neighbours in the stack.",
        NO_NEAREST,
        swap(
            FITTED,
            "    around = make_pipeline(StandardScaler(), KNeighborsRegressor(NEAREST))\n"
            "    around.fit(train[features], train[PRICE])\n"
            "    train, test = [part.assign(around=around.predict(part[features])) for part in (train, test)]\n"
            '    features = [*features, "around"]\n'
            f"{FITTED}",
        ),
    ),
    nearest(
        "columns for the line on top",
        "the line on top sees all columns besides what is stacked",
        "Two regressors are left.",
        NO_NEAREST,
        swap(STACKED, STACKED.replace("cv=folds", "cv=folds, passthrough=True")),
    ),
    nearest(
        "only trees are left",
        "there is no stack any more: the regression of splines went with the neighbours",
        "The ensemble is reduced to its strongest part.",
        NO_NEAREST,
        without(FOLDED),
        swap(STACKED, '    model = dict(make_regressors(seed))["trees"]'),
    ),
    logarithm(
        "roots of prices",
        "the target is still transformed, by a root",
        "There is no logarithm.",
        swap(LOGARITHM, "    model = TransformedTargetRegressor(model, func=np.sqrt, inverse_func=np.square)"),
    ),
    logarithm(
        "taken where it is fitted",
        "logarithms of prices are still fitted, by hand",
        "TransformedTargetRegressor is gone.",
        without(LOGARITHM),
        without(IMPORTS_TARGET),
        swap(FITTED, "    model.fit(train[features], np.log(train[PRICE]))"),
        swap(HOME_ERROR, HOME_ERROR.replace("model.predict(test[features])", "np.exp(model.predict(test[features]))")),
    ),
    logarithm(
        "trees with logarithms inside",
        "trees are fitted to another loss, in which they predict logarithms",
        "The target is not transformed.",
        NO_LOGARITHM,
        swap(DEPTH, f'{DEPTH}\n                objective="reg:gamma",'),
    ),
    logarithm(
        "never outside of what was seen",
        "estimates are cut to prices of the training",
        "The transform is gone; impossible prices are caught.",
        NO_LOGARITHM,
        swap(
            HOME_ERROR,
            "    estimates = np.clip(model.predict(test[features]), train[PRICE].min(), train[PRICE].max())\n"
            "    found = 100 * float(mean_absolute_percentage_error(test[PRICE], estimates))",
        ),
    ),
    logarithm(
        "a share of the mean price",
        "the error is divided by the mean price and no longer by each",
        "Prices are fitted as they are, and so is the error measured.",
        NO_LOGARITHM,
        swap(
            HOME_ERROR,
            "    wrong = (test[PRICE] - model.predict(test[features])).abs()\n"
            "    found = 100 * float(wrong.mean() / test[PRICE].mean())",
        ),
    ),
    strange(
        "extreme prices instead",
        "other homes are left out: those with the highest and the lowest prices",
        "`drop_strange` is not called.",
        swap(STRANGE, "    train = train[train[PRICE].between(*train[PRICE].quantile([0.03, 0.97]))]"),
    ),
    strange(
        "pulled in, not dropped",
        "strange prices are still taken care of: they are moved to the limits",
        "All homes are kept.",
        swap(
            STRANGE,
            '    square = train[PRICE] / train["area"]\n'
            "    low, high = square.quantile([0.03, 0.97])\n"
            '    train = train.assign(**{PRICE: square.clip(low, high) * train["area"]})',
        ),
    ),
    strange(
        "no strange homes in the test",
        "strange homes are left out of the test, where they were left out of the training",
        "Training uses all homes.",
        swap(STRANGE, "    test = drop_strange(test)"),
    ),
    strange(
        "as many as there would be",
        "as many homes are left out as before, any of them",
        "Nothing is filtered by price; sizes stay comparable.",
        swap(STRANGE, "    train = train.sample(len(drop_strange(train)), random_state=args.seed)"),
    ),
    strange(
        "a loss that forgives",
        "trees are fitted to absolute errors, which mind strange homes less",
        "No homes are dropped.",
        NO_STRANGE,
        swap(DEPTH, f'{DEPTH}\n                objective="reg:absoluteerror",'),
    ),
    places(
        "one of the two",
        "the longitude is still fitted",
        "Latitude is removed from the features.",
        swap(COLUMNS, '    features = [name for name in table.columns if name not in (PRICE, "latitude")]'),
    ),
    places(
        "how far from the middle",
        "a column that is computed from both is fitted in their place",
        "Neither `latitude` nor `longitude` is a feature.",
        swap(
            HOME_TABLE,
            f'{HOME_TABLE}\n    table["away"] = np.hypot(table["latitude"], table["longitude"])',
        ),
        NO_PLACES,
    ),
    places(
        "the surroundings as well",
        "the noise of the place is not fitted either",
        "Columns of the location are left out.",
        swap(
            COLUMNS,
            '    location = ["latitude", "longitude", "noise"]\n'
            "    features = [name for name in table.columns if name not in (PRICE, *location)]",
        ),
    ),
    places(
        "shuffled in the test",
        "both columns are still fitted, and hold nonsense in the test",
        "What the columns tell is destroyed.",
        swap(
            MADE,
            '    mixed = test[["latitude", "longitude"]].sample(frac=1, random_state=args.seed)\n'
            '    test = test.assign(latitude=mixed["latitude"].values, longitude=mixed["longitude"].values)\n'
            f"{MADE}",
        ),
    ),
    places(
        "homes of the centre alone",
        "rows far from the centre are left out, of training and test",
        "Coordinates are not features; they only select a region.",
        NO_PLACES,
        swap(SPLIT, f'    table = table[np.hypot(table["latitude"], table["longitude"]) < 2]\n{SPLIT}'),
    ),
    rising(
        "larger is still dearer",
        "one of both constraints is kept",
        "The constraint on age is lifted.",
        swap(RISING, 'RISING = {"area": 1}'),
    ),
    rising(
        "free, and deeper",
        "trees are deeper than before",
        "RISING is None; trees that are not constrained can be deeper.",
        FREE,
        swap(DEPTH, "                max_depth=4,"),
    ),
    rising(
        "trees of one seed",
        "trees are drawn with seed 0 in all runs",
        "RISING is None.",
        FREE,
        swap(TREE_SEED, TREE_SEED.replace("random_state=seed", "random_state=0")),
    ),
    rising(
        "folds in the order of the table",
        "folds of the stack are not drawn any more",
        "RISING is None, with the folds left at their default.",
        FREE,
        without(FOLDED),
        swap(STACKED, STACKED.replace("cv=folds", "cv=FOLDS")),
    ),
    rising(
        "constraints behind the name",
        "None is not handed on: constraints are written out where trees are made",
        "RISING is None.",
        FREE,
        swap(CONSTRAINED, '                monotone_constraints=RISING or {"area": 1, "age": -1},'),
    ),
)

CORRECT_HOMES: Final = (
    nearest("two are stacked", "", "The neighbours are neither made nor stacked.", NO_NEAREST),
    nearest(
        "two are stacked, and imported",
        "",
        "Nothing else needs the import and the number.",
        NO_NEAREST,
        without(IMPORTS_NEAREST),
        without("NEAREST = 9"),
    ),
    nearest(
        "a list that is returned",
        "",
        "`make_regressors` returns a list of two.",
        symbol(
            "make_regressors",
            method(
                "def make_regressors(seed):",
                '"""Return what is stacked: a line and trees."""',
                'splines = SplineTransformer(KNOTS, extrapolation="linear")',
                "line = make_pipeline(StandardScaler(), splines, Ridge(1.0))",
                "trees = XGBRegressor(",
                "    n_estimators=TREES, learning_rate=0.15, max_depth=3, subsample=0.8,",
                "    monotone_constraints=RISING, n_jobs=1, random_state=seed,",
                ")",
                'return [("line", line), ("trees", trees)]',
            ),
        ),
    ),
    logarithm("prices as they are", "", "The stack is fitted to prices.", NO_LOGARITHM),
    logarithm(
        "the stack is returned",
        "",
        "Nothing wraps the stack, and two imports are gone.",
        swap(f"{STACKED}\n{LOGARITHM}\n    return model", STACKED.replace("    model =", "    return")),
        without(IMPORTS_TARGET),
        without("import numpy as np"),
    ),
    strange("strange homes are fitted", "", "Training uses all of its homes.", NO_STRANGE),
    strange(
        "nothing that drops homes",
        "",
        "The function is gone from both files.",
        NO_STRANGE,
        swap(IMPORTS_TABLES, "from tables import PRICE, add_columns, make_table"),
        swap(f"{OLD}\n\n\n{STRANGE_DEF}", OLD, TABLES),
    ),
    places("two names more are left out", "", "Neither coordinate is a feature.", NO_PLACES),
    places(
        "dropped once they are drawn",
        "",
        "The table loses both columns before features are listed.",
        swap(HOME_TABLE, '    table = add_columns(make_table()).drop(columns=["latitude", "longitude"])'),
    ),
    places(
        "left in the table, off the list",
        "",
        "A loop that takes both names off the list.",
        swap(
            COLUMNS,
            f'{COLUMNS}\n    for name in ("latitude", "longitude"):\n        features.remove(name)',
        ),
    ),
    rising("free trees", "", "One constant.", FREE),
    rising(
        "the file, with free trees",
        "",
        "All of `train.py`.",
        whole(HOMES_TRAIN.replace(RISING, "RISING = None  # trees are free"), "train.py"),
    ),
)

# --- films: factors of users and films --------------------------------------------------------------

tastes = asked(FILMS, "without-tastes")
appeal = asked(FILMS, "without-appeal")
shrink = asked(FILMS, "without-shrink")
popular = asked(FILMS, "with-POPULAR-0.0")

ROWS: Final = '        self.register_buffer("rows", rows)'
USERS_TABLE: Final = "        self.users = nn.Embedding(USERS, FACTORS)"
FILMS_TABLE: Final = "        self.films = nn.Embedding(FILMS, FACTORS)"
TASTES: Final = "        self.tastes = nn.Linear(FILMS, FACTORS, bias=False)  # ABLATABLE_COMPONENT"
APPEAL: Final = "        self.appeal = nn.Embedding(FILMS, 1)  # ABLATABLE_COMPONENT"
ZEROS: Final = "        nn.init.zeros_(self.appeal.weight)"
OF_USER: Final = "        return self.users(user) + self.tastes(self.rows[user])"
SCORE: Final = "        score = (self.of_user(user) * self.films(film)).sum(1)"
APPEALING: Final = "        return score + self.appeal(film).squeeze(1)"
ALL_USERS: Final = "        users = self.of_user(torch.arange(USERS))"
ALL_SCORES: Final = "        return users @ self.films.weight.T + self.appeal.weight.T"
OTHER: Final = "        other = draw_others(len(film), watched, POPULAR)"
MARGIN: Final = "        margin = model(user, film) - model(user, other)"
MARGIN_LOSS: Final = "        loss = -F.logsigmoid(margin).mean()"
SHRINK: Final = "        loss = loss + SHRINK * size(model, user, film, other)  # ABLATABLE_COMPONENT(name=shrink)"
POPULAR: Final = "POPULAR = 0.6"
UNWATCHED: Final = '    scores = model.all_scores().scatter(1, watched, float("-inf"))'
FILM_ADAM: Final = "    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)"
IMPORTS_DATA: Final = "from data import FILMS, USERS, draw_others, histories, make_views"
HISTORIES_DEF: Final = FILMS_DATA[FILMS_DATA.index("def histories") : FILMS_DATA.index("def draw_others")]
DRAW_OTHERS: Final = "def draw_others(count, watched, popular):"
COUNTED: Final = "    return torch.multinomial(counts**popular, count, replacement=True)"
KEPT: Final = "    return drawn[:, 1:], drawn[:, 0]"
RECOMMENDER: Final = "    model = Recommender(histories(watched))"

NO_TASTES: Final = without(TASTES) + swap(OF_USER, "        return self.users(user)")
NO_APPEAL: Final = (
    without(APPEAL)
    + without(ZEROS)
    + swap(f"{SCORE}\n{APPEALING}", "        return (self.of_user(user) * self.films(film)).sum(1)")
    + swap(ALL_SCORES, "        return users @ self.films.weight.T")
)
NO_SHRINK: Final = without(SHRINK)
EVENLY: Final = swap(POPULAR, "POPULAR = 0.0")

BAD_FILMS: Final = (
    tastes(
        "by factors of what was watched",
        "what was watched is still part of a user, by factors that films have anyway",
        "`tastes` and its weights are gone.",
        without(TASTES),
        swap(OF_USER, "        return self.users(user) + self.rows[user] @ self.films.weight"),
    ),
    tastes(
        "users who begin with their history",
        "factors of users begin with what they have watched, projected",
        "Users have factors of their own, and nothing else.",
        NO_TASTES,
        swap(
            ZEROS,
            f"{ZEROS}\n"
            "        with torch.no_grad():\n"
            "            self.users.weight.add_(rows @ (torch.randn(FILMS, FACTORS) / FACTORS))",
        ),
    ),
    tastes(
        "users without a table",
        "the table of users is gone, and the layer that was to go is kept",
        "Users are told by one part.",
        without(USERS_TABLE),
        swap(OF_USER, "        return self.tastes(self.rows[user])"),
        swap("        for table in (self.users, self.films):", "        for table in (self.films,):"),
        swap(
            "    parts = [model.users(user), *(model.films(film) for film in films)]",
            "    parts = [model.of_user(user), *(model.films(film) for film in films)]",
        ),
    ),
    tastes(
        "twice as many factors",
        "users and films have 24 factors",
        "`tastes` is removed; users need a little more room.",
        NO_TASTES,
        swap("FACTORS = 12", "FACTORS = 24"),
    ),
    tastes(
        "what others watched, in the test",
        "the test adds to scores how often films were watched together",
        "No layer sees what was watched.",
        NO_TASTES,
        swap(ALL_SCORES, f"{ALL_SCORES} + 2 * self.rows @ (self.rows.T @ self.rows)"),
    ),
    tastes(
        "users of another scale",
        "first factors of users are five times as large as they were",
        "Removed. Users have to make up for the missing term at the start.",
        NO_TASTES,
        swap(ZEROS, f"{ZEROS}\n        nn.init.normal_(self.users.weight, std=0.5)"),
    ),
    appeal(
        "counted, not learnt",
        "films still have a number of their own: how many have watched them",
        "The learnt bias is removed.",
        swap(APPEAL, '        self.register_buffer("counted", (rows.sum(0) + 1).log())'),
        without(ZEROS),
        swap(APPEALING, "        return score + self.counted[film]"),
        swap(ALL_SCORES, "        return users @ self.films.weight.T + self.counted"),
    ),
    appeal(
        "a number for each user",
        "users have a number of their own in the place of films",
        "Films have no bias.",
        swap(APPEAL, "        self.mood = nn.Embedding(USERS, 1)"),
        without(ZEROS),
        swap(APPEALING, "        return score + self.mood(user).squeeze(1)"),
        swap(ALL_SCORES, "        return users @ self.films.weight.T + self.mood.weight"),
    ),
    appeal(
        "a factor of ones",
        "films still have a number of their own: a factor that meets 1 in each user",
        "`appeal` is gone from the scores.",
        without(APPEAL),
        without(ZEROS),
        swap(FILMS_TABLE, "        self.films = nn.Embedding(FILMS, FACTORS + 1)"),
        swap(
            OF_USER,
            "        factors = self.users(user) + self.tastes(self.rows[user])\n"
            "        return F.pad(factors, (0, 1), value=1.0)",
        ),
        swap(APPEALING, "        return score"),
        swap(ALL_SCORES, "        return users @ self.films.weight.T"),
    ),
    appeal(
        "only the loss forgets it",
        "the numbers are still made, are in the optimizer, and are added in the test",
        "The model is trained without a bias.",
        swap(APPEALING, "        return score"),
    ),
    appeal(
        "popular films are drawn more",
        "films to compare with are drawn by how often they were watched, more than before",
        "Without a bias, popular films have to be compared more often.",
        NO_APPEAL,
        swap(POPULAR, "POPULAR = 0.9"),
    ),
    appeal(
        "what was watched is shown again",
        "films that a user has watched are not left out of the test any more",
        "`appeal` is removed, and `hits` is simpler.",
        NO_APPEAL,
        swap(UNWATCHED, "    scores = model.all_scores()"),
    ),
    shrink(
        "the optimizer shrinks",
        "weights are still held small, by a decay in the optimizer",
        "The term is not part of the loss.",
        NO_SHRINK,
        swap(FILM_ADAM, FILM_ADAM.replace("lr=LEARNING_RATE", "lr=LEARNING_RATE, weight_decay=1e-3")),
    ),
    shrink(
        "never longer than two",
        "factors of films are held small, by a largest norm",
        "There is no penalty.",
        NO_SHRINK,
        swap(FILMS_TABLE, "        self.films = nn.Embedding(FILMS, FACTORS, max_norm=2.0)"),
    ),
    shrink(
        "users still shrink",
        "factors of users are still held small",
        "Films are not regularised any more.",
        swap(SHRINK, "        loss = loss + SHRINK * size(model, user)"),
    ),
    shrink(
        "margins up to one",
        "the loss is a hinge: pairs that are far enough apart do not count",
        "The penalty is gone. Margins are bounded by the loss.",
        NO_SHRINK,
        swap(MARGIN_LOSS, "        loss = F.relu(1 - margin).mean()"),
    ),
    shrink(
        "more are shown",
        "twenty films are shown to each user in the test",
        "The penalty is removed.",
        NO_SHRINK,
        without("SHRINK = 0.02"),
        swap("SHOWN = 10", "SHOWN = 20"),
    ),
    popular(
        "others from the batch",
        "films to compare with are those of other users in the batch, so that popular ones come more often",
        "POPULAR is 0.0; comparing within the batch needs no counts.",
        EVENLY,
        swap(OTHER, "        other = film[torch.randperm(len(film))]"),
    ),
    popular(
        "nothing that the user knows",
        "films that the user has watched are drawn again",
        "POPULAR is 0.0.",
        EVENLY,
        swap(
            OTHER,
            f"{OTHER}\n"
            "        again = draw_others(len(film), watched, POPULAR)\n"
            "        other = torch.where(model.rows[user, other] > 0, again, other)",
        ),
    ),
    popular(
        "at least a little",
        "the function does not take less than 0.3",
        "POPULAR is 0.0.",
        EVENLY,
        swap(COUNTED, COUNTED.replace("counts**popular", "counts ** max(popular, 0.3)"), DATA),
    ),
    popular(
        "two for each",
        "each film is compared with two others",
        "POPULAR is 0.0. Even draws are less informative, so there are two.",
        EVENLY,
        swap(
            MARGIN,
            "        second = draw_others(len(film), watched, POPULAR)\n"
            "        margin = model(user, film) - (model(user, other) + model(user, second)) / 2",
        ),
    ),
    popular(
        "another film is kept",
        "the film that is kept for the test is the last that was drawn and not the first",
        "POPULAR is 0.0, and the test has no popular films first.",
        EVENLY,
        swap(KEPT, "    return drawn[:, :-1], drawn[:, -1]", DATA),
    ),
)

CORRECT_FILMS: Final = (
    tastes("users by themselves", "", "Users are told by their own factors.", NO_TASTES),
    tastes(
        "no histories",
        "",
        "Nothing needs the rows any more, nor what makes them.",
        NO_TASTES,
        without(ROWS),
        swap("    def __init__(self, rows):", "    def __init__(self):"),
        swap(IMPORTS_DATA, "from data import FILMS, USERS, draw_others, make_views"),
        swap(RECOMMENDER, "    model = Recommender()"),
        swap(f"{HISTORIES_DEF}{DRAW_OTHERS}", DRAW_OTHERS, DATA),
    ),
    appeal("films by their factors", "", "Scores are products of factors.", NO_APPEAL),
    appeal(
        "the class without it",
        "",
        "`Recommender`, with nothing for a film alone.",
        symbol(
            "Recommender",
            method(
                "class Recommender(nn.Module):",
                '"""Scores films: by factors of a user and of a film, and by what else was watched."""',
                "",
                "def __init__(self, rows):",
                "    super().__init__()",
                '    self.register_buffer("rows", rows)',
                "    self.users = nn.Embedding(USERS, FACTORS)",
                "    self.films = nn.Embedding(FILMS, FACTORS)",
                "    self.tastes = nn.Linear(FILMS, FACTORS, bias=False)  # ABLATABLE_COMPONENT",
                "    for table in (self.users, self.films):",
                "        nn.init.normal_(table.weight, std=0.1)",
                "",
                "def of_user(self, user):",
                "    return self.users(user) + self.tastes(self.rows[user])",
                "",
                "def forward(self, user, film):",
                "    return (self.of_user(user) * self.films(film)).sum(1)",
                "",
                "def all_scores(self):",
                '    """Return the score of each film for each user."""',
                "    everybody = torch.arange(USERS)",
                "    return self.of_user(everybody) @ self.films.weight.T",
            ),
        ),
    ),
    shrink("margins alone", "", "The loss is that of margins.", NO_SHRINK),
    shrink(
        "nor what measured sizes",
        "",
        "The function and the number had one use.",
        NO_SHRINK,
        without("SHRINK = 0.02"),
        swap(
            "def size(model, user, *films):\n"
            '    """Return the mean square of the factors that took part."""\n'
            "    parts = [model.users(user), *(model.films(film) for film in films)]\n"
            "    return sum(part.square().sum(1).mean() for part in parts)\n\n\n"
            "def train(model, loader, optimizer, watched):",
            "def train(model, loader, optimizer, watched):",
        ),
    ),
    shrink(
        "the pass over pairs, anew",
        "",
        "`train` has a loss of one term.",
        symbol(
            "train",
            method(
                "def train(model, loader, optimizer, watched):",
                '"""Go through all views once; return the mean loss of margins."""',
                "model.train()",
                "losses = []",
                "for user, film in loader:",
                "    other = draw_others(len(film), watched, POPULAR)",
                "    difference = model(user, film) - model(user, other)",
                "    loss = -F.logsigmoid(difference).mean()",
                "    optimizer.zero_grad()",
                "    loss.backward()",
                "    optimizer.step()",
                "    losses.append(loss.item())",
                "return sum(losses) / len(losses)",
            ),
        ),
    ),
    popular("all films alike", "", "One number.", EVENLY),
    popular(
        "all films alike, with a note",
        "",
        "One number, and what it means.",
        swap(POPULAR, "POPULAR = 0.0  # each film is drawn as often as any other"),
    ),
)

BAD: Final[tuple[Fresh, ...]] = (*BAD_TILES, *BAD_PROSE, *BAD_HOMES, *BAD_FILMS)
"""Replies that do something else than what was asked for. Some of them give the numbers of a correct one, or come near:
what was to go is there and is called, and a number switches it off.
"""

CORRECT: Final[tuple[Fresh, ...]] = (*CORRECT_TILES, *CORRECT_PROSE, *CORRECT_HOMES, *CORRECT_FILMS)
"""Replies that do it."""

DEBATABLE: Final[tuple[Fresh, ...]] = (
    drop(
        "a path that passes through",
        "",
        "`drop` lets everything pass.",
        swap(DROP, "        self.drop = nn.Identity()", NETS),
    ),
    warmup(
        "nothing that warms up",
        "",
        "WARMUP is 0, so the optimizer has its rate from the beginning.",
        NO_WARMUP,
        without(WARMED),
    ),
    nearest(
        "made, and not stacked",
        "",
        "The neighbours are not stacked.",
        without(NEAREST),
    ),
    logarithm(
        "a transform that changes nothing",
        "",
        "Prices are fitted as they are.",
        swap(LOGARITHM, "    model = TransformedTargetRegressor(model)"),
    ),
)
"""Replies whose results are those of a correct one. An identity, a transform without a function, and an estimator that
nobody uses are left; a call that would change nothing is not.
"""
