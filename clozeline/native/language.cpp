// The walk of a language model's automaton over the bytes of a text: pipeline/clean/languages/py3langid.py.
#include "hashing.h"
#include "module.h"

using namespace clozeline;

namespace {
constexpr i64 kWalks = 16;  // walks at a time: each step waits for memory, and those of other walks do not
}

// Write the feature that ends at each byte, or -1: next[rows[state] + byte] is the next state, outputs[state] its feature.
// The state depends on the last `longest` bytes only, so parts of the text are walked at the same time.
CLOZELINE_API void clozeline_walk(const u8* text, i64 size, const u32* next, const u32* rows,
                                  const std::int32_t* outputs, i64 longest, std::int32_t* features) {
  const i64 part = (size + kWalks - 1) / kWalks;
  u32 states[kWalks] = {};
  for (i64 step = 1 - longest; step < part; ++step) {
    for (i64 walk = 0; walk < kWalks; ++walk) {
      const i64 at = walk * part + step;
      if (at < 0 || at >= size) continue;
      const u32 state = next[rows[states[walk]] + text[at]];
      states[walk] = state;
      if (step >= 0) features[at] = outputs[state];
    }
  }
}

// Count features >= 0 in order of their first occurrence; return how many there are. `found` and `counts` have room for
// `size`; `table` has a power of two of zeros, `slots` > size of them, and maps features to their index in `found`.
CLOZELINE_API i64 clozeline_count_features(const std::int32_t* features, i64 size, i64* found, float* counts,
                                           std::int32_t* table, i64 slots) {
  i64 distinct = 0;
  for (i64 at = 0; at < size; ++at) {
    const std::int32_t feature = features[at];
    if (feature < 0) continue;
    i64 slot = static_cast<i64>(mix(static_cast<u64>(feature))) & (slots - 1);
    while (table[slot] != 0 && found[table[slot] - 1] != feature) slot = (slot + 1) & (slots - 1);
    if (table[slot] == 0) {
      found[distinct] = feature;
      counts[distinct] = 0;
      table[slot] = static_cast<std::int32_t>(++distinct);
    }
    counts[table[slot] - 1] += 1;
  }
  return distinct;
}
