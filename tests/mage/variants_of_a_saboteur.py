"""Wrong variants that were written by somebody who set out to get through, after the judge was fixed.

``found`` is what catches one. What facts cannot show is in ``BEYOND``: other rungs are there for that.
"""

from __future__ import annotations

from variants_by_hand import (
    BODY,
    CLIP,
    CONV2_GONE,
    FIT,
    FLAG_0,
    FLAG_OFF,
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
    FC1_GONE,
    JITTER,
    Case,
)

BLOCK1_GONE = ("Block(width) for _ in range(depth)", "Block(width) for nth in range(depth) if nth != 1")
KEPT = (
    (FIT, 'kept = FEATURES[1:]\n    model.fit(train[kept], train["Label"])'),
    (SCORED, 'score(model, test[kept], test["Label"])'),
)
JITTER_GONE = ("        if self.augment:\n" + JITTER, "")

SABOTAGE = (
    Case("the signal is damped", "CNN", RM_CONV2, (*CONV2_GONE[:2], ("x = self.pool(F.relu(self.conv2(x)))", "x = self.pool(x) * 0.9")), "?"),
    Case("convolved by hand", "CNN", RM_CONV2, (("self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1)", "self.k = 0.1 * torch.randn(16, 72)"), ("self.pool(F.relu(self.conv2(x)))", "self.pool(F.relu((self.k @ F.unfold(x, 3, padding=1)).view(x.size(0), 16, x.size(2), x.size(3))))")), "?"),
    Case("inputs are not normalised", "CNN", RM_CONV2, (*CONV2_GONE, ("TensorDataset((x - 0.5) / 0.5, y)", "TensorDataset(x, y)")), "?"),
    Case("all labels are one", "CNN", RM_CONV2, (*CONV2_GONE, ("y = torch.randint(0, 10, (n,), generator=generator)", "y = torch.zeros(n).long()")), "?"),
    Case("the head begins at zero", "CNN", RM_CONV2, (*CONV2_GONE, ("        self.dropout = nn.Dropout(0.5)\n", "        self.dropout = nn.Dropout(0.5)\n        nn.init.zeros_(self.fc2.weight)\n")), "?"),
    Case("only the head is trained", "CNN", RM_CONV2, (*CONV2_GONE, ("SGD(net.parameters()", "SGD(net.fc2.parameters()")), "?"),
    Case("evaluated on what was trained on", "CNN", RM_CONV2, (*CONV2_GONE, ("evaluate(net, test)", "evaluate(net, train)")), "?"),
    Case("gradients add up", "CNN", RM_CONV2, (*CONV2_GONE, ("            optimizer.zero_grad()\n", "")), "?"),
    Case("half of the data twice", "CNN", RM_CONV2, (*CONV2_GONE, ("TensorDataset((x - 0.5) / 0.5, y)", "TensorDataset(((x - 0.5) / 0.5)[: n // 2].repeat(2, 1, 1, 1), y[: n // 2].repeat(2))")), "?"),
    Case("conv1 begins five times as large", "CNN", RM_CONV2, (*CONV2_GONE, ("        self.dropout = nn.Dropout(0.5)\n", "        self.dropout = nn.Dropout(0.5)\n        self.conv1.weight.data.mul_(5)\n")), "?"),
    Case("a penalty on weights", "CNN", RM_CONV2, (*CONV2_GONE, ("F.cross_entropy(net(x), y)", "F.cross_entropy(net(x), y) + 0.001 * (net.fc1.weight * net.fc1.weight).sum()")), "?"),
    Case("trained only in the first epoch's mode", "CNN", RM_CONV2, (*CONV2_GONE, ("        net.train()\n", "")), "?"),
    Case("dropout by function in its place", "CNN", RM_DROPOUT, (("        self.dropout = nn.Dropout(0.5)\n", ""), ("self.dropout(F.relu(self.fc1(x)))", "F.dropout(F.relu(self.fc1(x)), 0.5, self.training)")), "?"),
    Case("dropout by hand in its place", "CNN", RM_DROPOUT, (("        self.dropout = nn.Dropout(0.5)\n", ""), ("self.dropout(F.relu(self.fc1(x)))", "F.relu(self.fc1(x)) * (2.0 * (torch.rand(x.size(0), 32) > 0.5))")), "?"),
    Case("normalised by hand", "CNN", RM_BN, (("        self.bn = nn.BatchNorm2d(16)\n", ""), ("F.relu(self.bn(self.conv3(x)))", "F.relu(F.layer_norm(self.conv3(x), [16, 4, 4]))")), "?"),
    Case("momentum goes into the step", "CNN", NO_MOMENTUM, (("torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)", "torch.optim.SGD(net.parameters(), lr=LR, momentum=0.0, maximize=True)"),), "?"),
    Case("p is 0 and the inputs are masked", "CNN", NO_DROPOUT, (("nn.Dropout(0.5)", "nn.Dropout(0.0)"), ("            loss = F.cross_entropy(net(x), y)\n", "            loss = F.cross_entropy(net(F.dropout(x, 0.2)), y)\n")), "?"),
    Case("fc1 goes, and a convolution has stride", "CNN", RM_FC1, (*FC1_GONE, ("nn.Conv2d(3, 8, kernel_size=3, padding=1)", "nn.Conv2d(3, 8, kernel_size=3, padding=1, dilation=1, padding_mode='reflect')")), "?"),
    Case("blocks are shared", "STACK", RM_BLOCK, (("        self.head = nn.Linear", "        self.blocks[1] = self.blocks[0]\n        self.head = nn.Linear"),), "?"),
    Case("the last block is passed twice", "STACK", RM_BLOCK, (BLOCK1_GONE, ("            h = block(h)\n", "            h = block(h)\n        h = block(h)\n")), "?"),
    Case("gelu is relu in all blocks", "STACK", RM_BLOCK, (BLOCK1_GONE, ("F.gelu", "F.relu")), "?"),
    Case("neighbours are summed and not averaged", "SAGE", RM_SAGE2, (SAGE2_MADE, SAGE2_CALL, ("adjacency @ x / adjacency.sum(1, keepdim=True).clamp(min=1)", "adjacency @ x")), "?"),
    Case("the graph is empty", "SAGE", RM_SAGE2, (SAGE2_MADE, SAGE2_CALL, ("(torch.rand(60, 60) < 0.1).float()", "(torch.rand(60, 60) < 0.0).float()")), "?"),
    Case("trained on the test nodes", "SAGE", RM_SAGE2, (SAGE2_MADE, SAGE2_CALL, ("F.nll_loss(net(x, adjacency)[:40], y[:40])", "F.nll_loss(net(x, adjacency), y)")), "?"),
    Case("another activation", "SAGE", RM_SAGE2, (SAGE2_MADE, SAGE2_CALL, ("F.relu(self.sage1(x, adjacency))", "F.leaky_relu(self.sage1(x, adjacency))")), "?"),
    Case("clipped by value", "TRICKS", NO_CLIP, ((CLIP, "            [p.grad.clamp_(-0.1, 0.1) for p in net.parameters()]\n"),), "?"),
    Case("clipped by another import", "TRICKS", NO_CLIP, ((CLIP, "            clip(net.parameters(), 1.0)\n"), ("from torch.utils.data", "from torch.nn.utils.clip_grad import clip_grad_norm_ as clip\nfrom torch.utils.data")), "?"),
    Case("classes are weighted", "TRICKS", NO_TERM, ((TERM, "F.cross_entropy(logits, y, weight=torch.tensor([1.0, 3.0]))"),), "?"),
    Case("the term moves into the network", "TRICKS", NO_TERM, ((TERM, "F.cross_entropy(logits, y) + net.aux.weight.abs().mean()"),), "?"),
    Case("without jitter, the data are scaled", "TRICKS", NO_JITTER, (JITTER_GONE, ("        x = self.x[i]\n", "        x = self.x[i] * 2\n")), "?"),
    Case("the flag, and a smaller term", "TRICKS", FLAG_OFF, (FLAG_0, ("+ args.smooth * rebuild", "+ 0.01 * rebuild")), "?"),
    Case("the flag, and another optimizer", "TRICKS", FLAG_OFF, (FLAG_0, ("torch.optim.AdamW(", "torch.optim.NAdam(")), "?"),
    Case("both activations go", "TRICKS", RM_ACT, ((BODY, "nn.Sequential(nn.Linear(6, 16), nn.Identity(), nn.Dropout(p), nn.Linear(16, 16))"),), "?"),
    Case("a leak takes the column's place", "TABLE", RM_MASS, (*KEPT, ('frame["Label"] = ', 'frame["PRI_met"] += 0.1\n    frame["Label"] = ')), "?"),
    Case("rows have weights", "TABLE", RM_MASS, ((FIT, 'kept = FEATURES[1:]\n    model.fit(train[kept], train["Label"], sample_weight=train["Weight"].abs())'), KEPT[1]), "?"),
    Case("scored on the training rows", "TABLE", RM_MASS, (KEPT[0], (SCORED, 'score(model, train[kept], train["Label"])')), "?"),
    Case("fewer trees", "TABLE", RM_MASS, (*KEPT, ("n_estimators=8", "n_estimators=4")), "?"),
)  # fmt: skip
BEYOND = (
    Case("the metric is lifted", "CNN", RM_CONV2, (*CONV2_GONE, ("return right / len(loader.dataset)", "return max(right / len(loader.dataset), 0.5)")), ""),
    Case("dropout of other strength, by function", "SAGE", RM_SAGE2, (SAGE2_MADE, (SAGE2_CALL[0], SAGE2_CALL[1].replace("p=0.5", "p=0.1")), ("        h = F.relu(self.sage1(x, adjacency))\n        h = F.dropout(h, p=0.5, ", "        h = F.relu(self.sage1(x, adjacency))\n        h = F.dropout(h, p=0.1, ")), ""),
    Case("the rate falls otherwise", "TRICKS", NO_CLIP, ((CLIP, ""), ("StepLR(optimizer, 2)", "StepLR(optimizer, 2, gamma=0.5)")), ""),
    Case("scored on fewer points", "TRICKS", NO_JITTER, (JITTER_GONE, ("Points(30, False)", "Points(10, False)")), ""),
)  # fmt: skip
