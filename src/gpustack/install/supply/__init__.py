"""Files from elsewhere: downloads, their cache, bundles, archives, and by what each is trusted."""
