// Types and look-ups that all kernels share. No kernel knows ε or draws noise.
//
// A task is one struct with arrays behind it, at byte offsets from its start (0: there is none);
// numbers of 64 bits are addresses. Columns have zeros up to a multiple of 64 rows, so that four
// rows can be read at once wherever the first is a row.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifndef SHARED_BUFFER
#define SHARED_BUFFER extern __shared__ __align__(16) unsigned char buffer[];
#endif

#define UNKNOWN_LABEL 255u

// A sum of 32 bits takes rows of at most 2¹⁶ in size. Where it is below 2³⁰ and takes at most 2¹⁴
// rows more, it stays below 2³¹; `spill` then moves what has reached 2³⁰ to a sum of 64 bits.
#define SPILL (1 << 30)

struct LookUp {
  u64 label, state, weight, active;  // of rows
  u64 pairs;                         // of rows, where they were looked up already
  u64 table;                         // lines of pairs: of other classes and the own, or of bins
  u32 n, own, lines, size, shift;
};

struct Part {
  u64 column[3];
  u32 bytes[3], map[3], size[3];  // of a column's codes; from code to digit; how many digits
  u32 columns, cells;
  u32 first;  // its first cell among those that are added up in shared memory
  u32 fold;   // from such a cell to that of the answer
  u32 values;
  u32 first_out;
};

struct Four {
  u32 of[4];
};

template <typename T>
__device__ __forceinline__ const T* behind(const void* task, u32 offset) {
  return (const T*)((const u8*)task + offset);
}

__device__ __forceinline__ Four four_codes(u64 column, u32 bytes, u32 i) {
  Four four;
  if (bytes == 1) {
    u32 word = *(const u32*)((const u8*)column + i);
    for (int k = 0; k < 4; k++) four.of[k] = word >> (8 * k) & 255u;
  } else if (bytes == 2) {
    uint2 words = *(const uint2*)((const u16*)column + i);
    four.of[0] = words.x & 65535u, four.of[1] = words.x >> 16;
    four.of[2] = words.y & 65535u, four.of[3] = words.y >> 16;
  } else {
    uint4 words = *(const uint4*)((const u32*)column + i);
    four.of[0] = words.x, four.of[1] = words.y, four.of[2] = words.z, four.of[3] = words.w;
  }
  return four;
}

__device__ __forceinline__ u32 one_code(u64 column, u32 bytes, u32 i) {
  if (bytes == 1) return ((const u8*)column)[i];
  if (bytes == 2) return ((const u16*)column)[i];
  return ((const u32*)column)[i];
}

__device__ __forceinline__ Four four_digits(const void* task, const Part& part, int c, u32 i) {
  Four digits = four_codes(part.column[c], part.bytes[c], i);
  if (part.map[c]) {
    const u16* map = behind<u16>(task, part.map[c]);
    for (int k = 0; k < 4; k++) digits.of[k] = map[digits.of[k]];
  }
  return digits;
}

// The cells of four rows: numbers whose digits are the cells of their columns.
__device__ __forceinline__ Four four_cells(const void* task, const Part& part, u32 i) {
  Four cells = four_digits(task, part, 0, i);
  for (int c = 1; c < (int)part.columns; c++) {
    Four next = four_digits(task, part, c, i);
    for (int k = 0; k < 4; k++) cells.of[k] = cells.of[k] * part.size[c] + next.of[k];
  }
  return cells;
}

__device__ __forceinline__ u32 entry_of(u32 size, u32 shift, int state) {
  int cell = (state >> shift) + (int)(size >> 1);
  return (u32)min(max(cell, 0), (int)size - 1);
}

// The line of a known label, of so many: of two, whether it is the own class; else its bin.
__device__ __forceinline__ u32 line_of(u32 label, u32 own, u32 lines) {
  return lines == 2 ? label == own : min(label, lines - 1);
}

__device__ __forceinline__ int2 pair_of(const int2* table, const LookUp& look, u32 label, int state) {
  if (label == UNKNOWN_LABEL) return make_int2(0, 0);
  u32 line = line_of(label, look.own, look.lines);
  return table[line * look.size + entry_of(look.size, look.shift, state)];
}

// The pairs of four rows; those behind the last row add nothing.
__device__ __forceinline__ void four_pairs(const int2* table, const LookUp& look, u32 i, int2* pair) {
  if (look.pairs) {
    const int4* known = (const int4*)((const int2*)look.pairs + i);
    int4 one = known[0], two = known[1];
    pair[0] = make_int2(one.x, one.y), pair[1] = make_int2(one.z, one.w);
    pair[2] = make_int2(two.x, two.y), pair[3] = make_int2(two.z, two.w);
  } else {
    int4 state = *(const int4*)((const int*)look.state + i);
    Four label = four_codes(look.label, 1, i);
    pair[0] = pair_of(table, look, label.of[0], state.x);
    pair[1] = pair_of(table, look, label.of[1], state.y);
    pair[2] = pair_of(table, look, label.of[2], state.z);
    pair[3] = pair_of(table, look, label.of[3], state.w);
    if (look.weight) {
      Four weight = four_codes(look.weight, 2, i);
      for (int k = 0; k < 4; k++) pair[k].x *= (int)weight.of[k], pair[k].y *= (int)weight.of[k];
    }
    if (look.active) {
      Four active = four_codes(look.active, 1, i);
      for (int k = 0; k < 4; k++) pair[k].x &= -(int)active.of[k], pair[k].y &= -(int)active.of[k];
    }
  }
  for (int k = 1; k < 4; k++)
    if (i + k >= look.n) pair[k] = make_int2(0, 0);
}

__device__ __forceinline__ void add_far(i64* out, i64 first, i64 second) {
  if (first) atomicAdd((u64*)out, (u64)first);
  if (second) atomicAdd((u64*)out + 1, (u64)second);
}

struct PairsTask {
  LookUp look;
  u64 out;
};

// Write the pair of each row.
extern "C" __global__ void __launch_bounds__(1024) row_pairs(const PairsTask* task) {
  const LookUp look = task->look;
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < look.n; i += stride) {
    int2 pair[4];
    four_pairs((const int2*)look.table, look, (u32)i, pair);
    int4* out = (int4*)((int2*)task->out + i);
    out[0] = make_int4(pair[0].x, pair[0].y, pair[1].x, pair[1].y);
    out[1] = make_int4(pair[2].x, pair[2].y, pair[3].x, pair[3].y);
  }
}
