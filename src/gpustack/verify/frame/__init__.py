"""What runs every check, whatever its component: order, limits, commands, facts of the host, the report."""
