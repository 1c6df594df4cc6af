// Statistics of all classes of a row: see engine/softmax.py, engine/softmax_kernels.py.

struct SoftmaxTask {
  u64 label, weight;  // of rows
  u64 out;            // int64 (cells, classes, 2)
  i64 clip, clip_steps, hessian_clip, slope;
  u32 n, classes, absolute;
  u32 n_parts, parts;  // how many, and where
  u32 size, table;     // of exponentials
  u32 states;          // the addresses of each class' scores
  u32 n_edges, edges;  // of probabilities
};

#define PROBABILITY_BITS 24
#define SLOPE_AND_DIFFERENCE_BITS 20
#define RECIPROCAL_BITS 38
#define FACTOR_BITS 30
#define CLIP_STEPS (1ll << 16)

struct Exponentials {
  const u64* states;
  const int* table;
  i64 best, slope;
  u32 row, last, top;
  u64 whole;  // the reciprocal of the sum of all exponentials

  __device__ __forceinline__ i64 state(u32 k) const { return ((const int*)states[k])[row]; }

  __device__ __forceinline__ i64 power(u32 k) const {
    i64 below = ((best - state(k)) * slope) >> SLOPE_AND_DIFFERENCE_BITS;
    return table[min(below, (i64)last)];
  }

  __device__ __forceinline__ i64 probability(u32 k) const {
    return (i64)(((u64)power(k) * whole) >> RECIPROCAL_BITS);
  }
};

__device__ __forceinline__ Exponentials exponentials_of(const SoftmaxTask* task, u32 row) {
  Exponentials own;
  own.states = behind<u64>(task, task->states), own.table = behind<int>(task, task->table);
  own.slope = task->slope, own.row = row, own.last = task->size - 1, own.top = 0;
  own.best = own.state(0);
  for (u32 k = 1; k < task->classes; k++) {
    i64 score = own.state(k);
    if (score > own.best) own.best = score, own.top = k;
  }
  u64 total = 0;
  for (u32 k = 0; k < task->classes; k++) total += (u64)own.power(k);
  own.whole = (1ull << (PROBABILITY_BITS + RECIPROCAL_BITS)) / total;
  return own;
}

// The least whole number whose square is at least this, which is below 2⁵².
__device__ __forceinline__ i64 root_of(i64 square) {
  i64 root = (i64)sqrt((double)square);
  while (root * root < square) root++;
  while (root > 0 && (root - 1) * (root - 1) >= square) root--;
  return root;
}

__device__ __forceinline__ i64 times_of(const SoftmaxTask* task, u32 row) {
  return task->weight ? ((const u16*)task->weight)[row] : 1;
}

__device__ __forceinline__ u32 cell_of_row(const void* task, const Part& part, u32 i) {
  u32 cell = 0;
  for (u32 c = 0; c < part.columns; c++) {
    u32 digit = one_code(part.column[c], part.bytes[c], i);
    if (part.map[c]) digit = behind<u16>(task, part.map[c])[digit];
    cell = cell * part.size[c] + digit;
  }
  return part.fold ? behind<u32>(task, part.fold)[cell] : cell;
}

// Each row adds its gradients and Hessians of all classes to the answer.
extern "C" __global__ void __launch_bounds__(256) sum_softmax(const SoftmaxTask* task) {
  const Part* parts = behind<Part>(task, task->parts);
  const u32 classes = task->classes, stride = blockDim.x * gridDim.x;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    const u32 label = ((const u8*)task->label)[i];
    if (label >= classes) continue;
    const Exponentials own = exponentials_of(task, i);
    i64 others = 0, length = 0;
    for (u32 k = 0; k < classes; k++)
      if (k != label) others += own.probability(k);
    const i64 rest = (1ll << PROBABILITY_BITS) - others;
    for (u32 k = 0; k < classes; k++) {
      i64 p = k == label ? rest : own.probability(k);
      i64 own_h = (p * ((1ll << PROBABILITY_BITS) - p)) >> PROBABILITY_BITS;
      length += task->absolute ? own_h : own_h * own_h;
    }
    if (!task->absolute) length = root_of(length);
    const i64 by = (task->clip_steps << FACTOR_BITS) / max(others, task->clip);
    const i64 most = (CLIP_STEPS << FACTOR_BITS) / max(length, task->hessian_clip);
    const i64 times = times_of(task, i);
    for (u32 part = 0; part < task->n_parts; part++) {
      u64 cell = parts[part].first_out + cell_of_row(task, parts[part], i);
      i64* out = (i64*)task->out + 2 * cell * classes;
      for (u32 k = 0; k < classes; k++) {
        i64 p = k == label ? rest : own.probability(k);
        i64 own_h = (p * ((1ll << PROBABILITY_BITS) - p)) >> PROBABILITY_BITS;
        i64 g = ((k == label ? others : p) * by) >> FACTOR_BITS;
        add_far(out + 2 * k, (k == label ? -g : g) * times, ((own_h * most) >> FACTOR_BITS) * times);
      }
    }
  }
}

// Count rows by class.
extern "C" __global__ void __launch_bounds__(256) count_labels(const SoftmaxTask* task) {
  const u32 stride = blockDim.x * gridDim.x;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    const u32 label = ((const u8*)task->label)[i];
    if (label < task->classes) atomicAdd((u64*)task->out + label, (u64)(CLIP_STEPS * times_of(task, i)));
  }
}

// Count rows by interval of the largest probability, and whether that class is their own.
extern "C" __global__ void __launch_bounds__(256) count_top_classes(const SoftmaxTask* task) {
  const int* edges = behind<int>(task, task->edges);
  const u32 stride = blockDim.x * gridDim.x;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    const u32 label = ((const u8*)task->label)[i];
    if (label >= task->classes) continue;
    const Exponentials own = exponentials_of(task, i);
    i64 p = own.probability(own.top);
    u32 low = 0, high = task->n_edges;
    while (low < high) {
      u32 middle = (low + high) / 2;
      if (edges[middle] <= p)
        low = middle + 1;
      else
        high = middle;
    }
    atomicAdd((u64*)task->out + 2 * low + (own.top == label), (u64)(CLIP_STEPS * times_of(task, i)));
  }
}
