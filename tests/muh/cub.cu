// Runs cub::DeviceReduce and cub::DeviceTransform with CUB's own policies and with ours, compares the results with those
// of plain kernels, and prints one line of JSON for each: milliseconds are the least of several launches, in turn.
#include <cuda/std/functional>
#include <cuda/std/tuple>

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_transform.cuh>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tuning_reduce.cuh"
#include "tuning_transform.cuh"

namespace {

void check(cudaError_t error, int line) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(error));
    std::exit(1);
  }
}
#define CHECK(call) check(call, __LINE__)

constexpr int rounds = 9;

// A number of few bits, so that sums of many of them are exact in every type and order.
template <class T>
__host__ __device__ T element(std::uint32_t index) {
  const std::uint32_t mixed = index * 2654435761u;
  return static_cast<T>(static_cast<int>(mixed >> 28) - 7);
}

template <class T>
__global__ void fill(T* data, int count) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
    data[i] = element<T>(static_cast<std::uint32_t>(i));
  }
}

struct Plus {
  template <class T>
  __host__ __device__ T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};

// What AgentReducePolicy scales from four bytes is scaled already.
template <class Tuning>
struct AsScaled {
  static constexpr int ITEMS_PER_THREAD = Tuning::items;
  static constexpr int BLOCK_THREADS = Tuning::threads;
};

template <class T, class Tuning>
struct ReduceHub {
  struct MaxPolicy : cub::ChainedPolicy<500, MaxPolicy, MaxPolicy> {
    using ReducePolicy = cub::AgentReducePolicy<Tuning::threads, Tuning::items, T, Tuning::items_per_vec_load,
                                                cub::BLOCK_REDUCE_WARP_REDUCTIONS, cub::LOAD_LDG, AsScaled<Tuning>>;
    using SingleTilePolicy = ReducePolicy;
    using SegmentedReducePolicy = ReducePolicy;
  };
};

template <class T>
using OwnReduceHub = cub::detail::reduce::policy_hub<T, int, Plus>;

struct TransformHub {
  struct max_policy : cub::ChainedPolicy<300, max_policy, max_policy> {
    static constexpr int min_bif = muh::bi100_transform::policy.min_bytes_in_flight;
    static constexpr auto algorithm = cub::detail::transform::Algorithm::prefetch;
    struct algo_policy {
      static constexpr int block_threads = muh::bi100_transform::policy.block_threads;
      static constexpr int items_per_thread_no_input = muh::bi100_transform::policy.items_per_thread_no_input;
      static constexpr int min_items_per_thread = muh::bi100_transform::policy.min_items_per_thread;
      static constexpr int max_items_per_thread = muh::bi100_transform::policy.max_items_per_thread;
    };
  };
};

// Milliseconds of each of two launches, taken in turn.
template <class First, class Second>
void timed(First first, Second second, float (&best)[2]) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  best[0] = best[1] = 1e30f;
  for (int round = 0; round < rounds; ++round) {
    for (int which = 0; which < 2; ++which) {
      CHECK(cudaEventRecord(begin));
      which == 0 ? first() : second();
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float took = 0.0f;
      CHECK(cudaEventElapsedTime(&took, begin, end));
      best[which] = round == 0 ? best[which] : std::min(best[which], took);
    }
  }
}

void report(const char* operation, const char* name, int count, double bytes, const float (&best)[2], bool right) {
  std::printf("{\"operation\": \"%s\", \"policy\": \"%s\", \"elements\": %d, \"bytes\": %.0f, \"cub_ms\": %.4f, "
              "\"ours_ms\": %.4f, \"right\": %s}\n",
              operation, name, count, bytes, static_cast<double>(best[0]), static_cast<double>(best[1]),
              right ? "true" : "false");
}

template <class T, class Tuning>
bool reduce(const char* name, int count) {
  T* data = nullptr;
  T* out = nullptr;
  CHECK(cudaMalloc(&data, sizeof(T) * static_cast<std::size_t>(count)));
  CHECK(cudaMalloc(&out, 2 * sizeof(T)));
  fill<<<4096, 256>>>(data, count);
  CHECK(cudaMemset(out, 0x5a, 2 * sizeof(T)));
  const auto run = [&](auto hub, T* target, void* scratch, std::size_t& bytes) {
    using Dispatch = cub::DispatchReduce<T*, T*, int, Plus, T, T, ::cuda::std::__identity, decltype(hub)>;
    CHECK(Dispatch::Dispatch(scratch, bytes, data, target, count, Plus{}, T{}, nullptr));
  };
  std::size_t theirs = 0;
  std::size_t ours = 0;
  run(OwnReduceHub<T>{}, out, nullptr, theirs);
  run(ReduceHub<T, Tuning>{}, out, nullptr, ours);
  void* scratch = nullptr;
  CHECK(cudaMalloc(&scratch, std::max(theirs, ours)));
  float best[2];
  timed([&] { run(OwnReduceHub<T>{}, out, scratch, theirs); },
        [&] { run(ReduceHub<T, Tuning>{}, out + 1, scratch, ours); }, best);
  T found[2];
  CHECK(cudaMemcpy(found, out, sizeof(found), cudaMemcpyDeviceToHost));
  long long sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += element<int>(static_cast<std::uint32_t>(i));
  }
  const T wanted = static_cast<T>(sum);
  const bool right = found[0] == wanted && found[1] == wanted;
  report("reduce", name, count, static_cast<double>(sizeof(T)) * count, best, right);
  CHECK(cudaFree(scratch));
  CHECK(cudaFree(out));
  CHECK(cudaFree(data));
  return right;
}

struct Fused {
  __host__ __device__ float operator()(float a, float b) const { return 2.0f * a + b; }
};

__global__ void differences(const float* a, const float* b, const float* out, int count, int* wrong) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
    if (out[i] != 2.0f * a[i] + b[i]) {
      atomicAdd(wrong, 1);
    }
  }
}

bool transform(int count) {
  float* data[3];
  int* wrong = nullptr;
  for (float*& one : data) {
    CHECK(cudaMalloc(&one, sizeof(float) * static_cast<std::size_t>(count)));
    fill<<<4096, 256>>>(one, count);
  }
  CHECK(cudaMalloc(&wrong, sizeof(int)));
  CHECK(cudaMemset(wrong, 0, sizeof(int)));
  const auto in = ::cuda::std::make_tuple(static_cast<const float*>(data[0]), static_cast<const float*>(data[1]));
  using Tuple = ::cuda::std::tuple<const float*, const float*>;
  using Ours = cub::detail::transform::dispatch_t<cub::detail::transform::requires_stable_address::no, std::int32_t,
                                                  Tuple, float*, Fused, TransformHub>;
  const auto own = [&] { CHECK(cub::DeviceTransform::Transform(in, data[2], count, Fused{})); };
  const auto ours = [&] { CHECK(Ours::dispatch(in, data[2], std::int32_t{count}, Fused{}, nullptr)); };
  int found = 0;
  const auto judge = [&](auto launch) {
    CHECK(cudaMemset(data[2], 0xff, sizeof(float) * static_cast<std::size_t>(count)));
    launch();
    differences<<<4096, 256>>>(data[0], data[1], data[2], count, wrong);
    CHECK(cudaMemcpy(&found, wrong, sizeof(int), cudaMemcpyDeviceToHost));
  };
  judge(own);
  judge(ours);
  float best[2];
  timed(own, ours, best);
  report("transform", "bi100_transform", count, 3.0 * sizeof(float) * count, best, found == 0);
  for (float* one : data) {
    CHECK(cudaFree(one));
  }
  CHECK(cudaFree(wrong));
  return found == 0;
}

}  // namespace

int main() {
  bool right = true;
  for (const int count : {1, 1000, (1 << 20) + 3, 1 << 27}) {
    right &= reduce<float, muh::bi100_plus_float32_o4>("bi100_plus_float32_o4", count);
    right &= reduce<double, muh::bi100_plus_float64_o4>("bi100_plus_float64_o4", count);
    right &= reduce<std::int16_t, muh::bi100_plus_accum2_o4>("bi100_plus_accum2_o4", count);
    right &= transform(count);
  }
  return right ? 0 : 1;
}
