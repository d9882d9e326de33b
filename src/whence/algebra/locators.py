"""Locators: a row of a dataset as one number, its file's slot above the row's place in the file."""

SLOT_BITS = 23
ROW_BITS = 40
ROW_MASK = (1 << ROW_BITS) - 1
