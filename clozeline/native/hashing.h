// Hashes that must give the same bits as their Python forms: SplitMix64's finalizer (clozeline/seeding.py) and
// XXH3-64 of up to 128 bytes (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md). Little-endian machines only;
// the Python side checks that.
#pragma once
#include <cstdint>
#include <cstring>

namespace clozeline {

using u64 = std::uint64_t;
using u32 = std::uint32_t;
using u8 = std::uint8_t;
using i64 = std::int64_t;

constexpr i64 kLongestHashed = 128;

inline u64 mix(u64 x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

alignas(8) constexpr u8 kSecret[144] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb};

inline u64 read64(const u8* at) {
  u64 value;
  std::memcpy(&value, at, 8);
  return value;
}

inline u32 read32(const u8* at) {
  u32 value;
  std::memcpy(&value, at, 4);
  return value;
}

inline u64 rotate(u64 x, int bits) { return (x << bits) | (x >> (64 - bits)); }

inline u64 fold_product(u64 a, u64 b) {
  __extension__ typedef unsigned __int128 u128;
  const u128 product = static_cast<u128>(a) * b;
  return static_cast<u64>(product) ^ static_cast<u64>(product >> 64);
}

inline u64 avalanche64(u64 h) {
  h = (h ^ (h >> 33)) * 0xC2B2AE3D27D4EB4FULL;
  h = (h ^ (h >> 29)) * 0x165667B19E3779F9ULL;
  return h ^ (h >> 32);
}

inline u64 avalanche(u64 h) {
  h = (h ^ (h >> 37)) * 0x165667919E3779F9ULL;
  return h ^ (h >> 32);
}

inline u64 mix16(const u8* data, const u8* secret, u64 seed) {
  return fold_product(read64(data) ^ (read64(secret) + seed), read64(data + 8) ^ (read64(secret + 8) - seed));
}

// XXH3-64 of at most kLongestHashed bytes.
inline u64 xxh3(const u8* data, i64 size, u64 seed = 0) {
  const u64 length = static_cast<u64>(size);
  if (size == 0) return avalanche64(seed ^ (read64(kSecret + 56) ^ read64(kSecret + 64)));
  if (size <= 3) {
    const u32 joined = (static_cast<u32>(data[0]) << 16) | (static_cast<u32>(data[size >> 1]) << 24) |
                       static_cast<u32>(data[size - 1]) | (static_cast<u32>(size) << 8);
    return avalanche64(joined ^ ((read32(kSecret) ^ read32(kSecret + 4)) + seed));
  }
  if (size <= 8) {
    seed ^= static_cast<u64>(__builtin_bswap32(static_cast<u32>(seed))) << 32;
    const u64 joined = read32(data + size - 4) + (static_cast<u64>(read32(data)) << 32);
    u64 h = joined ^ ((read64(kSecret + 8) ^ read64(kSecret + 16)) - seed);
    h ^= rotate(h, 49) ^ rotate(h, 24);
    h *= 0x9FB21C651E98DF25ULL;
    h ^= (h >> 35) + length;
    h *= 0x9FB21C651E98DF25ULL;
    return h ^ (h >> 28);
  }
  if (size <= 16) {
    const u64 low = read64(data) ^ ((read64(kSecret + 24) ^ read64(kSecret + 32)) + seed);
    const u64 high = read64(data + size - 8) ^ ((read64(kSecret + 40) ^ read64(kSecret + 48)) - seed);
    return avalanche(length + __builtin_bswap64(low) + high + fold_product(low, high));
  }
  u64 sum = length * 0x9E3779B185EBCA87ULL;
  // pairs of 16 bytes, from the middle outward
  for (i64 pair = (size - 1) / 32; pair >= 0; --pair) {
    sum += mix16(data + 16 * pair, kSecret + 32 * pair, seed);
    sum += mix16(data + size - 16 * (pair + 1), kSecret + 32 * pair + 16, seed);
  }
  return avalanche(sum);
}

}  // namespace clozeline
