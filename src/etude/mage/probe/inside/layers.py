"""Models of Keras. On PyTorch its steps can be seen; on other backends they are compiled, and only ``fit`` is."""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.seen import Seen


class Layers:
    """Watches models of Keras.

    Args:
        seen: Where facts are kept.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._keras: Any = None
        self._calls: dict[int, list[Any]] = {}
        self._models: list[tuple[Any, dict[str, Any]]] = []
        self._looked_at: set[int] = set()
        self._steps = 0
        self._depth = 0

    def watch(self, keras: Any) -> None:
        """Watch what is trained from here on."""
        seen, self._keras = self._seen, keras
        self._watch_fit(keras)
        if keras.backend.backend() != "torch":
            seen.note(f"Keras on {keras.backend.backend()} compiles its steps: they could not be watched")
            return
        for name in ("models", "optimizers", "losses", "scheduled"):
            seen.facts.setdefault(name, [])
        called = seen.hook(self._called)
        call = keras.layers.Layer.__call__

        @functools.wraps(call)
        def calling(layer: Any, *args: Any, **kwargs: Any) -> Any:
            called(layer, args)
            return call(layer, *args, **kwargs)

        keras.layers.Layer.__call__ = calling
        apply = keras.optimizers.Optimizer.apply
        before, after = seen.hook(self._before_step), seen.hook(self._after_step)

        @functools.wraps(apply)
        def applying(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
            grads = list(grads)
            before(optimizer, grads, trainable_variables)
            found = apply(optimizer, grads, trainable_variables)
            after()
            return found

        keras.optimizers.Optimizer.apply = applying

    def update(self) -> None:
        """Hand over what was counted."""
        for model, facts in self._models:
            for path, layer in _layers(model):
                if id(layer) in self._calls and path in facts["modules"]:
                    facts["modules"][path]["calls"] = self._calls[id(layer)][1]

    def _watch_fit(self, keras: Any) -> None:
        fit = keras.Model.fit
        began = self._seen.hook(self._fitting)

        @functools.wraps(fit)
        def fitting(model: Any, *args: Any, **kwargs: Any) -> Any:
            began(model, args, kwargs)
            return fit(model, *args, **kwargs)

        keras.Model.fit = fitting

    def _fitting(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        plain = self._seen.plain
        table = args[0] if args else kwargs.get("x")
        labels = args[1] if len(args) > 1 else kwargs.get("y")
        shape: Any = getattr(table, "shape", ())
        names = [str(name) for name in getattr(table, "columns", ())]
        width = int(shape[1]) if len(shape) == 2 else 0  # noqa: PLR2004 - a table
        wanted = {name: value for name, value in kwargs.items() if name in ("epochs", "batch_size", "shuffle")}
        self._seen.facts["fits"].append(
            {
                "type": type(model).__name__,
                "rows": int(shape[0]) if len(shape) else 0,
                "columns": names or [str(n) for n in range(width)],
                "target": "" if labels is None else plain.digest(plain.bytes_of(labels)),
                "values": plain.plain_items(wanted.items()),
            }
        )

    def _called(self, layer: Any, args: Any) -> None:
        if args and type(args[0]).__name__ == "KerasTensor":  # it is put together, and not used
            return
        known = self._calls.setdefault(id(layer), [layer, 0])
        known[1] += 1

    def _before_step(self, optimizer: Any, grads: Any, variables: Any) -> None:
        plain = self._seen.plain
        variables = list(variables if variables is not None else optimizer._trainable_variables)
        if not self._steps:
            config = optimizer.get_config()
            rate = config.get("learning_rate")
            if isinstance(rate, dict):
                self._seen.facts["scheduled"].append(str(rate.get("class_name", "")))
            config["learning_rate"] = float(optimizer.learning_rate)
            self._seen.facts["optimizers"].append(
                [{"type": type(optimizer).__name__, **plain.plain_items(config.items())}]
            )
        if not {id(one) for one in variables} <= self._looked_at:
            self._looked_at |= {id(one) for one in variables}
            self._look_at(variables)
        rows: dict[int, list[dict[str, Any]]] = {}
        for _, facts in self._models:
            for row in facts["parameters"].values():
                rows.setdefault(row["variable"], []).append(row)
        for variable, gradient in zip(variables, grads, strict=False):
            if waiting := [row for row in rows.get(id(variable), ()) if not row["got_gradient"]]:
                got = gradient is not None and bool((gradient.detach() != 0).any())
                for row in waiting:
                    row["got_gradient"] = got

    def _after_step(self) -> None:
        self._steps += 1
        self._seen.facts["steps"] = self._steps
        if self._steps >= self._seen.steps_wanted:
            self._seen.enough()
        self._seen.write_steps()

    def _look_at(self, variables: list[Any]) -> None:
        wanted = {id(one) for one in variables}
        models = [one for one in gc.get_objects() if issubclass(type(one), self._keras.Model)]
        inner = {id(layer) for model in models for layer in model._flatten_layers(include_self=False)}
        inner |= {id(getattr(model, "_functional", None)) for model in models}  # what a Sequential is made of
        for model in models:
            is_new = all(model is not known for known, _ in self._models)
            if is_new and id(model) not in inner and any(id(one) in wanted for one in model.trainable_variables):
                self._models.append((model, self._facts(model)))
                self._seen.facts["models"].append(self._models[-1][1])

    def _facts(self, model: Any) -> dict[str, Any]:
        plain = self._seen.plain
        rows = {}
        for one in model.weights:
            trainable = bool(one.trainable)
            rows[_inside(model, one.path)] = {
                "shape": [int(size) for size in one.shape],
                "trainable": trainable,
                "digest": plain.digest(plain.bytes_of(one.value)),
                "begins": plain.moments(one.value),
                "got_gradient": False if trainable else None,
                "variable": id(one),
            }
        modules = {
            path: {"type": type(layer).__name__, "calls": 0, "values": plain.plain_items(_values(layer))}
            for path, layer in _layers(model)
        }
        return {"type": type(model).__name__, "parameters": rows, "modules": modules}


def _layers(model: Any) -> list[tuple[str, Any]]:
    inner = model._flatten_layers(include_self=False)
    return [("", model), *((_inside(model, layer.path or layer.name), layer) for layer in inner)]


def _inside(model: Any, path: str) -> str:
    """Return a path as it is inside the model: names of models are numbered, and so differ between programs."""
    return path.removeprefix(f"{model.name}/").replace("/", ".")


def _values(layer: Any) -> Any:
    return [(name, value) for name, value in vars(layer).items() if name not in ("training", "built")]
