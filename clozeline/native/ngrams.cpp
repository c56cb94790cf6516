// Repeated n-grams of tokens: pipeline/text/text_statistics.py.
#include <algorithm>

#include "hashing.h"
#include "module.h"

namespace {
using namespace clozeline;
using i32 = std::int32_t;

// The n-grams that occur more than once: their token positions, ascending, and the group of each.
struct Repeats {
  i32 *at, *groups;
  i64 size;
};

// Keep the positions whose group counts[group] says is not the only one.
void keep_repeated(Repeats& repeats, const i32* counts) {
  i64 kept = 0;
  for (i64 i = 0; i < repeats.size; ++i) {
    if (counts[repeats.groups[i]] < 2) continue;
    repeats.at[kept] = repeats.at[i];
    repeats.groups[kept++] = repeats.groups[i];
  }
  repeats.size = kept;
}
}  // namespace

// Write for n from 2 to `longest` into top[n] length times frequency of the most frequent n-gram, joined by blanks, the
// first of equals; and into duplicates[n] the characters of n-grams that occurred before, each token once. An n-gram can
// only repeat where both of its (n-1)-grams do, so n only looks at what n - 1 left. Return how many n-grams it looked at.
//
// `chars` has the characters before each token, and in all; `ids` are below `tokens`. `scratch` has room for 3 * tokens,
// `keys` and `slots` for the power of two at or above twice the tokens.
CLOZELINE_API i64 clozeline_ngrams(const i32* ids, const i64* chars, i64 tokens, i64 longest, i32* scratch, u64* keys,
                                   i32* slots, i64* top, i64* duplicates) {
  Repeats repeats{scratch, scratch + tokens, tokens};
  i32* counts = scratch + 2 * tokens;
  std::fill(counts, counts + tokens, 0);
  for (i64 i = 0; i < tokens; ++i) {
    repeats.at[i] = static_cast<i32>(i);
    repeats.groups[i] = ids[i];
    ++counts[ids[i]];
  }
  keep_repeated(repeats, counts);
  i64 visited = 0;
  for (i64 n = 2; n <= longest; ++n) {
    // repeated (n-1)-grams at consecutive positions; the pair of their groups identifies the n-gram
    i64 near = 0, size = 1;
    for (i64 i = 1; i < repeats.size; ++i) near += repeats.at[i] == repeats.at[i - 1] + 1;
    while (size < 2 * near) size *= 2;
    std::fill(slots, slots + size, 0);
    const u64 mask = static_cast<u64>(size - 1);
    i32 groups = 0;
    i64 found = 0;
    for (i64 i = 0; i + 1 < repeats.size; ++i) {
      if (repeats.at[i + 1] != repeats.at[i] + 1) continue;
      const u64 key = static_cast<u64>(repeats.groups[i]) << 32 | static_cast<u64>(repeats.groups[i + 1]);
      u64 slot = mix(key) & mask;
      while (slots[slot] && keys[slot] != key) slot = (slot + 1) & mask;
      if (!slots[slot]) {
        keys[slot] = key;
        counts[groups] = 0;
        slots[slot] = ++groups;
      }
      ++counts[slots[slot] - 1];
      repeats.at[found] = repeats.at[i];
      repeats.groups[found++] = slots[slot] - 1;
    }
    repeats.size = found;
    keep_repeated(repeats, counts);
    visited += near + repeats.size;

    top[n] = tokens >= n ? chars[n] - chars[0] + n - 1 : 0;
    i64 most = 1, free = 0;
    duplicates[n] = 0;
    for (i64 i = 0; i < repeats.size; ++i) {
      const i64 at = repeats.at[i], length = chars[at + n] - chars[at];
      i32& count = counts[repeats.groups[i]];
      if (count > most) {
        most = count;
        top[n] = (length + n - 1) * most;
      }
      if (at < free) continue;
      if (count > 0) {
        count = -count;  // seen
      } else {
        duplicates[n] += length;
        free = at + n;
      }
    }
  }
  return visited;
}
