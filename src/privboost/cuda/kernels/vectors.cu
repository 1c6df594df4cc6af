// Vectors of a linear model.

struct GradientsTask {
  LookUp look;
  u64 scale, out;  // uint16, and pairs of rows
  u32 bits;        // how many bits finer gradients are than the result
};

__device__ __forceinline__ i64 toward_zero(i64 value, u32 bits) {
  return value >= 0 ? value >> bits : -(-value >> bits);
}

// Write gradients times the rows' scale, rounded toward zero: pairs whose second is 0.
extern "C" __global__ void __launch_bounds__(1024) vector_gradients(const GradientsTask* task) {
  const LookUp look = task->look;
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < look.n; i += stride) {
    int2 pair[4];
    four_pairs((const int2*)look.table, look, (u32)i, pair);
    for (int k = 0; k < 4; k++) {
      i64 gradient = pair[k].x;
      if (task->scale) gradient *= ((const u16*)task->scale)[i + k];
      ((int2*)task->out)[i + k] = make_int2((int)toward_zero(gradient, task->bits), 0);
    }
  }
}

struct ScalesTask {
  u64 out;  // uint16 of rows
  i64 steps;
  u32 n, n_parts, parts;
};

// Write the factors that bound the norms of vectors, rounded down.
extern "C" __global__ void __launch_bounds__(1024) vector_scales(const ScalesTask* task) {
  const Part* parts = behind<Part>(task, task->parts);
  const i64 steps = task->steps;
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < task->n; i += stride) {
    i64 square[4] = {0, 0, 0, 0};
    for (u32 p = 0; p < task->n_parts; p++) {
      Four cell = four_cells(task, parts[p], (u32)i);
      const i64* value = behind<i64>(task, parts[p].values);
      for (int k = 0; k < 4; k++) square[k] += value[cell.of[k]];
    }
    for (int k = 0; k < 4; k++) {
      i64 scale = steps;
      if (square[k] > steps * steps) scale = steps * steps / ((i64)sqrt((double)square[k]) + 1);
      ((u16*)task->out)[i + k] = (u16)scale;
    }
  }
}

struct VectorsTask {
  u64 label, weight, scale, out;  // out: int32 (rows from begin to end, width), zeros
  u64 begin, end;
  u32 own, width, n_parts, parts, bits;
  u32 factors, roots;  // of other classes and of the own; of weights
};

// Write the vectors of some rows, times their factors, rounded toward zero.
extern "C" __global__ void __launch_bounds__(1024) write_vectors(const VectorsTask* task) {
  const Part* parts = behind<Part>(task, task->parts);
  const int *factors = behind<int>(task, task->factors), *roots = behind<int>(task, task->roots);
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = task->begin + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->end; i += stride) {
    u32 label = ((const u8*)task->label)[i];
    i64 factor = label == UNKNOWN_LABEL ? 0 : factors[label == task->own];
    if (task->scale) factor = factor * ((const u16*)task->scale)[i] >> task->bits;
    if (task->weight) factor = factor * roots[((const u16*)task->weight)[i]] >> task->bits;
    int* own = (int*)task->out + (i - task->begin) * task->width;
    for (u32 p = 0; p < task->n_parts; p++) {
      u32 code = one_code(parts[p].column[0], parts[p].bytes[0], (u32)i);
      if (parts[p].columns > 1) code = code * parts[p].size[1] + one_code(parts[p].column[1], parts[p].bytes[1], (u32)i);
      int2 entry = behind<int2>(task, parts[p].values)[code];  // a coordinate, and the value there
      own[entry.x] = (int)toward_zero(entry.y * factor, task->bits);
    }
  }
}

struct ProductsTask {
  u64 vectors, out;  // int32 (rows, width); int64 (width, width), of which a triangle is written
  u32 rows, width, tiles, slice;
};

#define SIDE 64u

// Add up the products of coordinates, in tiles of 64 by 64: a thread has 4 by 4 of them.
extern "C" __global__ void __launch_bounds__(256) add_products(const ProductsTask* task) {
  const u32 width = task->width, tiles = task->tiles;
  u32 down = blockIdx.x % (tiles * tiles) / tiles, along = blockIdx.x % tiles;
  if (along < down) return;
  u32 begin = blockIdx.x / (tiles * tiles) * task->slice, end = min(begin + task->slice, task->rows);
  for (u32 m = threadIdx.x; m < 256; m += blockDim.x) {
    u32 a = down * SIDE + m / 16 * 4, b = along * SIDE + m % 16 * 4;
    i64 sum[4][4] = {};
    for (u32 i = begin; i < end; i++) {
      const int* vector = (const int*)task->vectors + (u64)i * width;
      int4 x = *(const int4*)(vector + a), y = *(const int4*)(vector + b);
      int one[4] = {x.x, x.y, x.z, x.w}, two[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) sum[j][k] += (i64)one[j] * two[k];
    }
    for (int j = 0; j < 4; j++)
      for (int k = 0; k < 4; k++)
        if (sum[j][k]) atomicAdd((u64*)task->out + (u64)(a + j) * width + b + k, (u64)sum[j][k]);
  }
}
