class CompletionOutput:
    text = ""
