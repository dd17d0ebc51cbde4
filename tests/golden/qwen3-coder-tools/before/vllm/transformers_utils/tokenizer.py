AnyTokenizer = object
