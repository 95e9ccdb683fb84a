"""Several worker processes under one command: started, watched, replaced and stopped."""
