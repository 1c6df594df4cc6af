// Leaf assignment, and sums by node and cell.

struct RouteTask {
  u64 node;             // uint16 of rows
  u32 n, first, nodes;  // the number of the first node of the level where rows are, and of all nodes
  u32 words;            // of a node's bitmask, one bit per code
  u32 columns, bitmask; // of nodes: addresses of their columns (the top bit: codes of two bytes)
  u32 shared;           // bytes of both that are copied to shared memory, or 0
  u32 n_columns, slots; // route_tiles: the number of columns, and the column of each node
};

#define WIDE (1ull << 63)

// Move each row from its node at one level down to its leaf.
extern "C" __global__ void __launch_bounds__(1024) route(const RouteTask* task) {
  SHARED_BUFFER
  const u64* columns = behind<u64>(task, task->columns);
  const u32* bitmask = behind<u32>(task, task->bitmask);
  const u32 nodes = task->nodes, words = task->words, first = task->first;
  if (task->shared) {
    u64* shared = (u64*)buffer;
    u32* shared_bits = (u32*)(shared + nodes);
    for (u32 k = threadIdx.x; k < nodes; k += blockDim.x) shared[k] = columns[k];
    for (u32 k = threadIdx.x; k < nodes * words; k += blockDim.x) shared_bits[k] = bitmask[k];
    columns = shared, bitmask = shared_bits;
    __syncthreads();
  }
  const u64 n = task->n, step = (u64)blockDim.x * gridDim.x;
  u16* node = (u16*)task->node;
  for (u64 start = blockIdx.x * blockDim.x + threadIdx.x; start < n; start += 4 * step) {
    u32 at[4];
    for (int k = 0; k < 4; k++) at[k] = first && start + k * step < n ? first + node[start + k * step] : first;
    for (u32 level = first; level < nodes; level = 2 * level + 1) {
      u32 code[4];
      for (int k = 0; k < 4; k++) {
        u64 i = min(start + k * step, n - 1);
        u64 column = columns[at[k]];
        code[k] = column & WIDE ? ((const u16*)(column & ~WIDE))[i] : ((const u8*)column)[i];
      }
      for (int k = 0; k < 4; k++) {
        u32 bit = bitmask[at[k] * words + (code[k] >> 5)] >> (code[k] & 31) & 1u;
        at[k] = 2 * at[k] + 1 + bit;
      }
    }
    for (int k = 0; k < 4; k++)
      if (start + k * step < n) node[start + k * step] = (u16)(at[k] - nodes);
  }
}

// Rows of a tile, and bytes of a column of it: rows are read 16 at a time, and banks differ by column.
#define ROUTE_TILE 2048u
#define ROUTE_PITCH (ROUTE_TILE + 16u)

// The same for many levels and few columns: all columns of some rows are copied to shared memory first, because
// neighbouring rows read different ones.
extern "C" __global__ void __launch_bounds__(1024, 2) route_tiles(const RouteTask* task) {
  SHARED_BUFFER
  const u32 nodes = task->nodes, words = task->words, first = task->first, n_columns = task->n_columns;
  u8* tile = buffer;
  u32* bitmask = (u32*)(tile + n_columns * ROUTE_PITCH);
  u16* slots = (u16*)(bitmask + nodes * words);
  for (u32 k = threadIdx.x; k < nodes * words; k += blockDim.x) bitmask[k] = behind<u32>(task, task->bitmask)[k];
  for (u32 k = threadIdx.x; k < nodes; k += blockDim.x) slots[k] = behind<u16>(task, task->slots)[k];
  const u64* columns = behind<u64>(task, task->columns);
  const u64 n = task->n;
  u16* node = (u16*)task->node;
  for (u64 start = (u64)blockIdx.x * ROUTE_TILE; start < n; start += (u64)gridDim.x * ROUTE_TILE) {
    __syncthreads();
    for (u32 k = threadIdx.x; k < n_columns * (ROUTE_TILE / 16); k += blockDim.x) {
      u32 column = k / (ROUTE_TILE / 16), at = k % (ROUTE_TILE / 16) * 16;
      if (start + at < n) *(uint4*)(tile + column * ROUTE_PITCH + at) = *(const uint4*)(columns[column] + start + at);
    }
    __syncthreads();
    for (u32 row = threadIdx.x; row < ROUTE_TILE && start + row < n; row += blockDim.x) {
      u32 at = first ? first + node[start + row] : first;
      for (u32 level = first; level < nodes; level = 2 * level + 1) {
        u32 code = tile[slots[at] * ROUTE_PITCH + row];
        at = 2 * at + 1 + (bitmask[at * words + (code >> 5)] >> (code & 31) & 1u);
      }
      node[start + row] = (u16)(at - nodes);
    }
  }
}

struct CountTask {
  u64 node, out;  // uint16 of rows; int64 of leaves
  u32 n, leaves, copies;
};

// Count rows by leaf; 32 bits hold all rows that a block sees.
extern "C" __global__ void __launch_bounds__(1024) count_leaves(const CountTask* task) {
  SHARED_BUFFER
  u32* counts = (u32*)buffer;
  const u32 copies = task->copies, copy = threadIdx.x & (copies - 1);
  for (u32 k = threadIdx.x; k < task->leaves * copies; k += blockDim.x) counts[k] = 0;
  __syncthreads();
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < task->n; i += stride) {
    Four node = four_codes(task->node, 2, (u32)i);
    for (int k = 0; k < 4; k++)
      if (i + k < task->n) atomicAdd(counts + node.of[k] * copies + copy, 1u);
  }
  __syncthreads();
  for (u32 leaf = threadIdx.x; leaf < task->leaves; leaf += blockDim.x) {
    u64 sum = 0;
    for (u32 k = 0; k < copies; k++) sum += counts[leaf * copies + k];
    atomicAdd((u64*)task->out + leaf, sum);
  }
}

struct SiblingsTask {
  u64 counts, chosen;  // int64 and uint8 of leaves
  u64 out, parent;     // int64 (leaves, cells, 2), and of their parents
  u32 leaves, cells;
};

// Choose in each pair of siblings the one with fewer rows.
extern "C" __global__ void __launch_bounds__(1024) choose_siblings(const SiblingsTask* task) {
  const i64* counts = (const i64*)task->counts;
  u8* chosen = (u8*)task->chosen;
  for (u32 k = blockIdx.x * blockDim.x + threadIdx.x; k < task->leaves / 2; k += blockDim.x * gridDim.x) {
    bool left = counts[2 * k] <= counts[2 * k + 1];
    chosen[2 * k] = left, chosen[2 * k + 1] = !left;
  }
}

// Fill the sums of the siblings that were not added up.
extern "C" __global__ void __launch_bounds__(1024) subtract_siblings(const SiblingsTask* task) {
  const u8* chosen = (const u8*)task->chosen;
  i64 *out = (i64*)task->out, *parent = (i64*)task->parent;
  u64 width = 2ull * task->cells, size = task->leaves * width;
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 k = (u64)blockIdx.x * blockDim.x + threadIdx.x; k < size; k += stride) {
    u64 leaf = k / width, cell = k % width;
    if (!chosen[leaf]) out[k] = parent[(leaf >> 1) * width + cell] - out[(leaf ^ 1) * width + cell];
  }
}

struct NodesTask {
  u64 pairs, node, chosen, out;  // node: uint16 or uint32; out: int64 (nodes, all cells, 2)
  u32 n, node_bytes;
  u32 n_parts, parts;            // each of one column
  u32 nodes, cells, copies;      // cells: of these parts
  u32 all_cells;
  u32 chunk;                     // rows between two spills: at most copies · 2¹⁴, a multiple of tiles
  u32 maps, map_bytes;           // the parts' maps, and how many bytes of them are copied to shared memory
};

#define TILE 2048u

struct Entry {
  int2 pair;
  u32 row, start;
};

__device__ __forceinline__ void spill_nodes(const NodesTask* task, int* first, int* second, bool all) {
  const u32 copies = task->copies, cells = task->cells;
  const u32 first_out = behind<Part>(task, task->parts)[0].first_out;
  for (u32 c = threadIdx.x; c < task->nodes * cells; c += blockDim.x) {
    i64 one = 0, two = 0;
    for (u32 k = 0; k < copies; k++) {
      int a = first[c * copies + k], b = second[c * copies + k];
      if (!all && a < SPILL && a > -SPILL && b < SPILL) continue;
      one += a, two += b;
      first[c * copies + k] = 0, second[c * copies + k] = 0;
    }
    u64 at = (u64)(c / cells) * task->all_cells + first_out + c % cells;
    add_far((i64*)task->out + 2 * at, one, two);
  }
}

// Add up pairs by node and cell, for the rows of chosen nodes: they are first gathered, tile by
// tile, so that no thread waits for rows that add nothing. Entry k of a tile goes to copy k mod
// copies: a copy sees at most 2¹⁴ rows of a chunk.
extern "C" __global__ void __launch_bounds__(1024, 1) sum_by_node(const NodesTask* task) {
  SHARED_BUFFER
  __shared__ u32 found;
  Entry* entries = (Entry*)buffer;
  int* first = (int*)(buffer + TILE * sizeof(Entry));
  const u32 copies = task->copies, cells = task->cells, size = task->nodes * cells * copies;
  int* second = first + size;
  const u8* maps = (const u8*)task;
  if (task->map_bytes) {
    u32* shared = (u32*)(second + size);
    for (u32 k = threadIdx.x; k < task->map_bytes / 4; k += blockDim.x) shared[k] = behind<u32>(task, task->maps)[k];
    maps = (const u8*)shared - task->maps;
  }
  for (u32 k = threadIdx.x; k < 2 * size; k += blockDim.x) first[k] = 0;
  const Part* parts = behind<Part>(task, task->parts);
  const u8* chosen = (const u8*)task->chosen;
  const int2* pairs = (const int2*)task->pairs;
  const u64 n = task->n, chunk = task->chunk;
  const u32 n_parts = task->n_parts;
  for (u64 start = blockIdx.x * chunk; start < n; start += gridDim.x * chunk) {
    for (u64 tile = start; tile < min(start + chunk, n); tile += TILE) {
      __syncthreads();
      if (threadIdx.x == 0) found = 0;
      __syncthreads();
      for (u32 k = threadIdx.x; k < TILE; k += blockDim.x) {
        u64 i = tile + k;
        if (i >= n) break;
        u32 node = one_code(task->node, task->node_bytes, (u32)i);
        if (chosen && !chosen[node]) continue;
        int2 pair = pairs[i];
        if (!pair.x && !pair.y) continue;
        Entry* entry = entries + atomicAdd(&found, 1u);
        entry->pair = pair, entry->row = (u32)i, entry->start = node * cells;
      }
      __syncthreads();
      for (u32 k = threadIdx.x; k < found; k += blockDim.x) {
        const Entry entry = entries[k];
        const u32 copy = k & (copies - 1);
#pragma unroll 4
        for (u32 p = 0; p < n_parts; p++) {
          u32 code = one_code(parts[p].column[0], parts[p].bytes[0], entry.row);
          u32 cell = parts[p].first + ((const u16*)(maps + parts[p].map[0]))[code];
          u32 at = (entry.start + cell) * copies + copy;
          if (entry.pair.x) atomicAdd(first + at, entry.pair.x);
          if (entry.pair.y) atomicAdd(second + at, entry.pair.y);
        }
      }
    }
    __syncthreads();
    spill_nodes(task, first, second, false);
  }
  __syncthreads();
  spill_nodes(task, first, second, true);
}

// The same where sums are too many for shared memory, or rows have weights.
extern "C" __global__ void __launch_bounds__(1024) sum_by_node_global(const NodesTask* task) {
  const Part* parts = behind<Part>(task, task->parts);
  const u8* chosen = (const u8*)task->chosen;
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    u32 node = one_code(task->node, task->node_bytes, (u32)i);
    if (chosen && !chosen[node]) continue;
    int2 pair = ((const int2*)task->pairs)[i];
    for (u32 p = 0; p < task->n_parts; p++) {
      u32 code = one_code(parts[p].column[0], parts[p].bytes[0], (u32)i);
      u32 cell = behind<u16>(task, parts[p].map[0])[code];
      u64 at = (u64)node * task->all_cells + parts[p].first_out + cell;
      add_far((i64*)task->out + 2 * at, pair.x, pair.y);
    }
  }
}
