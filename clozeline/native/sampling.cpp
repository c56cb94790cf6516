// Random subsets and orders of rows, and whole words: pipeline/kernels/sampling.py and whole_words.py.
#include <algorithm>
#include <utility>

#include "hashing.h"
#include "module.h"

namespace {
using namespace clozeline;
using u16 = std::uint16_t;

constexpr u64 kGolden = 0x9E3779B97F4A7C15ULL;
constexpr u64 kIndex = 0xFFFF;  // the low bits of an entry are its index, random bits are above: entries are distinct
constexpr i64 kMostEntries = 65536;

// Random bits 0 of a stream of a row; the next ones are a multiple of kGolden further (clozeline/seeding.py).
inline u64 stream_start(u64 key, i64 stream) { return key + ((static_cast<u64>(stream) << 32) + 1) * kGolden; }

inline void fill_bits(u64 start, u64 size, u64* entries) {
  for (u64 i = 0; i < size; ++i) entries[i] = (mix(start + i * kGolden) & ~kIndex) | i;
}

inline double as_double(u64 bits) {
  double value;
  std::memcpy(&value, &bits, 8);
  return value;
}

inline u64 as_bits(double value) {
  u64 bits;
  std::memcpy(&bits, &value, 8);
  return bits;
}

// Turn random bits into exponential times, scaled by means, whose bits are in `means`; positive floats sort like their
// bits. The operations are those of `exponentials` in distributions.py, in its order.
inline void fill_times(const u64* means, u64 size, u64* entries) {
  constexpr double kSeries[] = {2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0};
  constexpr u64 kTwo52 = 0x4330000000000000ULL, kFraction = (1ULL << 52) - 1, kBias = 1022, kRaise = 64;
  const u64 root = as_bits(0.7071067811865476) & kFraction;
  for (u64 i = 0; i < size; ++i) {
    const u64 bits = as_bits((as_double(kTwo52 | (entries[i] >> 16)) - 0x1p52 + 0.5) * 0x1p-48);
    // mantissa x 2 ** exponent, the mantissa between sqrt(1/2) and sqrt(2); integers up to 2 ** 52 are exact as doubles
    const u64 small = (bits & kFraction) < root;
    const double mantissa = as_double((bits & kFraction) | ((kBias + small) << 52));
    const double exponent = as_double(kTwo52 | ((bits >> 52) + kRaise - kBias - small)) - (0x1p52 + kRaise);
    const double ratio = (1 - mantissa) / (1 + mantissa), square = ratio * ratio;
    double series = kSeries[0];
    for (int power = 1; power < 7; ++power) series = series * square + kSeries[power];
    const double time = (series * ratio - exponent * 0.6931471805599453) * as_double(means[i]);
    entries[i] = (as_bits(time) & ~kIndex) | i;
  }
}

// Write the indices of the `count` smallest of distinct entries from `low` to `high`, ascending; 1 <= count <= size.
// `spare` has room for the entries.
inline void take_smallest(const u64* entries, u64 size, u64 count, u64 low, u64 high, u64* spare, u16* indices) {
  // count entries in 256 ranges: `bucket` is the one that has the last entry to be taken
  u32 counts[256] = {};
  int shift = 0;
  while ((high - low) >> shift >> 8) ++shift;
  for (u64 i = 0; i < size; ++i) ++counts[(entries[i] - low) >> shift];
  u64 bucket = 0, rest = count;
  while (counts[bucket] < rest) rest -= counts[bucket++];
  u64 inside = 0;
  for (u64 i = 0; i < size; ++i) {
    spare[inside] = entries[i];
    inside += (entries[i] - low) >> shift == bucket;
  }
  std::nth_element(spare, spare + rest - 1, spare + inside);
  const u64 last = spare[rest - 1];
  for (u64 i = 0, taken = 0; taken < count; ++i) {
    indices[taken] = static_cast<u16>(i);
    taken += entries[i] <= last;
  }
}

// Sort distinct entries below 2 ** width, most of them evenly spread: distribute them to at least as many buckets, then
// sort by insertion. `sorted` has room for the entries, `ends` for twice as many.
inline void sort_spread(const u64* entries, u64 size, int width, u64* sorted, u32* ends) {
  int shift = width - 1;
  while (shift && (1ULL << (width - shift)) < size) --shift;
  const u64 buckets = 1ULL << (width - shift);
  std::fill(ends, ends + buckets, 0);
  for (u64 i = 0; i < size; ++i) ++ends[entries[i] >> shift];
  u32 before = 0;
  for (u64 bucket = 0; bucket < buckets; ++bucket) before += std::exchange(ends[bucket], before);
  for (u64 i = 0; i < size; ++i) sorted[ends[entries[i] >> shift]++] = entries[i];
  for (u64 i = 1; i < size; ++i) {
    const u64 entry = sorted[i];
    u64 to = i;
    for (; to > 0 && sorted[to - 1] > entry; --to) sorted[to] = sorted[to - 1];
    sorted[to] = entry;
  }
}

// Return the smallest and the largest entry.
inline std::pair<u64, u64> find_range(const u64* entries, u64 size) {
  u64 low = entries[0], high = entries[0];
  for (u64 i = 1; i < size; ++i) {
    low = std::min(low, entries[i]);
    high = std::max(high, entries[i]);
  }
  return {low, high};
}

// Return whether offsets of rows ascend from 0 to `total`.
bool ascend(const i64* offsets, i64 rows, i64 total) {
  if (offsets[0] != 0 || offsets[rows] != total) return false;
  for (i64 row = 0; row < rows; ++row)
    if (offsets[row] > offsets[row + 1]) return false;
  return true;
}

// Return whether rows take counts[i] of sizes[i] entries, `total` in all, and add up the sizes.
bool fit(const i64* sizes, const i64* counts, i64 rows, i64 total, i64* entries) {
  *entries = 0;
  for (i64 row = 0; row < rows; ++row) {
    if (counts[row] < 0 || counts[row] > sizes[row] || sizes[row] > kMostEntries) return false;
    *entries += sizes[row];
    total -= counts[row];
  }
  return total == 0;
}

// Mean times by id, of ids with `bytes` bytes.
struct MeanTimes {
  const void* ids;
  i64 bytes;
  const double* table;

  template <typename Id>
  void look_up(i64 begin, u64 size, u64* means) const {
    const Id* own = static_cast<const Id*>(ids) + begin;
    for (u64 i = 0; i < size; ++i) means[i] = as_bits(table[own[i]]);
  }

  template <typename Id>
  bool are_below(i64 bound, i64 size) const {
    Id largest = 0;
    for (i64 i = 0; i < size; ++i) largest = std::max(largest, static_cast<const Id*>(ids)[i]);
    return size == 0 || static_cast<i64>(largest) < bound;
  }
};
}  // namespace

// Write for each row counts[i] of the indices below sizes[i], ascending, `total` in all: those with the smallest random
// bits. `scratch` has room for twice the largest size. Return 0, with nothing written, if a size or a count does not fit.
CLOZELINE_FOR_EACH_PROCESSOR
i64 clozeline_choose(const u64* keys, i64 stream, const i64* sizes, const i64* counts, i64 rows, u64* scratch,
                     u16* indices, i64 total) {
  i64 entries;
  if (!fit(sizes, counts, rows, total, &entries)) return 0;
  for (i64 row = 0; row < rows; ++row) {
    const u64 size = static_cast<u64>(sizes[row]), count = static_cast<u64>(counts[row]);
    if (!count) continue;
    fill_bits(stream_start(keys[row], stream), size, scratch);
    take_smallest(scratch, size, count, 0, ~0ULL, scratch + size, indices);
    indices += count;
  }
  return 1;
}

// The same with the earliest times. `ids` (of 2 or 4 bytes, unsigned, `id_count` in all) are those of the entries of all
// rows, table[id] is the mean time of an entry; return 0 if they do not fit either.
CLOZELINE_FOR_EACH_PROCESSOR
i64 clozeline_choose_weighted(const u64* keys, i64 stream, const i64* sizes, const i64* counts, i64 rows,
                              const void* ids, i64 bytes, i64 id_count, const double* table, i64 table_size,
                              u64* scratch, u16* indices, i64 total) {
  const MeanTimes times{ids, bytes, table};
  i64 entries, begin = 0;
  if (!fit(sizes, counts, rows, total, &entries) || entries != id_count) return 0;
  if (!(bytes == 2 ? times.are_below<u16>(table_size, id_count) : times.are_below<u32>(table_size, id_count))) return 0;
  for (i64 row = 0; row < rows; begin += sizes[row++]) {
    const u64 size = static_cast<u64>(sizes[row]), count = static_cast<u64>(counts[row]);
    if (!count) continue;
    u64* spare = scratch + size;
    bytes == 2 ? times.look_up<u16>(begin, size, spare) : times.look_up<u32>(begin, size, spare);
    fill_bits(stream_start(keys[row], stream), size, scratch);
    fill_times(spare, size, scratch);
    const auto [low, high] = find_range(scratch, size);
    take_smallest(scratch, size, count, low, high, spare, indices);
    indices += count;
  }
  return 1;
}

// Write for each row the indices below sizes[i], `total` in all, sorted by random bits; or, if `distance` is not
// negative, by index + u * (distance + 1), u uniform in [0, 1) with 32 bits. `scratch` has room for three times the
// largest size. Return 0, with nothing written, if a size does not fit.
CLOZELINE_FOR_EACH_PROCESSOR
i64 clozeline_permute(const u64* keys, i64 stream, const i64* sizes, i64 rows, i64 distance, u64* scratch, u16* indices,
                      i64 total) {
  i64 entries;
  if (!fit(sizes, sizes, rows, total, &entries) || distance > kMostEntries) return 0;
  for (i64 row = 0; row < rows; ++row)
    if (distance >= 0 && sizes[row] + distance > kMostEntries) return 0;
  for (i64 row = 0; row < rows; ++row) {
    const u64 size = static_cast<u64>(sizes[row]), steps = static_cast<u64>(distance + 1);
    if (!size) continue;
    u64* sorted = scratch + size;
    fill_bits(stream_start(keys[row], stream), size, scratch);
    int width = 64;
    if (steps) {  // fixed point, with 32 bits after the point, above the index
      for (u64 i = 0; i < size; ++i) scratch[i] = ((scratch[i] >> 32) * steps + (i << 32)) << 16 | i;
      while (width > 48 && !((size + steps - 2) >> (width - 49))) --width;
    }
    sort_spread(scratch, size, width, sorted, reinterpret_cast<u32*>(sorted + size));
    for (u64 i = 0; i < size; ++i) *indices++ = static_cast<u16>(sorted[i] & kIndex);
  }
  return 1;
}

// Write the words of `total` tokens in rows, of which none is empty: their first tokens and sizes, the first word that a
// span from each cannot have, the first word of each row and their number, and the tokens in words of each row. `special`
// tokens are in no word. Return how many words there are, or -1 if the offsets do not fit.
CLOZELINE_API i64 clozeline_find_words(const u8* opens, const u8* special, i64 total, const i64* offsets, i64 rows,
                                       i64* starts, i64* lengths, i64* run_ends, i64* word_offsets, i64* tokens) {
  if (!ascend(offsets, rows, total)) return -1;
  i64 words = 0;
  for (i64 row = 0; row < rows; ++row) {
    i64 run = words, outside = 0;
    bool inside = false;
    word_offsets[row] = words;
    for (i64 at = offsets[row]; at < offsets[row + 1]; ++at) {
      if (special[at]) {
        std::fill(run_ends + run, run_ends + words, words);
        run = words;
        ++outside;
        inside = false;
        continue;
      }
      if (!inside || opens[at]) starts[words++] = at;
      inside = true;
      lengths[words - 1] = at + 1 - starts[words - 1];
    }
    std::fill(run_ends + run, run_ends + words, words);
    tokens[row] = offsets[row + 1] - offsets[row] - outside;
  }
  word_offsets[rows] = words;
  return words;
}

// Mark the words that each row takes (whole_words.take_words) of those from offsets[i] up to offsets[i + 1], `total` in
// all; `taken` has zeros. The streams are those of the order and of the numbers of words of spans; without thresholds a
// span has one word. `scratch` has room for three times the largest number of words in a row. Return 0, with nothing
// written, if the offsets do not fit.
CLOZELINE_FOR_EACH_PROCESSOR
i64 clozeline_take_words(const u64* keys, i64 order_stream, i64 length_stream, const i64* offsets, i64 rows,
                         const i64* lengths, const i64* run_ends, i64 total, const i64* budgets, const u64* thresholds,
                         i64 threshold_count, u64* scratch, u8* taken) {
  if (!ascend(offsets, rows, total)) return 0;
  for (i64 row = 0; row < rows; ++row)
    if (offsets[row + 1] - offsets[row] > kMostEntries) return 0;
  for (i64 row = 0; row < rows; ++row) {
    const i64 begin = offsets[row], end = offsets[row + 1];
    const u64 size = static_cast<u64>(end - begin);
    i64 left = budgets[row];
    if (left <= 0 || !size) continue;
    u64* sorted = scratch + size;
    fill_bits(stream_start(keys[row], order_stream), size, scratch);
    sort_spread(scratch, size, 64, sorted, reinterpret_cast<u32*>(sorted + size));
    for (u64 i = 0; i < size && left > 0; ++i) {
      const i64 first = begin + static_cast<i64>(sorted[i] & kIndex);
      if (taken[first] || lengths[first] > left) continue;
      i64 words = 1;
      if (threshold_count) {
        const u64 bits = mix(stream_start(keys[row] + i * kGolden, length_stream)) >> 32;
        words = std::upper_bound(thresholds, thresholds + threshold_count, bits) - thresholds;
      }
      const i64 stop = std::min({run_ends[first], end, first + words});
      for (i64 word = first; word < stop && !taken[word] && lengths[word] <= left; ++word) {
        taken[word] = 1;
        left -= lengths[word];
      }
    }
    if (left == budgets[row]) taken[begin + static_cast<i64>(sorted[0] & kIndex)] = 1;  // no word fits the budget
  }
  return 1;
}
