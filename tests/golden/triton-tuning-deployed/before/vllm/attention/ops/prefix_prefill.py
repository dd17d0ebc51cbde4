import triton

if triton.__version__ >= "2.1.0":

    def context_attention_fwd(q, k, v, o, kv_cache_dtype: str, k_cache, v_cache,
                              b_loc, b_start_loc, b_seq_len, b_ctx_len,
                              max_input_len, k_scale: float = 1.0,
                              v_scale: float = 1.0, alibi_slopes=None,
                              sliding_window=None):
        return o
