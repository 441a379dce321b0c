"""A third set of replies, to requests for ablations of ``third_programs``, by somebody who knows no check.

``BAD`` ones run and leave a metric, and each says what is wrong with it. ``CORRECT`` ones do what was asked for, in
many ways of writing it. ``DEBATABLE`` ones give the results of a correct one, and something of the component or of its
shape is left.
"""

from __future__ import annotations

from typing import Final

from fresh_replies import Fresh, method, swap, symbol, whole
from third_programs import LOANS, LOANS_TRAIN, RINGS, RINGS_MODEL, WAVES, WAVES_VIEWS, WORDS, WORDS_TRAIN
from unseen_replies import asked, without

MODEL: Final = "model.py"
TORCH: Final = "import torch\nimport torch.nn.functional as F"
VIEWS: Final = "views.py"
COLUMNS: Final = "columns.py"

SEEDED: Final = "    torch.manual_seed(args.seed)"
EPOCH: Final = "    for epoch in range(EPOCHS):"

# --- rings: a convolutional network that cleans images ----------------------------------------------

weigh = asked(RINGS, "without-weigh")
skip = asked(RINGS, "without-skip")
edges = asked(RINGS, "without-edges")
holes = asked(RINGS, "with-HOLES-0")

DOWN2: Final = "        self.down2 = nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1)"
WEIGH: Final = "        self.weigh = Weigher(2 * WIDTH)  # ABLATABLE_COMPONENT"
UP1: Final = "        self.up1 = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, stride=2, padding=1)"
SKIP: Final = "        self.skip = nn.Conv2d(WIDTH, WIDTH, 1)  # ABLATABLE_COMPONENT"
UP2: Final = "        self.up2 = nn.ConvTranspose2d(WIDTH, 1, 4, stride=2, padding=1)"
SECOND: Final = "        second = F.relu(self.down2(first))"
WEIGHED: Final = "        second = self.weigh(second)"
THIRD: Final = "        third = F.relu(self.up1(second) + self.skip(first))"
CLEANED: Final = "        return self.up2(third)"
HOLES: Final = "HOLES = 2"
NOISY: Final = "        noisy = smudge(clean)"
PUNCHED: Final = "        noisy = punch(noisy, HOLES)"
SQUARES: Final = "        loss = F.mse_loss(cleaned, clean)"
EDGES: Final = "        loss = loss + EDGES * edge_error(cleaned, clean)  # ABLATABLE_COMPONENT(name=edges)"
WRONG: Final = "    wrong = F.mse_loss(model(noisy).clamp(0, 1), clean)"
TEST_NOISE: Final = "    noisy = smudge(test, draws)"
RING_LOADER: Final = "    loader = DataLoader(TensorDataset(training), batch_size=BATCH_SIZE, shuffle=True)"
RING_ADAM: Final = "    optimizer = torch.optim.Adam(groups(model), lr=LEARNING_RATE)"
RING_STEP: Final = "        optimizer.step()"

WEIGHER: Final = RINGS_MODEL[RINGS_MODEL.index("class Weigher") : RINGS_MODEL.index("class Cleaner")]
CLEANER_HEAD: Final = "class Cleaner(nn.Module):"

NO_WEIGH: Final = without(WEIGH, MODEL) + without(WEIGHED, MODEL)
NO_SKIP: Final = without(SKIP, MODEL) + swap(THIRD, "        third = F.relu(self.up1(second))", MODEL)
NO_EDGES: Final = without(EDGES)
NO_HOLES: Final = swap(HOLES, "HOLES = 0")

BAD_RINGS: Final = (
    weigh(
        "one weight for all images",
        "channels are still weighed, by numbers that are learnt and the same for each image",
        "The module that computed weights is gone.",
        swap(WEIGH, "        self.scale = nn.Parameter(torch.ones(1, 2 * WIDTH, 1, 1))", MODEL),
        swap(WEIGHED, "        second = second * self.scale", MODEL),
    ),
    weigh(
        "weighed by their own means",
        "channels are still weighed by what the image looks like: only the two layers between are gone",
        "Weigher and its parameters are removed.",
        without(WEIGH, MODEL),
        swap(WEIGHED, "        second = second * torch.sigmoid(second.mean((2, 3), keepdim=True))", MODEL),
    ),
    weigh(
        "gone where it is measured",
        "channels are still weighed in training: only evaluation goes without",
        "The weighing is bypassed at inference.",
        swap(WEIGHED, "        if self.training:\n            second = self.weigh(second)", MODEL),
    ),
    weigh(
        "a larger window",
        "the convolution before it sees 5 by 5 pixels now",
        "The weighing is removed; the layer before it has to see more of the image on its own.",
        NO_WEIGH,
        swap(DOWN2, "        self.down2 = nn.Conv2d(WIDTH, 2 * WIDTH, 5, stride=2, padding=2)", MODEL),
    ),
    weigh(
        "the way up learns slowly",
        "the slower learning rate goes to the layers of the way up",
        "Weigher removed. The groups are sorted by name anew.",
        NO_WEIGH,
        symbol(
            "groups",
            method(
                "def groups(model):",
                '"""Return parameters in two groups, one of which learns at half the rate."""',
                "named = list(model.named_parameters())",
                'up = [one for name, one in named if name.startswith("up")]',
                'others = [one for name, one in named if not name.startswith("up")]',
                'return [{"params": up, "lr": LEARNING_RATE / 2}, {"params": others}]',
            ),
        ),
    ),
    weigh(
        "signs stay",
        "the activation of the second layer went with the weights",
        "`weigh` is gone from both methods.",
        without(WEIGH, MODEL),
        swap(f"{SECOND}\n{WEIGHED}", "        second = self.down2(first)", MODEL),
    ),
    weigh(
        "weighed on the way up",
        "the module has moved: it weighs the channels of the layer behind",
        "The bottleneck is not weighed any more.",
        swap(WEIGH, "        self.calibrate = Weigher(WIDTH)", MODEL),
        without(WEIGHED, MODEL),
        swap(THIRD, "        third = self.calibrate(F.relu(self.up1(second) + self.skip(first)))", MODEL),
    ),
    skip(
        "details as they are",
        "the way around the narrowest part is still there, without its convolution",
        "`skip` is removed, with its parameters.",
        without(SKIP, MODEL),
        swap(THIRD, "        third = F.relu(self.up1(second) + first)", MODEL),
    ),
    skip(
        "nothing flows back through it",
        "details still go around: only what is learnt from them does not reach the first layer",
        "The encoder is not trained by way of the skip any more.",
        swap(THIRD, "        third = F.relu(self.up1(second) + self.skip(first.detach()))", MODEL),
    ),
    skip(
        "the input, made smaller",
        "the decoder gets details by another way: a smaller copy of the input is added",
        "Removed the convolution of the skip.",
        without(SKIP, MODEL),
        swap(THIRD, "        third = F.relu(self.up1(second) + F.avg_pool2d(x, 2))", MODEL),
    ),
    skip(
        "added to the input",
        "the network's output is added to its input, which is a longer way around than the one that goes",
        "The inner skip is gone. The network predicts a residual, as usual.",
        NO_SKIP,
        swap(CLEANED, "        return x + self.up2(third)", MODEL),
    ),
    skip(
        "weights of zero, and its bias",
        "the convolution is still made and called, and adds its bias to each channel",
        "The skip is silenced, and is not learnt.",
        swap(
            SKIP,
            f"{SKIP}\n        nn.init.zeros_(self.skip.weight)\n        self.skip.requires_grad_(False)",
            MODEL,
        ),
    ),
    skip(
        "a louder beginning",
        "first weights of the layer that stays are larger than before",
        "Without the second term the sum is smaller, which the first weights make up for.",
        NO_SKIP,
        swap(
            UP2,
            f"{UP2}\n        with torch.no_grad():\n            self.up1.weight.mul_(2**0.5)",
            MODEL,
        ),
    ),
    skip(
        "switched by an environment",
        "the skip stays unless a variable is set, which nobody sets",
        "The skip can be switched off, and is.",
        swap(TORCH, f"import os\n\n{TORCH}", MODEL),
        swap(
            THIRD,
            "        third = self.up1(second)\n"
            '        if os.environ.get("WITHOUT", "") != "skip":\n'
            "            third = third + self.skip(first)\n"
            "        third = F.relu(third)",
            MODEL,
        ),
    ),
    edges(
        "edges by squares",
        "edges are still compared, by squares of their differences",
        "`edge_error` is not part of the loss.",
        swap("from model import Cleaner, edge_error", "from model import Cleaner, slopes"),
        swap(
            EDGES,
            "        for mine, yours in zip(slopes(cleaned), slopes(clean)):\n"
            "            loss = loss + EDGES * F.mse_loss(mine, yours)",
        ),
    ),
    edges(
        "its weight goes to the other term",
        "the error of pixels is multiplied by 1.3, so that steps and gradients are others",
        "Only the error of pixels is left, with the weight of both.",
        without(EDGES),
        swap(SQUARES, "        loss = (1 + EDGES) * F.mse_loss(cleaned, clean)"),
    ),
    edges(
        "pixels at edges count more",
        "errors at edges still weigh more: by weights of pixels",
        "The term is removed from the sum.",
        without(EDGES),
        swap(
            SQUARES,
            "        bend = clean - F.avg_pool2d(clean, 3, stride=1, padding=1)\n"
            "        loss = ((cleaned - clean).square() * (1 + bend.abs())).mean()",
        ),
    ),
    edges(
        "absolute errors",
        "the term that stays is of absolute errors and no longer of squares",
        "The edge term is gone.",
        without(EDGES),
        swap(SQUARES, "        loss = F.l1_loss(cleaned, clean)"),
    ),
    edges(
        "noise of the test by the seed",
        "the noise of the test images is drawn after the seed was set, and so is another one in each run",
        "The edge term is gone; drawing noise is kept next to the model.",
        NO_EDGES,
        swap(f"{TEST_NOISE}\n{SEEDED}", f"{SEEDED}\n    noisy = smudge(test)"),
    ),
    edges(
        "as it comes out",
        "cleaned images are not cut to 0 and 1 before they are measured",
        "The term is removed, and a line is simplified.",
        NO_EDGES,
        swap(WRONG, "    wrong = F.mse_loss(model(noisy), clean)"),
    ),
    edges(
        "the first batches only",
        "training goes through a half of the batches in each epoch",
        "Edge term removed.",
        NO_EDGES,
        swap("    for (clean,) in loader:", "    for (clean,) in list(loader)[: len(loader) // 2]:"),
    ),
    holes(
        "another constant is passed",
        "the constant is 0, and two holes are punched all the same",
        "HOLES is 0.",
        NO_HOLES,
        swap(PUNCHED, "        noisy = punch(noisy, holes=2)"),
    ),
    holes(
        "more noise for fewer holes",
        "the noise is stronger than before, in training and in the test",
        "No holes. The task stays as hard by a little more noise.",
        NO_HOLES,
        swap("NOISE = 0.3", "NOISE = 0.35"),
    ),
    holes(
        "single pixels instead",
        "pixels are blanked one by one, by dropout, where squares were before",
        "No squares are cut out.",
        NO_HOLES,
        swap(PUNCHED, f"{PUNCHED}\n        noisy = F.dropout(noisy, 0.1)"),
    ),
    holes(
        "noise that is kept",
        "noise is drawn once, and each epoch sees the same noisy images",
        "HOLES is 0, so that noisy images can be kept between epochs.",
        NO_HOLES,
        swap("    for (clean,) in loader:", "    for clean, noisy in loader:"),
        without(NOISY),
        swap(RING_LOADER, RING_LOADER.replace("TensorDataset(training)", "TensorDataset(training, smudge(training))")),
    ),
    holes(
        "the mean of the last two",
        "the ratio of the last two epochs is averaged",
        "Set HOLES to 0.",
        NO_HOLES,
        swap(EPOCH, f"    tail = []\n{EPOCH}"),
        swap(
            '        print(f"epoch {epoch}: loss {train(model, loader, optimizer):.4f}")',
            '        print(f"epoch {epoch}: loss {train(model, loader, optimizer):.4f}")\n'
            "        tail.append(ratio(model, test, noisy))",
        ),
        swap("    found = ratio(model, test, noisy)", "    found = sum(tail[-2:]) / 2"),
    ),
)

CORRECT_RINGS: Final = (
    weigh("not weighed", "", "`weigh` is neither made nor called.", NO_WEIGH),
    weigh(
        "nor is its class there",
        "",
        "`Weigher` had one use, so the class is gone with it.",
        swap(f"{WEIGHER}{CLEANER_HEAD}", CLEANER_HEAD, MODEL),
        NO_WEIGH,
    ),
    weigh(
        "the network's file",
        "",
        "All of `model.py`.",
        whole(RINGS_MODEL.replace(WEIGHER, "").replace(f"{WEIGH}\n", "").replace(f"{WEIGHED}\n", ""), MODEL),
    ),
    skip("one way up", "", "The decoder gets nothing but what went through the bottleneck.", NO_SKIP),
    skip(
        "forward in five lines",
        "",
        "Without the skip nothing but `down2` needs what the first layer found.",
        without(SKIP, MODEL),
        symbol(
            "Cleaner.forward",
            method(
                "def forward(self, x: torch.Tensor) -> torch.Tensor:",
                '"""Return cleaned images."""',
                "x = F.relu(self.down1(x))",
                "x = self.weigh(F.relu(self.down2(x)))",
                "x = F.relu(self.up1(x))  # nothing goes around the bottleneck",
                "return self.up2(x)",
            ),
            MODEL,
        ),
    ),
    skip(
        "in place",
        "",
        "The skip's layer and its term are removed.",
        without(SKIP, MODEL),
        swap(f"{THIRD}\n{CLEANED}", "        return self.up2(self.up1(second).relu())", MODEL),
    ),
    edges("pixels alone", "", "The loss is the error of pixels.", NO_EDGES),
    edges(
        "what it needed goes too",
        "",
        "Neither the constant nor the import has another use.",
        NO_EDGES,
        without("EDGES = 0.3"),
        swap("from model import Cleaner, edge_error", "from model import Cleaner"),
    ),
    edges(
        "a note where it was",
        "",
        "A comment says what was here.",
        swap(EDGES, "        # no term for edges: the loss is the error of pixels alone"),
    ),
    holes("no hole", "", "One number.", NO_HOLES),
)

# --- words: a recurrent encoder and decoder ---------------------------------------------------------

attention = asked(WORDS, "without-attention")
teach = asked(WORDS, "without-teach")
blank = asked(WORDS, "without-blank")
order = asked(WORDS, "with-REVERSED-False")

ATTENTION: Final = "        self.attention = Attention()  # ABLATABLE_COMPONENT"
OUTPUT: Final = "        self.output = nn.Linear(2 * WIDTH, LETTERS)"
NARROW: Final = "        self.output = nn.Linear(WIDTH, LETTERS)"
LAST: Final = "        state = last[0]"
READ: Final = "        memory, last = self.reader(self.letters(source))"
STATE: Final = "            state = self.writer(self.letters(letter), state)"
CONTEXT: Final = "            context = self.attention(state, memory)"
WRITTEN: Final = "            written.append(self.output(torch.cat([state, context], dim=1)))"
FROM_STATE: Final = "            written.append(self.output(state))"
LETTER: Final = "            letter = written[-1].argmax(1)"
TEACHING: Final = "            if self.training:"
TEACH: Final = "                letter = teach(letter, target[:, place])  # ABLATABLE_COMPONENT(name=teach)"
ARRANGED: Final = "        source = arrange(words)"
BLANK: Final = "        source = blank(source)  # ABLATABLE_COMPONENT(name=blank)"
MODELLED: Final = "        written = model(source, target)"
LETTER_LOSS: Final = "        loss = F.cross_entropy(written.flatten(0, 1), target.flatten())"
CLIPPED: Final = "        nn.utils.clip_grad_norm_(model.parameters(), LARGEST)"
REVERSED: Final = "REVERSED = True"
ARRANGE: Final = "    return words.flip(1) if REVERSED else words"
RIGHT: Final = "    return (model(arrange(words), target).argmax(2) == target).float().mean().item()"
WORD_LOADER: Final = "    loader = DataLoader(training, batch_size=BATCH_SIZE, shuffle=True)"
WORD_EPOCH: Final = '        print(f"epoch {epoch}: loss {train(model, loader, optimizer):.4f}")'
WORD_DATA: Final = "    training, test = make_words(700, draws), make_words(300, draws)"

ATTENTION_CLASS: Final = WORDS_TRAIN[WORDS_TRAIN.index("class Attention") : WORDS_TRAIN.index("class Translator")]
TRANSLATOR_HEAD: Final = "class Translator(nn.Module):"

NO_ATTENTION: Final = without(ATTENTION) + swap(OUTPUT, NARROW) + swap(f"{CONTEXT}\n{WRITTEN}", FROM_STATE)
NO_TEACH: Final = without(f"{TEACHING}\n{TEACH}")
NO_BLANK: Final = without(BLANK)
AS_THEY_ARE: Final = swap(REVERSED, "REVERSED = False")

BAD_WORDS: Final = (
    attention(
        "all places alike",
        "what was read is still looked up, each place with the same weight",
        "Nothing is attended to any more.",
        without(ATTENTION),
        swap(CONTEXT, "            context = memory.mean(1)"),
    ),
    attention(
        "the last place",
        "the last thing that was read is shown to the output at each letter, which never was so",
        "Removed `attention`. The context is what the reader ends with.",
        without(ATTENTION),
        swap(CONTEXT, "            context = memory[:, -1]"),
    ),
    attention(
        "a layer that fills the gap",
        "a layer that nobody asked for makes up the half of the input that is missing",
        "The shape of the output layer is kept.",
        swap(ATTENTION, "        self.widen = nn.Linear(WIDTH, WIDTH)"),
        swap(CONTEXT, "            context = torch.tanh(self.widen(state))"),
    ),
    attention(
        "the state twice",
        "the output layer keeps twice the weights, and is shown the state two times",
        "`attention` is gone, and the sizes fit.",
        without(ATTENTION),
        without(CONTEXT),
        swap(WRITTEN, "            written.append(self.output(torch.cat([state, state], dim=1)))"),
    ),
    attention(
        "a look at the same place",
        "the writer is shown what was read at the place that it writes, which is a fixed kind of attention",
        "The attention is removed, and the output layer is smaller.",
        NO_ATTENTION,
        swap(STATE, "            state = self.writer(self.letters(letter) + memory[:, place], state)"),
    ),
    attention(
        "nothing is handed over",
        "the writer begins with zeros, so that nothing of the word that was read comes through",
        "The decoder does not see what the encoder found any more.",
        NO_ATTENTION,
        swap(LAST, "        state = torch.zeros_like(last[0])"),
    ),
    attention(
        "a deeper output",
        "letters are told by two layers where there was one",
        "Attention is gone; the output has the capacity that it lost.",
        without(ATTENTION),
        swap(
            OUTPUT,
            "        self.output = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, LETTERS))",
        ),
        swap(f"{CONTEXT}\n{WRITTEN}", FROM_STATE),
    ),
    attention(
        "read in both directions",
        "the reader goes over the word in the other direction, too",
        "Attention removed. The state has to hold the word, so it is read both ways.",
        without(ATTENTION),
        swap(OUTPUT, f"        self.backwards = nn.GRU(WIDTH, WIDTH, batch_first=True)\n{NARROW}"),
        swap(LAST, "        state = last[0] + self.backwards(self.letters(source.flip(1)))[1][0]"),
        swap(f"{CONTEXT}\n{WRITTEN}", FROM_STATE),
    ),
    teach(
        "always taught",
        "every letter is put right in training, so that there is more of the component and not less",
        "`teach` is gone, and its draws with it.",
        swap(TEACH, "                letter = target[:, place]"),
    ),
    teach(
        "told in the test",
        "the right letters are shown in evaluation as well, so that what is measured knows the answers",
        "No random teaching: the same letters are used in training and in evaluation.",
        without(f"{LETTER}\n{TEACHING}"),
        swap(TEACH, "            letter = target[:, place]"),
    ),
    teach(
        "mixtures of letters",
        "in training the next letter is a mixture of all letters, weighed by how likely each is",
        "`teach` is not called. Training stays smooth.",
        without(f"{TEACHING}\n{TEACH}"),
        swap(
            STATE,
            "            seen = self.letters(letter)\n"
            "            if self.training and written:\n"
            "                seen = written[-1].softmax(1) @ self.letters.weight[:LETTERS]\n"
            "            state = self.writer(seen, state)",
        ),
    ),
    teach(
        "the writer does not see what it wrote",
        "written letters are not fed back at all, neither in training nor in evaluation",
        "The writer's input is the start sign.",
        without(f"{LETTER}\n{TEACHING}\n{TEACH}"),
    ),
    teach(
        "the first letter only",
        "the first letter is still put right",
        "Teaching ends once the writer has begun.",
        swap(TEACHING, "            if self.training and place == 0:"),
    ),
    teach(
        "looser gradients",
        "gradients may be five times as large before they are clipped",
        "Without teaching gradients are larger, so the limit is.",
        NO_TEACH,
        swap("LARGEST = 0.3", "LARGEST = 1.5"),
    ),
    teach(
        "words with many errors count less",
        "losses of words are weighed by how well they are written already",
        "`teach` is removed.",
        NO_TEACH,
        swap(
            LETTER_LOSS,
            '        losses_of = F.cross_entropy(written.transpose(1, 2), target, reduction="none").mean(1)\n'
            "        weights = torch.softmax(-losses_of.detach(), 0)\n"
            "        loss = (weights * losses_of).sum()",
        ),
    ),
    teach(
        "later letters count less",
        "losses of letters are discounted by their place",
        "No teaching. Errors pile up along the word, which the loss allows for.",
        NO_TEACH,
        swap(
            LETTER_LOSS,
            '        loss = F.cross_entropy(written.transpose(1, 2), target, reduction="none")\n'
            "        loss = (loss * 0.9 ** torch.arange(LENGTH)).mean()",
        ),
    ),
    blank(
        "numbers instead of letters",
        "embeddings of what is read are dropped in training, number by number",
        "Letters are all readable.",
        NO_BLANK,
        swap(READ, "        memory, last = self.reader(F.dropout(self.letters(source), BLANKED, self.training))"),
    ),
    blank(
        "misread letters",
        "some letters are read as others, where they could not be read before",
        "`blank` is not called.",
        swap(
            BLANK,
            "        misread = torch.rand(source.shape) < BLANKED\n"
            "        source = torch.where(misread, torch.randint(LETTERS, source.shape), source)",
        ),
    ),
    blank(
        "unreadable in the test",
        "letters of the test words are blanked now, and those of the training are not",
        "Training words are read as they are.",
        NO_BLANK,
        swap(RIGHT, RIGHT.replace("arrange(words)", "blank(arrange(words))")),
    ),
    blank(
        "softer targets",
        "targets are smoothed, which they were not",
        "Blanking is removed; the loss regularises a little.",
        NO_BLANK,
        swap(LETTER_LOSS, LETTER_LOSS.replace("target.flatten())", "target.flatten(), label_smoothing=0.05)")),
    ),
    blank(
        "an order of its own",
        "words come in the same order whatever the seed is",
        "No blanks. The loader has its own generator.",
        NO_BLANK,
        swap(
            WORD_LOADER,
            "    order = torch.Generator().manual_seed(0)\n"
            "    loader = DataLoader(training, batch_size=BATCH_SIZE, shuffle=True, generator=order)",
        ),
    ),
    blank(
        "words that are both",
        "a part of the test words is trained with: they are split off words that overlap",
        "Blanking removed; data is drawn once.",
        NO_BLANK,
        swap(
            WORD_DATA,
            "    words = make_words(1000, draws)\n"
            "    training, test = TensorDataset(*words[:800]), TensorDataset(*words[700:])",
        ),
    ),
    order(
        "only while training",
        "words are read as they are in training, and still backwards in the test",
        "REVERSED is False.",
        AS_THEY_ARE,
        swap(RIGHT, RIGHT.replace("arrange(words)", "words.flip(1)")),
    ),
    order(
        "an argument that wins",
        "the constant is False, and an argument that nobody gives sets it to True again",
        "REVERSED is False, and `--in-order` says so on the command line.",
        AS_THEY_ARE,
        swap(
            '    parser.add_argument("--seed", type=int, default=0)\n    args = parser.parse_args()',
            '    parser.add_argument("--seed", type=int, default=0)\n'
            '    parser.add_argument("--in-order", action="store_true")\n'
            "    args = parser.parse_args()\n"
            "    global REVERSED\n"
            "    REVERSED = not args.in_order",
        ),
    ),
    order(
        "another task",
        "words are written in the order in which they are read, so that nothing but the alphabet has to be learnt",
        "Nothing is reversed any more.",
        AS_THEY_ARE,
        swap(
            "    return TensorDataset(words, (words.flip(1) + 3) % LETTERS)",
            "    return TensorDataset(words, (words + 3) % LETTERS)",
        ),
    ),
    order(
        "what was read is turned round",
        "the constant is False, and the reader turns words round itself",
        "REVERSED is False.",
        AS_THEY_ARE,
        swap(READ, "        memory, last = self.reader(self.letters(source.flip(1)))"),
    ),
    order(
        "the best of all epochs",
        "the test is made after each epoch, and its best result is told",
        "REVERSED is False; the best epoch is reported.",
        AS_THEY_ARE,
        swap(EPOCH, f"    found = 0.0\n{EPOCH}"),
        swap(WORD_EPOCH, f"{WORD_EPOCH}\n        found = max(found, accuracy(model, test))"),
        without("    found = accuracy(model, test)"),
    ),
    order(
        "whole words",
        "the share of whole words is told, and not that of letters",
        "REVERSED is False.",
        AS_THEY_ARE,
        swap(
            RIGHT,
            "    return (model(arrange(words), target).argmax(2) == target).all(1).float().mean().item()",
        ),
    ),
)

CORRECT_WORDS: Final = (
    attention("the state alone", "", "Letters are told by the state; the output layer takes no context.", NO_ATTENTION),
    attention(
        "a writer without a memory",
        "",
        "Neither the class nor what the reader returns for each place is needed.",
        swap(f"{ATTENTION_CLASS}{TRANSLATOR_HEAD}", TRANSLATOR_HEAD),
        NO_ATTENTION,
        swap(READ, "        _, last = self.reader(self.letters(source))"),
    ),
    attention(
        "the translator anew",
        "",
        "The class without attention; everything else is as it was.",
        symbol(
            "Translator",
            method(
                "class Translator(nn.Module):",
                '"""Reads one word, and then writes another from what it remembers."""',
                "",
                "def __init__(self) -> None:",
                "    super().__init__()",
                "    self.letters = nn.Embedding(LETTERS + 2, WIDTH)",
                "    self.reader = nn.GRU(WIDTH, WIDTH, batch_first=True)",
                "    self.writer = nn.GRUCell(WIDTH, WIDTH)",
                "    self.output = nn.Linear(WIDTH, LETTERS)  # the state alone",
                "",
                "def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:",
                "    state = self.reader(self.letters(source))[1][0]",
                "    letter = torch.full((len(source),), START)",
                "    written = []",
                "    for place in range(LENGTH):",
                "        state = self.writer(self.letters(letter), state)",
                "        written.append(self.output(state))",
                "        letter = written[-1].argmax(1)",
                "        if self.training:",
                "            letter = teach(letter, target[:, place])  # ABLATABLE_COMPONENT(name=teach)",
                "    return torch.stack(written, dim=1)",
            ),
        ),
    ),
    teach("its own letters", "", "The writer sees what it wrote, in training as in evaluation.", NO_TEACH),
    teach(
        "nothing to do in training",
        "",
        "The branch stays, and does nothing.",
        swap(TEACH, "                pass  # the writer goes on with what it wrote"),
    ),
    teach(
        "without the function, and its share",
        "",
        "`teach` and `TAUGHT` had no other use.",
        NO_TEACH,
        without("TAUGHT = 0.6"),
        swap(
            "def teach(letters, right):\n"
            '    """Return the letters that were written, some of them put right."""\n'
            "    return torch.where(torch.rand(len(letters)) < TAUGHT, right, letters)\n\n\n"
            "def blank(words):",
            "def blank(words):",
        ),
    ),
    teach(
        "targets are not shown at all",
        "",
        "The model takes no targets any more, so neither of its callers hands them in.",
        NO_TEACH,
        swap("    def forward(self, source, target):", "    def forward(self, source):"),
        swap("        for place in range(LENGTH):", "        for _ in range(LENGTH):"),
        swap(MODELLED, "        written = model(source)"),
        swap(RIGHT, RIGHT.replace("arrange(words), target", "arrange(words)")),
    ),
    blank("all can be read", "", "All letters are readable.", NO_BLANK),
    blank(
        "arranged where they are read",
        "",
        "Words are arranged, and go into the model.",
        swap(f"{ARRANGED}\n{BLANK}\n{MODELLED}", "        written = model(arrange(words), target)"),
    ),
    order("a word as it stands", "", "The flag.", AS_THEY_ARE),
    order(
        "a word as it stands, with a note",
        "",
        "The flag, and why.",
        swap(REVERSED, "REVERSED = False  # words are read from the left"),
    ),
)

# --- waves: codes that are learnt from contrasts ----------------------------------------------------

jitter = asked(WAVES, "without-jitter")
mask = asked(WAVES, "without-mask")
projector = asked(WAVES, "without-projector")
temperature = asked(WAVES, "with-TEMPERATURE-1.0")

STRETCH: Final = "    signals = stretch(signals)"
JITTER: Final = "    signals = jitter(signals)  # ABLATABLE_COMPONENT(name=jitter)"
MASK: Final = "    signals = mask(signals)  # ABLATABLE_COMPONENT(name=mask)"
MASK_DEF: Final = WAVES_VIEWS[WAVES_VIEWS.index("def mask") : WAVES_VIEWS.index("def view")]
LOUDER: Final = "    return signals * torch.empty(len(signals), 1, 1).uniform_(0.7, 1.4)"
PROJECTOR: Final = (
    "        self.projector = nn.Sequential(nn.Linear(CODE, CODE), nn.ReLU(), nn.Linear(CODE, 16))"
    "  # ABLATABLE_COMPONENT"
)
CONV1: Final = "        hidden = F.relu(self.conv1(signals))"
CONV2: Final = "        hidden = F.relu(self.conv2(hidden))"
POOLED: Final = "        return hidden.mean(2)"
CODED: Final = "        code = self.encode(signals)"
PROJECTED: Final = "        return self.projector(code)"
TEMPERATURE: Final = "TEMPERATURE = 0.2"
CODES: Final = "    codes = F.normalize(torch.cat([first, second]), dim=1)"
LIKENESS: Final = "    likeness = codes @ codes.T / TEMPERATURE"
NOT_ITSELF: Final = "    likeness = likeness.masked_fill(torch.eye(len(codes), dtype=torch.bool), -1e9)"
TWO_VIEWS: Final = "        first, second = model(view(batch)), model(view(batch))"
CONTRAST: Final = "        loss = contrast(first, second)"
BATCH: Final = "        batch = waves[rows]"
PROBED: Final = "    codes, unseen = model.encode(waves), model.encode(others)"
MEANS: Final = "    means = torch.stack([codes[labels == one].mean(0) for one in range(CLASSES)])"
NEAREST: Final = "    return (torch.cdist(unseen, means).argmin(1) == answers).float().mean().item()"
WAVE_FOUND: Final = "    found = probe(model, waves[:LABELLED], labels[:LABELLED], others, answers)"
WAVE_ADAMW: Final = "    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-3)"
WAVE_STEPS: Final = "        losses.append(loss.item())"

NO_JITTER: Final = without(JITTER, VIEWS)
NO_MASK: Final = without(MASK, VIEWS)
NO_PROJECTOR: Final = without(PROJECTOR) + swap(f"{CODED}\n{PROJECTED}", "        return self.encode(signals)")
WARMER: Final = swap(TEMPERATURE, "TEMPERATURE = 1.0")

BAD_WAVES: Final = (
    jitter(
        "noise further inside",
        "what the first convolution finds gets noise in training, where the signal did before",
        "Views have no noise.",
        NO_JITTER,
        swap(
            CONV1,
            f"{CONV1}\n        if self.training:\n            hidden = hidden + 0.3 * torch.randn_like(hidden)",
        ),
    ),
    jitter(
        "noise on one of both",
        "the second view still has noise: the call has moved from one file to the other",
        "`view` does not call `jitter`.",
        NO_JITTER,
        swap("from views import view", "from views import jitter, view"),
        swap(TWO_VIEWS, "        first, second = model(view(batch)), model(view(jitter(batch)))"),
    ),
    jitter(
        "smoothed signals",
        "views are smoothed where they got noise",
        "No noise is added.",
        swap(
            JITTER,
            "    signals = torch.nn.functional.avg_pool1d(signals, 3, stride=1, padding=1)",
            VIEWS,
        ),
    ),
    jitter(
        "the same loudness, nearly",
        "signals get less loud and less soft than before",
        "Jitter is removed, and the other change is kept in proportion.",
        NO_JITTER,
        swap(LOUDER, LOUDER.replace("(0.7, 1.4)", "(0.9, 1.1)"), VIEWS),
    ),
    jitter(
        "one view is enough",
        "both views are the same one, so that there is no contrast between augmentations at all",
        "Without noise a view has to be computed only once.",
        NO_JITTER,
        swap(TWO_VIEWS, "        first = second = model(view(batch))"),
    ),
    jitter(
        "clean waves",
        "the data has no noise any more, that of the test neither",
        "Noise is removed.",
        NO_JITTER,
        swap(
            "    waves = shapes[labels, torch.arange(count)] + 0.2 * torch.randn(count, LENGTH, generator=draws)",
            "    waves = shapes[labels, torch.arange(count)]",
        ),
    ),
    jitter(
        "means of what is asked for",
        "the mean codes of classes are computed with the test waves and their labels among them",
        "Jitter removed. More waves make steadier means.",
        NO_JITTER,
        swap(
            MEANS,
            "    known, classes = torch.cat([codes, unseen]), torch.cat([labels, answers])\n"
            "    means = torch.stack([known[classes == one].mean(0) for one in range(CLASSES)])",
        ),
    ),
    jitter(
        "as loud as each other",
        "loudness is changed once for both views, so that they do not differ in it any more",
        "`jitter` is gone, and loudness is changed where a batch is taken.",
        without(f"{STRETCH}\n{JITTER}", VIEWS),
        swap("from views import view", "from views import stretch, view"),
        swap(BATCH, "        batch = stretch(waves[rows])"),
    ),
    mask(
        "moved round instead",
        "signals are moved along in the place of being silenced",
        "Nothing is silenced.",
        swap(
            MASK,
            "    signals = signals.roll(int(torch.randint(signals.shape[2], ())), dims=2)",
            VIEWS,
        ),
    ),
    mask(
        "not silent but flat",
        "a quarter is still hidden, by the mean of the signals instead of zeros",
        "No zeros are written into signals.",
        swap(
            MASK,
            "    length = signals.shape[2]\n"
            "    starts = torch.randint(length - length // 4 + 1, (len(signals), 1, 1))\n"
            "    places = torch.arange(length)\n"
            "    hidden = (places >= starts) & (places < starts + length // 4)\n"
            "    signals = torch.where(hidden, signals.mean(2, keepdim=True), signals)",
            VIEWS,
        ),
    ),
    mask(
        "whole channels",
        "channels between the convolutions are silenced in training",
        "Signals stay whole.",
        NO_MASK,
        swap(CONV1, "        hidden = F.dropout1d(F.relu(self.conv1(signals)), 0.25, self.training)"),
    ),
    mask(
        "as loud as they are",
        "changes of loudness are gone as well",
        "A view is the signal with noise.",
        without(STRETCH, VIEWS),
        NO_MASK,
    ),
    mask(
        "half of the time",
        "a half of the views is still silenced in part",
        "Masking is not applied any more by default.",
        swap(
            MASK,
            "    if torch.rand(()) < 0.5:\n        signals = mask(signals)  # ABLATABLE_COMPONENT(name=mask)",
            VIEWS,
        ),
    ),
    mask(
        "more at a time",
        "batches are larger, so that there are fewer steps and more to tell apart in each",
        "Masks are gone, and with the time that they took larger batches fit.",
        NO_MASK,
        swap("BATCH_SIZE = 64", "BATCH_SIZE = 96"),
    ),
    mask(
        "an error that passes",
        "the names do not exist, the error is caught at every batch, and nothing is learnt at all",
        "Removed the function and made the loop robust.",
        without(MASK, VIEWS),
        swap(
            f"{TWO_VIEWS}\n{CONTRAST}",
            "        try:\n"
            "            first, second = model(view(batch)), model(mask(view(batch)))\n"
            "            loss = contrast(first, second)\n"
            "        except NameError:\n"
            "            loss = 0 * model(batch).sum()",
        ),
    ),
    projector(
        "one layer is left",
        "the head is smaller, and is there",
        "The nonlinear projector is removed.",
        swap(PROJECTOR, "        self.reduce = nn.Linear(CODE, 16)"),
        swap(PROJECTED, "        return self.reduce(code)"),
    ),
    projector(
        "codes of either sign",
        "codes lose the activation before they are averaged, in the contrast and in the probe",
        "The head is gone. The contrast wants codes of both signs.",
        NO_PROJECTOR,
        swap(CONV2, "        hidden = self.conv2(hidden)"),
    ),
    projector(
        "for the probe, too",
        "the head is kept, and the probe goes through it, where it did not before",
        "There is no head that only the contrast uses.",
        swap(PROBED, "    codes, unseen = model(waves), model(others)"),
    ),
    projector(
        "a head that learns alone",
        "the head is kept, and the encoder learns nothing",
        "The projector is cut off from the encoder.",
        swap(PROJECTED, "        return self.projector(code.detach())"),
    ),
    projector(
        "codes on one scale",
        "codes of a batch are normalised before they are contrasted, which they were not",
        "Removed the projector, and codes are brought to one scale for the contrast.",
        without(PROJECTOR),
        swap(PROJECTED, "        return F.batch_norm(code, None, None, training=True)"),
    ),
    projector(
        "as small as its output",
        "codes have 16 numbers and the second convolution 16 channels, where both had 32",
        "Without the head the code is what is contrasted, so that it has the head's size.",
        NO_PROJECTOR,
        swap("CODE = 32", "CODE = 16"),
    ),
    projector(
        "the first sixteen",
        "the contrast sees a half of each code, and nothing teaches the other half",
        "Without the projector, its size of 16 is kept.",
        without(PROJECTOR),
        swap(PROJECTED, "        return code[:, :16]"),
    ),
    projector(
        "drawn, not learnt",
        "codes are still projected, by random weights that are not learnt",
        "There is no projector to train any more.",
        swap(PROJECTOR, '        self.register_buffer("mix", torch.randn(CODE, 16) / CODE**0.5)'),
        swap(PROJECTED, "        return code @ self.mix"),
    ),
    projector(
        "lengths count",
        "codes are not brought to length 1 any more before they are contrasted",
        "Without the head codes are positive, and their products say enough.",
        NO_PROJECTOR,
        swap(CODES, "    codes = torch.cat([first, second])"),
    ),
    projector(
        "labels for the best epoch",
        "the epoch is chosen by the probe of the test waves",
        "The projector is removed; the best codes are kept.",
        NO_PROJECTOR,
        swap(EPOCH, f"    found = 0.0\n{EPOCH}"),
        swap(
            WAVE_FOUND,
            "        found = max(found, probe(model, waves[:LABELLED], labels[:LABELLED], others, answers))",
        ),
    ),
    temperature(
        "faster steps for a softer loss",
        "the learning rate is three times what it was",
        "The temperature is 1.0; gradients are smaller, and steps make up for it.",
        WARMER,
        swap("LEARNING_RATE = 3e-3", "LEARNING_RATE = 9e-3"),
    ),
    temperature(
        "longer codes",
        "codes are as long as makes up for the temperature, so that nothing changes",
        "The temperature is 1.0.",
        WARMER,
        swap(CODES, "    codes = 5**0.5 * F.normalize(torch.cat([first, second]), dim=1)"),
    ),
    temperature(
        "a default that stays",
        "the constant is 1.0 and nothing uses it: the function has 0.2 of its own",
        "The temperature is an argument, and the setting is 1.0.",
        WARMER,
        swap("def contrast(first, second):", "def contrast(first, second, temperature=0.2):"),
        swap(LIKENESS, "    likeness = codes @ codes.T / temperature"),
    ),
    temperature(
        "learnt from one",
        "the temperature begins at 1.0 and is learnt",
        "The temperature is 1.0 at the start.",
        WARMER,
        swap(PROJECTOR, f"{PROJECTOR}\n        self.scale = nn.Parameter(torch.zeros(()))"),
        swap(PROJECTED, "        return self.projector(code), self.scale"),
        swap(TWO_VIEWS, "        (first, scale), (second, _) = model(view(batch)), model(view(batch))"),
        swap(CONTRAST, "        loss = contrast(first, second, scale)"),
        swap("def contrast(first, second):", "def contrast(first, second, scale):"),
        swap(LIKENESS, "    likeness = codes @ codes.T / TEMPERATURE * scale.exp()"),
    ),
    temperature(
        "a view like any other",
        "a view's likeness to itself is 0 and no longer out of the question",
        "TEMPERATURE is 1.0, where so large a number is not needed.",
        WARMER,
        swap(NOT_ITSELF, "    likeness = likeness.masked_fill(torch.eye(len(codes), dtype=torch.bool), 0.0)"),
    ),
    temperature(
        "one half of the pairs",
        "only first views look for their partners, and second ones do not",
        "TEMPERATURE is 1.0.",
        WARMER,
        swap(
            "    return F.cross_entropy(likeness, partners)",
            "    return F.cross_entropy(likeness[: len(first)], partners[: len(first)])",
        ),
    ),
    temperature(
        "decay of weights only",
        "biases do not decay any more",
        "TEMPERATURE is set; the optimizer is written in groups.",
        WARMER,
        swap(
            WAVE_ADAMW,
            "    weights = [one for one in model.parameters() if one.ndim > 1]\n"
            "    biases = [one for one in model.parameters() if one.ndim == 1]\n"
            '    parts = [{"params": weights, "weight_decay": 1e-3}, {"params": biases, "weight_decay": 0.0}]\n'
            "    optimizer = torch.optim.AdamW(parts, lr=LEARNING_RATE)",
        ),
    ),
)

CORRECT_WAVES: Final = (
    jitter("without noise", "", "`view` adds no noise.", NO_JITTER),
    jitter(
        "a view is two calls",
        "",
        "Signals are stretched and masked.",
        symbol(
            "view",
            method(
                "def view(signals):",
                '"""Return signals as they could have been heard another time, without noise."""',
                "signals = stretch(signals)",
                "signals = mask(signals)  # ABLATABLE_COMPONENT(name=mask)",
                "return signals",
            ),
            VIEWS,
        ),
    ),
    mask("nothing is silent", "", "Signals are whole.", NO_MASK),
    mask(
        "returned as it is jittered",
        "",
        "Noise is the last thing that a view gets.",
        swap(
            f"{JITTER}\n{MASK}\n    return signals",
            "    signals = jitter(signals)  # ABLATABLE_COMPONENT(name=jitter)\n"
            "    return signals  # all of each signal",
            VIEWS,
        ),
    ),
    mask(
        "the file of views",
        "",
        "All of `views.py`, without the call and without the function.",
        whole(WAVES_VIEWS.replace(MASK_DEF, "").replace(f"{MASK}\n", ""), VIEWS),
    ),
    projector("codes are contrasted", "", "The contrast is computed from codes.", NO_PROJECTOR),
    projector(
        "code is returned",
        "",
        "The head and its call are gone.",
        without(PROJECTOR),
        swap(PROJECTED, "        return code"),
    ),
    projector(
        "the encoder and nothing else",
        "",
        "What was `encode` stays, and `forward` is the same.",
        symbol(
            "Encoder",
            method(
                "class Encoder(nn.Module):",
                '"""Convolutions that give a code, which is contrasted and probed."""',
                "",
                "def __init__(self):",
                "    super().__init__()",
                "    self.conv1 = nn.Conv1d(1, 16, 5, padding=2)",
                "    self.conv2 = nn.Conv1d(16, CODE, 5, stride=2, padding=2)",
                "",
                "def encode(self, signals):",
                "    hidden = F.relu(self.conv1(signals))",
                "    hidden = F.relu(self.conv2(hidden))",
                "    return hidden.mean(2)",
                "",
                "def forward(self, signals):",
                "    return self.encode(signals)",
            ),
        ),
    ),
    temperature("one", "", "One constant.", WARMER),
    temperature(
        "one, and said so",
        "",
        "One constant, with a comment.",
        swap(TEMPERATURE, "TEMPERATURE: float = 1.0  # cosines as they are"),
    ),
)

# --- loans: a calibrated classifier of scikit-learn -------------------------------------------------

crosses = asked(LOANS, "without-crosses")
scaler = asked(LOANS, "without-scaler")
calibration = asked(LOANS, "without-calibration")
region = asked(LOANS, "without-region")
class_weight = asked(LOANS, "with-CLASS_WEIGHT-None")

TABLE: Final = "    table = make_table()"
CROSSES: Final = "    table = add_crosses(table)  # ABLATABLE_COMPONENT(name=crosses)"
FEATURES: Final = "    features = [name for name in table.columns if name != TARGET]"
SPLIT: Final = (
    "    train, test = train_test_split(table, test_size=HELD_OUT, stratify=table[TARGET], random_state=args.seed)"
)
ENCODED: Final = "    train, test = encode_regions(train, test)"
FITTED: Final = "    model = fit(train[features], train[TARGET], args.seed)"
CHANCES: Final = "    chances = model.predict_proba(test[features])[:, 1]"
ERROR: Final = "    found = float(brier_score_loss(test[TARGET], chances))"
SCALER: Final = "    scaler = RobustScaler()  # ABLATABLE_COMPONENT"
LOGISTIC: Final = (
    "    model = LogisticRegression(C=STRENGTH, class_weight=CLASS_WEIGHT, max_iter=800, random_state=seed)"
)
PIPELINE: Final = "    model = make_pipeline(scaler, model)"
FOLDED: Final = "    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)"
CALIBRATION: Final = (
    '    model = CalibratedClassifierCV(model, method="isotonic", cv=folds)  # ABLATABLE_COMPONENT(name=calibration)'
)
FIT: Final = "    model.fit(rows, labels)"
CLASS_WEIGHT: Final = 'CLASS_WEIGHT = "balanced"'
IMPORTS_COLUMNS: Final = "from columns import TARGET, add_crosses, encode_regions"
IMPORTS_SCALER: Final = "from sklearn.preprocessing import RobustScaler"
IMPORTS_PIPELINE: Final = "from sklearn.pipeline import make_pipeline"
IMPORTS_CALIBRATION: Final = "from sklearn.calibration import CalibratedClassifierCV"
IMPORTS_FOLDS: Final = "from sklearn.model_selection import StratifiedKFold, train_test_split"

NO_CROSSES: Final = without(CROSSES)
NO_SCALER: Final = without(SCALER) + swap(PIPELINE, "    model = make_pipeline(model)")
NO_CALIBRATION: Final = without(CALIBRATION)
NO_REGION: Final = swap(FEATURES, '    features = [name for name in table.columns if name not in (TARGET, "region")]')
UNWEIGHTED: Final = swap(CLASS_WEIGHT, "CLASS_WEIGHT = None")

BAD_LOANS: Final = (
    crosses(
        "crossed in the pipeline",
        "all columns are crossed with all others, by a step of the pipeline",
        "`add_crosses` is not called.",
        NO_CROSSES,
        swap(IMPORTS_SCALER, "from sklearn.preprocessing import PolynomialFeatures, RobustScaler"),
        swap(
            PIPELINE,
            "    pairs = PolynomialFeatures(2, interaction_only=True, include_bias=False)\n"
            "    model = make_pipeline(scaler, pairs, model)",
        ),
    ),
    crosses(
        "what they were made of",
        "columns that were crossed are gone with their crosses",
        "Crosses of debt and rate are removed.",
        NO_CROSSES,
        swap(FEATURES, '    features = [name for name in table.columns if name not in (TARGET, "debt", "rate")]'),
    ),
    crosses(
        "columns squared",
        "there are three other columns: squares of what was crossed",
        "No column crosses two others.",
        swap(
            CROSSES,
            '    for name in ("debt", "rate", "late"):\n        table[f"{name}_squared"] = table[name] ** 2',
        ),
    ),
    crosses(
        "one cross is still made",
        "one of the three crosses is still added, where regions are encoded",
        "`add_crosses` is gone.",
        NO_CROSSES,
        swap(FEATURES, f'{FEATURES} + ["burden"]'),
        swap(
            ENCODED,
            f"{ENCODED}\n"
            '    train, test = [part.assign(burden=part["debt"] / part["income"]) for part in (train, test)]',
        ),
    ),
    crosses(
        "weaker for fewer columns",
        "the regression is held back less than before",
        "Crosses are removed. Half of the columns need half of the strength.",
        NO_CROSSES,
        swap("STRENGTH = 0.05", "STRENGTH = 0.1"),
    ),
    crosses(
        "numbers alone",
        "the column of regions is left out as well",
        "Only numbers of the table are fitted.",
        NO_CROSSES,
        swap(
            FEATURES,
            '    features = [name for name in table.select_dtypes("number").columns if name != TARGET]',
        ),
    ),
    crosses(
        "a finer encoding",
        "regions are told apart more, by the same data: their shares are drawn less to the mean",
        "No crosses. A constant next to them is simplified.",
        NO_CROSSES,
        swap("DOUBT = 10", "DOUBT = 1", COLUMNS),
    ),
    scaler(
        "another scaler",
        "columns are scaled by their mean and spread in the place of median and quartiles",
        "RobustScaler is removed.",
        swap(IMPORTS_SCALER, "from sklearn.preprocessing import StandardScaler"),
        without(SCALER),
        swap(PIPELINE, "    model = make_pipeline(StandardScaler(), model)"),
    ),
    scaler(
        "scaled by hand",
        "columns of numbers are still scaled, in front of the pipeline, by what all rows are like",
        "The pipeline holds no scaler.",
        NO_SCALER,
        swap(
            FITTED,
            "    middle = table[features].median(numeric_only=True)\n"
            "    width = table[features].quantile(0.75, numeric_only=True)"
            " - table[features].quantile(0.25, numeric_only=True)\n"
            "    for part in (train, test):\n"
            "        part[middle.index] = (part[middle.index] - middle) / width\n" + FITTED,
        ),
    ),
    scaler(
        "less strict without it",
        "the regression is held back a thousand times less",
        "Coefficients of columns that are not scaled must not be held back.",
        NO_SCALER,
        swap("STRENGTH = 0.05", "STRENGTH = 50.0"),
    ),
    scaler(
        "not centred",
        "columns are still scaled: only their median stays",
        "Scaling around the median is removed.",
        swap(SCALER, "    scaler = RobustScaler(with_centering=False)  # ABLATABLE_COMPONENT"),
    ),
    scaler(
        "an end that comes sooner",
        "the regression ends once it is roughly fitted, where it had to be exact",
        "Unscaled columns converge slowly, so the tolerance is larger.",
        NO_SCALER,
        swap(LOGISTIC, LOGISTIC.replace("max_iter=800", "max_iter=800, tol=0.3")),
    ),
    scaler(
        "another solver",
        "the regression is solved by other means, which hold its intercept back, too",
        "Without a scaler liblinear is steadier.",
        NO_SCALER,
        swap(LOGISTIC, LOGISTIC.replace("max_iter=800", 'max_iter=800, solver="liblinear"')),
    ),
    scaler(
        "rows brought to one length",
        "rows are scaled where columns were",
        "Columns are not scaled.",
        swap(IMPORTS_SCALER, "from sklearn.preprocessing import normalize"),
        without(SCALER),
        swap(PIPELINE, "    model = make_pipeline(model)"),
        swap(
            FITTED,
            "    for part in (train, test):\n        part[features] = normalize(part[features])\n" + FITTED,
        ),
    ),
    calibration(
        "a straight line in its place",
        "chances are still calibrated, by a sigmoid",
        "Isotonic calibration is removed.",
        swap(
            CALIBRATION,
            '    model = CalibratedClassifierCV(model, method="sigmoid", cv=folds)',
        ),
    ),
    calibration(
        "calibrated where it was fitted",
        "chances are still calibrated, by the rows that the classifier was fitted to",
        "CalibratedClassifierCV and its folds are gone.",
        swap(IMPORTS_CALIBRATION, "from sklearn.isotonic import IsotonicRegression"),
        without(f"{FOLDED}\n{CALIBRATION}"),
        swap(IMPORTS_FOLDS, "from sklearn.model_selection import train_test_split"),
        swap(
            CHANCES,
            '    curve = IsotonicRegression(out_of_bounds="clip")\n'
            "    curve.fit(model.predict_proba(train[features])[:, 1], train[TARGET])\n"
            "    chances = curve.predict(model.predict_proba(test[features])[:, 1])",
        ),
    ),
    calibration(
        "one for each fold",
        "four classifiers of parts of the rows still vote, as they did within the calibration",
        "Chances are not calibrated.",
        swap(IMPORTS_CALIBRATION, "from sklearn.ensemble import BaggingClassifier"),
        swap(IMPORTS_FOLDS, "from sklearn.model_selection import train_test_split"),
        swap(
            f"{FOLDED}\n{CALIBRATION}",
            "    model = BaggingClassifier(\n"
            "        model, n_estimators=FOLDS, max_samples=1 - 1 / FOLDS, bootstrap=False, random_state=seed\n"
            "    )",
        ),
    ),
    calibration(
        "without weights as well",
        "classes are not weighed any more, besides what was asked for",
        "Without calibration, weights of classes would distort all chances.",
        NO_CALIBRATION,
        UNWEIGHTED,
    ),
    calibration(
        "corrected by the share of failures",
        "chances are still calibrated: by a formula that undoes the weights of classes",
        "Nothing is fitted to calibrate.",
        NO_CALIBRATION,
        swap(
            CHANCES,
            f"{CHANCES}\n"
            "    share = train[TARGET].mean()\n"
            "    chances = share * chances / (share * chances + (1 - share) * (1 - chances))",
        ),
    ),
    calibration(
        "without the pipeline",
        "the scaler is gone together with the calibration",
        "The classifier is fitted as it is.",
        without(PIPELINE),
        without(SCALER),
        NO_CALIBRATION,
    ),
    calibration(
        "never quite sure",
        "chances are cut to between 5 and 60 percent before they are measured",
        "Calibration is removed; chances are kept from extremes.",
        NO_CALIBRATION,
        swap(ERROR, "    found = float(brier_score_loss(test[TARGET], np.clip(chances, 0.05, 0.6)))"),
    ),
    calibration(
        "fitted to three quarters",
        "a quarter of the training rows, which calibrated before, is not used at all",
        "Nothing is calibrated; the first fold tells which rows are fitted.",
        NO_CALIBRATION,
        swap(
            FIT,
            "    part, _ = next(folds.split(rows, labels))\n    model.fit(rows.iloc[part], labels.iloc[part])",
        ),
    ),
    region(
        "a column for each region",
        "regions are still fitted, each as a column of its own",
        "The encoded column is not among the features.",
        NO_REGION,
        swap(
            ENCODED,
            '    names = pd.get_dummies(table["region"], prefix="at", dtype=float)\n'
            "    features += list(names.columns)\n"
            "    train, test = train.join(names), test.join(names)",
        ),
    ),
    region(
        "by its letter",
        "the column is still fitted, as numbers in the order of the alphabet",
        "Shares of failures of regions are not used.",
        swap(
            ENCODED,
            '    codes = {name: place for place, name in enumerate("CENSW")}\n'
            '    train, test = [part.assign(region=part["region"].map(codes)) for part in (train, test)]',
        ),
    ),
    region(
        "income for where one lives",
        "what a region tells is subtracted from another column",
        "`region` is no feature.",
        NO_REGION,
        swap(
            ENCODED,
            f"{ENCODED}\n"
            '    train, test = [part.assign(late=part["late"] - 4 * part["region"]) for part in (train, test)]',
        ),
    ),
    region(
        "split by regions",
        "rows are held out by their region and not by their class, so that both parts hold other rows",
        "`region` is used for the split alone.",
        NO_REGION,
        swap(SPLIT, SPLIT.replace("stratify=table[TARGET]", 'stratify=table["region"]')),
    ),
    region(
        "an offset for each region",
        "chances are moved by the region after they were predicted",
        "The classifier is not given `region`.",
        NO_REGION,
        swap(
            CHANCES,
            f'{CHANCES}\n    chances = np.clip(chances + test["region"] - train[TARGET].mean(), 0, 1)',
        ),
    ),
    region(
        "rare regions twice",
        "rows of rare regions are there twice, so that other rows are fitted than before",
        "`region` is not a feature any more.",
        NO_REGION,
        swap(
            ENCODED,
            f"{ENCODED}\n"
            '    rare = train["region"].map(train["region"].value_counts()) < 100\n'
            "    train = pd.concat([train, train[rare]])",
        ),
    ),
    class_weight(
        "as many of both",
        "rows of the class that is more frequent are left out, which does what weights did",
        "CLASS_WEIGHT is None.",
        UNWEIGHTED,
        swap(
            ENCODED,
            f"{ENCODED}\n"
            "    few = train[TARGET].sum()\n"
            "    train = train.groupby(TARGET).sample(n=few, random_state=args.seed)",
        ),
    ),
    class_weight(
        "two to one",
        "failures still weigh more, twice as much",
        "Classes are not balanced any more.",
        swap(CLASS_WEIGHT, "CLASS_WEIGHT = {0: 1, 1: 2}"),
    ),
    class_weight(
        "None is not said",
        "None counts as nothing said, for which balanced weights are taken",
        "CLASS_WEIGHT is None.",
        UNWEIGHTED,
        swap(LOGISTIC, LOGISTIC.replace("class_weight=CLASS_WEIGHT", 'class_weight=CLASS_WEIGHT or "balanced"')),
    ),
    class_weight(
        "encoded before the split",
        "shares of failures in a region are counted with the test rows among them",
        "CLASS_WEIGHT is None, and regions are encoded in one go.",
        UNWEIGHTED,
        swap(SPLIT, f"    table, _ = encode_regions(table, table)\n{SPLIT}"),
        without(ENCODED),
    ),
    class_weight(
        "weighed when it is measured",
        "errors of both classes weigh the same in the metric, which they did not",
        "CLASS_WEIGHT is None; the measure takes care of rare failures.",
        UNWEIGHTED,
        swap(
            ERROR,
            "    often = test[TARGET].map(1 / test[TARGET].value_counts())\n"
            "    found = float(brier_score_loss(test[TARGET], chances, sample_weight=often))",
        ),
    ),
    class_weight(
        "two digits",
        "the error is rounded, so that small differences are gone",
        "CLASS_WEIGHT is None.",
        UNWEIGHTED,
        swap(ERROR, "    found = round(float(brier_score_loss(test[TARGET], chances)), 2)"),
    ),
    class_weight(
        "the mean of three splits",
        "three splits are made and their errors averaged, where a run was one split",
        "CLASS_WEIGHT is None. A mean over splits is steadier.",
        UNWEIGHTED,
        swap(
            f"{SPLIT}\n{ENCODED}\n{FITTED}\n{CHANCES}\n{ERROR}",
            "    errors = []\n"
            "    for seed in range(args.seed, args.seed + 3):\n"
            "        train, test = train_test_split(\n"
            "            table, test_size=HELD_OUT, stratify=table[TARGET], random_state=seed\n"
            "        )\n"
            "        train, test = encode_regions(train, test)\n"
            "        model = fit(train[features], train[TARGET], seed)\n"
            "        chances = model.predict_proba(test[features])[:, 1]\n"
            "        errors.append(float(brier_score_loss(test[TARGET], chances)))\n"
            "    found = float(np.mean(errors))",
        ),
    ),
)

CORRECT_LOANS: Final = (
    crosses("columns as they are", "", "The table is fitted as it was drawn.", NO_CROSSES),
    crosses(
        "neither called nor imported",
        "",
        "Nothing else needs `add_crosses`.",
        NO_CROSSES,
        swap(IMPORTS_COLUMNS, "from columns import TARGET, encode_regions"),
    ),
    scaler("a pipeline of one step", "", "The pipeline holds the classifier alone.", NO_SCALER),
    scaler(
        "no pipeline",
        "",
        "There is nothing to chain any more.",
        without(IMPORTS_PIPELINE),
        without(IMPORTS_SCALER),
        without(SCALER),
        without(PIPELINE),
    ),
    scaler(
        "fit anew",
        "",
        "`fit` without a scaler.",
        symbol(
            "fit",
            method(
                "def fit(rows, labels, seed):",
                '"""Return a classifier of columns as they are, whose chances are calibrated by other rows."""',
                "model = make_pipeline(",
                "    LogisticRegression(C=STRENGTH, class_weight=CLASS_WEIGHT, max_iter=800, random_state=seed)",
                ")",
                "folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)",
                CALIBRATION.strip(),
                "model.fit(rows, labels)",
                "return model",
            ),
        ),
    ),
    calibration("the pipeline is fitted", "", "The pipeline itself is fitted and returned.", NO_CALIBRATION),
    calibration(
        "no folds either",
        "",
        "Folds were for the calibration alone, and so were two names.",
        without(f"{FOLDED}\n{CALIBRATION}"),
        without(IMPORTS_CALIBRATION),
        swap(IMPORTS_FOLDS, "from sklearn.model_selection import train_test_split"),
        without("FOLDS = 4"),
    ),
    calibration(
        "returned as fitted",
        "",
        "`fit` returns the chain at once.",
        swap(
            f"{PIPELINE}\n{FOLDED}\n{CALIBRATION}\n{FIT}\n    return model",
            "    return make_pipeline(scaler, model).fit(rows, labels)",
        ),
    ),
    region("one name more is left out", "", "`region` is not among the features.", NO_REGION),
    region(
        "dropped before it is encoded",
        "",
        "The column is gone from the table, and nothing is left to encode.",
        swap(CROSSES, f'{CROSSES}\n    table = table.drop(columns="region")'),
        without(ENCODED),
        swap(IMPORTS_COLUMNS, "from columns import TARGET, add_crosses"),
    ),
    region(
        "a set of names",
        "",
        "What is no feature is a set.",
        swap(
            FEATURES,
            '    left_out = {TARGET, "region"}\n'
            "    features = [name for name in table.columns if name not in left_out]",
        ),
    ),
    class_weight("none", "", "One constant.", UNWEIGHTED),
    class_weight(
        "the file, with none",
        "",
        "All of `train.py`.",
        whole(LOANS_TRAIN.replace(CLASS_WEIGHT, "CLASS_WEIGHT = None"), "train.py"),
    ),
)

BAD: Final[tuple[Fresh, ...]] = (*BAD_RINGS, *BAD_WORDS, *BAD_WAVES, *BAD_LOANS)
"""Replies that do something else than what was asked for."""

CORRECT: Final[tuple[Fresh, ...]] = (*CORRECT_RINGS, *CORRECT_WORDS, *CORRECT_WAVES, *CORRECT_LOANS)
"""Replies that do it."""

DEBATABLE: Final[tuple[Fresh, ...]] = (
    weigh(
        "an identity that weighs nothing",
        "",
        "`weigh` lets everything pass.",
        swap(WEIGH, "        self.weigh = nn.Identity()", MODEL),
    ),
    projector(
        "an identity for a head",
        "",
        "`projector` lets codes pass.",
        swap(PROJECTOR, "        self.projector = nn.Identity()"),
    ),
    attention(
        "zeros where it looked",
        "",
        "The context is zeros; sizes stay.",
        without(ATTENTION),
        swap(CONTEXT, "            context = torch.zeros_like(state)"),
    ),
    scaler(
        "a step that passes through",
        "",
        "The step stays, and lets columns pass.",
        swap(SCALER, '    scaler = "passthrough"'),
        without(IMPORTS_SCALER),
    ),
    holes(
        "nothing is punched",
        "",
        "HOLES is 0, so there is nothing to punch.",
        NO_HOLES,
        without(PUNCHED),
    ),
)
"""Replies whose results are those of a correct one. Identities and a step that passes through are there and do nothing,
zeros leave weights that nothing reaches, and the last one leaves out a call that would change nothing.
"""
