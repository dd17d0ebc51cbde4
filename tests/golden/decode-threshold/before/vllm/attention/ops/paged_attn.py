class Other:
    _PYTORCH_DECODE_THRESHOLD = 32768


class PagedAttention:

    _PYTORCH_DECODE_THRESHOLD = 32768  # tokens

    @staticmethod
    def forward_decode(max_seq_len):
        return max_seq_len > PagedAttention._PYTORCH_DECODE_THRESHOLD
