"""Container images in files: configurations, layouts, saved images and Dockerfiles, read without a daemon."""
