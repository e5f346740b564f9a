// Rules for parts of a batch: how one node can compute for all parts what a node of one part's
// graph computes for that one. Internal to ops/parts. Pure functions; any thread.
//
// A value of all parts at once has the shape of a part's value with one axis as many times as long,
// its parts one after the other along that axis.
#ifndef KEEL_OPS_PARTS_PART_RULES_H
#define KEEL_OPS_PARTS_PART_RULES_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "keel/graph/ir/graph.h"

namespace keel {

// Spread: says what a value of one part's graph is for all parts.
struct Spread {
  enum class Kind : uint8_t {
    kSame,  // depends on no part: the value itself
    kRows,  // `whole`, with the parts along `axis`
    kSum,   // `whole` is the sum over the parts
    kEach,  // each[i] is that of part i
  };
  Kind kind = Kind::kSame;
  size_t axis = 0;
  Value whole;
  Values each;
};

struct PartNode {
  const Node& node;  // of the part's graph
  std::span<const Spread> inputs;
  int64_t parts = 1;
  int64_t first_part = 0;
  bool summed = false;  // nothing but the sums over the parts of its results is asked for

  // The axis of an input along which its parts lie; nothing for inputs that depend on no part.
  std::optional<size_t> axis(size_t input) const;
};

// A node that computes the results of all parts.
struct PartRule {
  std::string op;
  Attributes attributes;
  // By input the axis along which it has to have the parts; nothing: it is the same for all.
  std::vector<std::optional<size_t>> axes;
  // By result; nothing: the result is the sum.
  std::vector<std::optional<size_t>> results;
};

// Returns nothing where there is no such node. REQUIRES that each input is the same for all parts
// or has rows.
std::optional<PartRule> part_rule(const PartNode& node);

// Says whether what the node gives of a sum over parts is the sum of what it gives of each, to the
// last bit.
bool is_exactly_linear(const Node& node);

// Returns the results of the node as other nodes compute them, where a rule is for those: a mean
// over rows as a sum of shares. Their bits may differ from the node's. Empty where there is no such
// form.
Values summed_form_of(const PartNode& node);

// Returns the attributes with which the node computes the results of one part.
Attributes attributes_of_part(const PartNode& node, int64_t part);

// Returns a value that has, for each part, the same rows along `axis` as a value that is the same
// for all parts: broadcast further. Nothing where it is not made so.
std::optional<Value> repeated_along(const Value& value, size_t axis, int64_t parts);

}  // namespace keel

#endif  // KEEL_OPS_PARTS_PART_RULES_H
