"""Files from elsewhere: downloads, their cache, bundles, archives, and how each is trusted."""
