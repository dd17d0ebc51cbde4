"""The engine's arguments, as far as the stage meets them."""


class EngineArgs:

    def create_engine_config(self, model_config, device_config):
        use_long_context = model_config.max_model_len > 32768

        if self.enable_chunked_prefill is None:
            # Nobody said anything.

            if use_long_context and not model_config.is_multimodal_model:
                is_gpu = device_config.device_type == "cuda"
                if is_gpu and not self.enable_lora:
                    self.enable_chunked_prefill = True
                    print("prefill comes in chunks")
            if self.enable_chunked_prefill is None:
                self.enable_chunked_prefill = False

        # Say so.
        if not self.enable_chunked_prefill and use_long_context:
            print("a long context")
        return self.enable_chunked_prefill
