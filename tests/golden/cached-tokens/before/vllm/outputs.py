class RequestOutput:
    pass
