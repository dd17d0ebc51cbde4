"""The engine's arguments, as far as the stage meets them."""


class EngineArgs:

    def create_engine_config(self, model_config, device_config):
        use_long_context = model_config.max_model_len > 32768

        if self.enable_chunked_prefill is None:
            self.enable_chunked_prefill = False

        # Say so.
        if not self.enable_chunked_prefill and use_long_context:
            print("a long context")
        return self.enable_chunked_prefill
