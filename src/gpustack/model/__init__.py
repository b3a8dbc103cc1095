"""Types only: what the stages exchange. No behaviour beyond predicates."""
