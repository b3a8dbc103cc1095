"""Plans in the forms that people and other tools read. Pure; one module per format, imported on demand."""
