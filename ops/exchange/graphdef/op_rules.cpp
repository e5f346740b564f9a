#include "keel/ops/exchange/graphdef/op_rules.h"

namespace keel::graphdef {

OpRules::OpRules() { register_graphdef_rules(*this); }

void OpRules::add(const std::string& op, OpRule rule) {
  import_rules_.add("", op, rule.make, rule.folding);
  rules_.emplace(op, std::move(rule));
}

const OpRule* OpRules::find(const std::string& op) const {
  const auto rule = rules_.find(op);
  return rule == rules_.end() ? nullptr : &rule->second;
}

}  // namespace keel::graphdef
