// Contexts: the conditions under which a node has a value, as sets of literals (a condition and the
// way it went) that all have to hold. Sets are stored once and known by their number. One region's
// converter owns them; one thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_CONTEXTS_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_CONTEXTS_H

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

namespace keel::graphdef {

using Context = uint32_t;

constexpr Context kAlways = 0;
constexpr Context kTooDeep = UINT32_MAX - 1;  // more literals than kDeepestNesting
constexpr Context kNever = UINT32_MAX;        // a condition that would have to go both ways

// A condition's number, and which way it goes.
struct Literal {
  uint32_t condition = 0;
  bool side = false;

  uint32_t code() const noexcept { return condition << 1 | (side ? 1U : 0U); }
};

class Contexts {
 public:
  Context with(Context context, Literal literal);
  Context join(Context a, Context b);
  Context of(std::vector<uint32_t> codes);  // sorted codes of literals without a contradiction
  bool holds(Context context, Literal literal) const;

  // REQUIRES a context that can be: neither kTooDeep nor kNever.
  const std::vector<uint32_t>& codes(Context context) const { return sets_[context]; }

 private:
  std::vector<std::vector<uint32_t>> sets_{{}};
  std::map<std::vector<uint32_t>, Context> index_{{{}, kAlways}};
  std::unordered_map<uint64_t, Context> joined_;
};

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_CONTROL_FLOW_CONTEXTS_H
