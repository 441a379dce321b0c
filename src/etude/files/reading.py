"""An experiment file and its experiment: from keys to the call of a verb; what cannot be is refused in its place."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from etude.core.errors import ConfigError, FileError, SignatureError, SpaceError
from etude.core.signature import MISSING
from etude.files.document import Document, is_nothing, tried, verb_of
from etude.files.given import below
from etude.files.keys import FREE, ONLY_WITH, arguments_of, check_name, groups_of, keys
from etude.files.nodes import Entry, Fields, Items, Scalar, plain
from etude.files.source import Place, Problems, nearest
from etude.files.spaces import CALL, flat, read_domain_of
from etude.files.values import Around, read
from etude.files.wording import in_keys
from etude.tune.spaces import Space

if TYPE_CHECKING:
    from etude.core.signature import Parameter
    from etude.experiment import Experiment
    from etude.files.scripts import Script

IN_QUOTES: Final = re.compile(r"'([\w.]+)'")
FIRST_WORD: Final = re.compile(r"^'?(\w+)")
ASSIGNED: Final = re.compile(r"(?<![\w.])(\w+)=")


@dataclass
class Asked:
    """What a file asks for.

    Attributes:
        verb: What is to be done.
        arguments: What the verb is called with.
        notes: What should be told: which keys are another verb's.
        places: Where what an error may name stands.
        begin: Where the verb stands.
    """

    verb: str
    arguments: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    begin: Place | None = None

    def call(self, experiment: Experiment, **more: Any) -> Any:
        """Call the verb.

        Args:
            experiment: Whose.
            more: Arguments that are none of the file's.

        Raises:
            FileError: The call cannot be carried out; the message begins with the place of what it is about.
            EtudeError: As the verb raises it.
        """
        with self.located():
            return getattr(experiment, self.verb)(**self.arguments, **more)

    @contextlib.contextmanager
    def located(self) -> Iterator[None]:
        """Have a call refused at the place of the key that the message is about, in the words of a file."""
        try:
            yield
        except FileError:
            raise
        except ConfigError as error:
            message = in_keys(str(error))
            begins, assigned, quoted = (one.findall(str(error)) for one in (FIRST_WORD, ASSIGNED, IN_QUOTES))
            named = [*begins, *assigned, *quoted]
            besides = self.places.get("at", self.begin) if isinstance(error, SignatureError) else self.begin
            place = next((self.places[name] for name in named if name in self.places), besides)
            if place is None:
                raise
            problems = Problems()
            raise problems.fatal(place, message) from error


def load(document: Document) -> tuple[Experiment, Script]:
    """Run the script that a file names, and return the experiment in it, and the script.

    Raises:
        FileError: It has no such experiment.
        ScriptError: The script raised something.
    """
    from etude.files import scripts

    try:
        return scripts.load(document.experiment)
    except ConfigError as error:
        raise document.problems.fatal(document.root.entries["experiment"].node.place, str(error)) from error


def read_asked(document: Document, experiment: Experiment, script: Script) -> Asked:
    """Return what a file asks for, checked against the functions of its experiment.

    Args:
        document: The file.
        experiment: The experiment that it names.
        script: The script that has it.

    Raises:
        FileError: It cannot be; the message shows each place.
    """
    return _Reading(document, experiment, script).asked()


class _Reading:
    def __init__(self, document: Document, experiment: Experiment, script: Script) -> None:
        self._document = document
        self._problems = document.problems
        self._experiment = experiment
        self._around = Around(script)
        self._groups = groups_of(experiment)
        entries = document.root.entries
        self._entries = {
            name: entry
            for name, entry in entries.items()
            if not name.startswith(FREE) and name not in ("experiment", "verb")
        }
        self._verb = entries["verb"].node.place

    def asked(self) -> Asked:
        verb = self._document.verb
        takes = arguments_of(verb)
        parameters, space = self._below("parameters"), self._below("space")
        fixed = [one.path[1] for one in self._document.given if one.path[0] == "parameters" and len(one.path) > 1]
        notes = [f"{name} is fixed by the command line, and not searched." for name in fixed if space.pop(name, None)]
        values = {name: self._parameter(name, entry) for name, entry in parameters.items()}
        domains = {name: self._domain(name, entry) for name, entry in space.items()}
        given = {}
        for name, entry in self._entries.items():
            if name in ("parameters", "space") or is_nothing(entry.node):
                continue
            used = name in takes
            annotation = arguments_of(verb_of(self._document, keys()[name].verbs))[name].type
            value = tried(self._problems, read, name, entry.node, annotation, Around(self._around.script, used))
            if used:
                given[name] = value
        searched = {**domains, **{name: _hashable(value) for name, value in values.items() if name not in domains}}
        self._check_complete(verb, takes, given, values, searched)
        self._problems.check()
        self._add_parameters(verb, given, values, searched)
        if verb == "ablate" and domains:
            given["space"] = Space(domains)
        self._problems.check()
        idle = {name for name, other in ONLY_WITH.get(verb, {}).items() if other not in given}
        given = {name: value for name, value in given.items() if name not in idle}
        others = [name for name in self._entries if name in keys() and (verb not in keys()[name].verbs or name in idle)]
        if others:
            notes.append(f"{verb} leaves aside what is for other verbs: {', '.join(others)}.")
        places = {name: entry.key.place for name, entry in [*self._options(), *self._entries.items()]}
        places |= {name: entry.key.place for below_one in (parameters, space) for name, entry in below_one.items()}
        return Asked(verb, given, notes, {**self._texts(), **places}, self._verb)

    def _texts(self) -> dict[str, Place]:
        """Return where texts stand behind keys: an error may name what a key names, and not the key."""
        found = {}
        for entry in self._entries.values():
            for node in entry.node.items if isinstance(entry.node, Items) else (entry.node,):
                if isinstance(node, Scalar) and isinstance(node.value, str):
                    found[node.value] = node.place
        return found

    def _options(self) -> list[tuple[str, Entry]]:
        """Return the options of ``system``: an error of a machine that lacks something names one of them."""
        entry = self._entries.get("system")
        return list(entry.node.entries.items()) if entry is not None and isinstance(entry.node, Fields) else []

    def _below(self, key: str) -> dict[str, Entry]:
        entry = self._entries.get(key)
        found = tried(self._problems, flat, entry.node, self._groups) if entry is not None else {}
        found = {} if found is MISSING else dict(found)
        for one in below(key, self._document.given):
            inner = tried(
                self._problems, flat, Fields(one.key.place, {one.path[1]: Entry(one.key, one.node)}), self._groups
            )
            found |= {} if inner is MISSING else inner
        return found

    def _parameter(self, name: str, entry: Entry) -> Any:
        value = plain(entry.node)
        self._check(name, entry, [value])
        return value

    def _domain(self, name: str, entry: Entry) -> Any:
        """Return what a parameter may be, each of its values being of the right type."""
        domain = tried(self._problems, read_domain_of, name, entry.node)
        if domain is MISSING:
            return None
        try:
            space = Space({name: domain})
        except SpaceError as error:
            self._problems.add(entry.node.place, str(error))
            return None
        for inner, one in space.domains():
            self._check(inner, entry, one.grid(2))
        if self._stateless(name) and space.size != 1:
            self._problems.add(
                entry.node.place,
                f"{name} is Stateless in {self._experiment.signature.parameters[name].taken_by}: it is said not to "
                "change the numbers, so it cannot be searched. Give it one value, or drop Stateless.",
            )
        return domain

    def _check(self, name: str, entry: Entry, values: Sequence[Any]) -> None:
        if why := check_name(self._experiment, name):
            self._problems.add(entry.key.place, f"{why}{_or_key(entry.key.place, name)}")
            return
        parameter: Parameter | None = self._experiment.signature.parameters.get(name)
        for value in values if parameter is not None else ():
            try:
                parameter.check(value)  # type: ignore[union-attr] # or there would be no values
            except SignatureError as error:
                searched = isinstance(value, list) or (isinstance(value, str) and CALL.match(value))
                hint = " What is searched stands under space." if searched else ""
                self._problems.add(entry.node.place, f"{error}{hint}")

    def _stateless(self, name: str) -> bool:
        from etude.core.signature import Kind

        parameter = self._experiment.signature.parameters.get(name)
        return parameter is not None and parameter.kind is Kind.STATELESS

    def _check_complete(
        self, verb: str, takes: Mapping[str, Any], given: Mapping[str, Any], values: Any, searched: Any
    ) -> None:
        needed = [
            name for name, key in takes.items() if key.default is MISSING and name not in given and name != "space"
        ]
        if verb == "tune" and "space" not in self._entries and not below("space", self._document.given):
            needed.append("space")
        for name in needed:
            self._problems.add(
                self._verb, f"{verb} needs the key {name}, which is missing: {keys()[name].says}", missing=True
            )
        if needed or "at" in given:
            return
        names = set(values)
        if verb == "tune":
            with contextlib.suppress(SpaceError):  # it is told below
                names = {*Space(searched).always, *filter(None, [given.get("fidelity")])}
        try:
            self._experiment.signature.check_complete(names)
        except SignatureError as error:
            key = self._entries.get("space" if verb == "tune" else "parameters")
            self._problems.add(key.key.place if key is not None else self._verb, in_keys(str(error)))

    def _add_parameters(self, verb: str, given: dict[str, Any], values: Any, searched: Any) -> None:
        """Add the hyperparameters to the arguments of a verb, as it takes them."""
        if verb == "tune":
            try:
                given["space"] = Space.of(searched)
            except SpaceError as error:
                self._problems.add(
                    self._entries["space"].key.place if "space" in self._entries else self._verb, str(error)
                )
        elif verb in ("run", "check"):
            given |= values
        elif values and "at" in given:
            self._problems.add(
                self._entries["at"].key.place, "at names a configuration, and so does parameters. Leave one of them."
            )
        elif values:
            given["at"] = values


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _or_key(place: Place, name: str) -> str:
    """Ask whether a key was meant, where a hyperparameter of the command line is none."""
    meant = nearest(name, keys()) if place.source.argument else ""
    return meant.replace("Did you mean", "Or did you mean the key")
