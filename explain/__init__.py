"""A compiled step for people: as data, as tables, as a picture."""
