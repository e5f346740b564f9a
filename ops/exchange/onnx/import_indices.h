// Indices of ONNX, which may count from the end and name elements of several axes, as places in a
// value of one axis less: what gather and scatter of Keel take. Each function adds nodes to the
// graph of its values.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_INDICES_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_INDICES_H

#include <cstdint>
#include <string>

#include "keel/ops/exchange/onnx/import_rules.h"

namespace keel::onnx {

// Says what an index below 0 is: counted from the end, as in ONNX, or out of range, as in
// TensorFlow.
enum class BelowZero { kFromEnd, kRefused };

// Indices out of range are refused where they are constants, else errors of the run that name the
// index and its axis.

// Returns the indices of an input, i64, counted from the front of an axis of that size, for an op
// that checks them.
Value front_indices(NodeContext& c, size_t input, size_t axis, int64_t size);

// For each of the indices of an input, which have the rank of `shape`, the place in a value of that
// shape laid out in a row: its own but along `axis`, where the index says it.
Value element_places(NodeContext& c, size_t input, const Shape& shape, size_t axis);

// The last axis of an input's indices names axes of a value of `shape` from `batch` on; those
// before are the indices' own. The sizes of these axes are known before the run, those of a row
// need not be.
struct RowPlaces {
  Value places;      // one for each row that is named
  int64_t rows = 1;  // of the value
  Shape row_shape;

  // Returns the shape of so many rows.
  Shape shape_of(int64_t count) const;
};
RowPlaces row_places(NodeContext& c, size_t input, const Shape& shape, int64_t batch,
                     BelowZero below_zero);

// x [rows, ...] with the updates [count, ...] put into rows `places` [count]; `reduction` is none,
// last, add, mul, min or max. Where several are put into one row with none, their sum is there:
// ONNX leaves it open.
Value scatter_rows(NodeContext& c, const Value& x, const Value& places, const Value& updates,
                   const std::string& reduction);

// Returns the lengths that an input gives of sequences of so many steps, i64. One below 0 or above
// the steps is refused, or an error of the run.
Value sequence_lengths(NodeContext& c, size_t input, int64_t steps);

// Returns x with each sequence along the axis `time` backwards over its own length, of which an
// input gives one for each place along the axis `batch`.
Value reversed_sequences(NodeContext& c, const Value& x, size_t input, size_t time, size_t batch);

// Returns ids, i64, as they are, behind a check of the run that each is one of `count` along an
// axis; its error names `what` they are.
Value checked_ids(const Value& ids, const char* what, size_t axis, int64_t count);

// Returns x as a matrix whose second axis is all of the axes from `axis` on.
Value flattened_from(NodeContext& c, const Value& x, size_t axis);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_INDICES_H
