#include "keel/ops/nn/module.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/core/base/printable.h"
#include "keel/graph/precision/keep_dtype.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/nn/layer_errors.h"

namespace keel {

// A tree beside the paths: what was made under a scope, whatever it is called.
struct Scope::Members {
  std::shared_ptr<Members> parent;
  Values states;
  std::unordered_set<Value, ValueHash> known;  // the same ones

  // Adds a state that may be there already.
  void add(const Value& state) {
    if (known.insert(state).second) states.push_back(state);
    if (parent != nullptr) parent->add(state);
  }
};

Graph& root_of(Graph& graph) {
  Graph* root = &graph;
  while (root->parent() != nullptr) root = root->parent();
  return *root;
}

namespace {

Values chosen(const Values& states, bool trainable) {
  Values result;
  for (const Value& state : states) {
    if (state.node().as<StateAttributes>().trainable == trainable) result.push_back(state);
  }
  return result;
}

// Returns what `path` has beyond the end of the scope `outer`, which may be its begin.
std::string_view beyond(std::string_view outer, std::string_view path) {
  for (size_t end = path.size(); end > 0;) {
    const std::string_view begin = path.substr(0, end);
    const bool whole = outer.size() == begin.size() ||
                       (outer.size() > begin.size() && outer[outer.size() - end - 1] == '/');
    if (whole && outer.ends_with(begin)) return path.substr(std::min(path.size(), end + 1));
    const size_t slash = begin.rfind('/');
    end = slash == std::string_view::npos ? 0 : slash;
  }
  return path;
}

}  // namespace

Scope::Scope(Graph& graph, std::string path, char separator, CallSite site)
    : graph_(&root_of(graph)),
      path_(std::move(path)),
      separator_(separator),
      site_(site),
      members_(std::make_shared<Members>()) {
  require_label_text(path_, "scope", "path", site_);
}

std::string Scope::join(std::string_view name) const {
  if (name.empty()) {
    throw Error({.op = "scope",
                 .argument = "name",
                 .expected = "a name for what is in " + (path_.empty() ? "the graph" : path_),
                 .got = "an empty one",
                 .site = site_});
  }
  require_label_text(name, "scope", "name", site_);
  return path_.empty() ? std::string(name) : path_ + separator_ + std::string(name);
}

Scope Scope::operator/(std::string_view name) const {
  Scope inner = *this;
  inner.path_ = join(name);
  inner.members_ = std::make_shared<Members>();
  inner.members_->parent = members_;
  return inner;
}

Scope Scope::operator/(int64_t number) const { return *this / std::to_string(number); }

Value Scope::state(std::string_view name, const Initializer& init, StateOptions options) const {
  const std::string full = join(name);
  if (const Value taken = graph_->find_state(full); taken.valid()) {
    throw Error({.op = "state",
                 .argument = "name",
                 .expected = "a name that no other state has",
                 .got = "'" + full + "', the name of one" + made_at(taken),
                 .fix =
                     "give the second layer a path of its own, or pass the first one on to share "
                     "its states",
                 .site = site_});
  }
  const Value made = graph_->state(full, init, options, site_);
  members_->add(made);
  return made;
}

Value Scope::parameter(std::string_view name, const Initializer& init) const {
  return state(name, init, {.trainable = true});
}

Value Scope::buffer(std::string_view name, const Initializer& init) const {
  return state(name, init, {.trainable = false});
}

Values Module::parameters() const { return chosen(scope_.members_->states, true); }
Values Module::buffers() const { return chosen(scope_.members_->states, false); }

void Module::share(const Module& module) {
  if (&module.graph() != &graph()) {
    throw Error({.op = "share",
                 .argument = "module",
                 .expected = "a module of the same graph",
                 .got = "'" + module.path() + "' of another one",
                 .site = scope_.site()});
  }
  for (const Value& state : module.scope_.members_->states) scope_.members_->add(state);
}

LabelScope Module::open_scope() const {
  std::string path = scope_.path();
  std::replace(path.begin(), path.end(), scope_.separator_, '/');
  const NodeLabelPtr& outer = graph().label();
  const std::string_view open = outer == nullptr ? std::string_view() : outer->scope;
  return LabelScope(graph(), with_inner_scope(outer, beyond(open, path)));
}

void attach_running_mean(Value output, Value state, Value observed, double decay, CallSite site) {
  if (!(decay >= 0 && decay <= 1)) {
    throw Error({.op = "running mean",
                 .argument = "decay",
                 .expected = "a number in [0, 1]",
                 .got = printable(decay),
                 .site = site,
                 .kind = ErrorKind::kInvalidArgument});
  }
  if (output.valid() && output.graph().parent() != nullptr) {
    throw Error({.op = "running mean",
                 .argument = "output",
                 .expected = "a value of the root graph, where states are",
                 .got = described(output) + " inside a body of control flow" + made_at(output),
                 .fix = "call what observes outside of the body",
                 .site = site});
  }
  if (observed.type() != state.type()) {
    throw Error({.op = "running mean",
                 .argument = "observed",
                 .expected = to_string(state.type()) + ", the type of " + described(state),
                 .got = to_string(observed.type()),
                 .site = site});
  }
  // What changes a state computes in its dtype under every precision mode.
  const KeepDtypeScope exact(state.graph(), site);
  const Value next = add(mul(state, decay, site), mul(observed, 1 - decay, site), site);
  state.graph().attach_update(output, state, next, observed, site);
}

}  // namespace keel
