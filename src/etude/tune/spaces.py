"""Spaces, and the choice, which may hold spaces: what a search may vary.

A *space* gives each name a domain, and a *configuration* is one flat dict out of it. A choice may carry
parameters of its own, which occur only where their branch was chosen, and then stand beside the choice:

    Space.of({"optimizer": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}), "width": [32, 64]})

    {"optimizer": "sgd", "momentum": 0.3, "width": 64}
    {"optimizer": "adam", "width": 32}

All of it is plain, hashable data. Whoever proposes configurations hands ``Space.build`` a function
that picks one value at a time; which parameters are active is decided here and nowhere else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, final

from etude.core.errors import SpaceError
from etude.tune.domains import Domain, Listed, LogUniform, Uniform, integers, loguniform, ordered, uniform
from etude.tune.stages import Piecewise, Upto
from etude.tune.values import Value, bounds_in, decoded, label, listed, mend

Pick: TypeAlias = "Callable[[str, Domain], Value]"
"""Picks a value for the parameter at a path, such as ``"optimizer=sgd/momentum"``."""


def choice(values: Sequence[Value] | Mapping[Any, Mapping[str, object]]) -> Choice:
    """Return a choice of one of ``values``, which have no order.

    Args:
        values: A list of plain values, or a mapping from each value to the parameters that exist
            only where it is chosen: ``{"sgd": {"momentum": uniform(0, 1)}, "adam": {}}``.

    Raises:
        SpaceError: There are no values, one stands there twice, or one is not plain.

    Example:
        >>> choice(["relu", "gelu", None]).contains("tanh")
        False
        >>> optimizer = choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}})
        >>> optimizer.sub_spaces["sgd"]
        Space({'momentum': uniform(0.0, 1.0)})
    """
    if isinstance(values, Mapping):
        return Choice(listed("choice", list(values)), tuple(Space(branch) for branch in values.values()))
    return Choice(listed("choice", values))


def piecewise(domain: object, *, starts: Sequence[int]) -> Piecewise:
    """Return the values that change at fixed epochs: from each of ``starts`` on one of ``domain``.

    A value is a tuple of (epoch, value) pairs, ``((0, 0.1), (10, 0.01))``; ``etude.value_at(value, epoch)`` says what
    holds in an epoch. Nothing but these values, at these epochs, may hang on it: trials that are the same until some
    stage share what is trained until then.

    Args:
        domain: What each stage may be: a domain, or a list (a choice).
        starts: The epochs with which stages begin; the first is 0, and each is larger than the one before.

    Raises:
        SpaceError: It is no domain, or the epochs are none.

    Example:
        >>> lr = piecewise([0.1, 0.01], starts=(0, 10))
        >>> lr.size, lr.grid(2)[1]
        (4, ((0, 0.1), (10, 0.01)))
    """
    inner = choice(domain) if isinstance(domain, list) else domain
    if not isinstance(inner, Domain) or branches_of(inner) or isinstance(inner, Piecewise | Upto):
        raise SpaceError(
            f"piecewise({domain!r}) is given what no stage can be. Pass a domain without branches or stages of its "
            "own, such as piecewise(etude.loguniform(1e-4, 1), starts=(0, 10)), or a list."
        )
    epochs = _epochs("piecewise(..., starts=", starts)
    if epochs[0] != 0:
        raise SpaceError(
            f"piecewise(..., starts={list(epochs)}) says nothing of the epochs before {epochs[0]}. Begin with 0."
        )
    return Piecewise(inner, epochs)


def upto(values: Sequence[int]) -> Upto:
    """Return a choice of how many epochs a trial trains, where one with more goes on from one with fewer.

    Only the number of turns of ``run.epochs`` may hang on it: a schedule that is made for so many epochs must be made
    for the largest of them, or be a parameter of its own. Otherwise make it a plain list.

    Args:
        values: Numbers of epochs, above 0 and each larger than the one before.

    Raises:
        SpaceError: They are not.

    Example:
        >>> upto([10, 20, 40]).grid(2)
        (10, 20, 40)
    """
    epochs = _epochs("upto(", values)
    if epochs[0] < 1:
        raise SpaceError(f"upto({list(epochs)}) has {epochs[0]} epochs, which is no training. Begin with 1 or more.")
    return Upto(epochs)


def _epochs(call: str, given: object) -> tuple[int, ...]:
    epochs = tuple(given) if isinstance(given, list | tuple) else ()
    if not epochs or any(type(epoch) is not int or epoch < 0 for epoch in epochs):
        raise SpaceError(f"{call}{given!r}) takes a list of whole numbers of epochs, none of them negative.")
    if list(epochs) != sorted(set(epochs)):
        raise SpaceError(f"{call}{given!r}) takes epochs that rise. Write {sorted(set(epochs))}.")
    return epochs


@final
@dataclass(frozen=True, repr=False)
class Choice(Listed):
    """One of several values without an order, each of which may bring a space; see ``choice``."""

    branches: tuple[Space, ...] = ()

    @property
    def sub_spaces(self) -> Mapping[Value, Space]:
        """For each value that brings parameters of its own, their space."""
        return dict(zip(self.values, self.branches, strict=True)) if self.branches else {}

    def to_dict(self) -> dict[str, Any]:
        """Return this choice as plain data, its branches included."""
        branches = {"branches": [branch.to_dict() for branch in self.branches]} if self.branches else {}
        return {**super().to_dict(), **branches}

    def __repr__(self) -> str:
        branches = {label: dict(space) for label, space in self.sub_spaces.items()}
        return f"choice({branches})" if branches else super().__repr__()


class Random(Protocol):
    """A source of numbers in [0, 1), such as ``random.Random`` or ``numpy.random.Generator``."""

    def random(self) -> float:
        """Return the next number."""
        ...


@final
@dataclass(frozen=True, init=False, repr=False)
class Space(Mapping[str, Domain]):
    """Domains by name, in an order that counts: a mapping that cannot change.

    Iteration and item access show the names that are not inside of a branch; ``names`` has all.

    Args:
        given: For each name a domain, a list (a choice) or a plain value (fixed). It may be empty,
            as a branch without parameters is; ``Space.of`` is the door for whole spaces.

    Raises:
        SpaceError: A name cannot be one or occurs twice, or what it stands for is no domain.
    """

    _parameters: tuple[tuple[str, Domain], ...]

    def __init__(self, given: Mapping[str, object]) -> None:
        if not isinstance(given, Mapping):
            raise SpaceError(
                f"{given!r} is a {type(given).__name__}, not a mapping from names to domains. "
                'Write {"lr": etude.loguniform(1e-4, 1.0)}, or {} for no parameters.'
            )
        parameters = tuple((_name(name), _domain(name, what)) for name, what in given.items())
        object.__setattr__(self, "_parameters", parameters)
        _check_collisions(self)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Space:
        """Return the space that a user wrote down.

        Args:
            given: A space, or for each name a domain, a list (a choice) or a plain value (fixed).
                A name may be dotted: ``"optimizer.lr"``.

        Raises:
            SpaceError: It is empty, a name cannot be one or occurs twice, or something is no domain.

        Example:
            >>> Space.of({"lr": uniform(0, 1), "width": [32, 64], "optimizer.name": "sgd"})
            Space({'lr': uniform(0.0, 1.0), 'width': choice([32, 64]), 'optimizer.name': choice(['sgd'])})
        """
        space = given if isinstance(given, Space) else cls(given)
        if not space:
            raise SpaceError(
                "The space is empty, so there is nothing to search. "
                'Name at least one parameter, such as {"lr": etude.loguniform(1e-4, 1.0)}.'
            )
        return space

    def build(self, pick: Pick) -> dict[str, Value]:
        """Return the configuration that comes out if ``pick`` is asked for each active parameter.

        Args:
            pick: Gets the path of a parameter, which no other parameter has, and its domain;
                returns a value of that domain. It is asked in the order of the space.

        Raises:
            SpaceError: ``pick`` returned a value from outside of the domain.

        Example:
            >>> space = Space.of({"optimizer": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}})})
            >>> space.build(lambda path, domain: print(path) or domain.from_unit(0))
            optimizer
            optimizer=sgd/momentum
            {'optimizer': 'sgd', 'momentum': 0.0}
        """
        return self._picked(pick, prefix="")

    def sample(self, rng: Random) -> dict[str, Value]:
        """Return a random configuration.

        Args:
            rng: A source of numbers in [0, 1), such as ``random.Random(0)`` or ``numpy.random.default_rng(0)``. Exactly
                one is drawn for each active parameter.
        """
        return self.build(lambda _, domain: domain.from_unit(rng.random()))

    def grid(self, n: int) -> Iterator[dict[str, Value]]:
        """Return all combinations of at most ``n`` spread values per number, and all values of choices.

        Args:
            n: How many values of a number at most, 1 or more: its ends, and what lies evenly between them.

        Raises:
            SpaceError: ``n`` is below 1.

        Example:
            >>> list(Space.of({"lr": uniform(0, 1), "width": [32, 64]}).grid(2))[:3]
            [{'lr': 0.0, 'width': 32}, {'lr': 0.0, 'width': 64}, {'lr': 1.0, 'width': 32}]
        """
        if n < 1:
            raise SpaceError(f"A grid of n={n} points per parameter has no points at all. Pass n of at least 1.")
        return self._combined(n)

    def contains(self, params: Mapping[str, Any]) -> bool:
        """Say whether ``params`` is a configuration of this space.

        Args:
            params: Name -> value.
        """
        return self.why_not(params) is None

    def why_not(self, params: Mapping[str, Any]) -> str | None:
        """Return the first reason why ``params`` is no configuration of this space, or None.

        Args:
            params: Name -> value.

        Example:
            >>> Space.of({"lr": uniform(0, 1)}).why_not({"lr": 2.0})
            'lr=2.0 is above 1.0'
        """
        active: set[str] = set()
        fault = self._fault(params, active)
        return fault or next((self._stray(name, params) for name in params if name not in active), None)

    def completed(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``given`` with what it leaves out, as far as that is known: the only value there is, or a default.

        A whole number becomes a float where the range is continuous, as in every other configuration. Whether it is a
        configuration, ``why_not`` says.

        Args:
            given: Name -> value, of some parameters; other names stay as they are.
            defaults: Name -> value; names that are not in the space count for nothing.

        Example:
            >>> space = Space.of({"lr": uniform(0, 1), "optimizer": choice({"sgd": {"momentum": uniform(0, 1)}})})
            >>> space.completed({"lr": 1}, {"momentum": 0.9, "epochs": 3})
            {'lr': 1.0, 'optimizer': 'sgd', 'momentum': 0.9}
        """
        found = dict(given)
        for name, domain in self._parameters:
            if name not in found and (domain.size == 1 or name in defaults):
                found[name] = domain.grid(1)[0] if domain.size == 1 else defaults[name]
            if isinstance(domain, Uniform | LogUniform) and type(found.get(name)) is int:
                found[name] = float(found[name])
            taken = [space for value, space in branches_of(domain).items() if value == found.get(name)]
            for branch in taken:
                found = branch.completed(found, defaults)
        return found

    @property
    def size(self) -> int | None:
        """The number of different configurations, or None if there is no end to them."""
        total = 1
        for _, domain in self._parameters:
            sizes = [space.size for space in branches_of(domain).values()] or [domain.size]
            finite = [size for size in sizes if size is not None]
            if len(finite) < len(sizes):
                return None
            total *= sum(finite)
        return total

    @property
    def names(self) -> tuple[str, ...]:
        """All names that can occur, each once, in the order of the space."""
        return tuple(dict.fromkeys(name for name, _ in self.domains()))

    @property
    def always(self) -> frozenset[str]:
        """The names that occur in every configuration."""
        branching = [bs.values() for _, domain in self._parameters if (bs := branches_of(domain))]
        return frozenset(self).union(*(frozenset.intersection(*(b.always for b in bs)) for bs in branching))

    def domains(self) -> Iterator[tuple[str, Domain]]:
        """Yield every name with every domain it has, including those inside of branches."""
        for name, domain in self._parameters:
            yield name, domain
            for space in branches_of(domain).values():
                yield from space.domains()

    def to_dict(self) -> dict[str, Any]:
        """Return this space as plain data that survives JSON, its order included."""
        return {"parameters": [[name, domain.to_dict()] for name, domain in self._parameters]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """Return the space that ``to_dict`` made ``data`` of.

        Args:
            data: Plain data, also if it has been through JSON.

        Raises:
            SpaceError: No space was made into it, or one that this version cannot read.
        """
        try:
            parameters = {name: domain_from_dict(domain) for name, domain in data["parameters"]}
        except (KeyError, TypeError, ValueError) as error:
            raise SpaceError(
                f"{data!r} cannot be read as a space: {error!r}. Read it with the Étude that wrote it."
            ) from error
        return cls(parameters)

    def __getitem__(self, name: str) -> Domain:
        return dict(self._parameters)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __repr__(self) -> str:
        return f"Space({dict(self._parameters)})"

    def _picked(self, pick: Pick, *, prefix: str) -> dict[str, Value]:
        config: dict[str, Value] = {}
        for name, domain in self._parameters:
            value = config[name] = pick(prefix + name, domain)
            if fault := domain.why_not(value):
                raise SpaceError(
                    f"{prefix}{name} was picked as {value!r}, which {fault}. "
                    f"Whoever picks, such as a sampler, must return a value of {domain}."
                )
            if branch := branches_of(domain).get(value):
                config |= branch._picked(pick, prefix=f"{prefix}{name}={label(value)}/")
        return config

    def _combined(self, n: int) -> Iterator[dict[str, Value]]:
        columns: list[list[dict[str, Value]]] = []
        for name, domain in self._parameters:
            branches = [(value, branches_of(domain).get(value)) for value in domain.grid(n)]
            columns.append(
                [{name: v, **rest} for v, branch in branches for rest in (branch._combined(n) if branch else [{}])]
            )
        for row in itertools.product(*columns):
            yield {name: value for part in row for name, value in part.items()}

    def _fault(self, params: Mapping[str, Any], active: set[str]) -> str | None:
        """Return what is wrong with the active parameters, whose names are added to ``active``."""
        for name, domain in self._parameters:
            if name not in params:
                return f"{name} is missing"
            value = params[name]
            if fault := domain.why_not(value):
                return f"{name}={value!r} {fault}"
            active.add(name)
            branch = branches_of(domain).get(value)
            if branch and (fault := branch._fault(params, active)):
                return fault
        return None

    def _stray(self, name: str, params: Mapping[str, Any]) -> str:
        """Return why ``name``, which is not active in the otherwise faultless ``params``, is out of place."""
        for parent, domain in self._parameters:
            homes = [label for label, space in branches_of(domain).items() if name in space.names]
            if homes and params[parent] in homes:
                return branches_of(domain)[params[parent]]._stray(name, params)
            if homes:
                wanted = " or ".join(f"{parent}={label!r}" for label in homes)
                return f"{name} belongs to {wanted}, but {parent} is {params[parent]!r}"
        return f"{name} is not in the space, which has {', '.join(self.names)}"


CALLS: Final[Mapping[str, Callable[..., Domain]]] = {
    call.__name__: call for call in (uniform, loguniform, integers, choice, ordered, piecewise, upto)
}
"""What makes domains, by name: the name is also the kind of what it makes."""


def domain_from_dict(data: Mapping[str, Any]) -> Domain:
    """Return the domain that ``to_dict`` made ``data`` of; raise SpaceError if it was not that."""
    arguments = dict(data)
    try:
        if "values" in arguments:
            arguments["values"] = [decoded(value) for value in arguments["values"]]
        if "domain" in arguments:
            arguments["domain"] = domain_from_dict(arguments["domain"])
        if spaces := [Space.from_dict(branch) for branch in arguments.pop("branches", [])]:
            arguments["values"] = dict(zip(arguments["values"], spaces, strict=True))
        return CALLS[arguments.pop("kind")](**arguments)
    except (KeyError, TypeError, ValueError) as error:
        raise SpaceError(
            f"{data!r} cannot be read as a domain: {error!r}. Read it with the Étude that wrote it."
        ) from error


def branches_of(domain: Domain) -> Mapping[Value, Space]:
    """Return the spaces that the values of a domain bring; none unless it is a choice with branches."""
    return domain.sub_spaces if isinstance(domain, Choice) else {}


def _name(name: object) -> str:
    """Return ``name``, which can be the name of a parameter."""
    if isinstance(name, str) and all(part.isidentifier() for part in name.split(".")):
        return name
    raise SpaceError(
        f"{name!r} cannot be the name of a parameter, since no function could ask for it. "
        "Write an identifier, or several joined by dots: 'lr', 'optimizer.lr'."
    )


def _domain(name: str, given: object) -> Domain:
    """Return the domain that ``given`` stands for in a space."""
    try:
        if isinstance(given, Domain):
            return given
        if isinstance(given, list):
            return choice(given)
        if isinstance(given, Mapping):
            raise SpaceError(
                "A mapping is no domain, since a configuration is flat. "
                + (
                    bounds_in(given)
                    or f'Write dots ("{name}.lr"), or wrap it in etude.choice if its keys are alternatives.'
                )
            )
        if isinstance(given, range | set | frozenset):
            raise SpaceError(f"{given!r} is no domain. " + mend(given, "Write a list."))
        return choice([given])  # type: ignore[list-item]
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from None


def _check_collisions(space: Space) -> None:
    """Refuse a name inside of a branch that something outside of that choice has as well."""
    taken = set(space)
    for parent, domain in space.items():
        inner = {name for branch in branches_of(domain).values() for name in branch.names}
        for name in sorted(inner & taken):
            raise SpaceError(
                f"{name!r} is in a branch of {parent!r} and outside of it as well. "
                "A configuration is flat, so it has room for one of them. Rename one."
            )
        taken |= inner
