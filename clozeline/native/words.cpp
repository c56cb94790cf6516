// Words and punctuation marks of a text, by the rules of pipeline/text/word_tokens.py, which has them as patterns.
// Texts are arrays of code points. What Unicode says of a code point comes from the Python that runs, as bits.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "hashing.h"
#include "module.h"

namespace {

using namespace clozeline;
using i32 = std::int32_t;

// Bits of a class, in the order of CLASSES of word_tokens.py; 0 for a code point that Python has not been asked about.
enum : u32 {
  kKnown = 1, kSpace = 2, kAlpha = 4, kWord = 8, kDecimal = 16, kMark = 32, kQuote = 64, kIcon = 128, kCurrency = 256,
  kUnspaced = 512, kLower = 1024, kUpper = 2048
};
constexpr int kLetterBits = 16;  // above them, 1 to 26: the letter that the code point equals if case is ignored
constexpr i64 kLongest = 256, kSuffixChars = 32, kLongestListed = 7;
constexpr i32 kAbbreviation = 1, kBeforeNot = 2, kBeforeApostrophe = 4;

// A hash table of short listed words: slots[hash & (slots - 1)] is 0 or 1 + the row of a word in `rows`, which has its
// length, its flags and kLongestListed code points.
struct Lists {
  const i32* slots;
  i64 size;
  const i32* rows;
};

u64 hash_word(const u32* word, i64 size) {
  u64 hash = static_cast<u64>(size);
  for (i64 i = 0; i < size; ++i) hash = (hash ^ word[i]) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 32);
}

bool equals(const u32* a, const u32* b, i64 size) {
  for (i64 i = 0; i < size; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

class Splitter {
 public:
  Splitter(const u32* classes, Lists lists) : classes_(classes), lists_(lists) {}

  u32 class_of(u32 code) const { return classes_[code]; }
  bool is(u32 code, u32 bits) const { return (classes_[code] & bits) != 0; }
  // [^\W\d_]; a class is of letters, digits and other numbers, of which \d are the decimal ones
  bool is_letter(u32 code) const { return (classes_[code] & (kWord | kDecimal)) == kWord; }

  // Write the end of each token of a chunk, up to kLongest code points without white space; return their number.
  i64 split(const u32* chunk, i64 size, i64* ends) const {
    const i64 last = size - 1;
    const bool marked = chunk[last] == ',' || chunk[last] == ';' || chunk[last] == '!' || chunk[last] == '?';
    if (all(chunk, size - marked, kAlpha) && !is_cannot(chunk, size - marked)) {
      i64 count = 0;
      if (size > marked) ends[count++] = size - marked;
      if (marked) ends[count++] = size;
      return count;
    }
    // strip marks off both ends, one at a time, down to an abbreviation, emoticon or contraction
    i64 after[kLongest], known[3], start = 0, end = size, before = 0, stripped = 0;
    while (start < end && !split_known(chunk + start, end - start, known)) {
      const i64 prefix = prefix_size(chunk, start, end), suffix = suffix_start(chunk, start, end);
      if (prefix == 0 && suffix < 0) break;
      if (prefix) {
        start += prefix;
        ends[before++] = start;
        if (split_known(chunk + start, end - start, known)) break;
      }
      if (suffix >= start) {
        after[stripped++] = end;
        end = suffix;
      }
    }
    i64 parts = before + split_inside(chunk + start, end - start, ends + before);
    for (i64 part = before; part < parts; ++part) ends[part] += start;
    while (stripped) ends[parts++] = after[--stripped];
    // join two neighbors that make an abbreviation or an emoticon, left to right
    i64 count = 0, part_start = 0, previous = -1;
    for (i64 part = 0; part < parts; ++part) {
      const i64 part_end = ends[part];
      if (previous >= 0 && is_single(chunk + previous, part_end - previous)) {
        ends[count - 1] = part_end;
        previous = -1;
      } else {
        ends[count++] = part_end;
        previous = part_start;
      }
      part_start = part_end;
    }
    return count;
  }

 private:
  const u32* classes_;
  Lists lists_;

  bool all(const u32* word, i64 size, u32 bits) const {
    for (i64 i = 0; i < size; ++i)
      if (!is(word[i], bits)) return false;
    return size > 0;
  }

  u32 letter(u32 code) const {
    const u32 number = class_of(code) >> kLetterBits;
    return number ? 'a' + number - 1 : 0;
  }

  // Whether code points are these ASCII letters if case is ignored.
  bool spells(const u32* word, const char* letters) const {
    for (; *letters; ++word, ++letters)
      if (letter(*word) != static_cast<u32>(*letters)) return false;
    return true;
  }

  bool is_cannot(const u32* word, i64 size) const { return size == 6 && spells(word, "cannot"); }

  i32 flags_of(const u32* word, i64 size) const {
    if (size > kLongestListed) return 0;
    const u64 mask = static_cast<u64>(lists_.size - 1);
    for (u64 slot = hash_word(word, size) & mask; lists_.slots[slot]; slot = (slot + 1) & mask) {
      const i32* row = lists_.rows + (lists_.slots[slot] - 1) * (kLongestListed + 2);
      if (row[0] == size && equals(reinterpret_cast<const u32*>(row + 2), word, size)) return row[1];
    }
    return 0;
  }

  static bool is_one_of(u32 code, const char* set) { return code && code < 128 && std::strchr(set, static_cast<int>(code)); }
  static bool is_apostrophe(u32 code) { return code == '\'' || code == 0x2019; }
  static bool is_digit(u32 code) { return code >= '0' && code <= '9'; }

  // _EMOTICON
  static bool is_emoticon(const u32* word, i64 size) {
    if (size != 2 && size != 3) return false;
    const u32 first = word[0], last = word[size - 1];
    if (is_one_of(first, ":;=8") && is_one_of(last, "()[]DPpOoX*/|03>") && (size == 2 || is_one_of(word[1], "o'-")))
      return true;
    if (size == 3 && word[1] != '-') return false;
    if ((first == '(' || first == '[') && is_one_of(last, ":;=")) return true;
    return (first == ')' && last == ':') || (size == 2 && first == ']' && last == '=');
  }

  bool is_single(const u32* word, i64 size) const {
    return (flags_of(word, size) & kAbbreviation) || is_emoticon(word, size);
  }

  // Write the ends of the tokens of an abbreviation, emoticon or contraction; return their number, 0 for other words.
  i64 split_known(const u32* word, i64 size, i64* ends) const {
    if (is_single(word, size)) {
      ends[0] = size;
      return 1;
    }
    // _CONTRACTION
    if (is_cannot(word, size)) {
      ends[0] = 3;
      ends[1] = 6;
      return 2;
    }
    i64 mark = 1;
    while (mark < size && mark <= kLongestListed && !is_apostrophe(word[mark])) ++mark;
    if (mark + 1 >= size || !is_apostrophe(word[mark])) return 0;
    const u32* rest = word + mark + 1;
    const i64 left = size - mark - 1;
    i64 stem = mark, ending = 0;
    if (spells(word + mark - 1, "n") && spells(rest, "t") && (stem_flags(word, mark - 1) & kBeforeNot)) {
      stem = mark - 1;
      ending = 1;
    } else if (stem_flags(word, mark) & kBeforeApostrophe) {
      if (spells(rest, "d") || spells(rest, "m") || spells(rest, "s") || spells(rest, "t")) ending = 1;
      else if (left >= 2 && (spells(rest, "ll") || spells(rest, "re") || spells(rest, "ve"))) ending = 2;
    }
    if (!ending) return 0;
    ends[0] = stem;
    ends[1] = mark + 1 + ending;
    if (left == ending) return 2;
    ends[2] = size;
    return left == ending + 3 && is_apostrophe(rest[ending]) && spells(rest + ending + 1, "ve") ? 3 : 0;
  }

  i32 stem_flags(const u32* word, i64 size) const {
    u32 letters[kLongestListed];
    if (size > kLongestListed) return 0;
    for (i64 i = 0; i < size; ++i) letters[i] = letter(word[i]);
    return flags_of(letters, size);
  }

  // _PREFIX at `start`; 0 if it does not match.
  i64 prefix_size(const u32* chunk, i64 start, i64 end) const {
    const u32 first = chunk[start], next = start + 1 < end ? chunk[start + 1] : 0;
    if (first == '.') {
      i64 at = start + 1;
      while (at < end && chunk[at] == '.') ++at;
      return at - start > 1 ? at - start : 0;
    }
    if (first == '+') return is_digit(next) ? 0 : 1;
    if (first == 'U' && next == 'S' && start + 2 < end && chunk[start + 2] == '$') return 3;
    if ((first == 'C' || first == 'A') && next == '$') return 2;
    const bool listed = first == 0xA7 || first == '%' || first == '=' || is_dash(first);
    return listed || is(first, kCurrency | kMark | kQuote | kIcon);
  }

  static bool is_dash(u32 code) { return code == 0x2014 || code == 0x2013; }

  // The start of the longest match of _SUFFIX that ends at `end`, or -1; what precedes a match may be before `start`.
  i64 suffix_start(const u32* chunk, i64 start, i64 end) const {
    const i64 low = std::max(start, end - kSuffixChars);
    const u32 last = chunk[end - 1];
    if (last == '.') {
      i64 at = end - 1;
      while (at > low && chunk[at - 1] == '.') --at;
      if (end - at > 1) return at;
      const u32 before = end > 1 ? chunk[end - 2] : 0;
      const bool listed = is_digit(before) || before == '%' || before == 0xB2 || before == '+' || before == '-';
      if (end > 1 && (listed || is(before, kLower | kMark | kQuote))) return end - 1;
      return end > 2 && is(before, kUpper) && is(chunk[end - 3], kUpper) ? end - 1 : -1;
    }
    for (i64 size = std::min<i64>(4, end - low); size > 0; --size) {
      const i64 at = end - size;
      if (at > 0 && is_digit(chunk[at - 1]) && is_unit(chunk + at, size)) return at;
      if (size == 2 && is_apostrophe(chunk[at]) && (last == 's' || last == 'S')) return at;
      if (size == 1 && (is_dash(last) || is(last, kMark | kQuote | kIcon))) return at;
    }
    return -1;
  }

  // [+CURRENCY] | [kcm]?m[²³]? | [kmµ]?g | km/h | [kMGT]B | [%KMT]
  bool is_unit(const u32* word, i64 size) const {
    const u32 first = word[0], last = word[size - 1];
    const bool power = last == 0xB2 || last == 0xB3, metric = is_one_of(first, "kcm");
    switch (size) {
      case 1: return is_one_of(first, "mg+%KMT") || is(first, kCurrency);
      case 2:
        if (last == 'm') return metric;
        if (last == 'g') return first == 'k' || first == 'm' || first == 0xB5;
        return (first == 'm' && power) || (last == 'B' && is_one_of(first, "kMGT"));
      case 3: return metric && word[1] == 'm' && power;
      default: return first == 'k' && word[1] == 'm' && word[2] == '/' && last == 'h';
    }
  }

  // Write the ends of the tokens of a chunk whose outer marks are gone.
  i64 split_inside(const u32* word, i64 size, i64* ends) const {
    if (size == 0) return 0;
    if (const i64 known = split_known(word, size, ends)) return known;
    i64 count = 0, done = 0;
    if (!all(word, size, kAlpha) && !is_url(word, size)) {
      for (i64 at = 0; at < size;) {
        const i64 infix = infix_size(word, at, size);
        if (infix && at) {
          if (at > done) ends[count++] = at;
          done = at + infix;
          ends[count++] = done;
        }
        at += std::max<i64>(infix, 1);
      }
    }
    if (done < size) ends[count++] = size;
    return count;
  }

  // _INFIX at `at`; 0 if it does not match.
  i64 infix_size(const u32* word, i64 at, i64 size) const {
    const u32 code = word[at];
    if (code == 0x2026 || is(code, kUnspaced | kIcon)) return 1;
    if (is(code, kAlpha | kDecimal)) return 0;
    i64 run = 1;
    while (at + run < size && word[at + run] == code) ++run;
    if (code == '.' && run > 1) return run;
    if (at == 0 || at + 1 == size) return 0;
    const u32 before = word[at - 1], next = word[at + 1];
    if (is_one_of(code, "+-*^") && is_digit(before) && (is_digit(next) || next == '-')) return 1;
    if (code == '.') return is(before, kLower | kQuote) && is(next, kUpper | kQuote);
    if (code == ',') return is_letter(before) && is_letter(next);
    if (!is_letter(before) && !is_digit(before)) return 0;
    const i64 most = code == '-' ? 3 : code == 0x2014 ? size : is_one_of(code, "~:<>=/") || code == 0x2013 ? 1 : 0;
    return run <= most && at + run < size && is_letter(word[at + run]) ? run : 0;
  }

  // _URL for the entire word: no part of it can match in two ways, but for the optional first ones.
  bool is_url(const u32* word, i64 size) const {
    i64 scheme = 0;
    while (scheme < size && scheme < 20 && (is(word[scheme], kWord) || is_one_of(word[scheme], "_+.-"))) ++scheme;
    const bool has_scheme = scheme >= 2 && scheme + 3 <= size && word[scheme] == ':' && word[scheme + 1] == '/' &&
                            word[scheme + 2] == '/';
    const i64 starts[2] = {0, scheme + 3};
    for (int option = 0; option < 1 + has_scheme; ++option) {
      const i64 start = starts[option];
      if (is_host(word, start, size)) return true;
      i64 at = start;
      while (at < size && word[at] != '@') ++at;
      if (at > start && at < size && is_host(word, at + 1, size)) return true;
    }
    return false;
  }

  // Labels with a dot each, a top-level domain, a port and a path, up to the end.
  bool is_host(const u32* word, i64 at, i64 size) const {
    for (;;) {
      const i64 start = at;
      while (at < size && (is(word[at], kWord) || word[at] == '-' || word[at] == '_')) ++at;
      if (at == start || at - start > 64 || at == size || word[at] != '.') return false;
      if (!is(word[start], kWord) || !is(word[at - 1], kWord)) return false;
      if (ends_host(word, ++at, size)) return true;
    }
  }

  bool ends_host(const u32* word, i64 at, i64 size) const {
    const i64 domain = at;
    while (at < size && word[at] >= 'a' && word[at] <= 'z') ++at;
    if (at - domain < 2 || at - domain > 63) return false;
    if (at < size && word[at] == ':') {
      const i64 port = ++at;
      while (at < size && is(word[at], kDecimal)) ++at;
      if (at - port < 2 || at - port > 5) return false;
    }
    return at == size || is_one_of(word[at], "/?#");
  }
};

struct Counts {
  i64 tokens, words, word_chars, with_letter, chunks, chunks_with_letter;
};

}  // namespace

// Fill the hash table of `Lists`: `slots`, a power of two of zeros, of which fewer than half are used.
CLOZELINE_API void clozeline_list_words(const i32* rows, i64 count, i32* slots, i64 size) {
  for (i64 row = 0; row < count; ++row) {
    const i32* word = rows + row * (kLongestListed + 2);
    u64 slot = hash_word(reinterpret_cast<const u32*>(word + 2), word[0]);
    for (slot &= static_cast<u64>(size - 1); slots[slot];) slot = (slot + 1) & static_cast<u64>(size - 1);
    slots[slot] = static_cast<i32>(row + 1);
  }
}

// Split a text: write the start and the length of each token, with room for `size`, and the counts. Return 0, or
// -1 - code for a code point without a class.
CLOZELINE_API i64 clozeline_split_words(const u32* text, i64 size, const u32* classes, const i32* slots, i64 slot_count,
                                        const i32* rows, i32* starts, i32* lengths, Counts* counts) {
  for (i64 at = 0; at < size; ++at)
    if (!classes[text[at]]) return -1 - static_cast<i64>(text[at]);
  const Splitter splitter(classes, {slots, slot_count, rows});
  Counts found{};
  const auto add = [&](i64 start, i64 end) {
    u32 bits = 0;
    bool letter = false;
    for (i64 at = start; at < end; ++at) {
      bits |= classes[text[at]];
      letter |= splitter.is_letter(text[at]);
    }
    starts[found.tokens] = static_cast<i32>(start);
    lengths[found.tokens++] = static_cast<i32>(end - start);
    found.words += (bits & kWord) != 0;
    found.word_chars += bits & kWord ? end - start : 0;
    found.with_letter += letter;
  };
  i64 ends[kLongest];
  for (i64 start = 0; start < size;) {
    if (classes[text[start]] & kSpace) {
      ++start;
      continue;
    }
    i64 end = start;
    u32 bits = 0, common = ~0U;
    for (; end < size && !(classes[text[end]] & kSpace); ++end) {
      bits |= classes[text[end]];
      common &= classes[text[end]];
    }
    const i64 length = end - start;
    ++found.chunks;
    found.chunks_with_letter += (bits & kAlpha) != 0;
    if ((common & kAlpha) && length <= kLongest && length != 6) {  // most chunks: a word of letters, and not `cannot`
      starts[found.tokens] = static_cast<i32>(start);
      lengths[found.tokens++] = static_cast<i32>(length);
      ++found.words;
      ++found.with_letter;
      found.word_chars += length;
    } else if (length > kLongest) {  // _PLAIN
      for (i64 at = start; at < end;) {
        const i64 token = at;
        while (at < end && (splitter.is(text[at], kWord) || text[at] == '_')) ++at;
        at += at == token;
        add(token, at);
      }
    } else {
      const i64 count = splitter.split(text + start, length, ends);
      for (i64 token = 0, from = 0; token < count; from = ends[token++]) add(start + from, start + ends[token]);
    }
    start = end;
  }
  *counts = found;
  return 0;
}

// Copy the code points that are letters; return how many, or -1 - code for a code point without a class.
CLOZELINE_API i64 clozeline_keep_letters(const u32* text, i64 size, const u32* classes, u32* kept) {
  i64 count = 0;
  for (i64 at = 0; at < size; ++at) {
    const u32 bits = classes[text[at]];
    if (!bits) return -1 - static_cast<i64>(text[at]);
    kept[count] = text[at];
    count += (bits & (kWord | kDecimal)) == kWord;
  }
  return count;
}

// Write the id of each token: equal tokens have equal ids, which count from 0 in order of first occurrence, and
// firsts[id] is the first token with it. `slots` has a power of two of zeros, at least twice as many as tokens. Return
// how many ids there are.
CLOZELINE_API i64 clozeline_number_tokens(const u32* text, const i32* starts, const i32* lengths, i64 tokens, i32* slots,
                                          i64 slot_count, i32* ids, i32* firsts) {
  i32 distinct = 0;
  const u64 mask = static_cast<u64>(slot_count - 1);
  for (i64 token = 0; token < tokens; ++token) {
    const u32* word = text + starts[token];
    u64 slot = hash_word(word, lengths[token]) & mask;
    for (; slots[slot]; slot = (slot + 1) & mask) {
      const i32 first = firsts[slots[slot] - 1];
      if (lengths[first] == lengths[token] && equals(text + starts[first], word, lengths[token])) break;
    }
    if (!slots[slot]) {
      firsts[distinct] = static_cast<i32>(token);
      slots[slot] = ++distinct;
    }
    ids[token] = slots[slot] - 1;
  }
  return distinct;
}

// Count those of different words that are tokens. Word i has the code points of `words` from ends[i] up to ends[i + 1];
// `slots` has a power of two of zeros, at least twice as many as words.
CLOZELINE_API i64 clozeline_count_listed(const u32* text, const i32* starts, const i32* lengths, i64 tokens,
                                         const u32* words, const i32* ends, i64 count, i32* slots, i64 slot_count) {
  const u64 mask = static_cast<u64>(slot_count - 1);
  i64 longest = 0, found = 0;
  for (i64 word = 0; word < count; ++word) {
    const i64 size = ends[word + 1] - ends[word];
    u64 slot = hash_word(words + ends[word], size) & mask;
    while (slots[slot]) slot = (slot + 1) & mask;
    slots[slot] = static_cast<i32>(word + 1);
    longest = std::max(longest, size);
  }
  for (i64 token = 0; token < tokens && found < count; ++token) {
    const i64 size = lengths[token];
    if (size > longest) continue;
    const u32* code = text + starts[token];
    for (u64 slot = hash_word(code, size) & mask; slots[slot]; slot = (slot + 1) & mask) {
      const i32 word = std::abs(slots[slot]) - 1;
      if (ends[word + 1] - ends[word] != size || !equals(words + ends[word], code, size)) continue;
      found += slots[slot] > 0;
      slots[slot] = -word - 1;  // found
      break;
    }
  }
  return found;
}
