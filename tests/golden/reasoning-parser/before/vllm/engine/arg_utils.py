class AsyncEngineArgs:

    @staticmethod
    def add_cli_args(parser):
        return parser
