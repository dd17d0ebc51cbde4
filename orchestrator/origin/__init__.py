"""Where trees come from: a folder, an archive, a source distribution of the package index."""
