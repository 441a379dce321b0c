"""Variants of small programs, written by hand: correct ones, and wrong ones of every kind that we could think of."""

# ruff: noqa: E501 - the lines of programs stand here as they are

from __future__ import annotations

from dataclasses import dataclass

import programs

from etude.mage.variants import Thing, Variant, What
from etude.mage.verdicts import Rung
from etude.mage.witnesses import (
    CallChanged,
    CallGone,
    ColumnsGone,
    GroupValue,
    Holds,
    ModuleGone,
    ModuleReplaced,
    ModuleUnused,
    ModuleValue,
    Resized,
    SettingValue,
    Witness,
)

Edit = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Case:
    """A variant, written down.

    Attributes:
        name: What was done.
        program: Of which program, by its name in ``programs``.
        variant: What was planned.
        edits: What was written: each first text stands in the program once, and becomes the second.
        found: What a wrong one is caught by: a part of a reason; empty for a correct one.
        rung: The rung that says so.
    """

    name: str
    program: str
    variant: Variant
    edits: tuple[Edit, ...]
    found: str = ""
    rung: Rung = Rung.GONE

    @property
    def source(self) -> str:
        """The program with the edits."""
        text = getattr(programs, self.program)
        for before, after in self.edits:
            assert text.count(before) == 1, f"{self.name}: {before!r} stands there {text.count(before)} times"
            text = text.replace(before, after)
        return text


def planned(name: str, *witnesses: Witness, what: What = What.MODULE) -> Variant:
    return Variant(
        name=name, intent=name, things=(Thing(name=name, what=what, declared=("train.py", 1)),), witnesses=witnesses
    )


# --- the paper's network --------------------------------------------------------------------------

RM_CONV2 = planned("rm_conv2", ModuleGone(path="conv2", resized={"conv3.weight": (16, 8, 3, 3)}, along=("relu",)))
NO_CONV2_MADE = ("        self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1)\n", "")
CONV3_FITS = ("nn.Conv2d(16, 16, kernel_size=3, padding=1)", "nn.Conv2d(8, 16, kernel_size=3, padding=1)")
NO_CONV2_CALL = ("x = self.pool(F.relu(self.conv2(x)))", "x = self.pool(x)")
CONV2_GONE = (NO_CONV2_MADE, CONV3_FITS, NO_CONV2_CALL)
RM_FC1 = planned("rm_fc1", ModuleGone(path="fc1", resized={"fc2.weight": (10, 64)}))
FC1_GONE = (
    (
        "        self.fc1 = nn.Linear(16 * 2 * 2, 32)\n        self.fc2 = nn.Linear(32, 10)\n",
        "        self.fc2 = nn.Linear(64, 10)\n",
    ),
    ("x = self.dropout(F.relu(self.fc1(x)))", "x = self.dropout(x)"),
)
RM_BN = planned("rm_bn", ModuleGone(path="bn"))
BN_GONE = (("        self.bn = nn.BatchNorm2d(16)\n", ""), ("self.bn(self.conv3(x))", "self.conv3(x)"))
RM_DROPOUT = planned("rm_dropout", ModuleGone(path="dropout"))
NO_DROPOUT = planned("no_dropout", ModuleValue(path="dropout", name="p", value=0.0))
NO_MOMENTUM = planned("no_momentum", GroupValue(name="momentum", value=0.0), what=What.TRICK)
WIDE = planned("wide", Resized(shapes={"fc1.weight": (16, 64), "fc1.bias": (16,), "fc2.weight": (10, 16)}))
SWAP = planned("swap", ModuleReplaced(path="bn", type="GroupNorm", shapes={"weight": (16,), "bias": (16,)}))

# --- the others -----------------------------------------------------------------------------------

RM_SAGE2 = planned("rm_sage2", ModuleGone(path="sage2"))
RM_SAGE3 = planned(
    "rm_sage3", ModuleGone(path="sage3", resized={"sage4.own.weight": (4, 32), "sage4.near.weight": (4, 32)})
)
SAGE3_MADE = (
    "        self.sage3 = SAGE(32, 16)\n        self.sage4 = SAGE(16, dim_out)",
    "        self.sage4 = SAGE(32, dim_out)",
)
SAGE2_CALL = (
    "        h = F.relu(self.sage2(h, adjacency))\n        h = F.dropout(h, p=0.5, training=self.training)\n        h = F.relu(self.sage3",
    "        h = F.relu(self.sage3",
)
SAGE3_CALL = (
    "        h = F.relu(self.sage3(h, adjacency))\n        h = F.dropout(h, p=0.5, training=self.training)\n        return",
    "        return",
)
SAGE2_MADE = ("        self.sage2 = SAGE(32, 32)\n", "")
RM_BLOCK = planned("rm_block1", ModuleGone(path="blocks.1"))
RM_NORM0 = planned("rm_norm0", ModuleGone(path="blocks.0.norm"))
SMALL_SAGE = planned(
    "first-of-8",
    Resized(
        shapes={
            "sage1.own.weight": (8, 12),
            "sage1.own.bias": (8,),
            "sage1.near.weight": (8, 12),
            "sage2.own.weight": (32, 8),
            "sage2.near.weight": (32, 8),
        }
    ),
)

RM_MASS = planned("rm_mass", ColumnsGone(columns=("DER_mass_MMC",)), what=What.COLUMNS)
RM_TWO = planned("rm_two", ColumnsGone(columns=("DER_pt_h", "PRI_met")), what=What.COLUMNS)
FEATURES = 'FEATURES = ["DER_mass_MMC", "DER_pt_h", "PRI_tau_pt", "PRI_met", "PRI_jet_num"]'
MASS_GONE = (FEATURES, 'FEATURES = ["DER_pt_h", "PRI_tau_pt", "PRI_met", "PRI_jet_num"]')
NO_MASS_DRAWN = (
    'for name in ["EventId", *FEATURES, "Weight"]',
    'for name in ["EventId", "DER_mass_MMC", *FEATURES, "Weight"]',
)
FIT = 'model.fit(train[FEATURES], train["Label"])'
SCORED = 'score(model, test[FEATURES], test["Label"])'

NO_CLIP = planned("no_clip", CallGone(name="clip_grad_norm_"), what=What.TRICK)
CLIP = "            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
NO_TERM = planned(
    "no_rebuild", CallGone(name="train.py:rebuild", still=("torch.nn.functional.cross_entropy",)), what=What.LOSS_TERM
)
TERM = "F.cross_entropy(logits, y) + args.smooth * rebuild(x, again)"
NO_JITTER = planned("no_jitter", CallGone(name="train.py:jitter"), what=What.AUGMENTATION)
JITTER = "            x = jitter(x)\n"
FLAG_OFF = planned("dropout_0", SettingValue(name="dropout", value=0.0), what=What.SETTING)
FLAG = 'parser.add_argument("--dropout", type=float, default=0.3)'
FLAG_0 = (FLAG, FLAG.replace("0.3", "0.0"))
DECAY_OFF = planned("decay_0", SettingValue(name="weight_decay", value=0.0), what=What.SETTING)
DECAY_0 = ('"--weight-decay", type=float, default=0.01', '"--weight-decay", type=float, default=0.0')
AUGMENT_OFF = planned(
    "augment_0", SettingValue(name="augment", value=0), CallGone(name="train.py:jitter"), what=What.SETTING
)
AUGMENT_0 = ('"--augment", type=int, default=1', '"--augment", type=int, default=0')
RM_ACT = planned("rm_relu", ModuleGone(path="body.4"))
RM_DROP = planned("rm_drop", ModuleGone(path="body.2"))
BODY = "nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 16), nn.ReLU())"

CORRECT = (
    Case("conv2 goes, its pooling stays", "CNN", RM_CONV2, CONV2_GONE),
    Case(
        "conv2 goes, its activation stays and does nothing new",
        "CNN",
        RM_CONV2,
        (NO_CONV2_MADE, CONV3_FITS, ("self.pool(F.relu(self.conv2(x)))", "self.pool(F.relu(x))")),
    ),
    Case(
        "conv2 goes with its pooling, as planned",
        "CNN",
        planned(
            "rm_conv2",
            ModuleGone(
                path="conv2", resized={"conv3.weight": (16, 8, 3, 3), "fc1.weight": (32, 256)}, along=("relu", "pool")
            ),
        ),
        (
            NO_CONV2_MADE,
            CONV3_FITS,
            ("        x = self.pool(F.relu(self.conv2(x)))\n", ""),
            ("nn.Linear(16 * 2 * 2, 32)", "nn.Linear(16 * 4 * 4, 32)"),
        ),
    ),
    Case("fc1 goes", "CNN", RM_FC1, FC1_GONE),
    Case("batch norm goes", "CNN", RM_BN, BN_GONE),
    Case("batch norm becomes an identity", "CNN", RM_BN, (("nn.BatchNorm2d(16)", "nn.Identity()"),)),
    Case(
        "dropout goes",
        "CNN",
        RM_DROPOUT,
        (
            ("        self.dropout = nn.Dropout(0.5)\n", ""),
            ("self.dropout(F.relu(self.fc1(x)))", "F.relu(self.fc1(x))"),
        ),
    ),
    Case("dropout becomes an identity", "CNN", RM_DROPOUT, (("nn.Dropout(0.5)", "nn.Identity()"),)),
    Case("dropout is 0", "CNN", NO_DROPOUT, (("nn.Dropout(0.5)", "nn.Dropout(0.0)"),)),
    Case("no momentum", "CNN", NO_MOMENTUM, (("lr=LR, momentum=MOMENTUM", "lr=LR, momentum=0.0"),)),
    Case(
        "fc1 is narrow",
        "CNN",
        WIDE,
        (("nn.Linear(16 * 2 * 2, 32)", "nn.Linear(16 * 2 * 2, 16)"), ("nn.Linear(32, 10)", "nn.Linear(16, 10)")),
    ),
    Case("another norm", "CNN", SWAP, (("nn.BatchNorm2d(16)", "nn.GroupNorm(4, 16)"),)),
    Case(
        "batch norm stays and is not used",
        "CNN",
        planned("unused_bn", ModuleUnused(path="bn")),
        (("self.bn(self.conv3(x))", "self.conv3(x)"),),
    ),
    Case("sage2 goes with its activation and dropout", "SAGE", RM_SAGE2, (SAGE2_MADE, SAGE2_CALL)),
    Case("sage3 goes", "SAGE", RM_SAGE3, (SAGE3_MADE, SAGE3_CALL)),
    Case(
        "sage2 and sage3 go",
        "SAGE",
        planned("rm_sage23", RM_SAGE2.witnesses[0], RM_SAGE3.witnesses[0]),
        (
            SAGE2_MADE,
            SAGE3_MADE,
            (SAGE2_CALL[0] + SAGE3_CALL[0].removeprefix("        h = F.relu(self.sage3"), "        return"),
        ),
    ),
    Case(
        "the first layer has 8 outputs",
        "SAGE",
        SMALL_SAGE,
        (("SAGE(dim_in, 32)", "SAGE(dim_in, 8)"), ("SAGE(32, 32)", "SAGE(8, 32)")),
    ),
    Case(
        "a block of a list goes",
        "STACK",
        RM_BLOCK,
        (("Block(width) for _ in range(depth)", "Block(width) for nth in range(depth) if nth != 1"),),
    ),
    Case(
        "a block of a list becomes an identity",
        "STACK",
        RM_BLOCK,
        (("        self.head = nn.Linear", "        self.blocks[1] = nn.Identity()\n        self.head = nn.Linear"),),
    ),
    Case(
        "the first block has no norm",
        "STACK",
        RM_NORM0,
        (
            (
                "        self.head = nn.Linear",
                "        self.blocks[0].norm = nn.Identity()\n        self.head = nn.Linear",
            ),
        ),
    ),
    Case(
        "a column goes",
        "TABLE",
        RM_MASS,
        (
            (
                FIT,
                'kept = [name for name in FEATURES if name != "DER_mass_MMC"]\n    model.fit(train[kept], train["Label"])',
            ),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
    ),
    Case("a column goes from the list", "TABLE", RM_MASS, (MASS_GONE, NO_MASS_DRAWN)),
    Case(
        "two columns go",
        "TABLE",
        RM_TWO,
        (
            (FIT, 'model.fit(train[FEATURES].drop(columns=["DER_pt_h", "PRI_met"]), train["Label"])'),
            (SCORED, 'score(model, test[FEATURES].drop(columns=["DER_pt_h", "PRI_met"]), test["Label"])'),
        ),
    ),
    Case("a column without a name goes", "ARRAYS", RM_MASS, (MASS_GONE, NO_MASS_DRAWN)),
    Case("no clipping", "TRICKS", NO_CLIP, ((CLIP, ""),)),
    Case("no second term", "TRICKS", NO_TERM, ((TERM, "F.cross_entropy(logits, y)"),)),
    Case("no jitter", "TRICKS", NO_JITTER, (("        if self.augment:\n" + JITTER, ""),)),
    Case("a flag is 0", "TRICKS", FLAG_OFF, (FLAG_0,)),
    Case("a flag of the optimizer is 0", "TRICKS", DECAY_OFF, (DECAY_0,)),
    Case("a flag of the data is 0", "TRICKS", AUGMENT_OFF, (AUGMENT_0,)),
    Case("an activation of a sequence goes", "TRICKS", RM_ACT, ((BODY, BODY.replace(", nn.ReLU())", ")")),)),
    Case("a dropout within a sequence goes", "TRICKS", RM_DROP, ((BODY, BODY.replace("nn.Dropout(p), ", "")),)),
    Case(
        "a dropout within a sequence becomes an identity",
        "TRICKS",
        RM_DROP,
        ((BODY, BODY.replace("nn.Dropout(p)", "nn.Identity()")),),
    ),
    Case(
        "the schedule goes",
        "TRICKS",
        planned(
            "no_schedule",
            CallGone(name="torch.optim.lr_scheduler.step"),
            Holds(expression="len(variant.scheduled) == 0"),
            what=What.TRICK,
        ),
        (("    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n", ""), ("        scheduler.step()\n", "")),
    ),
    Case(
        "clipping only every other step",
        "TRICKS",
        planned("half_clip", CallChanged(name="clip_grad_norm_"), what=What.TRICK),
        ((CLIP, "            if loss > 0.786:\n    " + CLIP),),
    ),
)

WRONG = (
    Case(
        "nothing is removed behind a flag",
        "CNN",
        RM_CONV2,
        (("EPOCHS = 2", "EPOCHS = 2\nABLATE_CONV2 = True"),),
        "and its parameter table equals the baseline's",
    ),
    Case(
        "multiplied by zero",
        "CNN",
        RM_CONV2,
        (("F.relu(self.conv2(x))", "F.relu(self.conv2(x) * 0)"),),
        "the component is not removed",
    ),
    Case(
        "the call is skipped and the layer kept",
        "CNN",
        RM_CONV2,
        (CONV3_FITS, NO_CONV2_CALL),
        "never calls `conv2`, and still has its parameters",
    ),
    Case(
        "renamed",
        "CNN",
        RM_CONV2,
        ((NO_CONV2_MADE[0], NO_CONV2_MADE[0].replace("conv2", "second")), ("self.conv2(x)", "self.second(x)")),
        "not gone but renamed",
    ),
    Case(
        "a smaller one under another name",
        "CNN",
        RM_CONV2,
        (
            (NO_CONV2_MADE[0], "        self.shrink = nn.Conv2d(8, 16, kernel_size=1)\n"),
            ("self.conv2(x)", "self.shrink(x)"),
        ),
        "in the place of `conv2`",
    ),
    Case(
        "a smaller one under its name",
        "CNN",
        RM_CONV2,
        ((NO_CONV2_MADE[0], NO_CONV2_MADE[0].replace("kernel_size=3, padding=1", "kernel_size=1")),),
        "replaced and not removed",
    ),
    Case(
        "its weights in a buffer",
        "CNN",
        RM_CONV2,
        (
            (NO_CONV2_MADE[0], '        self.register_buffer("kept", nn.Conv2d(8, 16, 3).weight.detach())\n'),
            ("self.conv2(x)", "F.conv2d(x, self.kept, padding=1)"),
        ),
        "still computed",
    ),
    Case(
        "its weights hidden in the model",
        "CNN",
        RM_CONV2,
        (
            (NO_CONV2_MADE[0], "        self.weight = nn.Parameter(0.1 * torch.randn(16, 8, 3, 3))\n"),
            ("self.conv2(x)", "F.conv2d(x, self.weight, padding=1)"),
        ),
        "`weight`",
    ),
    Case(
        "its weights hidden in the pooling",
        "CNN",
        RM_CONV2,
        (
            (NO_CONV2_MADE[0], ""),
            (
                "self.pool = nn.MaxPool2d(2, 2)\n",
                "self.pool = nn.MaxPool2d(2, 2)\n        self.pool.weight = nn.Parameter(0.1 * torch.randn(16, 8, 3, 3))\n",
            ),
            ("self.conv2(x)", "F.conv2d(x, self.pool.weight, padding=1)"),
        ),
        "`pool.weight`",
    ),
    Case(
        "the pooling goes along, unplanned",
        "CNN",
        RM_CONV2,
        (
            NO_CONV2_MADE,
            CONV3_FITS,
            ("        x = self.pool(F.relu(self.conv2(x)))\n", ""),
            ("nn.Linear(16 * 2 * 2, 32)", "nn.Linear(16 * 4 * 4, 32)"),
        ),
        "`fc1.weight`",
    ),
    Case(
        "the path is cut",
        "CNN",
        RM_CONV2,
        (NO_CONV2_MADE, CONV3_FITS, ("x = self.pool(F.relu(self.conv2(x)))", "x = self.pool(x.detach())")),
        "conv1 gets no gradient in this variant, but does in the baseline. The removal cuts the path.",
    ),
    Case(
        "another layer goes",
        "CNN",
        RM_CONV2,
        (
            ("        self.conv3 = nn.Conv2d(16, 16, kernel_size=3, padding=1)\n", ""),
            ("self.bn(self.conv3(x))", "self.bn(x)"),
        ),
        "the component is not removed",
    ),
    Case("another layer goes along", "CNN", RM_CONV2, (*CONV2_GONE, *BN_GONE), "`bn.weight`"),
    Case(
        "another learning rate",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("lr=LR,", "lr=0.1,")),
        "learning rate is 0.1, 0.05 in the baseline",
    ),
    Case(
        "momentum goes along",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, (", momentum=MOMENTUM", "")),
        "`momentum` of the optimizer",
    ),
    Case(
        "another optimizer",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)",
                "torch.optim.Adam(net.parameters(), lr=LR)",
            ),
        ),
        "of the optimizer",
    ),
    Case(
        "another seed",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("torch.manual_seed(args.seed)", "torch.manual_seed(42)")),
        "The seeds are",
    ),
    Case("no seed", "CNN", RM_CONV2, (*CONV2_GONE, ("    torch.manual_seed(args.seed)\n", "")), "The seeds are"),
    Case("epochs cut", "CNN", RM_CONV2, (*CONV2_GONE, ("range(EPOCHS)", "range(1)")), "its training is shorter"),
    Case("more epochs", "CNN", RM_CONV2, (*CONV2_GONE, ("EPOCHS = 2", "EPOCHS = 3")), "EPOCHS"),
    Case("larger batches", "CNN", RM_CONV2, (*CONV2_GONE, ("batch_size=16", "batch_size=24")), "batches"),
    Case("less data", "CNN", RM_CONV2, (*CONV2_GONE, ("load(48)", "load(32)")), "batches in an epoch"),
    Case(
        "the metric is written down",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("evaluate(net, test)", "0.91")),
        "`train.py:evaluate` is called not at all",
    ),
    Case(
        "the metric is not written",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ('METRICS["accuracy"] = evaluate(net, test)', "evaluate(net, test)")),
        "reports no `accuracy`",
    ),
    Case(
        "the metric is NaN",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("return right / len(loader.dataset)", 'return float("nan")')),
        "no finite number",
    ),
    Case("evaluated on fewer", "CNN", RM_CONV2, (*CONV2_GONE, ("load(30)", "load(10)")), "batches in an epoch"),
    Case(
        "label smoothing added",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("F.cross_entropy(net(x), y)", "F.cross_entropy(net(x), y, label_smoothing=0.1)")),
        "no claim says so",
    ),
    Case(
        "the loss is scaled",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("F.cross_entropy(net(x), y)", "2 * F.cross_entropy(net(x), y)")),
        "mul runs",
    ),
    Case(
        "an activation goes along",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("self.pool(F.relu(self.conv1(x)))", "self.pool(self.conv1(x))")),
        "relu",
    ),
    Case(
        "a layer is frozen",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("    net = Net()\n", "    net = Net()\n    net.conv1.requires_grad_(False)\n")),
        "frozen",
    ),
    Case("more dropout", "CNN", RM_CONV2, (*CONV2_GONE, ("nn.Dropout(0.5)", "nn.Dropout(0.6)")), "`p` of `dropout`"),
    Case(
        "dropout off",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("x = self.dropout(F.relu(self.fc1(x)))", "x = F.relu(self.fc1(x))")),
        "`dropout` is called not at all",
    ),
    Case(
        "the shapes were not mended",
        "CNN",
        RM_CONV2,
        (NO_CONV2_MADE, NO_CONV2_CALL),
        "RuntimeError",
        Rung.FIRST_STEP,
    ),
    Case(
        "an import is missing",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("import numpy as np\n", "")),
        "NameError",
        Rung.FIRST_STEP,
    ),
    Case(
        "a module that is not there",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("import numpy as np\n", "import numpy as np\nimport torch_conv_tools\n")),
        "ModuleNotFoundError",
        Rung.IMPORT,
    ),
    Case(
        "it ends early",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("    net = Net()\n", "    net = Net()\n    return\n")),
        "Neither an optimizer step",
    ),
    Case(
        "always in evaluation",
        "CNN",
        RM_BN,
        (*BN_GONE, ("        net.train()\n", "        net.eval()\n")),
        "`dropout` runs bernoulli not at all",
    ),
    Case(
        "batch norm is made anew, affine off",
        "CNN",
        RM_BN,
        (("nn.BatchNorm2d(16)", "nn.BatchNorm2d(16, affine=False)"),),
        "still calls `bn`",
    ),
    Case(
        "an identity of its own making",
        "CNN",
        RM_BN,
        (
            (
                "class Net(nn.Module):",
                "class Identity(nn.Module):\n    def forward(self, x):\n        return 0.5 * x\n\n\nclass Net(nn.Module):",
            ),
            ("nn.BatchNorm2d(16)", "Identity()"),
        ),
        "still calls `bn`",
    ),
    Case(
        "dropout of 0 where it was to go to 0 elsewhere",
        "CNN",
        NO_DROPOUT,
        (("nn.Dropout(0.5)", "nn.Dropout(0.1)"),),
        "was to become 0.0",
    ),
    Case(
        "momentum and learning rate",
        "CNN",
        NO_MOMENTUM,
        (("lr=LR, momentum=MOMENTUM", "lr=LR * 2, momentum=0.0"),),
        "learning rate",
    ),
    Case(
        "momentum and another loss",
        "CNN",
        NO_MOMENTUM,
        (
            ("lr=LR, momentum=MOMENTUM", "lr=LR, momentum=0.0"),
            ("F.cross_entropy(net(x), y)", 'F.cross_entropy(net(x), y, reduction="sum")'),
        ),
        "The first loss",
    ),
    Case(
        "narrow elsewhere",
        "CNN",
        WIDE,
        (("nn.Linear(16 * 2 * 2, 32)", "nn.Linear(16 * 2 * 2, 24)"), ("nn.Linear(32, 10)", "nn.Linear(24, 10)")),
        "it was to become",
    ),
    Case(
        "the norm was not swapped",
        "CNN",
        SWAP,
        (("nn.BatchNorm2d(16)", "nn.BatchNorm2d(16, momentum=0.2)"),),
        "is to be of class GroupNorm",
    ),
    Case(
        "swapped and nothing called",
        "CNN",
        SWAP,
        (("nn.BatchNorm2d(16)", "nn.GroupNorm(4, 16)"), ("self.bn(self.conv3(x))", "self.conv3(x)")),
        "never called",
    ),
    Case(
        "not used in name alone",
        "CNN",
        planned("unused_bn", ModuleUnused(path="bn")),
        (("self.bn(self.conv3(x))", "F.batch_norm(self.conv3(x), None, None, self.bn.weight, self.bn.bias, True)"),),
        "get gradients",
    ),
    Case("sage2 was to stay", "SAGE", RM_SAGE3, (SAGE2_MADE, SAGE2_CALL), "the component is not removed"),
    Case(
        "two of them go",
        "SAGE",
        RM_SAGE2,
        (
            SAGE2_MADE,
            SAGE3_MADE,
            (SAGE2_CALL[0] + SAGE3_CALL[0].removeprefix("        h = F.relu(self.sage3"), "        return"),
        ),
        "no claim says",
    ),
    Case(
        "without neighbours",
        "SAGE",
        RM_SAGE2,
        (
            SAGE2_MADE,
            SAGE2_CALL,
            ("return self.own(x) + self.near(mean_of_neighbours(x, adjacency))", "return self.own(x) + self.near(x)"),
        ),
        "mean_of_neighbours",
    ),
    Case(
        "the first layer has 16",
        "SAGE",
        SMALL_SAGE,
        (("SAGE(dim_in, 32)", "SAGE(dim_in, 16)"), ("SAGE(32, 32)", "SAGE(16, 32)")),
        "it was to become [8, 12]",
    ),
    Case(
        "weight decay goes along",
        "SAGE",
        RM_SAGE2,
        (SAGE2_MADE, SAGE2_CALL, (", weight_decay=5e-4", "")),
        "`weight_decay` of the optimizer",
    ),
    Case(
        "blocks lose their shortcut",
        "STACK",
        RM_BLOCK,
        (
            ("Block(width) for _ in range(depth)", "Block(width) for nth in range(depth) if nth != 1"),
            ("return x + self.down", "return self.down"),
        ),
        "runs add",
    ),
    Case("two blocks go", "STACK", RM_BLOCK, (("range(depth)", "range(depth - 2)"),), "no claim says"),
    Case(
        "all norms go",
        "STACK",
        RM_NORM0,
        (("        self.norm = nn.LayerNorm(width)\n", ""), ("self.norm(x)", "x")),
        "no claim says",
    ),
    Case(
        "the weights are not shared any more",
        "STACK",
        RM_BLOCK,
        (
            ("Block(width) for _ in range(depth)", "Block(width) for nth in range(depth) if nth != 1"),
            ("        self.head.weight = self.embed.weight\n", ""),
        ),
        "`head.weight`",
    ),
    Case(
        "another column goes",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = FEATURES[:-1]\n    model.fit(train[kept], train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
        "`DER_mass_MMC` still reaches",
    ),
    Case(
        "a column is zero and stays",
        "TABLE",
        RM_MASS,
        ((FIT, 'train = train.assign(DER_mass_MMC=0.0)\n    model.fit(train[FEATURES], train["Label"])'),),
        "still reaches",
    ),
    Case(
        "a second column goes along",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = FEATURES[2:]\n    model.fit(train[kept], train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
        "3 columns reach",
    ),
    Case(
        "another is shuffled",
        "TABLE",
        RM_MASS,
        (
            (
                FIT,
                'kept = FEATURES[1:]\n    train = train.assign(PRI_met=train["PRI_met"].values[::-1])\n    model.fit(train[kept], train["Label"])',
            ),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
        "`PRI_met` reaches",
    ),
    Case(
        "the weight comes in",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = [*FEATURES[1:], "Weight"]\n    model.fit(train[kept], train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
        "columns reach",
    ),
    Case(
        "fewer rows",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = FEATURES[1:]\n    train = train.iloc[:60]\n    model.fit(train[kept], train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
        "rows",
    ),
    Case(
        "other labels",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = FEATURES[1:]\n    model.fit(train[kept], 1 - train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
        "labels",
    ),
    Case(
        "deeper trees",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = FEATURES[1:]\n    model.fit(train[kept], train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
            ("max_depth=3", "max_depth=5"),
        ),
        "`max_depth`",
    ),
    Case(
        "another split",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = FEATURES[1:]\n    model.fit(train[kept], train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
            ("SEED = 0", "SEED = 1"),
        ),
        "SEED",
    ),
    Case(
        "another column without a name",
        "ARRAYS",
        RM_MASS,
        ((FEATURES, FEATURES.replace(', "PRI_met"', "")), ('*FEATURES, "Weight"]', '*FEATURES, "PRI_met", "Weight"]')),
        "other values",
    ),
    Case(
        "clipping under another name",
        "TRICKS",
        NO_CLIP,
        (
            (CLIP, "            limit(net)\n"),
            (
                "def rebuild(",
                "def limit(net):\n    total = sum(p.grad.pow(2).sum() for p in net.parameters()).sqrt()\n    for p in net.parameters():\n        p.grad.mul_(min(1.0, 1.0 / float(total.detach() + 1e-6)))\n\n\ndef rebuild(",
            ),
        ),
        "no claim says so",
    ),
    Case(
        "clipping less",
        "TRICKS",
        NO_CLIP,
        ((", 1.0)\n            optimizer", ", 10.0)\n            optimizer"),),
        "still calls `clip_grad_norm_`",
    ),
    Case(
        "clipping goes, and decay",
        "TRICKS",
        NO_CLIP,
        ((CLIP, ""), (", weight_decay=args.weight_decay", ", weight_decay=0.0")),
        "`weight_decay`",
    ),
    Case(
        "clipping goes, and a term",
        "TRICKS",
        NO_CLIP,
        ((CLIP, ""), (" + args.smooth * rebuild(x, again)", "")),
        "no claim says so",
    ),
    Case(
        "clipping goes, and data",
        "TRICKS",
        NO_CLIP,
        ((CLIP, ""), ("(self.x.sum(1) > 0)", "(self.x.sum(1) > 1)")),
        "data are others",
    ),
    Case(
        "the term times zero",
        "TRICKS",
        NO_TERM,
        ((TERM, TERM.replace("args.smooth", "0.0")),),
        "still calls `train.py:rebuild`",
    ),
    Case(
        "the term written out",
        "TRICKS",
        NO_TERM,
        ((TERM, TERM.replace("rebuild(x, again)", "F.mse_loss(again, x)")),),
        "still computed",
    ),
    Case(
        "the term renamed",
        "TRICKS",
        NO_TERM,
        (("def rebuild(", "def again_and_again("), ("* rebuild(x", "* again_and_again(x")),
        "another name",
    ),
    Case(
        "the main term goes",
        "TRICKS",
        NO_TERM,
        ((TERM, "args.smooth * F.mse_loss(again, x)"),),
        "`torch.nn.functional.cross_entropy`",
    ),
    Case(
        "jitter written out",
        "TRICKS",
        NO_JITTER,
        ((JITTER, "            x = x + 0.1 * torch.randn_like(x)\n"),),
        "still done",
    ),
    Case(
        "jitter written out, and less of it",
        "TRICKS",
        NO_JITTER,
        ((JITTER, "            x = x + 0.05 * torch.randn_like(x)\n"),),
        "still done",
    ),
    Case(
        "jitter goes, and its flag stays for another",
        "TRICKS",
        NO_JITTER,
        (
            (JITTER, "            x = shift(x)\n"),
            ("class Points", "def shift(x):\n    return x + 0.05 * torch.randn_like(x)\n\n\nclass Points"),
        ),
        "another name",
    ),
    Case(
        "the flag is parsed and not used",
        "TRICKS",
        FLAG_OFF,
        (FLAG_0, ("MLP(args.dropout)", "MLP(0.3)")),
        "read and not used",
    ),
    Case("the flag is not set", "TRICKS", FLAG_OFF, (("MLP(args.dropout)", "MLP(0.0)"),), "was to be 0.0"),
    Case("the flag, and a learning rate", "TRICKS", FLAG_OFF, (FLAG_0, ("lr=0.01,", "lr=0.02,")), "learning rate"),
    Case("the flag, and another flag", "TRICKS", FLAG_OFF, (FLAG_0, DECAY_0), "`args.weight_decay`"),
    Case(
        "decay is not passed on",
        "TRICKS",
        DECAY_OFF,
        (DECAY_0, ("weight_decay=args.weight_decay", "weight_decay=0.01")),
        "read and not used",
    ),
    Case(
        "dropout within a sequence of p 0",
        "TRICKS",
        RM_DROP,
        ((BODY, BODY.replace("nn.Dropout(p)", "nn.Dropout(0.0)")),),
        "still calls",
    ),
    Case(
        "a linear layer of a sequence goes in place of the dropout",
        "TRICKS",
        RM_DROP,
        ((BODY, BODY.replace("nn.Linear(16, 16), ", "")),),
        "no claim says",
    ),
    Case("the loader does not shuffle", "TRICKS", NO_CLIP, ((CLIP, ""), (", shuffle=True", "")), "data are others"),
)
