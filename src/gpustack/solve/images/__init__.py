"""Images of containers: what a tag, a configuration, layers or a Dockerfile needs, and whether a host runs it."""
