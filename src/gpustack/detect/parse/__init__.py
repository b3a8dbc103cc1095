"""Pure parsers: text in, values out. None of them raises on invalid input; unknown is None."""
