// CUDA's words for a host compiler: blocks run one after another, the threads of a block in turn, from barrier to
// barrier. For what a kernel computes, not for how fast; a race within a block shows only by chance.
#pragma once

#include <ucontext.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define MUH_ON_HOST 1
#define __device__
#define __global__
#define __launch_bounds__(threads)
#define __shared__ static  // one block at a time

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

using cudaStream_t = void*;
inline int cudaGetLastError() { return 0; }

inline dim3 threadIdx, blockIdx;

namespace on_host {

constexpr std::size_t stack_bytes = std::size_t{1} << 18;
inline ucontext_t scheduler;
inline std::vector<ucontext_t> fibers;
inline std::vector<char> done;
inline unsigned current;
inline const std::function<void()>* body;

inline void run_one() {
  (*body)();
  done[current] = 1;
  swapcontext(&fibers[current], &scheduler);
}

inline void run_block(unsigned threads, const std::function<void()>& function) {
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() < threads) {
    stacks.emplace_back(new char[stack_bytes]);
  }
  body = &function;
  fibers.assign(threads, ucontext_t{});
  done.assign(threads, 0);
  for (unsigned thread = 0; thread < threads; ++thread) {
    getcontext(&fibers[thread]);
    fibers[thread].uc_stack.ss_sp = stacks[thread].get();
    fibers[thread].uc_stack.ss_size = stack_bytes;
    makecontext(&fibers[thread], run_one, 0);
  }
  for (unsigned left = threads; left > 0;) {
    left = 0;
    for (current = 0; current < threads; ++current) {
      if (!done[current]) {
        threadIdx.x = current;
        swapcontext(&scheduler, &fibers[current]);
        left += !done[current];
      }
    }
  }
}

template <class Kernel, class... Arguments>
void launch(Kernel kernel, dim3 grid, unsigned threads, Arguments... arguments) {
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        run_block(threads, [&] { kernel(arguments...); });
      }
    }
  }
}

}  // namespace on_host

#define MUH_LAUNCH(kernel, grid, threads, stream, ...) \
  (static_cast<void>(stream), on_host::launch(kernel, grid, threads, __VA_ARGS__))

inline void __syncthreads() {
  const unsigned thread = on_host::current;
  swapcontext(&on_host::fibers[thread], &on_host::scheduler);
}

inline float host_half_to_float(unsigned short bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  if (exponent == 31) {
    value = fraction != 0 ? NAN : INFINITY;
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// Rounds to the nearest, ties to even, as the device does.
inline unsigned short host_float_to_half(float value) {
  const auto sign = static_cast<unsigned short>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (std::isnan(value)) {
    return 0x7e00;
  }
  int exponent = 0;
  std::frexp(size, &exponent);
  exponent = exponent < -13 ? -13 : exponent;
  const float steps = std::isinf(size) ? 1e30f : std::nearbyint(std::ldexp(size, 11 - exponent));
  const float rounded = std::ldexp(steps, exponent - 11);
  if (size != 0.0f && (std::isinf(size) || rounded >= 65536.0f)) {
    return static_cast<unsigned short>(sign | 0x7c00);
  }
  const float smallest_normal = std::ldexp(1.0f, -14);
  if (rounded < smallest_normal) {
    return static_cast<unsigned short>(sign | static_cast<unsigned short>(std::ldexp(rounded, 24)));
  }
  const float fraction = std::frexp(rounded, &exponent);
  const auto mantissa = static_cast<int>(std::ldexp(fraction, 11)) - 1024;
  return static_cast<unsigned short>(sign | (exponent + 14) << 10 | mantissa);
}
