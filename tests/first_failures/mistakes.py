"""The likeliest mistakes of somebody who begins, as scripts and commands that are really run, and what is shown then.

The page docs/first-failures.md has a row for each, made of this.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Final

TRAIN: Final = """
def train(lr: float = 0.1, width: int = 8):
    return 1 - (lr - 0.3) ** 2
"""
EXPERIMENT: Final = 'experiment = etude.Experiment(train, metric="score", mode="max")\n'
LR: Final = '{"lr": etude.uniform(0, 1)}'
TUNE: Final = f'search = experiment.tune({LR}, trials=2, workers=1, name="first")\nprint(search.summary())\n'
ONLY: Final = (
    "No trial has gone well so far, so all would most likely end like this, and the study ends here. Mend it and "
)
ENDS: Final = f"{ONLY}call again. If only some configurations cannot be, raise etude.Invalid(reason) for those."


@dataclass(frozen=True)
class Mistake:
    """One mistake.

    Attributes:
        does: What somebody does, in a few words; the name of the test's case.
        script: The script, but for ``import etude``; or the lines of a command's script.
        shown: All that the error says; of trials that fail, lines of the summary. ``{here}`` is the folder.
        see: The part of it by which it is found.
        happened: What happened, for the page.
        do: What to do, for the page.
        command: What of ``etude`` is called, instead of the script.
        code: What the command exits with.
    """

    does: str
    script: str
    shown: str
    see: str
    happened: str
    do: str
    command: tuple[str, ...] = ()
    code: int = 1

    @property
    def source(self) -> str:
        """The whole script."""
        return "import etude\n" + textwrap.dedent(self.script)


def call(what: str) -> str:
    """Return a script that goes wrong in a call of an experiment."""
    return TRAIN + EXPERIMENT + what + "\n"


def trial(train: str, *, before: str = "") -> str:
    """Return a script whose trials go wrong."""
    return f"{before}def train({train}\n" + EXPERIMENT + TUNE


NET: Final = """
from torch import nn


class Net(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.fc = nn.Linear(4, width)

    def forward(self, x):
        return self.fc(x)
"""

DEFINING: Final = (
    Mistake(
        "gives a network in the place of a function",
        NET + 'def train(model, lr): ...\netude.Experiment(train, model=Net(), metric="loss", mode="min")\n',
        "SignatureError: model=Net(...) is a model that has been built already, and each trial needs one of its own, "
        "built with its hyperparameters. Pass what builds it: a function that returns Net(...), or the class.",
        "is a model that has been built already",
        "`model=Net()` is one network, and every trial has to begin with a new one.",
        "`model=Net`, or a function that returns `Net(...)`.",
    ),
    Mistake(
        "calls the training function while naming it",
        TRAIN + 'etude.Experiment(train(), metric="score", mode="max")\n',
        "SignatureError: train=0.96 (float) is no function. Pass a function, a functools.partial or an object that can "
        "be called; the function itself, without parentheses, since each trial calls it.",
        "is no function",
        "`train()` trains at once, and its result was passed.",
        "`Experiment(train, ...)`, without parentheses.",
    ),
    Mistake(
        "leaves the metric out",
        TRAIN + "etude.Experiment(train)\n",
        "ConfigError: Experiment() needs metric=, and was called without. It names the number that judges a trial: "
        "metric='accuracy', mode='max'.",
        "Experiment() needs metric=",
        "Nothing says which number judges a trial.",
        '`metric="accuracy", mode="max"`.',
    ),
    Mistake(
        "leaves the mode out",
        TRAIN + 'etude.Experiment(train, metric="score")\n',
        "ConfigError: mode=None says neither that larger values of 'score' are better nor that smaller ones are. Pass "
        "mode='max' or mode='min'.",
        "mode=None says neither",
        "A metric alone does not tell whether more of it is better.",
        '`mode="max"` or `mode="min"`.',
    ),
    Mistake(
        "writes the mode as elsewhere",
        TRAIN + 'etude.Experiment(train, metric="score", mode="maximize")\n',
        "ConfigError: mode='maximize' says neither that larger values of 'score' are better nor that smaller ones are. "
        "Pass mode='max'.",
        "mode='maximize' says neither",
        "The modes are called `max` and `min`.",
        '`mode="max"`.',
    ),
    Mistake(
        "misspells an argument",
        TRAIN + 'etude.Experiment(train, metrics="score", mode="max")\n',
        "ConfigError: Experiment() takes no metrics=. Did you mean metric=?",
        "takes no metrics=",
        "There is no argument of that name.",
        "The name that the message asks after.",
    ),
    Mistake(
        "gives the functions by place",
        TRAIN + "def model(): ...\netude.Experiment(train, model, metric='score', mode='max')\n",
        "ConfigError: Experiment() was given 2 arguments without a name, and takes only train. Name the others: "
        "Experiment(train, model=..., data=..., metric=...).",
        "arguments without a name",
        "All but the training function is given by name.",
        "`Experiment(train, model=model, data=data, ...)`.",
    ),
    Mistake(
        "asks for a model that there is none of",
        'def train(model, lr): ...\netude.Experiment(train, metric="score", mode="max")\n',
        "SignatureError: train() asks for 'model', and the experiment has no model function. Pass Experiment(train, "
        "model=...), or call the parameter something else.",
        "the experiment has no model function",
        "`train(model, ...)` is given what `model=` builds.",
        "`Experiment(train, model=model, ...)`.",
    ),
    Mistake(
        "gives a method of a class",
        'class Trainer:\n    def train(self, lr): ...\netude.Experiment(Trainer.train, metric="score", mode="max")\n',
        "SignatureError: train() takes 'self': it is a method, taken from its class and not from an object. Pass that "
        "of an object: Trainer().train, or a plain function.",
        "train() takes 'self'",
        "`Trainer.train` has no object that it could be called on.",
        "`Experiment(Trainer().train, ...)`, or a function.",
    ),
    Mistake(
        "yields instead of reporting",
        'def train(lr):\n    yield lr\netude.Experiment(train, metric="score", mode="max")\n',
        "SignatureError: train() yields, so a call of it trains nothing and returns a generator. Report what it "
        "yields: run.report(...), with run among its parameters.",
        "train() yields",
        "A function with `yield` does nothing when it is called.",
        "`run.report(accuracy=...)` in the loop, and `return` at its end.",
    ),
)

CALLING: Final = (
    Mistake(
        "searches what no function takes",
        call('experiment.tune({"learning_rate": etude.uniform(0, 1)}, trials=2)'),
        "SignatureError: No function takes 'learning_rate'. They take: lr, width.",
        "No function takes 'learning_rate'",
        "A hyperparameter goes to the function that names it, and none does.",
        "One of the names that the message lists, or a parameter of that name.",
    ),
    Mistake(
        "takes all hyperparameters in one",
        'def train(config):\n    return config["lr"]\n' + EXPERIMENT + f"experiment.tune({LR}, trials=2)\n",
        "SignatureError: No function takes 'lr'. They take: config. Hyperparameters come one by one, by name: write lr "
        "in the place of config in the signature of train(), or **config for all of them.",
        "Hyperparameters come one by one",
        "Other libraries hand out a dict or a trial; here each hyperparameter is a parameter.",
        "`def train(lr, width)`, or `def train(**config)`.",
    ),
    Mistake(
        "leaves a value out",
        "def train(lr, width): ...\n" + EXPERIMENT + "experiment.run(lr=0.1)\n",
        "SignatureError: train() needs 'width', and nothing gives it: it has no default and no value. Give it a value "
        "(width=...), a default, or a place in the space.",
        "and nothing gives it",
        "A parameter has neither a default nor a value.",
        "A value, a default, or a place in the space.",
    ),
    Mistake(
        "writes a range as a tuple",
        call('experiment.tune({"lr": (1e-4, 1e-1)}, trials=2)'),
        "SpaceError: lr=(0.0001, 0.1) is one value, a tuple, and no range. Write etude.loguniform(0.0001, 0.1) for a "
        "range, [0.0001, 0.1] for one of the two; and [(0.0001, 0.1)] if the tuple is meant.",
        "is one value, a tuple, and no range",
        "A plain value in a space is fixed, and a tuple is one.",
        "`etude.uniform(low, high)`, `etude.loguniform` or `etude.integers`.",
    ),
    Mistake(
        "gives bounds in a dict",
        call('experiment.tune({"lr": {"min": 0, "max": 1}}, trials=2)'),
        "SpaceError: lr: A mapping is no domain, since a configuration is flat. Write etude.uniform(0, 1) for a range.",
        "A mapping is no domain",
        "A dict in a space is neither a range nor a choice.",
        "`etude.uniform(0, 1)`; `etude.choice({...})` if its keys are alternatives.",
    ),
    Mistake(
        "does not call the domain",
        call('experiment.tune({"lr": etude.uniform}, trials=2)'),
        "SpaceError: lr: The value <function uniform at ...> is of type 'function', which is not plain (None, bool, "
        "int, float, str, or a tuple of those). Call it: etude.uniform(...).",
        "Call it: etude.uniform(...)",
        "The function that makes a range is no range.",
        "`etude.uniform(0, 1)`.",
    ),
    Mistake(
        "begins a logarithm at 0",
        call('experiment.tune({"lr": etude.loguniform(0, 1)}, trials=2)'),
        "SpaceError: loguniform(0, 1) has low=0, which has no logarithm. Pass a low above 0.",
        "which has no logarithm",
        "0 is infinitely far away on such a scale.",
        "`etude.loguniform(1e-5, 1)`, or `etude.uniform(0, 1)`.",
    ),
    Mistake(
        "gives a number as text",
        call('experiment.run(lr="0.1")'),
        "SignatureError: lr='0.1' does not fit train(), which asks for lr: float (expected `float`, got `str`). Give a "
        "value of that type, or change the annotation.",
        "does not fit train(), which asks for",
        "Types are meant; what comes from a command line or a file is text.",
        "`float(...)` around it.",
    ),
    Mistake(
        "uses another library's name for an argument",
        call(f"experiment.tune({LR}, num_samples=100)"),
        "ConfigError: tune() takes no num_samples=. It is called trials= here.",
        "takes no num_samples=",
        "Other libraries call it so.",
        "The name that the message gives.",
    ),
    Mistake(
        "asks for no trials",
        call(f"experiment.tune({LR}, trials=0)"),
        "ConfigError: trials=0 cannot be: nothing would be run. Pass trials=1 or more.",
        "trials=0 cannot be",
        "Nothing would be run.",
        "`trials=20`; `experiment.check()` tries one batch.",
    ),
    Mistake(
        "does not say how many trials",
        call(f"experiment.tune({LR})"),
        "ConfigError: trials is missing, and sampler=TPE() never comes to an end. Pass trials=..., how many to run.",
        "trials is missing",
        "Most samplers could go on for ever.",
        "`trials=20`.",
    ),
    Mistake(
        "writes a sampler that there is not",
        call(f'experiment.tune({LR}, trials=2, sampler="TPE")'),
        "ConfigError: sampler='TPE' is not known. Did you mean 'tpe'? There are: 'random', 'grid', 'qmc', 'tpe', 'gp', "
        "'cmaes', 'nsga2'.",
        "sampler='TPE' is not known",
        "Samplers, stoppers and engines go by names in small letters.",
        "The name that the message asks after.",
    ),
    Mistake(
        "asks for GPUs that are not there",
        call(f'experiment.tune({LR}, trials=2, resources="gpus=1000")'),
        "ConfigError: One trial with gpus=1000 needs 1,000 GPUs, and this machine has none. Leave gpus= out, or run it "
        "on a machine that has some.",
        "needs 1,000 GPUs",
        "No trial could ever begin on this machine.",
        "Without `gpus=`, or with an engine whose machines have some. `etude doctor` says what is here.",
    ),
    Mistake(
        "gives one seed to an ablation",
        call('experiment.ablate(["width"], seeds=1)'),
        "ConfigError: Nothing can be decided: with 1 seed and 1 component no p-value can be below 1, corrected, and "
        "the "
        "level is 0.05. It takes 6 seeds or more, and 11 seeds to find an effect of 1 deviation of a pair's "
        "difference in "
        "80%. Nothing was started. Pass seeds=11, or fewer components; or force=True to run it all the same.",
        "Nothing can be decided",
        "With so few seeds no difference could be told from chance.",
        "The number of seeds that the message works out, or `force=True`.",
    ),
    Mistake(
        "names a layer that there is not",
        "from torch import nn\nimport torch\ndef model(): return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), "
        "nn.Linear(8, 1))\n"
        "def data(): return torch.ones(4, 4)\ndef train(model, data): return float(model()(data()).mean())\n"
        'experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")\n'
        'experiment.ablate(["layer:conv2"])\n',
        "ConfigError: 'layer:conv2' matches no layer. There are: 0, 1, 2.",
        "matches no layer",
        "The model has no layer of that name.",
        "One of those listed; `experiment.components()` lists all.",
    ),
    Mistake(
        "gives a search where one configuration belongs",
        call(TUNE + "experiment.fit(at=search)"),
        "ConfigError: at= got a study, which is no configuration. Pass a trial, at=search.best, or parameters.",
        "at= got a study",
        "A search has many configurations.",
        "`at=search.best`.",
    ),
    Mistake(
        "gives hyperparameters in a dict",
        call('experiment.run({"lr": 0.1})'),
        "ConfigError: run() was given 1 argument without a name, and takes none. Name them: run(**trial.params).",
        "run() was given 1 argument without a name",
        "`run` takes hyperparameters by name.",
        "`experiment.run(lr=0.1)`, `experiment.run(**params)`, or `experiment.run(**search.best.params)`.",
    ),
    Mistake(
        "edits a study that has a name",
        call(f'experiment.tune({LR}, trials=1, workers=1, name="mine")\n')
        + 'experiment.tune({"lr": etude.uniform(0, 2)}, trials=1, workers=1, name="mine")\n',
        "DefinitionChangedError: The study 'mine' began with another definition:\n\nspace lr: uniform(0.0, 1.0) -> "
        "uniform(0.0, 2.0)\n\nTrials of both would not compare. Give this one another name (name=...), or go back to "
        "the definition above; or move {here}/studies/mine away to start over.",
        "began with another definition",
        "Trials before and after the edit would not compare.",
        "Another `name=`, or none: an unnamed study begins anew by itself.",
    ),
    Mistake(
        "uses a lock or an open file",
        "import threading\nlock = threading.Lock()\ndef train(lr):\n    with lock:\n        return lr\n"
        + EXPERIMENT
        + TUNE,
        "ConfigError: The functions cannot be sent to workers: cannot pickle '_thread.lock' object. 'lock' is "
        "something "
        "that exists in this process only, such as an open file, a lock or a connection. Make it inside data() or "
        "train().",
        "cannot be sent to workers",
        "Trials have processes of their own, and a lock, file or connection stays in the first.",
        "Make it inside the function that uses it.",
    ),
    Mistake(
        "has no Ray",
        'import sys\nsys.modules["ray"] = None\n' + call(f'experiment.tune({LR}, trials=2, engine="ray")'),
        "ConfigError: engine='ray' needs Ray. Install it with: pip install 'etude[ray]'",
        "pip install 'etude[ray]'",
        "What not everybody needs is an extra: `ray`, `spark`, `gp`, `report`, ...",
        "The command that the message gives.",
    ),
)

IN_TRIALS: Final = (
    Mistake(
        "uses model without calling it",
        "import torch\nfrom torch import nn\ndef model(): return nn.Linear(2, 1)\n"
        "def train(model, lr):\n    torch.optim.SGD(model.parameters(), lr=lr)\n"
        'etude.Experiment(train, model=model, metric="loss", mode="min").run(lr=0.1)\n',
        "AttributeError: model.parameters cannot be: model is the function that builds the model, and was not called. "
        "Call it once and use what it returns: net = model().",
        "model is the function that builds the model, and was not called",
        "`model` reaches `train` as a function, with the trial's hyperparameters in it.",
        "`net = model()` first.",
    ),
    Mistake(
        "uses data without calling it",
        "def data(): return [1, 2], [3]\ndef train(data, lr):\n    batches, valid = data\n"
        'etude.Experiment(train, data=data, metric="loss", mode="min").run(lr=0.1)\n',
        "TypeError: data was to be gone through or unpacked, but it is the function that loads the data, and was not "
        "called. Call it once and use what it returns: found = data().",
        "is the function that loads the data, and was not called",
        "`data` reaches `train` as a function, too.",
        "`batches, valid = data()`.",
    ),
    Mistake(
        "hands hyperparameters to model",
        "def model(width: int = 8): return width\ndef train(model, lr): return model(width=32)\n"
        'etude.Experiment(train, model=model, metric="loss", mode="min").run(lr=0.1)\n',
        "TypeError: model(...) was called with width, and takes none: it builds the model, and has this trial's "
        "hyperparameters already. Call it once and use what it returns: net = model().",
        "has this trial's hyperparameters already",
        "What `model` takes is searched or given with the rest.",
        "`model()` in `train`, and `width` in the space or in `run(width=32)`.",
    ),
    Mistake(
        "returns nothing and reports nothing",
        trial("lr): pass"),
        "StudyError: Trial 0 gave no result: The metric 'score' never came: the training function returned nothing, "
        "and "
        f"reported none. Return a number or {{'score': ...}}, or call run.report(score=...) at least once. {ENDS}",
        "The metric 'score' never came",
        "A trial is judged by what it returns, or else by its last report, and there was neither.",
        "`return` the number, or `run.report(score=...)`.",
    ),
    Mistake(
        "misspells the metric",
        'def train(lr): return {"acc": 0.5}\n'
        'experiment = etude.Experiment(train, metric="accuracy", mode="max")\n' + TUNE,
        "StudyError: Trial 0 gave no result: The metric 'accuracy' never came: the training function returned a dict "
        "with 'acc', and reported none. Return a number or {'accuracy': ...}, or call run.report(accuracy=...) at "
        "least "
        f"once. {ENDS}",
        "returned a dict with 'acc'",
        "The dict has another name for it than `metric=`.",
        "The same name in both.",
    ),
    Mistake(
        "returns a number for each class",
        trial("lr): return [0.1, 0.2]"),
        "StudyError: Trial 0 gave no result: The training function returned [0.1, 0.2] (list) for the metric 'score', "
        "which is no single number (float() argument must be a string or a real number, not 'list'). Return a "
        "number, a "
        f"dict with 'score' in it, or nothing: then the last report counts. {ENDS}",
        "which is no single number",
        "A list, a text or a tensor of several elements cannot be compared.",
        "`.mean()` or `.item()`; what else is worth keeping goes into a dict beside the metric.",
    ),
    Mistake(
        "reports a value and a step",
        trial("run, lr):\n    for epoch in range(3): run.report(0.5, epoch)"),
        "StudyError: Trial 0 gave no result: run.report got 2 values without a name. Name what you report: "
        f"run.report(score=...). Steps are counted here, so no step is given: each report of 'score' is one. {ENDS}",
        "run.report got 2 values without a name",
        "Reports have names, and count their steps themselves.",
        "`run.report(score=value)`.",
    ),
    Mistake(
        "reports without asking for run",
        trial("lr):\n    run.report(score=1.0)"),
        "Failed (2 trials, 0 the first): NameError: name 'run' is not defined. Étude gives run to a function that "
        "names "
        "it as a parameter: def train(..., run).\nSee: etude logs {here}/studies/first 0",
        "NameError: name 'run' is not defined",
        "`run` is given to whoever names it, and to nobody else.",
        "`def train(..., run, *, lr)`.",
    ),
    Mistake(
        "asks a question in a trial",
        trial('lr):\n    input("go on? ")\n    return lr'),
        "Failed (2 trials, 0 the first): EOFError: EOF when reading a line. A trial has no terminal, so nobody answers "
        "input() or breakpoint(). experiment.run(...) runs the function here, and `etude debug` a trial.\n"
        "See: etude logs {here}/studies/first 0",
        "EOFError: EOF when reading a line",
        "Trials run beside each other, without a terminal.",
        "`experiment.run(...)` or `etude debug STUDY TRIAL` to look into it.",
    ),
    Mistake(
        "reads a file that is not there",
        trial('lr):\n    open("nothing.csv")'),
        "Failed (2 trials, 0 the first): FileNotFoundError: [Errno 2] No such file or directory: 'nothing.csv'. Trials "
        "run in the folder that the study was called from: 'nothing.csv' is looked for there, on each machine that has "
        "workers.\nSee: etude logs {here}/studies/first 0",
        "No such file or directory",
        "A relative path begins where the script was called from.",
        "Call it from there, or write whole paths: `Path(__file__).parent / ...`.",
    ),
    Mistake(
        "leaves the process",
        trial("lr):\n    raise SystemExit(1)"),
        "Failed (2 trials, 0 the first): SystemExit: 1. The training function ended its own process, as sys.exit() and "
        "argparse do. Let it return, and take hyperparameters by name.\nSee: etude logs {here}/studies/first 0",
        "SystemExit",
        "`sys.exit()` and a parser that is not satisfied end the trial.",
        "`return`; hyperparameters come as parameters, not from a command line.",
    ),
    Mistake(
        "wants more memory than there is",
        trial("lr):\n    raise MemoryError"),
        "Failed (2 trials, 0 the first): lost 3 times, the last time: MemoryError. Less of it at a time is a smaller "
        "batch, or fewer workers; resources='auto' learns what trials need.\nSee: etude logs {here}/studies/first 0",
        "MemoryError",
        "A trial that ran out of memory was tried again, and did so again.",
        '`workers=1`, a smaller batch, or `resources="auto"`.',
    ),
    Mistake(
        "diverges",
        trial('lr): return float("nan")'),
        "Best score: none, since all 2 finished trials gave NaN. Where a loss diverges, smaller steps help, or clipped "
        "gradients; stopper='divergence' ends such trials when they report it.",
        "finished trials gave NaN",
        "NaN is worse than any number, and there is no number.",
        'Smaller learning rates in the space; `stopper="divergence"`.',
    ),
)

AFTERWARDS: Final = (
    Mistake(
        "asks for the best of trials that failed",
        'def train(lr):\n    raise ValueError("no such class")\n' + EXPERIMENT + TUNE + "search.best\n",
        "StudyError: Study 'first' has no best trial, because none finished (trials: 2 failed). Trial 0 failed: "
        "ValueError: no such class. See: etude logs {here}/studies/first 0",
        "has no best trial, because none finished",
        "Every trial failed; the message has the error of the first.",
        "`etude logs STUDY 0` shows its traceback, `etude debug STUDY 0` runs it again.",
    ),
    Mistake(
        "asks for what another library has",
        call(TUNE + "search.best_params"),
        "AttributeError: 'Search' object has no attribute 'best_params'. Write search.best.params.",
        "has no attribute 'best_params'",
        "The best is a trial, with `params`, `value` and `seed`.",
        "`search.best.params`.",
    ),
    Mistake(
        "begins with weights that nobody kept",
        call(TUNE + "experiment.fit(at=search.best, weights=search.best.weights)"),
        "ConfigError: Trial 0 of 'first' has no weights: its function kept none, or others were better. Keep them with "
        "kept = run.keep(net=net) and run.epochs(n); tune(..., keep=5) keeps those of the five best trials, as far as "
        "max_gb= leaves room for them.",
        "has no weights",
        "A trial keeps what its function says, and it said nothing.",
        "`run.keep(net=net, optimizer=optimizer)` before the loop.",
    ),
    Mistake(
        "misspells the name of a study",
        call(TUNE + 'etude.open("frist")'),
        "NotAStudyError: There is no study frist. `etude ls` lists the studies that there are. Did you mean 'first'?",
        "There is no study",
        "None of that name is kept below the folder that you are in.",
        "`etude ls`, or the name that the message asks after.",
    ),
)

GUARDED: Final = (
    TRAIN + 'if __name__ == "__main__":\n    experiment = etude.Experiment(train, metric="score", mode="max")\n'
)

COMMANDS: Final = (
    Mistake(
        "misspells the experiment",
        call(""),
        "script.py has no experiment 'experimnt'. Did you mean 'experiment'? It has: experiment.",
        "has no experiment",
        "The script has no such name.",
        "`etude tune script.py:experiment ...`, or the script alone if it has one experiment.",
        ("tune", "script.py:experimnt", "lr=uniform(0, 1)", "--trials", "2"),
        2,
    ),
    Mistake(
        "makes the experiment under a main guard",
        GUARDED,
        'script.py has 0 experiments, and none was named. It makes one under `if __name__ == "__main__":`, which is '
        "not run when the script is only read: put experiment = etude.Experiment(...) above that line.",
        "which is not run when the script is only read",
        "Commands read a script without running what stands under its main guard.",
        "The experiment above the guard, `tune(...)` below it.",
        ("tune", "script.py", "lr=uniform(0, 1)", "--trials", "2"),
        2,
    ),
    Mistake(
        "parses arguments while it is read",
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', required=True)\n"
        "args = parser.parse_args()\n" + call(""),
        "script.py ended itself while it was loaded. Put what parses arguments or exits under "
        '`if __name__ == "__main__":`.',
        "ended itself while it was loaded",
        "A parser at the top of a script reads the arguments of `etude`, and exits.",
        "The parser under the main guard; hyperparameters by name.",
        ("tune", "script.py:experiment", "lr=uniform(0, 1)", "--trials", "2"),
        2,
    ),
    Mistake(
        "misspells a domain",
        call(""),
        "lr: There is no domain 'unifrm'. Did you mean 'uniform'?",
        "There is no domain",
        "A domain is written as in Python, without `etude.`.",
        "`lr='loguniform(1e-4, 1)'`, in quotes.",
        ("tune", "script.py:experiment", "lr=unifrm(0, 1)", "--trials", "2"),
        2,
    ),
    Mistake(
        "takes a verb of Python for a command",
        call(""),
        "There is no command `etude ablate`. Run it as etude run script.py:experiment verb=ablate "
        "'components=[dropout]' seeds=7, or write experiment.ablate(['dropout'], seeds=7) in the script.",
        "There is no command",
        "`ablate`, `fit` and `check` are calls of Python, and verbs of `etude run`.",
        "The command of the message; more of it stands in a file.",
        ("ablate", "script.py:experiment"),
        2,
    ),
    Mistake(
        "resumes a script",
        call(""),
        "script.py is not a study: it has no journal.sqlite. `etude ls` lists the studies that there are. A script "
        "begins one: python script.py, or `etude tune script.py ...`.",
        "A script begins one",
        "`resume` and `show` take a study, by name or folder.",
        "`etude ls` for its name; or run the script again, which goes on as well.",
        ("resume", "script.py"),
    ),
    Mistake(
        "gives the folder around the studies",
        call(TUNE),
        "{here}/studies is not a study: it has no journal.sqlite. `etude ls` lists the studies that there are. There "
        "are "
        "studies in it, so give one of them: first.",
        "There are studies in it",
        "Each study is a folder within.",
        "One of the names in the message.",
        ("show", "{here}/studies"),
    ),
)

ELSEWHERE: Final = (
    Mistake(
        "names a scheduler as the engine",
        call(""),
        "engine='slurm' is no engine: Étude starts no jobs there. Pass engine='cluster', which waits for workers, and "
        "have each job run `etude worker --credentials FILE`.",
        "Étude starts no jobs there",
        "Slurm, Kubernetes and SSH start what you tell them; workers join a study from there.",
        "`engine='cluster'`, and a job for each worker ([how](cluster.md#joining-by-hand)).",
        ("tune", "script.py:experiment", "lr=uniform(0, 1)", "--trials", "2", "--engine", "slurm"),
        2,
    ),
    Mistake(
        "gives the address of a cluster as the engine",
        call(""),
        "engine='spark://head:7077' is an address. Pass engine=\"spark(master='spark://HOST:7077')\".",
        "is an address",
        "An engine is a name, and its options stand in brackets.",
        "As the message spells it.",
        ("tune", "script.py:experiment", "lr=uniform(0, 1)", "--trials", "2", "--engine", "spark://head:7077"),
        2,
    ),
    Mistake(
        "joins without credentials",
        call(""),
        "Whoever joins a study has to show its credentials. Pass --credentials FILE: the driver writes "
        "credentials.json into the study's folder when it starts, with engine='cluster'; copy it from there.",
        "has to show its credentials",
        "An address alone lets nobody in.",
        "`--credentials`, with a copy of that file.",
        ("worker", "--join", "head:8443"),
        2,
    ),
    Mistake(
        "joins before the study has begun",
        call(""),
        "The credentials file credentials.json cannot be read: No such file or directory. The driver writes it when "
        "its study starts; copy it from there.",
        "The driver writes it when its study starts",
        "Each run of a study has credentials of its own, and removes them when it ends.",
        "Start the script first; then copy the file.",
        ("worker", "--credentials", "credentials.json"),
        2,
    ),
    Mistake(
        "copies credentials so that others can read them",
        call(""),
        "The credentials file script.py can be read by others on this machine, and who has it can join the study. "
        "Run: chmod 600 script.py",
        "can be read by others on this machine",
        "`scp` and `cp` make files that everybody can read.",
        "`chmod 600` on the copy.",
        ("worker", "--credentials", "script.py"),
        2,
    ),
)

ALL: Final = {
    "When the experiment is defined": DEFINING,
    "When a verb is called": CALLING,
    "In the training function": IN_TRIALS,
    "With what came of it": AFTERWARDS,
    "On the command line": COMMANDS,
    "On other machines": ELSEWHERE,
}
"""Heading on the page -> mistakes."""
