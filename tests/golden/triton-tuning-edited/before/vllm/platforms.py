"""The device."""


class Platform:

    def has_device_capability(self, capability):
        return True


current_platform = Platform()
