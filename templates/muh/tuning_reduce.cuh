// Policies of a reduction, in the words of CUB's tunings: threads, items, items of one vector load.
#pragma once

#include "common.cuh"

namespace muh {

struct reduce_policy {
  int accum_bytes;
  int block_threads;
  int items_per_thread;
  int items_per_vec_load;

  constexpr long long smem_bytes() const {
    return block_bytes({items_per_thread, block_threads}, accum_bytes);
  }
};

constexpr bool valid(reduce_policy policy, hardware hw) {
  return policy.smem_bytes() <= hw.max_shared_memory_per_block && policy.block_threads % hw.warp_threads == 0 &&
         policy.items_per_vec_load >= 1 && policy.items_per_vec_load <= most_vector_items &&
         policy.items_per_vec_load <= policy.items_per_thread &&
         policy.items_per_thread % policy.items_per_vec_load == 0;
}

// Chooses for the size of the accumulator. Passes what the device itself allows a block, not what CCCL assumes.
struct reduce_policy_selector {
  int accum_bytes;

  constexpr reduce_policy operator()(hardware hw) const {
    const mem_bound scaled = scale_mem_bound(nominal_block_threads, nominal_items_per_thread, accum_bytes,
                                             hw.max_shared_memory_per_block, hw.warp_threads);
    const int vector = at_most(at_most(scaled.items_per_thread, vector_bytes / accum_bytes), most_vector_items);
    return {accum_bytes, scaled.block_threads, scaled.items_per_thread, at_least(vector, 1)};
  }
};

template <int AccumBytes>
struct reduce_tuning {
  static constexpr reduce_policy policy = reduce_policy_selector{AccumBytes}(target_hardware);
  static constexpr int threads = policy.block_threads;
  static constexpr int items = policy.items_per_thread;
  static constexpr int items_per_vec_load = policy.items_per_vec_load;
  static_assert(valid(policy, target_hardware), "the policy does not fit the device");
};

// Sums with offsets of four bytes. Named by the type of the accumulator, or by its size alone.
struct bi100_plus_float32_o4 : reduce_tuning<sizeof(float)> {};
struct bi100_plus_float64_o4 : reduce_tuning<sizeof(double)> {};
struct bi100_plus_accum2_o4 : reduce_tuning<2> {};

static_assert(bi100_plus_float32_o4::policy.smem_bytes() == bi100_plus_float64_o4::policy.smem_bytes() &&
                  bi100_plus_float32_o4::policy.smem_bytes() == bi100_plus_accum2_o4::policy.smem_bytes(),
              "the bytes in flight do not depend on the type");

}  // namespace muh
