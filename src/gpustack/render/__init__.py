"""Plans in the forms that people and other tools read. Pure; one module a format, imported when its name is met."""
