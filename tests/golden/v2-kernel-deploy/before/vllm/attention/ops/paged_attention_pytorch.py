"""What the deployed file imports, and calls in the same way."""


class DecodeBatch:

    def __init__(self, *arguments):
        self.query = arguments[0]

    def attend(self, *arguments):
        pass


class PagedCache:

    def __init__(self, key, value):
        self.key = key


def refuse_unsupported(*arguments):
    pass
