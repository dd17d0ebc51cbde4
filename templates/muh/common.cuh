// Items and threads of kernels that memory bounds, scaled from elements of four bytes to others as CUB's tunings are.
#pragma once

#include "hardware.cuh"

namespace muh {

// What CCCL assumes a block may have, and what every CUDA device gives without being asked.
inline constexpr int default_max_smem = 48 * 1024;

inline constexpr int nominal_block_threads = 256;
inline constexpr int nominal_items_per_thread = 16;
inline constexpr int nominal_bytes = 4;
inline constexpr int vector_bytes = 16;    // the widest load of a thread
inline constexpr int most_vector_items = 4;  // CUB's vectors have no more elements

struct mem_bound {
  int items_per_thread;
  int block_threads;
};

constexpr int at_least(int value, int least) { return value < least ? least : value; }
constexpr int at_most(int value, int most) { return value > most ? most : value; }
constexpr int ceil_div(int value, int by) { return value / by + (value % by != 0); }

// Keeps the bytes that a thread has in flight, with at most twice as many items; then the threads shrink, in whole
// warps, until a block's elements fit. CUB rounds them up instead, which may pass the limit. One warp may not fit, see
// fits(): that is the caller's to refuse.
constexpr mem_bound scale_mem_bound(int nominal_4b_block_threads, int nominal_4b_items_per_thread, int type_bytes,
                                    int max_smem = default_max_smem, int warp_threads = target_hardware.warp_threads) {
  const int items = at_least(
      at_most(nominal_4b_items_per_thread * nominal_bytes / type_bytes, 2 * nominal_4b_items_per_thread), 1);
  const int fitting = max_smem / (type_bytes * items) / warp_threads * warp_threads;
  return {items, at_least(at_most(nominal_4b_block_threads, fitting), warp_threads)};
}

constexpr long long block_bytes(mem_bound scaled, int type_bytes) {
  return static_cast<long long>(scaled.items_per_thread) * scaled.block_threads * type_bytes;
}

constexpr bool fits(mem_bound scaled, int type_bytes, int max_smem) {
  return block_bytes(scaled, type_bytes) <= max_smem;
}

static_assert(target_hardware.sm_count > 0, "the target does not say how many multiprocessors the device has");
static_assert(target_hardware.warp_threads > 0, "the target does not say how many threads a warp has");
static_assert(target_hardware.max_shared_memory_per_block > 0, "the target does not say what a block may have");
static_assert(target_hardware.preferred_shared_memory_per_block <= target_hardware.max_shared_memory_per_block,
              "what is preferred is over the limit");
static_assert(nominal_block_threads % target_hardware.warp_threads == 0, "the nominal block is not whole warps");
static_assert(scale_mem_bound(nominal_block_threads, nominal_items_per_thread, nominal_bytes).items_per_thread ==
                  nominal_items_per_thread,
              "elements of four bytes are the nominal case");
static_assert(fits(scale_mem_bound(nominal_block_threads, nominal_items_per_thread, nominal_bytes), nominal_bytes,
                   default_max_smem),
              "the nominal block does not fit");

}  // namespace muh
