def context_attention_fwd(*arguments):
    pass
