// AgreedAttributes: the scoped attributes that all users of a value have (a placement, a
// precision). What adds up the gradients that come from the users, or stands for them, gets these:
// gradients of what was built in a scope belong to it. Internal to the library; a plain value.
#ifndef KEEL_GRAPH_AUTODIFF_AGREED_ATTRIBUTES_H
#define KEEL_GRAPH_AUTODIFF_AGREED_ATTRIBUTES_H

#include <cstddef>
#include <string_view>
#include <vector>

#include "keel/graph/autodiff/flow.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/label.h"

namespace keel {

class AgreedAttributes {
 public:
  // Counts a node that reads the value as its input number `input`. Loops and conds count by the
  // users in their bodies, for no scope concerns themselves; views without attributes not at all.
  void meet(const Node& user, size_t input);
  // Counts a user with these attributes. Marks of recomputed blocks are left out: gradients are no
  // part of a block.
  void meet(const ScopedAttributes& attributes);

  // Returns the label for what is made inside of `around`, which may be null.
  NodeLabelPtr label_in(const NodeLabelPtr& around) const;

 private:
  bool met_ = false;
  ScopedAttributes agreed_;
};

// Returns the label without an attribute; null for null.
NodeLabelPtr without_attribute(const NodeLabelPtr& label, std::string_view key);

// Counts for each input of the body, in `of_inputs`, its users that compute a value in `useful`.
void meet_users(const Graph& body, const ValueSet& useful,
                std::vector<AgreedAttributes>& of_inputs);

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_AGREED_ATTRIBUTES_H
