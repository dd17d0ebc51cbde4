def attempt(operation, function, *arguments):
    return False
