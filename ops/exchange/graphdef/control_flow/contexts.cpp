#include "keel/ops/exchange/graphdef/control_flow/contexts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "keel/ops/exchange/graphdef/control_flow/graph.h"

namespace keel::graphdef {

Context Contexts::with(Context context, Literal literal) {
  return join(context, of({literal.code()}));
}

Context Contexts::join(Context a, Context b) {
  if (a > b) std::swap(a, b);
  if (a == b || b == kNever || b == kTooDeep || a == kAlways) return b;
  const uint64_t key = uint64_t{a} << 32 | b;
  const auto known = joined_.find(key);
  if (known != joined_.end()) return known->second;
  std::vector<uint32_t> both;
  std::set_union(sets_[a].begin(), sets_[a].end(), sets_[b].begin(), sets_[b].end(),
                 std::back_inserter(both));
  const auto contradicts = [](uint32_t x, uint32_t y) { return (x ^ y) == 1; };
  Context joined = kNever;
  if (std::adjacent_find(both.begin(), both.end(), contradicts) == both.end())
    joined = of(std::move(both));
  return joined_[key] = joined;
}

Context Contexts::of(std::vector<uint32_t> codes) {
  if (codes.size() > kDeepestNesting) return kTooDeep;
  const auto [entry, is_new] = index_.emplace(std::move(codes), static_cast<Context>(sets_.size()));
  if (is_new) sets_.push_back(entry->first);
  return entry->second;
}

bool Contexts::holds(Context context, Literal literal) const {
  if (context == kNever || context == kTooDeep) return false;
  return std::binary_search(sets_[context].begin(), sets_[context].end(), literal.code());
}

}  // namespace keel::graphdef
