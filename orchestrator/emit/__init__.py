"""What a run leaves: the image's build folder, the run configuration, the audit and the reports."""
