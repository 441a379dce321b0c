"""An arm with settings or functions of its own: these are called once in this process, before anything starts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from etude.core.errors import ConfigError, EtudeError
from etude.core.removal import Arm
from etude.core.signature import GIVEN, Definition, Kind, variant_of
from etude.frameworks import keras_adapter
from etude.results.rebuilt import begun

ROLES = ("data", "model")
"""What is called, in this order. A training function would train."""


class Trying:
    """Calls the functions of arms as their trials would.

    Args:
        experiment: Whose functions are called, with those of its variants.
        params: The configuration of the base, with which they have run already.
        seed: The training seed.
    """

    def __init__(self, experiment: Definition, params: Mapping[str, Any], seed: int) -> None:
        self._experiment, self._params, self._seed = experiment, dict(params), seed
        self._known: dict[object, str] = {}

    def check(self, arm: Arm) -> None:
        """Refuse an arm whose values or functions cannot be; equal ones are tried once.

        Raises:
            ConfigError: A value has the wrong type, a function needs what nobody gives, or raises.
        """
        if not arm.settings and not arm.variant:
            return
        key = repr(sorted(arm.settings.items())), arm.variant
        if key not in self._known:
            self._known[key] = ""
            try:
                self._check(arm)
            except EtudeError as error:
                self._known[key] = str(error)
        if self._known[key]:
            raise ConfigError(self._known[key])

    def _check(self, arm: Arm) -> None:
        signature = self._experiment.signature
        for name, value in arm.settings.items():
            if name in signature.parameters:
                signature.parameters[name].check(value)
        params = self._params | arm.settings
        mine = {self._of(role, arm) for role in GIVEN}
        for one in signature.parameters.values():
            if one.required and one.name not in params and mine.intersection(one.roles):
                raise ConfigError(
                    f"{one.taken_by} needs {one.name!r}, and nothing gives it. Give it a default in that function."
                )
        roles = [role for role in ROLES if role in self._experiment.functions and self._is_other(role, arm)]
        keras = keras_adapter()
        with keras.kept_names() if keras is not None else contextlib.nullcontext():
            try:
                begun(self._experiment, params, self._seed, Arm("", variant=arm.variant), roles)
            except EtudeError:
                raise
            except Exception as error:
                given = ", ".join(f"{name}={value!r}" for name, value in arm.settings.items())
                raise ConfigError(
                    f"{' or '.join(self._of(role, arm) for role in roles)}() ends with {type(error).__name__}: {error}"
                    f"{f', with {given}' if given else ''}. Mend it, or leave this component out."
                ) from error

    def _of(self, role: str, arm: Arm) -> str:
        """Return the role of the function that an arm calls."""
        other = variant_of(role, arm.variant)
        return other if other in self._experiment.functions else role

    def _is_other(self, role: str, arm: Arm) -> bool:
        """Whether an arm calls another function than the base does, or with other values, or values from other data."""
        known = self._experiment.signature.parameters
        if self._of(role, arm) != role:
            return True
        if any(name not in known or self._of(role, arm) in known[name].roles for name in arm.settings):
            return True
        derived = any(one.kind is Kind.DERIVED and role in one.roles for one in known.values())
        return role == "model" and derived and self._is_other("data", arm)
