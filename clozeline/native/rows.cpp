// Copies of ragged rows: train/data/stream/row_buffer.py (gather) and padding.py (pad_rows).
#include <cstring>

#include "hashing.h"
#include "module.h"

namespace {

using namespace clozeline;

template <typename From, typename To>
void pad(const void* values, const i64* offsets, i64 rows, i64 width, i64 filler, void* out) {
  const From* from = static_cast<const From*>(values);
  To* to = static_cast<To*>(out);
  for (i64 row = 0; row < rows; ++row, to += width) {
    const From* source = from + offsets[row];
    const i64 length = offsets[row + 1] - offsets[row];
    for (i64 i = 0; i < length; ++i) to[i] = static_cast<To>(source[i]);
    for (i64 i = length; i < width; ++i) to[i] = static_cast<To>(filler);
  }
}

template <typename To>
bool pad_to(i64 type, const void* values, const i64* offsets, i64 rows, i64 width, i64 filler, void* out) {
  switch (type) {
    case 1: pad<std::uint8_t, To>(values, offsets, rows, width, filler, out); return true;
    case 2: pad<std::uint16_t, To>(values, offsets, rows, width, filler, out); return true;
    case 4: pad<std::uint32_t, To>(values, offsets, rows, width, filler, out); return true;
    case -4: pad<std::int32_t, To>(values, offsets, rows, width, filler, out); return true;
    case -8: pad<std::int64_t, To>(values, offsets, rows, width, filler, out); return true;
    default: return false;
  }
}

}  // namespace

// Copy `rows` runs of items of `item` bytes: run i starts at starts[i] and has lengths[i] items, `total` in all. Return 0,
// with nothing copied, if a run leaves the `size` items of `values` or the runs do not fill `out`.
CLOZELINE_API i64 clozeline_gather(const u8* values, i64 size, i64 item, const i64* starts, const i64* lengths, i64 rows,
                                   u8* out, i64 total) {
  for (i64 row = 0; row < rows; ++row) {
    if (starts[row] < 0 || lengths[row] < 0 || lengths[row] > size || starts[row] > size - lengths[row]) return 0;
    total -= lengths[row];
    if (total < 0) return 0;
  }
  if (total != 0) return 0;
  for (i64 row = 0; row < rows; ++row) {
    const i64 bytes = lengths[row] * item;
    if (bytes) std::memcpy(out, values + starts[row] * item, static_cast<std::size_t>(bytes));
    out += bytes;
  }
  return 1;
}

// Write each row values[offsets[i] : offsets[i + 1]] into a row of `width` of `out`, followed by `filler`. Types are
// bytes of an integer, negative if it is signed. Return 0, with nothing written, if a type is not known, or a row leaves
// the `size` values or is wider than `width`.
CLOZELINE_API i64 clozeline_pad_rows(const void* values, i64 size, i64 type, const i64* offsets, i64 rows, i64 width,
                                     i64 filler, void* out, i64 out_type) {
  for (i64 row = 0; row < rows; ++row) {
    const i64 start = offsets[row], end = offsets[row + 1];
    if (start < 0 || end < start || end > size || end - start > width) return 0;
  }
  if (out_type == -8) return pad_to<std::int64_t>(type, values, offsets, rows, width, filler, out);
  if (out_type == -4) return pad_to<std::int32_t>(type, values, offsets, rows, width, filler, out);
  return 0;
}
