"""Pure parsers: text in, values out. None of them raises on nonsense; unknown is None."""
