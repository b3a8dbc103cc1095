"""From a resolution to the ordered steps that bring it about. Pure: no file, clock, network or process is touched."""
