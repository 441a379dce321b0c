"""``torch.nn.MultiheadAttention`` with fewer heads than its width has room for.

Torch's own takes the width for heads times their size, so it cannot have fewer heads of the size they had. This one is
what an attention becomes, in place, when heads are taken out of it; it does what torch's does with those that are left.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn

from etude.frameworks.removal.edits import FewerHeads

PACKED: Final = ("in_proj_weight", "in_proj_bias")
APART: Final = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
ADDED: Final = ("bias_k", "bias_v")


class CutAttention(nn.MultiheadAttention):
    """Heads of an attention; ``num_heads`` counts those that are left, ``embed_dim`` is the width of what it reads.

    Attributes:
        heads_before: How many there were: masks that callers make for each head are cut.
        heads_kept: Which of them are left.
    """

    heads_before: int
    heads_kept: tuple[int, ...]

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend, as ``torch.nn.MultiheadAttention`` does."""
        single = query.ndim == 2  # noqa: PLR2004 - tokens and width
        if single:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        weights, biases = self._projections()
        q, k, v = (nn.functional.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        mask = self._mask(query, key, key_padding_mask, attn_mask)
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        n = query.shape[0]
        if self.bias_k is not None and self.bias_v is not None:
            k, v = torch.cat([k, self.bias_k.expand(n, 1, -1)], 1), torch.cat([v, self.bias_v.expand(n, 1, -1)], 1)
        if self.add_zero_attn:
            k, v = nn.functional.pad(k, (0, 0, 0, 1)), nn.functional.pad(v, (0, 0, 0, 1))
        if mask is not None and (more := k.shape[1] - key.shape[1]):
            mask = nn.functional.pad(mask, (0, more))
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (q, k, v))
        share = self.dropout if self.training else 0.0
        seen = None
        if need_weights:
            scores = q * self.head_dim**-0.5 @ k.transpose(-1, -2)
            seen = nn.functional.dropout((scores if mask is None else scores + mask).softmax(-1), share)
            found = seen @ v
        else:
            found = nn.functional.scaled_dot_product_attention(q, k, v, mask, share)
        found = self.out_proj(found.transpose(1, 2).flatten(2))
        if seen is not None and average_attn_weights:
            seen = seen.mean(1)
        if single:
            return found.squeeze(0), None if seen is None else seen.squeeze(0)
        return found if self.batch_first else found.transpose(0, 1), seen

    def _projections(self) -> tuple[Any, Any]:
        weights = self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim else [getattr(self, name) for name in APART]
        return weights, (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)

    def _mask(
        self, query: torch.Tensor, key: torch.Tensor, padding: torch.Tensor | None, mask: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Return both masks as one, which is added to the scores."""
        added = None if mask is None else _added(mask, query.dtype)
        if added is not None and added.ndim == 3:  # noqa: PLR2004 - one for each example and head
            apart = added.reshape(-1, self.heads_before, *added.shape[1:])
            added = apart[:, list(self.heads_kept)]
        if padding is None:
            return added
        hidden = _added(padding, query.dtype)[:, None, None]
        return hidden if added is None else added + hidden


def cut_heads(module: nn.Module, edit: FewerHeads) -> None:
    """Take heads out of an attention, in place."""
    attention: Any = module
    earlier = getattr(attention, "heads_kept", tuple(range(edit.before)))
    size = attention.head_dim
    rows = [head * size + n for head in edit.keep for n in range(size)]
    for name in (*PACKED, *APART, *ADDED):
        tensor = getattr(attention, name, None)
        if tensor is not None:
            axis = tensor.ndim - 1 if name in ADDED else 0
            parts = 3 if name in PACKED else 1
            _put(attention, name, tensor, [k * edit.before * size + row for k in range(parts) for row in rows], axis)
    _put(attention.out_proj, "weight", attention.out_proj.weight, rows, 1)
    attention.out_proj.in_features = len(rows)
    attention.heads_before = getattr(attention, "heads_before", edit.before)
    attention.heads_kept = tuple(earlier[head] for head in edit.keep)
    attention.num_heads = len(edit.keep)
    attention.__class__ = CutAttention


def tensors_of(module: nn.Module) -> list[str]:
    """Return the names of an attention's parameters that are cut with its heads."""
    names = [name for name in (*PACKED, *APART, *ADDED) if getattr(module, name, None) is not None]
    return [*names, "out_proj.weight"]


def _put(owner: nn.Module, name: str, old: torch.Tensor, rows: list[int], axis: int) -> None:
    with torch.no_grad():
        new = old.detach().index_select(axis, torch.tensor(rows, device=old.device))
    owner.register_parameter(name, nn.Parameter(new, requires_grad=old.requires_grad))


def _added(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a mask as what is added to scores."""
    if mask.dtype is torch.bool:
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, float("-inf"))
    return mask.to(dtype)
