// Features of a text for a naive Bayes model over byte n-grams: pipeline/clean/languages/py3langid.py.
#include "hashing.h"
#include "module.h"

namespace {

using namespace clozeline;

constexpr i64 kWalks = 8;    // walks at once, because each step waits for memory
constexpr i64 kWarmUp = 12;  // bytes after which two walks are nearly always in the same state
constexpr i64 kAhead = 8;    // rows asked from memory before they are needed

struct State {
  std::int32_t row;      // of the moves
  std::int32_t feature;  // that the state completes, or -1
};

struct Automaton {
  const u32* moves;  // next state, by 256 * row + byte
  const State* states;

  u32 walk(u32 state, const u8* text, i64 at, i64 end, i64* found) const {
    for (; at < end; ++at) {
      state = moves[(static_cast<i64>(states[state].row) << 8) + text[at]];
      if (found) found[at] = states[state].feature;
    }
    return state;
  }
};

}  // namespace

// Walk an automaton over the bytes of a text. Write each feature found, in the order of its first place, and how often
// it was found; both have room for `size`. `slots` has -1 for every feature, before and after. Return their number.
CLOZELINE_API i64 clozeline_ngram_counts(const u8* text, i64 size, const u32* moves, const std::int32_t* states,
                                         std::int32_t* slots, i64* found, float* counts) {
  const Automaton automaton{moves, reinterpret_cast<const State*>(states)};
  const i64 part = size / kWalks;
  u32 state[kWalks] = {}, start[kWalks] = {};
  for (i64 w = 1; w < kWalks; ++w) {
    const i64 from = part * w > kWarmUp ? part * w - kWarmUp : 0;
    state[w] = start[w] = automaton.walk(0, text, from, part * w, nullptr);
  }
  for (i64 i = 0; i < part; ++i) {
    for (i64 w = 0; w < kWalks; ++w) state[w] = automaton.walk(state[w], text, part * w + i, part * w + i + 1, found);
  }
  state[kWalks - 1] = automaton.walk(state[kWalks - 1], text, part * kWalks, size, found);
  for (i64 w = 1; w < kWalks; ++w) {  // a walk that did not start in the state of the one before it is made again
    const i64 end = w + 1 < kWalks ? part * (w + 1) : size;
    if (start[w] != state[w - 1]) state[w] = automaton.walk(state[w - 1], text, part * w, end, found);
  }
  std::int32_t distinct = 0;
  for (i64 at = 0; at < size; ++at) {
    const i64 feature = found[at];
    if (feature < 0) continue;
    if (slots[feature] < 0) {
      slots[feature] = distinct;
      found[distinct] = feature;
      counts[distinct++] = 0;
    }
    counts[slots[feature]] += 1;
  }
  for (i64 i = 0; i < distinct; ++i) slots[found[i]] = -1;
  return distinct;
}

// floats[i] = row rows[i] of a table of finite half-precision floats in single precision, which is exact.
CLOZELINE_FOR_EACH_PROCESSOR
void clozeline_gather_halves(const std::uint16_t* table, i64 columns, const i64* rows, i64 count, float* floats) {
  for (i64 i = 0; i < count; ++i) {
    const std::uint16_t* row = table + rows[i] * columns;
    const std::uint16_t* later = table + rows[i + kAhead < count ? i + kAhead : i] * columns;
    for (i64 c = 0; c < columns; c += 32) __builtin_prefetch(later + c);
    for (i64 c = 0; c < columns; ++c) {
      const u32 magnitude = static_cast<u32>(row[c] & 0x7FFF) << 13, sign = static_cast<u32>(row[c] & 0x8000) << 16;
      float value;
      std::memcpy(&value, &magnitude, sizeof value);
      value *= 0x1p112f;  // the exponent of a half is smaller by 112
      u32 bits;
      std::memcpy(&bits, &value, sizeof value);
      bits |= sign;
      std::memcpy(floats + i * columns + c, &bits, sizeof bits);
    }
  }
}
