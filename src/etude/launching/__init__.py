"""From a call to a study at work: what was asked is checked, named, packed and started, and people see how it goes."""
