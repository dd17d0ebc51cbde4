"""What a Dockerfile and the scripts it runs would do, read without running anything: faults with their places."""
