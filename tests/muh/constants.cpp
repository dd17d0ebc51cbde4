// Prints what the tuning headers compute: the values, the named policies, and `scale_mem_bound` of each line of input.
#include <cstdio>

#include "tuning_reduce.cuh"
#include "tuning_transform.cuh"

namespace {

template <class Tuning>
void print_tuning(const char* name) {
  std::printf("tuning %s %d %d %d %d\n", name, Tuning::policy.accum_bytes, Tuning::threads, Tuning::items,
              Tuning::items_per_vec_load);
}

void print_selected(int accum_bytes, muh::hardware hw) {
  const muh::reduce_policy policy = muh::reduce_policy_selector{accum_bytes}(hw);
  std::printf("selected %d %d %d %d\n", accum_bytes, policy.block_threads, policy.items_per_thread,
              policy.items_per_vec_load);
}

}  // namespace

int main() {
  constexpr muh::hardware hw = muh::target_hardware;
  std::printf("hardware %d %d %d %d %d %lld %d\n", hw.sm_count, hw.warp_threads, hw.threads_per_sm,
              hw.max_shared_memory_per_block, hw.preferred_shared_memory_per_block, hw.memory_bandwidth,
              hw.bytes_in_flight_per_sm);
  print_tuning<muh::bi100_plus_float32_o4>("bi100_plus_float32_o4");
  print_tuning<muh::bi100_plus_float64_o4>("bi100_plus_float64_o4");
  print_tuning<muh::bi100_plus_accum2_o4>("bi100_plus_accum2_o4");
  for (int accum_bytes = 1; accum_bytes <= 16; accum_bytes *= 2) {
    print_selected(accum_bytes, hw);
  }
  const muh::transform_policy transform = muh::bi100_transform::policy;
  std::printf("transform %d %d %d\n", transform.block_threads, transform.min_bytes_in_flight, transform.max_smem);
  for (int loaded = 0; loaded <= 64; ++loaded) {
    for (int blocks = 1; blocks <= 8; blocks *= 2) {
      std::printf("items %d %d %d\n", loaded, blocks, muh::items_per_thread(transform, loaded, blocks));
    }
  }
  std::printf("default_max_smem %d\n", muh::default_max_smem);
  int type_bytes = 0;
  int max_smem = 0;
  int warp = 0;
  int threads = 0;
  int items = 0;
  while (std::scanf("%d %d %d %d %d", &type_bytes, &max_smem, &warp, &threads, &items) == 5) {
    const muh::mem_bound scaled = muh::scale_mem_bound(threads, items, type_bytes, max_smem, warp);
    std::printf("scaled %d %d %d\n", scaled.block_threads, scaled.items_per_thread,
                static_cast<int>(muh::fits(scaled, type_bytes, max_smem)));
  }
  return 0;
}
