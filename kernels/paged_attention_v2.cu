// PagedAttention V2, compiled: decode over vLLM's paged cache, each sequence in parts that a second launch joins.
//
// A block takes one part of one sequence for up to `Heads` query heads of one KV head, so that keys and values are read
// once for all of them. Scores: one thread a token, which needs no exchange between threads. Values: one thread eight
// tokens of some dimensions. Whatever threads exchange goes through shared memory between barriers; nothing rests on the
// width of a warp, of which blocks are whole multiples.
//
// Caches as vLLM 0.6.3 has them, in half precision, eight elements in 16 bytes:
// key [pages, kv_heads, head_size / 8, page, 8], value [pages, kv_heads, head_size, page], dense within a page.
//
// The only interface is in C, at the end. A host program defines MUH_ON_HOST and stands in for CUDA's own words.

#include "hardware.cuh"

#ifndef MUH_ON_HOST
#include <cuda_fp16.h>
#endif

#ifndef MUH_LAUNCH
#define MUH_LAUNCH(kernel, grid, threads, stream, ...) kernel<<<grid, threads, 0, stream>>>(__VA_ARGS__)
#endif

namespace {

constexpr int kThreads = 128;
constexpr int kPart = 512;       // tokens of a part at most
constexpr int kHeadSize = 256;   // at most
constexpr int kVector = 8;       // elements in 16 bytes
constexpr int kRows = 4;         // dimensions that a thread sums at a time
constexpr int kMostHeads = 8;    // query heads of a block
constexpr float kLowest = -1e30f;  // finite: the difference of two of them is 0, not NaN
constexpr float kLog2E = 1.4426950408889634f;

constexpr int kSharedBytes = (kMostHeads * (kHeadSize + kPart + kThreads)) * static_cast<int>(sizeof(float));
static_assert(kThreads % muh::target_hardware.warp_threads == 0, "a block is whole warps");
static_assert((kThreads & (kThreads - 1)) == 0, "blocks are halved when they reduce");
static_assert(kSharedBytes <= muh::target_hardware.max_shared_memory_per_block, "a block's shared memory does not fit");

struct alignas(16) Packed {
  unsigned short element[kVector];
};

// Shared memory is read 16 bytes at a time, or its reads outnumber the products.
struct alignas(16) Quad {
  float element[4];
};

__device__ void read_eight(const float* at, float (&values)[kVector]) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const Quad quad = reinterpret_cast<const Quad*>(at)[part];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[4 * part + i] = quad.element[i];
    }
  }
}

struct Half {
  static __device__ float widened(unsigned short bits) {
#ifdef MUH_ON_HOST
    return host_half_to_float(bits);
#else
    return __half2float(__ushort_as_half(bits));
#endif
  }
  static __device__ unsigned short narrowed(float value) {
#ifdef MUH_ON_HOST
    return host_float_to_half(value);
#else
    return __half_as_ushort(__float2half_rn(value));
#endif
  }
};

// By its bits: CUDA 10 has no header for it.
struct BFloat {
  union Word {
    unsigned int bits;
    float value;
  };
  static __device__ float widened(unsigned short bits) {
    Word word;
    word.bits = static_cast<unsigned int>(bits) << 16;
    return word.value;
  }
  static __device__ unsigned short narrowed(float value) {
    Word word;
    word.value = value;
    if ((word.bits & 0x7fffffffu) > 0x7f800000u) {
      return static_cast<unsigned short>((word.bits >> 16) | 0x40u);  // a NaN stays one
    }
    return static_cast<unsigned short>((word.bits + 0x7fffu + ((word.bits >> 16) & 1u)) >> 16);
  }
};

struct Call {
  unsigned short* out;
  float* parts;  // [seqs, heads, splits, head_size], then [seqs, heads, splits] of log-sum-exps
  const unsigned short* query;
  const unsigned short* key;
  const unsigned short* value;
  const int* tables;
  const int* lengths;
  const float* slopes;  // or null
  long long out_stride, query_stride, table_stride, key_stride, value_stride;  // of a row or a page, in elements
  float scale_log2;
  int heads, kv_heads, head_size, page, limit, part, splits, seqs;
};

__device__ int length_of(const Call& call, int seq) {
  const int length = call.lengths[seq];
  return length < 0 ? 0 : length < call.limit ? length : call.limit;
}

__device__ float* log_sums(const Call& call) {
  return call.parts + static_cast<long long>(call.seqs) * call.heads * call.splits * call.head_size;
}

struct Larger {
  static __device__ float of(float a, float b) { return a > b ? a : b; }
};

struct Sum {
  static __device__ float of(float a, float b) { return a + b; }
};

// Reduces one value a thread for each of `Count` rows; all threads get the results.
template <class Operation, int Count>
__device__ void reduce(float (&values)[Count], float* scratch) {
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int row = 0; row < Count; ++row) {
    scratch[row * kThreads + thread] = values[row];
  }
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) {
#pragma unroll
      for (int row = 0; row < Count; ++row) {
        float* here = scratch + row * kThreads + thread;
        *here = Operation::of(*here, here[half]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int row = 0; row < Count; ++row) {
    values[row] = scratch[row * kThreads];
  }
  __syncthreads();
}

// Writes the scores of a part, in units of log 2, and returns this thread's largest for each head.
template <class Type, int Heads>
__device__ void score(const Call& call, const float* query, float* scores, const int* table, int kv_head, int first_head,
                      int begin, int end, int length, float (&top)[Heads]) {
  const unsigned short* keys = call.key + static_cast<long long>(kv_head) * call.head_size * call.page;
  float slope[Heads];
#pragma unroll
  for (int head = 0; head < Heads; ++head) {
    const bool there = call.slopes != nullptr && first_head + head < (kv_head + 1) * (call.heads / call.kv_heads);
    slope[head] = there ? call.slopes[first_head + head] * kLog2E : 0.0f;
    top[head] = kLowest;
  }
  for (int token = begin + static_cast<int>(threadIdx.x); token < end; token += kThreads) {
    const unsigned short* at = keys + table[token / call.page] * call.key_stride + token % call.page * kVector;
    float sum[Heads] = {};
#pragma unroll 4
    for (int dim = 0; dim < call.head_size; dim += kVector) {
      const Packed packed = *reinterpret_cast<const Packed*>(at + static_cast<long long>(dim) * call.page);
      float wide[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        wide[i] = Type::widened(packed.element[i]);
      }
#pragma unroll
      for (int head = 0; head < Heads; ++head) {
        float factors[kVector];
        read_eight(query + head * kHeadSize + dim, factors);
#pragma unroll
        for (int i = 0; i < kVector; ++i) {
          sum[head] += factors[i] * wide[i];
        }
      }
    }
#pragma unroll
    for (int head = 0; head < Heads; ++head) {
      const float here = sum[head] * call.scale_log2 + slope[head] * static_cast<float>(token - (length - 1));
      scores[head * kPart + token - begin] = here;
      top[head] = Larger::of(top[head], here);
    }
  }
}

template <class Type>
__device__ void store(const Call& call, int seq, int head, int split, int dim, float result) {
  if (call.splits == 1) {
    call.out[seq * call.out_stride + head * call.head_size + dim] = Type::narrowed(result);
  } else {
    const long long part = (static_cast<long long>(seq) * call.heads + head) * call.splits + split;
    call.parts[part * call.head_size + dim] = result;
  }
}

// How threads share the values of a page: eight tokens each, of `step` dimensions at a time, of every `planes`-th page.
struct Share {
  int chunks, chunk, planes, plane, dim, step;
  bool active;

  __device__ Share(int page, int head_size) {
    chunks = page / kVector;
    chunk = static_cast<int>(threadIdx.x) % chunks;
    const int row = static_cast<int>(threadIdx.x) / chunks;
    const int rows = kThreads / chunks;
    planes = rows > head_size ? rows / head_size : 1;
    step = planes > 1 ? head_size : rows;
    plane = row / step;
    dim = row % step;
    active = row < step * planes;
  }
};

// Multiplies weights and values, `kRows * step` dimensions at a time, and stores the results divided by the sums.
template <class Type, int Heads>
__device__ void weigh(const Call& call, const float* weights, float* scratch, const int* table, int kv_head,
                      int first_head, int heads, int seq, int split, int begin, int end, const float (&total)[Heads]) {
  const int thread = static_cast<int>(threadIdx.x);
  const Share share(call.page, call.head_size);
  const unsigned short* values = call.value + static_cast<long long>(kv_head) * call.head_size * call.page;
  for (int base = 0; base < call.head_size; base += kRows * share.step) {
    float sum[kRows][Heads] = {};
    if (share.active) {
      for (int page = begin / call.page + share.plane; page * call.page < end; page += share.planes) {
        const int first = page * call.page + share.chunk * kVector;
        if (first >= end) {
          continue;
        }
        const unsigned short* at = values + table[page] * call.value_stride + share.chunk * kVector;
        Packed packed[kRows] = {};
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          const int dim = base + row * share.step + share.dim;
          if (dim < call.head_size) {
            packed[row] = *reinterpret_cast<const Packed*>(at + static_cast<long long>(dim) * call.page);
          }
        }
        float wide[kRows][kVector];
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          const bool there = base + row * share.step + share.dim < call.head_size;
#pragma unroll
          for (int i = 0; i < kVector; ++i) {
            // What an unused slot holds may be NaN, which no weight of 0 takes away.
            wide[row][i] = there && first + i < end ? Type::widened(packed[row].element[i]) : 0.0f;
          }
        }
#pragma unroll
        for (int head = 0; head < Heads; ++head) {
          float factors[kVector];
          read_eight(weights + head * kPart + first - begin, factors);
#pragma unroll
          for (int row = 0; row < kRows; ++row) {
#pragma unroll
            for (int i = 0; i < kVector; ++i) {
              sum[row][head] += factors[i] * wide[row][i];
            }
          }
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int head = 0; head < Heads; ++head) {
        scratch[head * kThreads + thread] = sum[row][head];
      }
      __syncthreads();
      const int from = base + row * share.step;
      const int dims = call.head_size - from < share.step ? call.head_size - from : share.step;
      for (int item = thread; item < dims * heads; item += kThreads) {
        const int head = item / dims;
        const int dim = item % dims;
        float result = 0.0f;
        for (int plane = 0; plane < share.planes; ++plane) {
          for (int chunk = 0; chunk < share.chunks; ++chunk) {
            result += scratch[head * kThreads + (plane * share.step + dim) * share.chunks + chunk];
          }
        }
        store<Type>(call, seq, first_head + head, split, from + dim, result / total[head]);
      }
      __syncthreads();
    }
  }
}

template <class Type, int Heads>
__global__ void __launch_bounds__(kThreads) attend(Call call) {
  alignas(16) __shared__ float query[Heads * kHeadSize];
  alignas(16) __shared__ float scores[Heads * kPart];
  __shared__ float scratch[Heads * kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int seq = static_cast<int>(blockIdx.z);
  const int split = static_cast<int>(blockIdx.x);
  const int group = call.heads / call.kv_heads;
  const int head_blocks = (group + Heads - 1) / Heads;
  const int kv_head = static_cast<int>(blockIdx.y) / head_blocks;
  const int skipped = static_cast<int>(blockIdx.y) % head_blocks * Heads;
  const int heads = group - skipped < Heads ? group - skipped : Heads;
  const int first_head = kv_head * group + skipped;
  const int length = length_of(call, seq);
  const int begin = split * call.part;
  const int end = length < begin + call.part ? length : begin + call.part;
  if (begin >= end) {
    if (call.splits == 1) {
      for (int item = thread; item < heads * call.head_size; item += kThreads) {
        store<Type>(call, seq, first_head + item / call.head_size, 0, item % call.head_size, 0.0f);
      }
    }
    return;
  }
  for (int item = thread; item < Heads * call.head_size; item += kThreads) {
    const int head = item / call.head_size;
    const int dim = item % call.head_size;
    const long long at = seq * call.query_stride + static_cast<long long>(first_head + head) * call.head_size + dim;
    query[head * kHeadSize + dim] = head < heads ? Type::widened(call.query[at]) : 0.0f;
  }
  __syncthreads();
  const int* table = call.tables + seq * call.table_stride;
  float top[Heads];
  score<Type, Heads>(call, query, scores, table, kv_head, first_head, begin, end, length, top);
  reduce<Larger, Heads>(top, scratch);
  float total[Heads] = {};
  for (int token = thread; token < (end - begin + kVector - 1) / kVector * kVector; token += kThreads) {
#pragma unroll
    for (int head = 0; head < Heads; ++head) {
      const float weight = token < end - begin ? exp2f(scores[head * kPart + token] - top[head]) : 0.0f;
      scores[head * kPart + token] = weight;
      total[head] += weight;
    }
  }
  reduce<Sum, Heads>(total, scratch);
  weigh<Type, Heads>(call, scores, scratch, table, kv_head, first_head, heads, seq, split, begin, end, total);
  if (call.splits > 1) {
#pragma unroll
    for (int head = 0; head < Heads; ++head) {
      if (thread == 0 && head < heads) {
        const long long row = static_cast<long long>(seq) * call.heads + first_head + head;
        log_sums(call)[row * call.splits + split] = top[head] + log2f(total[head]);
      }
    }
  }
}

// Joins the parts of one head of one sequence by their log-sum-exps; however many there are.
template <class Type>
__global__ void __launch_bounds__(kThreads) join(Call call) {
  __shared__ float weights[kThreads];
  __shared__ float scratch[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.x);
  const int seq = static_cast<int>(blockIdx.y);
  const int length = length_of(call, seq);
  const int splits = length / call.part + (length % call.part != 0);
  const long long row = static_cast<long long>(seq) * call.heads + head;
  const float* sums = log_sums(call) + row * call.splits;
  const float* parts = call.parts + row * call.splits * call.head_size;
  float top[1] = {kLowest};
  for (int split = thread; split < splits; split += kThreads) {
    top[0] = Larger::of(top[0], sums[split]);
  }
  reduce<Larger, 1>(top, scratch);
  float total[1] = {0.0f};
  float result[kHeadSize / kThreads] = {};
  for (int first = 0; first < splits; first += kThreads) {
    const int split = first + thread;
    const float weight = split < splits ? exp2f(sums[split] - top[0]) : 0.0f;
    weights[thread] = weight;
    total[0] += weight;
    __syncthreads();
    const int count = splits - first < kThreads ? splits - first : kThreads;
#pragma unroll
    for (int piece = 0; piece < kHeadSize / kThreads; ++piece) {
      const int dim = piece * kThreads + thread;
      for (int other = 0; dim < call.head_size && other < count; ++other) {
        result[piece] += weights[other] * parts[static_cast<long long>(first + other) * call.head_size + dim];
      }
    }
    __syncthreads();
  }
  reduce<Sum, 1>(total, scratch);
#pragma unroll
  for (int piece = 0; piece < kHeadSize / kThreads; ++piece) {
    const int dim = piece * kThreads + thread;
    if (dim < call.head_size) {
      const float mean = splits > 0 ? result[piece] / total[0] : 0.0f;
      call.out[seq * call.out_stride + head * call.head_size + dim] = Type::narrowed(mean);
    }
  }
}

template <class Type, int Heads>
void launch(const Call& call, cudaStream_t stream) {
  const int group = call.heads / call.kv_heads;
  const int head_blocks = (group + Heads - 1) / Heads;
  const auto first = attend<Type, Heads>;
  const dim3 grid(static_cast<unsigned>(call.splits), static_cast<unsigned>(call.kv_heads * head_blocks),
                  static_cast<unsigned>(call.seqs));
  MUH_LAUNCH(first, grid, kThreads, stream, call);
  if (call.splits > 1) {
    const auto second = join<Type>;
    MUH_LAUNCH(second, dim3(static_cast<unsigned>(call.heads), static_cast<unsigned>(call.seqs)), kThreads, stream,
               call);
  }
}

template <class Type>
void launch_for_group(const Call& call, cudaStream_t stream) {
  const int group = call.heads / call.kv_heads;
  if (group == 1) {
    launch<Type, 1>(call, stream);
  } else if (group == 2) {
    launch<Type, 2>(call, stream);
  } else if (group <= 4) {
    launch<Type, 4>(call, stream);
  } else {
    launch<Type, kMostHeads>(call, stream);
  }
}

bool possible(const Call& call) {
  constexpr int most_grid = 65535;
  return call.seqs > 0 && call.seqs <= most_grid && call.kv_heads > 0 && call.heads % call.kv_heads == 0 &&
         call.heads > 0 && call.heads <= most_grid && call.head_size > 0 && call.head_size <= kHeadSize &&
         call.head_size % kVector == 0 && call.page > 0 && call.page <= kPart && call.page % kVector == 0 &&
         call.part > 0 && call.part <= kPart && call.part % call.page == 0 && call.limit > 0 && call.splits > 0 &&
         static_cast<long long>(call.splits) * call.part >= call.limit;
}

}  // namespace

extern "C" {

// The version of this interface.
int muh_paged_attention_v2_version() { return 1; }

// Whether the pointers are the host's.
int muh_paged_attention_v2_on_host() {
#ifdef MUH_ON_HOST
  return 1;
#else
  return 0;
#endif
}

// What the sources were compiled for: threads of a warp.
int muh_paged_attention_v2_warp_threads() { return muh::target_hardware.warp_threads; }

// Writes decode attention into `out`. `parts` has `seqs * heads * splits * (head_size + 1)` floats, unused if `splits`
// is 1; `part * splits` covers `limit`, the bound of all lengths. Strides are in elements, of a row or a page.
// Returns 0, a cudaError, or -1 where nothing was launched because the arguments are outside of what this file does.
int muh_paged_attention_v2(void* out, float* parts, const void* query, const void* key, const void* value,
                           const int* tables, const int* lengths, const float* slopes, long long out_stride,
                           long long query_stride, long long table_stride, long long key_stride,
                           long long value_stride, float scale, int bfloat16, int heads, int kv_heads, int head_size,
                           int page, int limit, int part, int splits, int seqs, void* stream) {
  Call call;
  call.out = static_cast<unsigned short*>(out);
  call.parts = parts;
  call.query = static_cast<const unsigned short*>(query);
  call.key = static_cast<const unsigned short*>(key);
  call.value = static_cast<const unsigned short*>(value);
  call.tables = tables;
  call.lengths = lengths;
  call.slopes = slopes;
  call.out_stride = out_stride;
  call.query_stride = query_stride;
  call.table_stride = table_stride;
  call.key_stride = key_stride;
  call.value_stride = value_stride;
  call.scale_log2 = scale * kLog2E;
  call.heads = heads;
  call.kv_heads = kv_heads;
  call.head_size = head_size;
  call.page = page;
  call.limit = limit;
  call.part = part;
  call.splits = splits;
  call.seqs = seqs;
  if (!possible(call)) {
    return -1;
  }
  if (bfloat16 != 0) {
    launch_for_group<BFloat>(call, static_cast<cudaStream_t>(stream));
  } else {
    launch_for_group<Half>(call, static_cast<cudaStream_t>(stream));
  }
  return static_cast<int>(cudaGetLastError());
}

}  // extern "C"
