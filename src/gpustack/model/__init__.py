"""Types only: what crosses the borders between the stages. No behaviour beyond predicates."""
