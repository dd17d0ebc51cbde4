def shrink(x):
    return x
