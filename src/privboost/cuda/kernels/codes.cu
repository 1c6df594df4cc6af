// Numbers to codes, each by itself.

struct Numbers {
  u64 values, out;    // where the first row's number lies, and where its code goes
  i64 stride;         // bytes from one number to the next
  u32 kind;           // of number, see number_at
  u32 first, n_edges; // its edges among those of all columns, and how many there are
};

struct CodeTask {
  u32 n, n_columns, columns;
  u32 n_edges, edges;  // float64, of all columns, in order
};

// The number that 32 bits stand for. Compilers may flush the smallest of them to 0, as CuPy does:
// they are read as integers.
__device__ __forceinline__ double single_at(const u8* at) {
  u32 bits = *(const u32*)at;
  if (bits & 0x7f800000u) return *(const float*)at;
  double size = (double)(bits & 0x7fffffu) * 0x1p-149;
  return bits >> 31 ? -size : size;
}

__device__ __forceinline__ double number_at(const u8* at, u32 kind) {
  switch (kind) {
    case 0: return single_at(at);
    case 1: return *(const double*)at;
    case 2: return *(const signed char*)at;
    case 3: return *(const short*)at;
    case 4: return *(const int*)at;
    case 5: return (double)*(const i64*)at;
    case 6: return *(const u8*)at;
    case 7: return *(const u16*)at;
    case 8: return *(const u32*)at;
    default: return (double)*(const u64*)at;
  }
}

// Write how many of its column's edges lie below each number; NaN comes after all bins.
extern "C" __global__ void __launch_bounds__(1024) code_numbers(const CodeTask* task) {
  SHARED_BUFFER
  double* edges = (double*)buffer;
  for (u32 k = threadIdx.x; k < task->n_edges; k += blockDim.x) edges[k] = behind<double>(task, task->edges)[k];
  __syncthreads();
  const Numbers* columns = behind<Numbers>(task, task->columns);
  const u32 n_columns = task->n_columns;
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    for (u32 c = 0; c < n_columns; c++) {
      const Numbers column = columns[c];
      const double* own = edges + column.first;
      double value = number_at((const u8*)column.values + (i64)i * column.stride, column.kind);
      u32 low = 0, high = column.n_edges;
      while (low < high) {
        u32 middle = (low + high) >> 1;
        if (own[middle] < value)
          low = middle + 1;
        else
          high = middle;
      }
      if (value != value) low = column.n_edges + 1;
      ((u8*)column.out)[i] = (u8)low;  // numbers have at most 253 bins
    }
  }
}
