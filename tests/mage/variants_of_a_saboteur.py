"""Wrong variants that were written by somebody who set out to get through, after the judge was fixed.

``SABOTAGE`` came first: 16 of 41 got through, and general rules were added. ``AGAIN`` came after these: 9 of 25 got
through, and so they were once more. ``BEYOND`` holds what facts of a run cannot show, of both: a metric that is
computed otherwise, and examples that are changed where no operator is seen. Other rungs look at that.
"""

# ruff: noqa: E501 - the lines of programs stand here as they are

from __future__ import annotations

from variants_by_hand import (
    BODY,
    CLIP,
    CONV2_GONE,
    CONV3_FITS,
    FC1_GONE,
    FIT,
    FLAG_0,
    FLAG_OFF,
    JITTER,
    NO_CLIP,
    NO_DROPOUT,
    NO_JITTER,
    NO_MOMENTUM,
    NO_TERM,
    RM_ACT,
    RM_BLOCK,
    RM_BN,
    RM_CONV2,
    RM_DROPOUT,
    RM_FC1,
    RM_MASS,
    RM_SAGE2,
    SAGE2_CALL,
    SAGE2_MADE,
    SCORED,
    TERM,
    Case,
)

BLOCK1_GONE = ("Block(width) for _ in range(depth)", "Block(width) for nth in range(depth) if nth != 1")
KEPT = (
    (FIT, 'kept = FEATURES[1:]\n    model.fit(train[kept], train["Label"])'),
    (SCORED, 'score(model, test[kept], test["Label"])'),
)
JITTER_GONE = ("        if self.augment:\n" + JITTER, "")

SABOTAGE = (
    Case(
        "the signal is damped",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE[:2], ("x = self.pool(F.relu(self.conv2(x)))", "x = self.pool(x) * 0.9")),
        "the model runs mul",
    ),
    Case(
        "convolved by hand",
        "CNN",
        RM_CONV2,
        (
            ("self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1)", "self.k = 0.1 * torch.randn(16, 72)"),
            (
                "self.pool(F.relu(self.conv2(x)))",
                "self.pool(F.relu((self.k @ F.unfold(x, 3, padding=1)).view(x.size(0), 16, x.size(2), x.size(3))))",
            ),
        ),
        "im2col",
    ),
    Case(
        "inputs are not normalised",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("TensorDataset((x - 0.5) / 0.5, y)", "TensorDataset(x, y)")),
        "Outside of the model div",
    ),
    Case(
        "all labels are one",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("y = torch.randint(0, 10, (n,), generator=generator)", "y = torch.zeros(n).long()")),
        "Outside of the model randint",
    ),
    Case(
        "the head begins at zero",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "        self.dropout = nn.Dropout(0.5)\n",
                "        self.dropout = nn.Dropout(0.5)\n        nn.init.zeros_(self.fc2.weight)\n",
            ),
        ),
        "Outside of the model zero",
    ),
    Case(
        "only the head is trained",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("SGD(net.parameters()", "SGD(net.fc2.parameters()")),
        "no optimizer has them",
    ),
    Case(
        "evaluated on what was trained on",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("evaluate(net, test)", "evaluate(net, train)")),
        "batches in an epoch",
    ),
    Case(
        "gradients add up",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("            optimizer.zero_grad()\n", "")),
        "zero_grad` is called not at all",
    ),
    Case(
        "half of the data twice",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "TensorDataset((x - 0.5) / 0.5, y)",
                "TensorDataset(((x - 0.5) / 0.5)[: n // 2].repeat(2, 1, 1, 1), y[: n // 2].repeat(2))",
            ),
        ),
        "Outside of the model repeat",
    ),
    Case(
        "conv1 begins five times as large",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "        self.dropout = nn.Dropout(0.5)\n",
                "        self.dropout = nn.Dropout(0.5)\n        self.conv1.weight.data.mul_(5)\n",
            ),
        ),
        "Outside of the model mul",
    ),
    Case(
        "a penalty on weights",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "F.cross_entropy(net(x), y)",
                "F.cross_entropy(net(x), y) + 0.001 * (net.fc1.weight * net.fc1.weight).sum()",
            ),
        ),
        "Outside of the model",
    ),
    Case(
        "trained only in the first epoch's mode",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("        net.train()\n", "")),
        "`dropout` runs bernoulli",
    ),
    Case(
        "dropout by function in its place",
        "CNN",
        RM_DROPOUT,
        (
            ("        self.dropout = nn.Dropout(0.5)\n", ""),
            ("self.dropout(F.relu(self.fc1(x)))", "F.dropout(F.relu(self.fc1(x)), 0.5, self.training)"),
        ),
        "still computed",
    ),
    Case(
        "dropout by hand in its place",
        "CNN",
        RM_DROPOUT,
        (
            ("        self.dropout = nn.Dropout(0.5)\n", ""),
            ("self.dropout(F.relu(self.fc1(x)))", "F.relu(self.fc1(x)) * (2.0 * (torch.rand(x.size(0), 32) > 0.5))"),
        ),
        "the model runs mul",
    ),
    Case(
        "normalised by hand",
        "CNN",
        RM_BN,
        (
            ("        self.bn = nn.BatchNorm2d(16)\n", ""),
            ("F.relu(self.bn(self.conv3(x)))", "F.relu(F.layer_norm(self.conv3(x), [16, 4, 4]))"),
        ),
        "native_layer_norm",
    ),
    Case(
        "momentum goes into the step",
        "CNN",
        NO_MOMENTUM,
        (
            (
                "torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)",
                "torch.optim.SGD(net.parameters(), lr=LR, momentum=0.0, maximize=True)",
            ),
        ),
        "`maximize` of the optimizer",
    ),
    Case(
        "p is 0 and the inputs are masked",
        "CNN",
        NO_DROPOUT,
        (
            ("nn.Dropout(0.5)", "nn.Dropout(0.0)"),
            (
                "            loss = F.cross_entropy(net(x), y)\n",
                "            loss = F.cross_entropy(net(F.dropout(x, 0.2)), y)\n",
            ),
        ),
        "Outside of the model bernoulli",
    ),
    Case(
        "fc1 goes, and a convolution has stride",
        "CNN",
        RM_FC1,
        (
            *FC1_GONE,
            (
                "nn.Conv2d(3, 8, kernel_size=3, padding=1)",
                "nn.Conv2d(3, 8, kernel_size=3, padding=1, dilation=1, padding_mode='reflect')",
            ),
        ),
        "`padding_mode` of `conv1`",
    ),
    Case(
        "blocks are shared",
        "STACK",
        RM_BLOCK,
        (("        self.head = nn.Linear", "        self.blocks[1] = self.blocks[0]\n        self.head = nn.Linear"),),
        "`blocks.0` is called",
    ),
    Case(
        "the last block is passed twice",
        "STACK",
        RM_BLOCK,
        (BLOCK1_GONE, ("            h = block(h)\n", "            h = block(h)\n        h = block(h)\n")),
        "`blocks.2` is called",
    ),
    Case("gelu is relu in all blocks", "STACK", RM_BLOCK, (BLOCK1_GONE, ("F.gelu", "F.relu")), "`blocks.0` runs gelu"),
    Case(
        "neighbours are summed and not averaged",
        "SAGE",
        RM_SAGE2,
        (SAGE2_MADE, SAGE2_CALL, ("adjacency @ x / adjacency.sum(1, keepdim=True).clamp(min=1)", "adjacency @ x")),
        "runs clamp",
    ),
    Case(
        "the graph is empty",
        "SAGE",
        RM_SAGE2,
        (SAGE2_MADE, SAGE2_CALL, ("(torch.rand(60, 60) < 0.1).float()", "(torch.rand(60, 60) < 0.0).float()")),
        "get no gradient",
    ),
    Case(
        "trained on the test nodes",
        "SAGE",
        RM_SAGE2,
        (SAGE2_MADE, SAGE2_CALL, ("F.nll_loss(net(x, adjacency)[:40], y[:40])", "F.nll_loss(net(x, adjacency), y)")),
        "Outside of the model slice",
    ),
    Case(
        "another activation",
        "SAGE",
        RM_SAGE2,
        (SAGE2_MADE, SAGE2_CALL, ("F.relu(self.sage1(x, adjacency))", "F.leaky_relu(self.sage1(x, adjacency))")),
        "leaky_relu",
    ),
    Case(
        "clipped by value",
        "TRICKS",
        NO_CLIP,
        ((CLIP, "            [p.grad.clamp_(-0.1, 0.1) for p in net.parameters()]\n"),),
        "clamp runs",
    ),
    Case(
        "clipped by another import",
        "TRICKS",
        NO_CLIP,
        (
            (CLIP, "            clip(net.parameters(), 1.0)\n"),
            (
                "from torch.utils.data",
                "from torch.nn.utils.clip_grad import clip_grad_norm_ as clip\nfrom torch.utils.data",
            ),
        ),
        "nothing else differs",
    ),
    Case(
        "classes are weighted",
        "TRICKS",
        NO_TERM,
        ((TERM, "F.cross_entropy(logits, y, weight=torch.tensor([1.0, 3.0]))"),),
        "weight=tensor",
    ),
    Case(
        "the term moves into the network",
        "TRICKS",
        NO_TERM,
        ((TERM, "F.cross_entropy(logits, y) + net.aux.weight.abs().mean()"),),
        "abs runs",
    ),
    Case(
        "without jitter, the data are scaled",
        "TRICKS",
        NO_JITTER,
        (JITTER_GONE, ("        x = self.x[i]\n", "        x = self.x[i] * 2\n")),
        "The numbers of a first batch",
    ),
    Case(
        "the flag, and a smaller term",
        "TRICKS",
        FLAG_OFF,
        (FLAG_0, ("+ args.smooth * rebuild", "+ 0.01 * rebuild")),
        "is called with 1=0.01",
    ),
    Case(
        "the flag, and another optimizer",
        "TRICKS",
        FLAG_OFF,
        (FLAG_0, ("torch.optim.AdamW(", "torch.optim.NAdam(")),
        "no claim says so",
    ),
    Case(
        "both activations go",
        "TRICKS",
        RM_ACT,
        ((BODY, "nn.Sequential(nn.Linear(6, 16), nn.Identity(), nn.Dropout(p), nn.Linear(16, 16))"),),
        "`body.1` is of class Identity",
    ),
    Case(
        "a leak takes the column's place",
        "TABLE",
        RM_MASS,
        (*KEPT, ('frame["Label"] = ', 'frame["PRI_met"] += 0.1\n    frame["Label"] = ')),
        "`PRI_met` reaches",
    ),
    Case(
        "rows have weights",
        "TABLE",
        RM_MASS,
        (
            (
                FIT,
                'kept = FEATURES[1:]\n    model.fit(train[kept], train["Label"], sample_weight=train["Weight"].abs())',
            ),
            KEPT[1],
        ),
        "`fit.sample_weight`",
    ),
    Case(
        "scored on the training rows",
        "TABLE",
        RM_MASS,
        (KEPT[0], (SCORED, 'score(model, train[kept], train["Label"])')),
        "rows that reach XGBClassifier.predict",
    ),
    Case("fewer trees", "TABLE", RM_MASS, (*KEPT, ("n_estimators=8", "n_estimators=4")), "`n_estimators`"),
    Case(
        "dropout of other strength, by function",
        "SAGE",
        RM_SAGE2,
        (
            SAGE2_MADE,
            (SAGE2_CALL[0], SAGE2_CALL[1].replace("p=0.5", "p=0.1")),
            (
                "        h = F.relu(self.sage1(x, adjacency))\n        h = F.dropout(h, p=0.5, ",
                "        h = F.relu(self.sage1(x, adjacency))\n        h = F.dropout(h, p=0.1, ",
            ),
        ),
        "`torch.nn.functional.dropout` is called with p=0.1, p=0.5 in the baseline",
    ),
    Case(
        "the rate falls otherwise",
        "TRICKS",
        NO_CLIP,
        ((CLIP, ""), ("StepLR(optimizer, 2)", "StepLR(optimizer, 2, gamma=0.5)")),
        "gamma=0.5",
    ),
)
AGAIN = (
    Case(
        "conv1 gets relu6",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("F.relu(self.conv1(x))", "F.relu6(self.conv1(x))")),
        "hardtanh",
    ),
    Case(
        "avg pooling in place of max",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("nn.MaxPool2d(2, 2)", "nn.AvgPool2d(2, 2)")),
        "AvgPool2d",
    ),
    Case(
        "labels by numpy",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "y = torch.randint(0, 10, (n,), generator=generator)",
                "y = torch.randint(0, 10, (n,), generator=generator)\n    y.numpy()[:] = 3",
            ),
        ),
        "The numbers of a first batch",
    ),
    Case(
        "images by numpy darker",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "    y = torch.randint(0, 10, (n,), generator=generator)",
                "    y = torch.randint(0, 10, (n,), generator=generator)\n    x.numpy()[:] *= 0.3",
            ),
        ),
        "The numbers of a first batch",
    ),
    Case(
        "lr by group afterwards",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "    for epoch in range(EPOCHS):\n",
                "    for group in optimizer.param_groups:\n        group['lr'] = 0.2\n    for epoch in range(EPOCHS):\n",
            ),
        ),
        "learning rate is 0.2",
    ),
    Case(
        "lr changes in 2nd epoch",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "        net.train()\n",
                "        net.train()\n        for group in optimizer.param_groups:\n            group['lr'] = LR / (1 + epoch)\n",
            ),
        ),
        "The learning rate of step 4",
    ),
    Case(
        "steps skipped in part",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("            optimizer.step()\n", "            if epoch == 0: optimizer.step()\n")),
        "training is shorter",
    ),
    Case(
        "conv3 by dilation",
        "CNN",
        RM_CONV2,
        (CONV2_GONE[0], (CONV3_FITS[0], "nn.Conv2d(8, 16, kernel_size=3, padding=2, dilation=2)"), CONV2_GONE[2]),
        "`dilation` of `conv3`",
    ),
    Case(
        "conv3 in groups",
        "CNN",
        RM_CONV2,
        (CONV2_GONE[0], (CONV3_FITS[0], "nn.Conv2d(8, 16, kernel_size=3, padding=1, groups=8)"), CONV2_GONE[2]),
        "`conv3.weight` is [16, 1, 3, 3]",
    ),
    Case(
        "weights tied to another",
        "STACK",
        RM_BLOCK,
        (
            BLOCK1_GONE,
            (
                "        self.head = nn.Linear",
                "        self.blocks[1].up.weight = self.blocks[0].up.weight\n        self.head = nn.Linear",
            ),
        ),
        "`blocks.2.up.weight`",
    ),
    Case(
        "gelu tanh approx",
        "STACK",
        RM_BLOCK,
        (BLOCK1_GONE, ("F.gelu(self.up(self.norm(x)))", "F.gelu(self.up(self.norm(x)), approximate='tanh')")),
        "approximate=tanh",
    ),
    Case("shorter sequences", "STACK", RM_BLOCK, (BLOCK1_GONE, ("(24, 9)", "(24, 5)")), "shapes of the first batches"),
    Case(
        "smaller batches",
        "STACK",
        RM_BLOCK,
        (BLOCK1_GONE, ("randperm(24)[:8]", "randperm(24)[:4]")),
        "shapes of the first batches",
    ),
    Case("adam eps", "STACK", RM_BLOCK, (BLOCK1_GONE, ("lr=1e-3", "lr=1e-3, eps=1e-4")), "`eps` of the optimizer"),
    Case("graph denser", "SAGE", RM_SAGE2, (SAGE2_MADE, SAGE2_CALL, ("< 0.1", "< 0.5")), "is called with 1=0.5"),
    Case(
        "inputs wider",
        "SAGE",
        RM_SAGE2,
        (SAGE2_MADE, SAGE2_CALL, ("torch.randn(60, 12)", "torch.randn(60, 12) * 3")),
        "Outside of the model mul",
    ),
    Case(
        "no graph in sage4",
        "SAGE",
        RM_SAGE2,
        (SAGE2_MADE, SAGE2_CALL, ("self.sage4(h, adjacency), dim", "self.sage4(h, torch.eye(60)), dim")),
        "runs eye",
    ),
    Case(
        "clip and seed of data",
        "TRICKS",
        NO_CLIP,
        ((CLIP, ""), ("manual_seed(5)", "manual_seed(6)")),
        "data are others",
    ),
    Case(
        "term gone and dropout",
        "TRICKS",
        NO_TERM,
        ((TERM, "F.cross_entropy(logits, y)"), ("MLP(args.dropout)", "MLP(0.0)")),
        "`p` of `body.2`",
    ),
    Case(
        "term replaced by l1",
        "TRICKS",
        NO_TERM,
        ((TERM, "F.cross_entropy(logits, y) + args.smooth * F.l1_loss(again, x)"),),
        "abs runs",
    ),
    Case(
        "column replaced by id",
        "TABLE",
        RM_MASS,
        (
            (FIT, 'kept = ["EventId", *FEATURES[1:]]\n    model.fit(train[kept], train["Label"])'),
            (SCORED, 'score(model, test[kept], test["Label"])'),
        ),
        "5 columns reach",
    ),
    Case(
        "test rows chosen",
        "TABLE",
        RM_MASS,
        (KEPT[0], (SCORED, 'score(model, test[kept][:10], test["Label"][:10])')),
        "rows that reach XGBClassifier.predict",
    ),
)
BEYOND = (
    Case(
        "images by numpy flipped",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                "    y = torch.randint(0, 10, (n,), generator=generator)",
                "    y = torch.randint(0, 10, (n,), generator=generator)\n    x.numpy()[:] = x.numpy()[:, :, ::-1].copy()",
            ),
        ),
        "",
    ),
    Case("accuracy times two", "CNN", RM_CONV2, (*CONV2_GONE, ("right / len", "2 * right / len")), ""),
    Case(
        "best of epochs",
        "CNN",
        RM_CONV2,
        (
            *CONV2_GONE,
            (
                'METRICS["accuracy"] = evaluate(net, test)',
                'METRICS["accuracy"] = max(METRICS.get("accuracy", 0), evaluate(net, test))',
            ),
        ),
        "",
    ),
    Case(
        "the metric is lifted",
        "CNN",
        RM_CONV2,
        (*CONV2_GONE, ("return right / len(loader.dataset)", "return max(right / len(loader.dataset), 0.5)")),
        "",
    ),
    Case("scored on fewer points", "TRICKS", NO_JITTER, (JITTER_GONE, ("Points(30, False)", "Points(10, False)")), ""),
)
