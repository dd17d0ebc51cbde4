def attempt(operation, function, *arguments):
    return False


def library_path(operation):
    return ""
