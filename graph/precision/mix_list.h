// MixList: which ops a mixed mode computes in its low dtype (white), in f32 (black), and which
// follow their operands (gray). Each op says its own class (OpDef::mix_class); a list holds what a
// user changed. Plain values and pure functions; any thread.
#ifndef KEEL_GRAPH_PRECISION_MIX_LIST_H
#define KEEL_GRAPH_PRECISION_MIX_LIST_H

#include <map>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/op_def.h"
#include "keel/graph/ir/op_table.h"

namespace keel {

// "white", "black", "gray".
KEEL_API const char* name_of(MixClass mix) noexcept;

struct KEEL_API MixList {
  std::map<std::string, MixClass> changed;  // by op, where it is not the op's own class

  MixClass class_of(const OpDef& op) const;
  bool operator==(const MixList&) const = default;
};

// Reads a file of either form:
//
//   {"black-list": {"to-add": ["sum"], "to-remove": ["exp"]},
//    "white-list": {"to-add": [], "to-remove": ["matmul"]}}
//
// moves ops: to-add puts an op on that list wherever it was, to-remove takes it from that list and
// makes it gray. The other form is that of write_ops_info: the ops it does not name are gray.
//
// Ops that nobody knows, and removals from a list that the op is not on, become `warnings`. Throws
// Error naming source and path for another schema, and for an op that is added twice or added to a
// list and removed from it.
KEEL_API MixList parse_mix_list(const std::string& text, const std::string& source,
                                const OpTable& ops, std::vector<std::string>& warnings);

// Returns the white and black ops as JSON in the form of Ascend's op information library,
// {"matmul": {"precision_reduce": {"flag": "true"}}}: "true" is white, "false" black.
KEEL_API std::string write_ops_info(const OpTable& ops, const MixList& list = {});

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_MIX_LIST_H
