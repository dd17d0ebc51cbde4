"""What V2 is without a compiler."""


def paged_attention_v2(*given):
    raise NotImplementedError
