class PretrainedConfig:
    """Keeps every key as an attribute."""

    def __init__(self, **keys):
        for key, value in keys.items():
            setattr(self, key, value)
