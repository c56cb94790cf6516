// Word hashes, hashes of word n-grams, and minima over them: pipeline/text/word_hashes.py and pipeline/dedup/near.py.
#include "hashing.h"
#include "module.h"

namespace {

using namespace clozeline;

// What a byte is in a text: part of a word (the character in lower case), or one of these.
constexpr u8 kMark = 0, kDigit = 1, kBlank = 2, kForeign = 3;

struct Folding {
  u8 of[256] = {};
  constexpr Folding() {
    for (int c = '0'; c <= '9'; ++c) of[c] = kDigit;
    for (int c = 'a'; c <= 'z'; ++c) of[c] = static_cast<u8>(c);
    for (int c = 'A'; c <= 'Z'; ++c) of[c] = static_cast<u8>(c + 32);
    of['_'] = '_';
    for (int c = 9; c <= 13; ++c) of[c] = kBlank;
    for (int c = 28; c <= 32; ++c) of[c] = kBlank;  // as str.split() does
    for (int c = 128; c <= 255; ++c) of[c] = kForeign;
  }
};
constexpr Folding kFolding;

constexpr i64 kBlock = 512;     // hashes of a block stay in the L1 cache
constexpr i64 kTogether = 16;  // minima held in registers

}  // namespace

// Hash the match-form words of the ASCII tokens (runs between ASCII blanks) of a UTF-8 text. `hashes` has room for
// (size + 1) / 2. The caller hashes the others, and those with a word too long for XXH3's short form: their first byte,
// the byte after them, and the number of words before them go to `rest`, which has room for `capacity` of them. Return
// the number of words and set `*others`; return -1 if there are more tokens for the caller.
CLOZELINE_API i64 clozeline_word_hashes(const u8* text, i64 size, u64* hashes, i64* rest, i64 capacity, i64* others) {
  u8 word[kLongestHashed];
  i64 words = 0, at = 0, tokens = 0;
  while (at < size) {
    const i64 start = at, before = words;
    bool ours = true;
    u8 kind = kFolding.of[text[at]];
    while (kind != kBlank && ours) {
      i64 length = 0;
      while (kind == kDigit || kind > kForeign) {
        if (length == kLongestHashed) {
          ours = false;
          break;
        }
        word[length++] = kind == kDigit ? static_cast<u8>('0') : kind;
        const bool digit = kind == kDigit;
        do kind = ++at < size ? kFolding.of[text[at]] : kBlank;
        while (digit && kind == kDigit);  // a run of digits becomes one 0
      }
      if (!ours || kind == kForeign) {
        ours = false;
        break;
      }
      if (length) hashes[words++] = xxh3(word, length);
      while (kind == kMark) kind = ++at < size ? kFolding.of[text[at]] : kBlank;
    }
    if (!ours) {
      while (at < size && kFolding.of[text[at]] != kBlank) ++at;
      if (tokens == capacity) return -1;
      words = before;
      rest[3 * tokens] = start;
      rest[3 * tokens + 1] = at;
      rest[3 * tokens + 2] = words;
      ++tokens;
    }
    ++at;  // the blank
  }
  *others = tokens;
  return words;
}

// Write mix(polynomial hash) of each run of `ngram` words, count - ngram + 1 of them; 1 <= ngram <= count.
CLOZELINE_API void clozeline_shingles(const u64* words, i64 count, i64 ngram, u64* shingles) {
  constexpr u64 base = 0x9E3779B97F4A7C15ULL;
  u64 hash = 0, leading = 1;  // leading = base ** (ngram - 1)
  for (i64 i = 0; i < ngram; ++i) hash = hash * base + words[i];
  for (i64 i = 1; i < ngram; ++i) leading *= base;
  shingles[0] = mix(hash);
  for (i64 i = ngram; i < count; ++i) {
    hash = (hash - words[i - ngram] * leading) * base + words[i];
    shingles[i - ngram + 1] = mix(hash);
  }
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

// keys[d, b] = XXH3-64 of rows b * rows .. (b + 1) * rows of signature d, with seed b; 8 * rows <= kLongestHashed.
CLOZELINE_API void clozeline_band_keys(const u64* signatures, i64 documents, i64 bands, i64 rows, u64* keys) {
  for (i64 d = 0; d < documents; ++d) {
    for (i64 b = 0; b < bands; ++b) {
      const u64* band = signatures + (d * bands + b) * rows;
      keys[d * bands + b] = xxh3(reinterpret_cast<const u8*>(band), 8 * rows, static_cast<u64>(b));
    }
  }
}
