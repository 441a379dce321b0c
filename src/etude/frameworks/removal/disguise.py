"""Modules of a subclass of another module's class: to callers they look like it, and they are kept as any module is."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn


class Disguised(nn.Module):
    """What they have in common. Their class is made from this and the other one, which may have ways of its own.

    A class that saves its weight by hand would save what is not there any more, and one that copies itself would make
    what it was.
    """

    _save_to_state_dict = nn.Module._save_to_state_dict
    _load_from_state_dict = nn.Module._load_from_state_dict
    get_extra_state = nn.Module.get_extra_state
    set_extra_state = nn.Module.set_extra_state
    __setstate__ = nn.Module.__setstate__

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Make its class again: it cannot be imported."""
        how: Any = self.__reduce__()
        make, args, state = how
        made: nn.Module = make(*args)
        memo[id(self)] = made
        nn.Module.__setstate__(made, copy.deepcopy(state, memo))
        return made
