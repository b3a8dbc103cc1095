"""From a resolution to ordered steps. Pure: touches no file, clock, network or process."""
