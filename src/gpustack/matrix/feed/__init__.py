"""Updates of the facts: signed bundles, and what this host's own package repositories offer."""
