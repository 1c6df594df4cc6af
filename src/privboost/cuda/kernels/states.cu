// Start, charges and samples of rows, and cells of their states.

struct StartTask {
  u64 minus_label, state;  // int32 of rows; no labels that states start from: 0
  i64 middle, half, steps;
  u32 n;
};

// A row's state at the start: minus the label within the clipping range, rounded toward its middle.
template <typename Task>
__device__ int initial_state(const Task* task, u64 i) {
  if (!task->minus_label) return 0;
  i64 below = min(max(((const int*)task->minus_label)[i] + task->middle, -task->half), task->half);
  i64 steps = (below < 0 ? -below : below) * task->steps / task->half;
  return (int)(below < 0 ? -steps : steps);
}

// Reset states.
extern "C" __global__ void __launch_bounds__(1024) begin_states(const StartTask* task) {
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride)
    ((int*)task->state)[i] = initial_state(task, i);
}

struct PredictionsTask {
  u64 minus_label, state, kept, bounded;  // int32 of rows
  i64 middle, half, steps;
  u32 n, limit;
};

// Write predictions, kept within a limit, and the states of such predictions.
extern "C" __global__ void __launch_bounds__(1024) bound_predictions(const PredictionsTask* task) {
  int limit = (int)task->limit;
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    int start = initial_state(task, i);
    int kept = min(max(((const int*)task->state)[i] - start, -limit), limit);
    ((int*)task->kept)[i] = kept;
    ((int*)task->bounded)[i] = start + kept;
  }
}

struct LinesTask {
  u64 minus_label, label, out;  // int32, and uint8 of rows
  u32 n, n_edges, edges;        // int32: increasing
};

// The bin of each label: how many edges are at or below it.
extern "C" __global__ void __launch_bounds__(1024) label_lines(const LinesTask* task) {
  const int* edges = behind<int>(task, task->edges);
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    int label = -((const int*)task->minus_label)[i];
    u32 low = 0, high = task->n_edges;
    while (low < high) {
      u32 middle = (low + high) / 2;
      if (edges[middle] <= label) low = middle + 1;
      else high = middle;
    }
    bool known = ((const u8*)task->label)[i] != UNKNOWN_LABEL;
    ((u8*)task->out)[i] = known ? low : UNKNOWN_LABEL;
  }
}

struct ChargeTask {
  u64 label, state, weight, left, active, table;  // table: int32 (steps, lines, size)
  u64 begin, end;                                 // the rows
  u32 own, lines, size, shift, steps, weight_steps;
};

// Charge each row that can afford it, and mark these rows.
extern "C" __global__ void __launch_bounds__(1024) charge_rows(const ChargeTask* task) {
  const u8* label = (const u8*)task->label;
  int* left = (int*)task->left;
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = task->begin + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->end; i += stride) {
    u64 step = task->steps - 1;
    if (task->weight) {
      u64 weight = ((const u16*)task->weight)[i];
      step = (weight * (task->steps - 1) + task->weight_steps - 1) / task->weight_steps;
    }
    u32 known = task->lines - 1;
    u32 line = label[i] == UNKNOWN_LABEL ? known : line_of(label[i], task->own, known);
    u32 entry = entry_of(task->size, task->shift, ((const int*)task->state)[i]);
    int rest = left[i] - ((const int*)task->table)[(step * task->lines + line) * task->size + entry];
    ((u8*)task->active)[i] = rest >= 0;
    if (rest >= 0) left[i] = rest;
  }
}

struct SampleTask {
  u64 ids, active, out;  // uint32, and uint8 of rows; no ids: they count up from the first
  u32 first_id, n, limit;
  u32 round_keys, round_table;  // of AES-256: 60 words, and the table of a round
};

__device__ __forceinline__ u32 mixed(const u32* round_table, u32 a, u32 b, u32 c, u32 d) {
  u32 two = round_table[b >> 16 & 255], three = round_table[c >> 8 & 255], four = round_table[d & 255];
  return round_table[a >> 24] ^ (two >> 8 | two << 24) ^ (three >> 16 | three << 16) ^ (four >> 24 | four << 8);
}

__device__ __forceinline__ u32 substituted(const u32* round_table, u32 a, u32 b, u32 c, u32 d) {
  return (round_table[a >> 24] >> 8 & 255) << 24 | (round_table[b >> 16 & 255] >> 8 & 255) << 16 |
         (round_table[c >> 8 & 255] >> 8 & 255) << 8 | (round_table[d & 255] >> 8 & 255);
}

// Word k of a block of AES-256, as its bytes read from the last to the first.
__device__ __forceinline__ void cipher(const u32* keys, const u32* round_table, u32 counter, u32* word) {
  u32 a = keys[0], b = keys[1], c = keys[2], d = keys[3] ^ counter;
  for (int r = 1; r < 14; r++) {
    u32 e = mixed(round_table, a, b, c, d) ^ keys[4 * r], f = mixed(round_table, b, c, d, a) ^ keys[4 * r + 1];
    u32 g = mixed(round_table, c, d, a, b) ^ keys[4 * r + 2], h = mixed(round_table, d, a, b, c) ^ keys[4 * r + 3];
    a = e, b = f, c = g, d = h;
  }
  u32 last[4] = {substituted(round_table, a, b, c, d) ^ keys[56], substituted(round_table, b, c, d, a) ^ keys[57],
                 substituted(round_table, c, d, a, b) ^ keys[58], substituted(round_table, d, a, b, c) ^ keys[59]};
  for (int k = 0; k < 4; k++)
    word[k] = last[k] >> 24 | (last[k] >> 8 & 0xff00u) | (last[k] << 8 & 0xff0000u) | last[k] << 24;
}

// Mark the rows of a sample, whose own word lies below a limit, among the active rows.
extern "C" __global__ void __launch_bounds__(1024) sample_rows(const SampleTask* task) {
  __shared__ u32 keys[60], round_table[256];
  for (u32 k = threadIdx.x; k < 60; k += blockDim.x) keys[k] = behind<u32>(task, task->round_keys)[k];
  for (u32 k = threadIdx.x; k < 256; k += blockDim.x) round_table[k] = behind<u32>(task, task->round_table)[k];
  __syncthreads();
  const u32* ids = (const u32*)task->ids;
  u64 stride = 4ull * blockDim.x * gridDim.x;
  for (u64 i = 4ull * (blockIdx.x * blockDim.x + threadIdx.x); i < task->n; i += stride) {
    u32 word[4], known = 0xffffffffu;  // no id has this counter: a counter is an id by 4
    for (u64 k = i; k < min(i + 4, (u64)task->n); k++) {
      u32 id = ids ? ids[k] : task->first_id + (u32)k;
      if (id >> 2 != known) cipher(keys, round_table, known = id >> 2, word);
      u32 own = id & 2 ? (id & 1 ? word[3] : word[2]) : (id & 1 ? word[1] : word[0]);
      u8 in = own < task->limit;
      ((u8*)task->out)[k] = task->active ? in & ((const u8*)task->active)[k] : in;
    }
  }
}

struct CellsTask {
  u64 state, label, out;  // out: uint32 of rows
  u32 n, own, classes, n_edges, edges;
};

// Write the cell of each row's state and class.
extern "C" __global__ void __launch_bounds__(1024) score_cells(const CellsTask* task) {
  const int* edges = behind<int>(task, task->edges);
  const u8* label = (const u8*)task->label;
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    int state = ((const int*)task->state)[i];
    u32 low = 0, high = task->n_edges;
    while (low < high) {
      u32 middle = (low + high) >> 1;
      if (edges[middle] <= state)
        low = middle + 1;
      else
        high = middle;
    }
    u32 kind = label[i] != UNKNOWN_LABEL && label[i] == task->own && task->classes == 2;
    ((u32*)task->out)[i] = low * task->classes + kind;
  }
}

struct VotesTask {
  u64 state, label, node, out, pairs;  // node: uint16; out: uint32
  u32 n, own, votes, vote_bits, node_of_leaf;
};

// Write each row's node, sum of votes and class as one number, and that it counts once.
extern "C" __global__ void __launch_bounds__(1024) vote_nodes(const VotesTask* task) {
  const u16* node_of_leaf = behind<u16>(task, task->node_of_leaf);
  const u8* label = (const u8*)task->label;
  const int votes = (int)task->votes;
  u64 stride = (u64)blockDim.x * gridDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < task->n; i += stride) {
    bool known = label[i] != UNKNOWN_LABEL;
    int sum = ((((const int*)task->state)[i] >> task->vote_bits) + votes) >> 1;
    u32 node = node_of_leaf[((const u16*)task->node)[i]] * (task->votes + 1) + (u32)min(max(sum, 0), votes);
    ((u32*)task->out)[i] = 2 * node + (known && label[i] == task->own);
    ((int2*)task->pairs)[i] = make_int2(0, known);
  }
}
