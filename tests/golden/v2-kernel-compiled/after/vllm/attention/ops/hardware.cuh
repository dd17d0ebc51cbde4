// The device of target bi100, as its facts say. Rendered: change the target, not this file. 0 means unknown.
#pragma once

// The limit is a parameter, since sources disagree about it on some devices.
#ifndef MUH_MAX_SHARED_MEMORY_PER_BLOCK
#define MUH_MAX_SHARED_MEMORY_PER_BLOCK 49152
#endif

namespace muh {

struct hardware {
  int sm_count;
  int warp_threads;
  int threads_per_sm;
  int max_shared_memory_per_block;        // bytes
  int preferred_shared_memory_per_block;  // bytes
  long long memory_bandwidth;             // bytes a second, all multiprocessors together
  int bytes_in_flight_per_sm;
};

inline constexpr hardware target_hardware{
    16,
    64,
    8192,
    MUH_MAX_SHARED_MEMORY_PER_BLOCK,
    32768,
    900000000000LL,
    32768,
};

}  // namespace muh
