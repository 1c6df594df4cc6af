// Sums by cell, and values by cell.

struct SumTask {
  LookUp look;
  u64 out;              // int64 (cells, 2)
  u32 n_parts, parts;   // how many, and where
  u32 cells, copies;    // of the sums that are added up in shared memory
  u32 chunk;            // rows between two spills: at most copies · 2¹⁴, and a multiple of 4 · threads
  u32 shared_table;     // bytes of the table that are copied to shared memory
};

// Copy the table to shared memory: every row is looked up in it.
__device__ __forceinline__ const int2* table_in_shared_memory(const LookUp& look, u32 bytes, u8* shared) {
  if (!bytes) return (const int2*)look.table;
  for (u32 k = threadIdx.x; k < bytes / 16; k += blockDim.x)
    ((int4*)shared)[k] = ((const int4*)look.table)[k];
  return (const int2*)shared;
}

// Move sums that have reached 2³⁰, or all of them, to the answer.
__device__ __forceinline__ void spill(const void* task, const Part* parts, u32 n_parts, u32 copies, int* first,
                                      int* second, i64* out, bool all) {
  for (u32 p = 0; p < n_parts; p++) {
    const u32* fold = parts[p].fold ? behind<u32>(task, parts[p].fold) : 0;
    for (u32 c = threadIdx.x; c < parts[p].cells; c += blockDim.x) {
      i64 one = 0, two = 0;
      for (u32 k = 0; k < copies; k++) {
        u32 at = (parts[p].first + c) * copies + k;
        int a = first[at], b = second[at];
        if (!all && a < SPILL && a > -SPILL && b < SPILL) continue;
        one += a, two += b;
        first[at] = 0, second[at] = 0;
      }
      add_far(out + 2ull * (parts[p].first_out + (fold ? fold[c] : c)), one, two);
    }
  }
}

// Rows without weights. The rows of a chunk that thread t sees go to copy t mod copies, so a copy
// sees at most 2¹⁴ of them between two spills.
template <bool alone>
__device__ __forceinline__ void sum_in_shared_memory(const SumTask* task) {
  SHARED_BUFFER
  const LookUp look = task->look;
  const Part* parts = behind<Part>(task, task->parts);
  const u32 copies = task->copies, cells = task->cells * copies, chunk = task->chunk;
  const int2* table = table_in_shared_memory(look, task->shared_table, buffer);
  int* first = (int*)(buffer + task->shared_table);
  int* second = first + cells;
  for (u32 k = threadIdx.x; k < 2 * cells; k += blockDim.x) first[k] = 0;
  __syncthreads();
  const u32 copy = threadIdx.x & (copies - 1);
  const u64 column = parts[0].column[0];
  const u32 bytes = parts[0].bytes[0];
  for (u64 start = (u64)blockIdx.x * chunk; start < look.n; start += (u64)gridDim.x * chunk) {
    u64 end = min(start + chunk, (u64)look.n);
    for (u64 i = start + 4 * threadIdx.x; i < end; i += 4 * blockDim.x) {
      int2 pair[4];
      four_pairs(table, look, (u32)i, pair);
      for (u32 p = 0; p < (alone ? 1 : task->n_parts); p++) {
        Four cell = alone ? four_codes(column, bytes, (u32)i) : four_cells(task, parts[p], (u32)i);
        u32 base = alone ? copy : parts[p].first * copies + copy;
        for (int k = 0; k < 4; k++) {
          u32 at = base + cell.of[k] * copies;
          if (pair[k].x) atomicAdd(first + at, pair[k].x);
          if (pair[k].y) atomicAdd(second + at, pair[k].y);
        }
      }
    }
    __syncthreads();
    spill(task, parts, task->n_parts, copies, first, second, (i64*)task->out, false);
    __syncthreads();
  }
  spill(task, parts, task->n_parts, copies, first, second, (i64*)task->out, true);
}

// One part whose cells are the codes of one column; they are folded into cells at the end.
extern "C" __global__ void __launch_bounds__(1024, 2) sum_alone(const SumTask* task) { sum_in_shared_memory<true>(task); }

extern "C" __global__ void __launch_bounds__(1024) sum_parts(const SumTask* task) { sum_in_shared_memory<false>(task); }

// Rows with weights, of up to 2²⁴: sums of 64 bits.
extern "C" __global__ void __launch_bounds__(1024) sum_weighted(const SumTask* task) {
  SHARED_BUFFER
  const LookUp look = task->look;
  const Part* parts = behind<Part>(task, task->parts);
  const u32 copies = task->copies;
  i64* sums = (i64*)buffer;
  for (u32 k = threadIdx.x; k < 2 * task->cells * copies; k += blockDim.x) sums[k] = 0;
  __syncthreads();
  const u32 copy = threadIdx.x & (copies - 1);
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < look.n; i += stride) {
    int2 pair[4];
    four_pairs((const int2*)look.table, look, (u32)i, pair);
    for (u32 p = 0; p < task->n_parts; p++) {
      Four cell = four_cells(task, parts[p], (u32)i);
      for (int k = 0; k < 4; k++)
        add_far(sums + 2 * ((parts[p].first + cell.of[k]) * copies + copy), pair[k].x, pair[k].y);
    }
  }
  __syncthreads();
  for (u32 p = 0; p < task->n_parts; p++) {
    const u32* fold = parts[p].fold ? behind<u32>(task, parts[p].fold) : 0;
    for (u32 c = threadIdx.x; c < parts[p].cells; c += blockDim.x) {
      i64 one = 0, two = 0;
      for (u32 k = 0; k < copies; k++) {
        const i64* sum = sums + 2 * ((parts[p].first + c) * copies + k);
        one += sum[0], two += sum[1];
      }
      add_far((i64*)task->out + 2ull * (parts[p].first_out + (fold ? fold[c] : c)), one, two);
    }
  }
}

// Cells that are too many for shared memory: each row adds to the answer itself.
extern "C" __global__ void __launch_bounds__(1024) sum_global(const SumTask* task) {
  const LookUp look = task->look;
  const Part* parts = behind<Part>(task, task->parts);
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < look.n; i += stride) {
    int2 pair[4];
    four_pairs((const int2*)look.table, look, (u32)i, pair);
    for (u32 p = 0; p < task->n_parts; p++) {
      const u32* fold = parts[p].fold ? behind<u32>(task, parts[p].fold) : 0;
      Four cell = four_cells(task, parts[p], (u32)i);
      for (int k = 0; k < 4; k++) {
        u64 at = parts[p].first_out + (fold ? fold[cell.of[k]] : cell.of[k]);
        add_far((i64*)task->out + 2 * at, pair[k].x, pair[k].y);
      }
    }
  }
}

struct AddTask {
  u64 state;
  u32 n, n_parts, parts;
};

// Add to each row's state the value of its cell, of each part.
extern "C" __global__ void __launch_bounds__(1024, 2) add_values(const AddTask* task) {
  const Part* parts = behind<Part>(task, task->parts);
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < task->n; i += stride) {
    int4* state = (int4*)((int*)task->state + i);
    int4 own = *state;
    for (u32 p = 0; p < task->n_parts; p++) {
      Four cell = four_cells(task, parts[p], (u32)i);
      const int* value = behind<int>(task, parts[p].values);
      own.x += value[cell.of[0]], own.y += value[cell.of[1]];
      own.z += value[cell.of[2]], own.w += value[cell.of[3]];
    }
    *state = own;
  }
}

// The same for one part whose cells are the codes of one column: its values are copied to shared memory.
extern "C" __global__ void __launch_bounds__(1024, 2) add_alone(const AddTask* task) {
  SHARED_BUFFER
  const Part* part = behind<Part>(task, task->parts);
  const int* values = behind<int>(task, part->values);
  int* shared = (int*)buffer;
  for (u32 k = threadIdx.x; k < part->cells; k += blockDim.x) shared[k] = values[k];
  __syncthreads();
  const u64 column = part->column[0], n = task->n;
  const u32 bytes = part->bytes[0];
  int* states = (int*)task->state;
  u64 stride = 4ull * blockDim.x * gridDim.x;
#pragma unroll 2
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < n; i += stride) {
    int4 own = *(const int4*)(states + i);
    Four cell = four_codes(column, bytes, (u32)i);
    own.x += shared[cell.of[0]], own.y += shared[cell.of[1]];
    own.z += shared[cell.of[2]], own.w += shared[cell.of[3]];
    *(int4*)(states + i) = own;
  }
}
