"""Models of PyTorch: what they are made of, what is called, what gets a gradient, and what steps are made of."""

from __future__ import annotations

import functools
import gc
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.operators import Operators
    from etude.mage.probe.inside.seen import Seen

MOST_STEPS = 10
"""So many times the steps that were asked for are enough, however they are divided between optimizers."""
WRAPPERS = {"DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod"}
"""Modules that stand around a model and are none, and where they keep it."""
METHODS = ("train", "eval", "parameters", "named_parameters", "state_dict", "load_state_dict", "zero_grad", "to")
"""What every module can do in one way."""


class Modules:
    """Watches models while they train.

    Args:
        seen: Where facts are kept.
        operators: What counts operators; it is told which module's call runs.
    """

    def __init__(self, seen: Seen, operators: Operators) -> None:
        self._seen = seen
        self._operators = operators
        self._torch: Any = None
        self._hooks: list[Any] = []
        self._calls: dict[
            int, list[Any]
        ] = {}  # number of the object -> the module, and how often it was called, and called apart
        self._roots: list[Any] = []
        self._models: list[dict[str, Any]] = []
        self._bare: list[tuple[Any, dict[str, Any]]] = []  # tensors that belong to no module
        self._steps: dict[int, int] = {}
        self._optimizers: list[Any] = []
        self._dtypes: dict[int, set[str]] = {}

    def watch(self, torch: Any) -> None:
        """Watch what is trained from here on."""
        seen, self._torch = self._seen, torch
        called, ended = seen.hook(self._called), seen.hook(self._ended)
        before, after = seen.hook(self._before_step), seen.hook(self._after_step)
        hooks = torch.nn.modules.module
        self._hooks = [
            hooks.register_module_forward_pre_hook(called),
            hooks.register_module_forward_hook(ended, always_call=True),
        ]
        stepping = sys.modules["torch.optim.optimizer"]  # which torch.optim does not show
        stepping.register_optimizer_step_pre_hook(before)
        stepping.register_optimizer_step_post_hook(after)
        self._watch_backward(torch, seen.hook(self._before_backward), seen.hook(self._after_backward))
        self._watch_schedulers(torch, seen.hook(self._scheduled))
        self._watch_compile(torch)
        seen.facts.update(models=[], optimizers=[], rates=[], scheduled=[], losses=[])

    def update(self) -> None:
        """Hand over what was counted."""
        if self._torch is None:
            return
        for root, model in zip(self._roots, self._models, strict=True):
            for path, *modules in self._with_copies(root):
                called = [one for one in modules if id(one) in self._calls]
                if path in model["modules"] and called:
                    model["modules"][path].update(
                        calls=sum(self._calls[id(one)][1] for one in called),
                        apart=sum(self._calls[id(one)][2] for one in called),
                        operators=_added(self._operators.of(one) for one in called),
                        dtypes=sorted({name for one in called for name in self._dtypes.get(id(one), ())}),
                    )
        if self._seen.is_ending and self._seen.facts["steps"]:
            for parameter, row in self._pairs():
                row["moved"] = self._digest_of(parameter) != row["digest"] if row["digest"] else None

    def _with_copies(self, root: Any) -> Any:
        """Yield paths of a model, with the module there and those of its copies, such as an average of its weights."""
        roots, kinds = {id(one) for one in self._roots}, _kinds(root)
        alike = [one for one, *_ in self._calls.values() if type(one) is type(root) and id(one) not in roots]
        copies = [one for one in alike if _kinds(one) == kinds]
        return zip(kinds, *([one for _, one in model.named_modules()] for model in (root, *copies)), strict=True)

    # --- hooks ------------------------------------------------------------------------------------

    def _called(self, module: Any, inputs: Any) -> None:
        known = self._calls.get(id(module))
        if known is None:
            known = self._calls[id(module)] = [module, 0, 0]
            if len(self._calls) == 1:
                plain = self._seen.plain
                values = [found for found in map(plain.moments, plain.leaves(inputs)) if found is not None]
                self._seen.facts["first_input"] = [plain.shapes(inputs), _digest(plain, inputs), values]
        known[1] += 1
        known[2] += self._operators.is_apart
        self._operators.enter(module)

    def _ended(self, module: Any, _: Any, output: Any) -> None:
        self._operators.leave_module(module)
        for leaf in self._seen.plain.leaves(output):
            if hasattr(leaf, "is_floating_point") and leaf.is_floating_point():
                self._dtypes.setdefault(id(module), set()).add(str(leaf.dtype).removeprefix("torch."))

    def _before_backward(self, tensors: Any) -> None:
        losses = [tensors] if hasattr(tensors, "backward") else list(tensors)
        self._seen.facts["losses"] += [float(loss.detach()) for loss in losses if loss.numel() == 1]

    def _after_backward(self) -> None:
        """Take it for a step, if there is no optimizer that could make any."""
        seen = self._seen
        if self._steps or seen.facts["steps"] >= seen.steps_wanted or self._has_optimizer():
            return
        seen.note("there is no optimizer: calls of backward were counted as steps")
        self._look_at([])
        self._look_at_gradients()
        seen.facts["steps"] += 1
        if seen.facts["steps"] >= seen.steps_wanted:
            seen.enough()

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        self._operators.step(begins=True)
        if id(optimizer) not in self._steps:
            self._steps[id(optimizer)] = 0
            self._optimizers.append(optimizer)  # kept, so that no other one gets its number
            if not _closes(optimizer):
                self._look_at([p for group in optimizer.param_groups for p in group["params"]])
            plain = self._seen.plain
            groups = [plain.plain_items((n, v) for n, v in g.items() if n != "params") for g in optimizer.param_groups]
            self._seen.facts["optimizers"].append([{"type": type(optimizer).__name__, **group} for group in groups])
        self._seen.facts["rates"].append(float(optimizer.param_groups[0]["lr"]))
        self._look_at_gradients()

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        seen = self._seen
        self._operators.step(begins=False)
        if not self._steps[id(optimizer)] and _closes(optimizer):
            self._look_at([p for group in optimizer.param_groups for p in group["params"]])
            self._look_at_gradients()
        self._steps[id(optimizer)] += 1
        total = seen.facts["steps"] = sum(self._steps.values())
        is_enough = min(self._steps.values()) >= seen.steps_wanted and not self._others_wait()
        if is_enough or total >= MOST_STEPS * seen.steps_wanted:
            seen.enough()
        seen.write_steps()

    def _others_wait(self) -> bool:
        """Say whether there are optimizers that have made no step so far: all objects are looked through for that."""
        return len(self._alive(self._torch.optim.Optimizer)) > len(self._steps)

    def _scheduled(self, scheduler: Any) -> None:
        self._seen.facts["scheduled"].append(type(scheduler).__name__)

    # --- looking ----------------------------------------------------------------------------------

    def _look_at(self, trained: list[Any]) -> None:
        """Find the outermost modules that have these parameters, and those that have a gradient if there are none."""
        roots, owned = self._roots_of({id(one) for one in trained})
        for root in map(_unwrapped, roots):
            if all(root is not known for known in self._roots):
                self._roots.append(root)
                self._models.append(self._model(root))
                self._seen.facts["models"].append(self._models[-1])
        if bare := [one for one in trained if id(one) not in owned]:
            rows = {str(nth): self._parameter(one) for nth, one in enumerate(bare)}
            self._bare += zip(bare, rows.values(), strict=True)
            self._seen.facts["models"].append({"type": "Tensor", "parameters": rows, "modules": {}})
        self._note_groups()
        self._seen.write()

    def _roots_of(self, wanted: set[int]) -> tuple[list[Any], set[int]]:
        """Return the outermost modules above these parameters, in order of their first calls, and which they have."""
        alive = self._alive(self._torch.nn.Module)
        parents: dict[int, list[Any]] = {}
        for module in alive:
            for child in module._modules.values():
                if child is not None:
                    parents.setdefault(id(child), []).append(module)
        owned: set[int] = set()
        todo = []
        for module in alive:
            for parameter in module._parameters.values():
                if parameter is not None and (id(parameter) in wanted if wanted else parameter.grad is not None):
                    owned.add(id(parameter))
                    todo.append(module)
        roots, passed = [], set()
        while todo:
            module = todo.pop(0)
            if id(module) in passed:
                continue
            passed.add(id(module))
            todo += parents.get(id(module), [])
            if id(module) not in parents:
                roots.append(module)
        order = {number: nth for nth, number in enumerate(self._calls)}
        return sorted(roots, key=lambda root: order.get(id(root), len(order))), owned

    def _model(self, root: Any) -> dict[str, Any]:
        plain = self._seen.plain
        return {
            "type": type(root).__name__,
            "parameters": {name: self._parameter(one) for name, one in root.named_parameters()},
            "modules": {
                path: {
                    "type": type(module).__name__,
                    "calls": 0,
                    "apart": 0,
                    "values": plain.plain_items(vars(module).items()),
                    "buffers": len(module._buffers),
                    "hides": [name for name in METHODS if _is_own(module, name)],
                }
                for path, module in root.named_modules()
            },
        }

    def _parameter(self, parameter: Any) -> dict[str, Any]:
        is_lazy = "Uninitialized" in type(parameter).__name__
        return {
            "shape": [] if is_lazy else list(parameter.shape),
            "trainable": bool(parameter.requires_grad),
            "digest": "" if is_lazy else self._digest_of(parameter),
            "got_gradient": None,
            "moved": None,
            "begins": None if is_lazy else self._moments_of(parameter),
            "group": None,
        }

    def _digest_of(self, parameter: Any) -> str:
        """Return the digest of all its values; empty where it has none that could be read."""
        try:
            return str(self._seen.plain.digest(self._seen.plain.bytes_of(parameter)))
        except Exception:
            return ""

    def _moments_of(self, parameter: Any) -> list[float] | None:
        try:
            found: list[float] | None = self._seen.plain.moments(parameter)
        except Exception:
            return None
        return found

    def _note_groups(self) -> None:
        """Note which optimizer has a parameter, and in which group."""
        groups: dict[int, list[int]] = {}
        for nth, optimizer in enumerate(self._optimizers):
            for number, group in enumerate(optimizer.param_groups):
                for parameter in group["params"]:
                    groups.setdefault(id(parameter), [nth, number])
        for parameter, row in self._pairs():
            row["group"] = groups.get(id(parameter))

    def _pairs(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return all parameters, and what is kept of them."""
        pairs = list(self._bare)
        for root, model in zip(self._roots, self._models, strict=True):
            rows = model["parameters"]
            pairs += [(one, rows[name]) for name, one in root.named_parameters() if name in rows]
        return pairs

    def _look_at_gradients(self) -> None:
        """Note which parameters have a gradient that is not 0."""
        for parameter, row in self._pairs():
            if not row["got_gradient"]:
                gradient = parameter.grad
                if gradient is not None and gradient.is_sparse:
                    gradient = gradient._values()
                row["got_gradient"] = gradient is not None and bool((gradient.detach() != 0).any())

    def _alive(self, kind: type) -> list[Any]:
        kinds = self._seen.plain.classes(kind)
        return [one for one in gc.get_objects() if type(one) in kinds]

    def _has_optimizer(self) -> bool:
        return "keras" in sys.modules or bool(self._alive(self._torch.optim.Optimizer))

    # --- ways in ----------------------------------------------------------------------------------

    def _watch_backward(self, torch: Any, before: Any, after: Any) -> None:
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            before(tensors)
            original(tensors, *args, **kwargs)
            after()

        torch.autograd.backward = backward

    def _watch_schedulers(self, torch: Any, made: Any) -> None:
        kind = torch.optim.lr_scheduler.LRScheduler
        original = kind.__init__

        @functools.wraps(original)
        def begin(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            made(scheduler)
            original(scheduler, *args, **kwargs)

        kind.__init__ = begin

    def _watch_compile(self, torch: Any) -> None:
        def giving_way(original: Any) -> Any:
            @functools.wraps(original)
            def compiled(*args: Any, **kwargs: Any) -> Any:
                if self._hooks:  # they would be compiled, too
                    for hook in self._hooks:
                        hook.remove()
                    self._hooks = []
                    self._operators.compile()
                return original(*args, **kwargs)

            return compiled

        torch.compile = giving_way(torch.compile)
        if hasattr(torch, "export"):
            torch.export.export = giving_way(torch.export.export)


def _closes(optimizer: Any) -> bool:
    """Say whether an optimizer computes losses and gradients itself, so that there are none before its first step."""
    return type(optimizer).__name__ == "LBFGS"


def _unwrapped(module: Any) -> Any:
    while type(module).__name__ in WRAPPERS:
        module = getattr(module, WRAPPERS[type(module).__name__])
    return module


def _kinds(module: Any) -> dict[str, Any]:
    """Return the class of each module in a module, by its path."""
    return {path: type(one) for path, one in module.named_modules()}


def _added(counts: Any) -> dict[str, int]:
    """Return what was counted in several places, together."""
    found: dict[str, int] = {}
    for one in counts:
        for name, n in one.items():
            found[name] = found.get(name, 0) + n
    return found


def _is_own(module: Any, name: str) -> bool:
    """Say whether a method is none of PyTorch's: the object's own one, or that of a class of somebody else."""
    found = vars(module).get(name) or getattr(type(module), name, None)
    return not (getattr(found, "__module__", None) or "").startswith("torch.")


def _digest(plain: Any, value: Any) -> str:
    return str(plain.digest(*map(plain.bytes_of, plain.leaves(value))))
