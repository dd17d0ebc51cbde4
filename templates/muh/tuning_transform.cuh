// The policy of a transform: how many items a thread loads so that the memory has enough to do.
#pragma once

#include "common.cuh"

namespace muh {

struct transform_policy {
  int block_threads;
  int items_per_thread_no_input;
  int min_items_per_thread;
  int max_items_per_thread;
  int min_bytes_in_flight;  // of one multiprocessor
  int max_smem;             // of one block
};

// Passes what the device itself allows a block, not what CCCL assumes.
struct transform_policy_selector {
  constexpr transform_policy operator()(hardware hw) const {
    return {nominal_block_threads, 2, 1, 32, hw.bytes_in_flight_per_sm, hw.max_shared_memory_per_block};
  }
};

// Items of a thread that loads `loaded_bytes` for each, where a multiprocessor holds `resident_blocks` blocks: as many
// as keep the bytes in flight, no more than a block's tile may have if it is staged in shared memory.
constexpr int items_per_thread(transform_policy policy, int loaded_bytes, int resident_blocks) {
  if (loaded_bytes == 0) {
    return policy.items_per_thread_no_input;
  }
  const int wanted = ceil_div(policy.min_bytes_in_flight, resident_blocks * policy.block_threads * loaded_bytes);
  const int fitting = policy.max_smem / (policy.block_threads * loaded_bytes);
  return at_least(at_most(at_most(wanted, policy.max_items_per_thread), fitting), policy.min_items_per_thread);
}

struct bi100_transform {
  static constexpr transform_policy policy = transform_policy_selector{}(target_hardware);
};

static_assert(target_hardware.bytes_in_flight_per_sm > 0, "the target does not say what keeps its memory busy");
static_assert(bi100_transform::policy.block_threads % target_hardware.warp_threads == 0, "no whole warps");
static_assert(bi100_transform::policy.min_items_per_thread <= bi100_transform::policy.max_items_per_thread);

// Where a multiprocessor is full of blocks, four-byte elements must be able to keep its bytes in flight.
inline constexpr int most_resident_blocks = target_hardware.threads_per_sm / bi100_transform::policy.block_threads;
static_assert(most_resident_blocks >= 1, "the target does not say how many threads a multiprocessor holds");
static_assert(items_per_thread(bi100_transform::policy, nominal_bytes, most_resident_blocks) * most_resident_blocks *
                      bi100_transform::policy.block_threads * nominal_bytes >=
                  bi100_transform::policy.min_bytes_in_flight,
              "the most items of a thread do not keep the bytes in flight");

}  // namespace muh
