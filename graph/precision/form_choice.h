// FormChoice: which form of a node a precision mode takes, and the rule that decided. Pure
// functions of precision and backend; any thread.
#ifndef KEEL_GRAPH_PRECISION_FORM_CHOICE_H
#define KEEL_GRAPH_PRECISION_FORM_CHOICE_H

#include <string>
#include <vector>

#include "keel/graph/precision/node_form.h"
#include "keel/graph/precision/precision.h"

namespace keel {

// Returns whether the node is left as it is under every mode: it has bodies, it is ordered, or it
// computes nothing of its operands.
bool is_outside_precision(const Node& node);
// Returns the first entry that names the node; null where none does.
const PrecisionEntry* entry_of(const Node& node, const ResolvedPrecision& precision);

// Returns whether a node that is composed of others keeps the dtypes of the graph as a whole: its
// parts would follow their operands one by one, where the mix list has it compute in f32, or where
// it combines elements, which a composition does in f32 also of low operands.
bool keeps_as_composite(const Node& node, const ResolvedPrecision& precision);
// The scoped attribute that decompose() gives the parts of such a node; its value is the node's op.
inline constexpr const char* kKeptCompositeAttribute = "kept_composite";
// Returns the op that a node is a part of and keeps its dtypes with; null where it is none.
const OpDef* kept_composite_of(const Node& node);

// Returns the rule of customised dtypes for a node; null where there is none or the mode reads
// none. A rule by op whose number of dtypes only other nodes of the op have is not for this one: a
// concat of two values has no rule of one of three.
const DtypeRule* rule_for(const Node& node, const ResolvedPrecision& precision);

struct FormChoice {
  NodeForm form;
  std::string rule;                   // "products: low (f32 sums)"
  const DtypeRule* dtypes = nullptr;  // the rule of customised dtypes that decided, if one did
};

// Returns how a node computes that has f32, f16 or bf16 operands or results. `operands_are_low`: of
// a node that follows its operands. Throws Error where the backend declines every form.
FormChoice choose_form(const Node& node, const ResolvedPrecision& precision,
                       const SupportsFunction& supports, bool operands_are_low);

}  // namespace keel

#endif  // KEEL_GRAPH_PRECISION_FORM_CHOICE_H
