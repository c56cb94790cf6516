// Word hashes, hashes of word n-grams, and minima over them: pipeline/text/word_hashes.py and pipeline/dedup/near.py.
#include "hashing.h"
#include "module.h"

namespace {

using namespace clozeline;

// What a byte of a folded text is to its words; other characters than ASCII are letters.
constexpr u8 kLetter = 1, kOperator = 2, kHyphen = 4;

struct Kinds {
  u8 of[256] = {};
  constexpr Kinds() {
    for (int c = '0'; c <= '9'; ++c) of[c] = kLetter;
    for (int c = 'a'; c <= 'z'; ++c) of[c] = kLetter;
    for (int c = 128; c <= 255; ++c) of[c] = kLetter;
    for (const char* c = "%&*+/<=>^|~"; *c; ++c) of[static_cast<u8>(*c)] = kOperator;
    of['_'] = kLetter;
    of['-'] = kHyphen;
  }
};
constexpr Kinds kKinds;

// XXH3-64 of kLongestHashed bytes at a time; the seed is the hash of those before them.
inline u64 hash_bytes(const u8* data, i64 size) {
  u64 hash = 0;
  for (i64 at = 0; at < size; at += kLongestHashed) {
    hash = xxh3(data + at, size - at < kLongestHashed ? size - at : kLongestHashed, hash);
  }
  return hash;
}

// Replace words by mix(polynomial hash) of each run of `ngram` of them, count - ngram + 1; 1 <= ngram <= count.
inline void make_shingles(u64* words, i64 count, i64 ngram) {
  constexpr u64 base = 0x9E3779B97F4A7C15ULL;
  u64 hash = 0, leading = 1;  // leading = base ** (ngram - 1)
  for (i64 i = 0; i < ngram; ++i) hash = hash * base + words[i];
  for (i64 i = 1; i < ngram; ++i) leading *= base;
  for (i64 i = 0; i <= count - ngram; ++i) {
    const u64 first = words[i];
    words[i] = mix(hash);
    if (i + ngram < count) hash = (hash - first * leading) * base + words[i + ngram];
  }
}

constexpr i64 kBlock = 512;     // hashes of a block stay in the L1 cache
constexpr i64 kTogether = 16;  // minima held in registers

}  // namespace

// Hash the words of a folded text, and return their number; `hashes` has room for `size` of them. A word is a run of
// letters, or a run of operators, perhaps after a hyphen: pipeline/text/normal_form.py.
CLOZELINE_API i64 clozeline_word_hashes(const u8* text, i64 size, u64* hashes) {
  i64 words = 0, at = 0;
  while (at < size) {
    const i64 start = at;
    const u8 first = kKinds.of[text[at++]];
    if (!first) continue;
    const u8 more = first == kLetter ? kLetter : kOperator;
    while (at < size && kKinds.of[text[at]] == more) ++at;
    if (first != kHyphen || at > start + 1) hashes[words++] = hash_bytes(text + start, at - start);
  }
  return words;
}

// minima[f] = min over s of shingles[s] * factors[f] + offsets[f], modulo 2**64.
CLOZELINE_FOR_EACH_PROCESSOR
void clozeline_minima(const u64* shingles, i64 count, const u64* factors, const u64* offsets, i64 functions,
                      u64* minima) {
  for (i64 f = 0; f < functions; ++f) minima[f] = ~0ULL;
  for (i64 block = 0; block < count; block += kBlock) {
    const i64 stop = block + kBlock < count ? block + kBlock : count;
    i64 f = 0;
    for (; f + kTogether <= functions; f += kTogether) {
      u64 least[kTogether], factor[kTogether], offset[kTogether];
      for (i64 j = 0; j < kTogether; ++j) {
        least[j] = minima[f + j];
        factor[j] = factors[f + j];
        offset[j] = offsets[f + j];
      }
      for (i64 s = block; s < stop; ++s) {
        for (i64 j = 0; j < kTogether; ++j) {
          const u64 value = shingles[s] * factor[j] + offset[j];
          least[j] = value < least[j] ? value : least[j];
        }
      }
      for (i64 j = 0; j < kTogether; ++j) minima[f + j] = least[j];
    }
    for (; f < functions; ++f) {
      for (i64 s = block; s < stop; ++s) {
        const u64 value = shingles[s] * factors[f] + offsets[f];
        minima[f] = value < minima[f] ? value : minima[f];
      }
    }
  }
}

// Write the minima of each of `texts` folded texts, which end at ends[t] of `data`: of the shingles of `ngram` words, or
// of all words if there are fewer; a text without a word is one. `words` has room for the bytes of the longest text.
CLOZELINE_API void clozeline_signatures(const u8* data, const i64* ends, i64 texts, i64 ngram, const u64* factors,
                                        const u64* offsets, i64 functions, u64* words, u64* signatures) {
  for (i64 t = 0, start = 0; t < texts; start = ends[t++]) {
    const i64 size = ends[t] - start;
    i64 count = clozeline_word_hashes(data + start, size, words);
    if (!count) words[count++] = hash_bytes(data + start, size);
    const i64 together = ngram < count ? ngram : count;
    make_shingles(words, count, together);
    clozeline_minima(words, count - together + 1, factors, offsets, functions, signatures + t * functions);
  }
}

// keys[d, b] = XXH3-64 of rows b * rows .. (b + 1) * rows of signature d, with seed b; 8 * rows <= kLongestHashed.
CLOZELINE_API void clozeline_band_keys(const u64* signatures, i64 documents, i64 bands, i64 rows, u64* keys) {
  for (i64 d = 0; d < documents; ++d) {
    for (i64 b = 0; b < bands; ++b) {
      const u64* band = signatures + (d * bands + b) * rows;
      keys[d * bands + b] = xxh3(reinterpret_cast<const u8*>(band), 8 * rows, static_cast<u64>(b));
    }
  }
}
