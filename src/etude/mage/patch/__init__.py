"""From what somebody answered to a change of the tree: blocks, found and placed without doubt, all or none of them."""
