"""The checks, one module a component. A module is imported when its component is asked for."""
