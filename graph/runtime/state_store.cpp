#include "keel/graph/runtime/state_store.h"

#include <utility>
#include <vector>

#include "keel/core/base/random.h"
#include "keel/core/base/sha256.h"
#include "keel/core/tensor/canonical_nan.h"

namespace keel {
namespace {

// The value stays where it is; what lies behind it counts for nothing.
void make_plain(StateStore::Home& home) {
  home.layout.clear();
  home.bytes = home.type.shape.num_bytes(home.type.dtype);
}

}  // namespace

StateStore::StateStore(Device device, Stream& stream, uint64_t seed)
    : device_(device),
      stream_(&stream),
      transfer_(device.backend().make_stream(device.index(), StreamKind::kTransfer)),
      seed_(seed) {
  add(kStepState, Tensor::scalar<int64_t>(0));
  add(kSeedState, Tensor::scalar<int64_t>(static_cast<int64_t>(seed)));
}

void StateStore::add_states(const Graph& graph) {
  const Values& states = graph.states();
  for (; graph_states_ < states.size(); ++graph_states_) {
    const Node& node = states[graph_states_].node();
    const std::string& name = name_of(node);
    if (homes_.contains(name)) continue;
    if (name == kUpdatesState) {  // until now none was skipped
      add(name, Tensor::scalar<int64_t>(step()));
      continue;
    }
    try {
      add(name, initial_value(node.as<StateAttributes>().initializer(), fold_key(seed_, name)));
    } catch (const Error& error) {
      throw error.with_context("state '" + name + "'").with_site(node.site());
    }
  }
}

StateStore::Home& StateStore::add(const std::string& name, const Tensor& value) {
  Home home;
  home.name = name;
  home.type = value.type();
  home.bytes = value.num_bytes();
  home.current = allocate(home, "");
  upload(home, value.raw(), *transfer_);
  return homes_.emplace(name, std::move(home)).first->second;
}

StateStore::Home& StateStore::home(const std::string& name) {
  const auto it = homes_.find(name);
  if (it == homes_.end()) {
    throw Error({.op = "session", .argument = name, .message = "there is no such state"});
  }
  return it->second;
}

std::shared_ptr<Buffer> StateStore::allocate(const Home& home, const char* what) const {
  return device_.backend().allocate(device_.index(), home.bytes, "state " + home.name + what);
}

void StateStore::upload(Home& home, const void* plain, Stream& stream) const {
  std::vector<unsigned char> arranged;
  const void* bytes = plain;
  if (!home.layout.empty()) {
    arranged.resize(home.bytes);
    device_.backend().convert_layout(home.type, "", plain, home.layout, arranged.data());
    bytes = arranged.data();
  }
  if (home.bytes > 0) stream.copy_to_device(*home.current, 0, bytes, home.bytes);
  stream.synchronize();
}

void StateStore::require_valid(const Home& home) const {
  if (home.valid) return;
  throw Error({.op = "session",
               .argument = "state '" + home.name + "'",
               .message = "its value was lost when a step that updates it failed half-way",
               .fix = "restore it with write() or load()"});
}

Tensor StateStore::read(const Home& home) const {
  require_valid(home);
  Tensor plain(home.type.dtype, home.type.shape);
  if (plain.num_bytes() > 0)
    stream_->copy_to_host(plain.raw(), *home.current, 0, plain.num_bytes());
  stream_->synchronize();
  canonicalise_nans(plain);
  return plain;
}

void StateStore::write(Home& home, const Tensor& value) {
  if (value.empty() || value.type() != home.type) {
    throw Error({.op = "write",
                 .argument = "state '" + home.name + "'",
                 .expected = to_string(home.type),
                 .got = value.empty() ? "an empty Tensor" : to_string(value.type())});
  }
  upload(home, value.raw(), *stream_);
  home.valid = true;
  if (home.name == kStepState) step_.reset();
}

void StateStore::write_by_hand(Home& home, const Tensor& value) {
  const bool counts = home.name == kStepState || home.name == kUpdatesState;
  const bool fits = !value.empty() && value.type() == home.type;
  if (counts && fits) {
    const auto count = value.item<int64_t>();
    const bool bounded = home.name == kUpdatesState && this->home(kStepState).valid;
    if (count < 0 || (bounded && count > step())) {
      throw Error({.op = "write",
                   .argument = "state '" + home.name + "'",
                   .expected = bounded ? "0 to the " + std::to_string(step()) + " of " + kStepState
                                       : std::string("at least 0"),
                   .got = std::to_string(count),
                   .fix = bounded ? "write keel/step first" : ""});
    }
  }
  write(home, value);
  const auto updates = homes_.find(kUpdatesState);
  if (home.name == kStepState && updates != homes_.end()) write(updates->second, value);
}

void StateStore::prepare(Home& home, const StateInfo& wanted) {
  require_valid(home);
  if (wanted.layout.empty()) {
    if (wanted.updated) make_plain(home);
  } else if (home.layout != wanted.layout) {
    arrange(home, wanted);
  }
  if (!wanted.second_home || (home.other != nullptr && home.other->size() >= wanted.bytes)) return;
  home.other = allocate(home, " (second home)");
}

void StateStore::arrange(Home& home, const StateInfo& wanted) {
  const Tensor plain = read(home);
  make_plain(home);
  Home arranged = home;
  arranged.layout = wanted.layout;
  arranged.bytes = wanted.bytes;
  if (home.current->size() < wanted.bytes) arranged.current = allocate(arranged, "");
  upload(arranged, plain.raw(), *stream_);
  home = std::move(arranged);
}

int64_t StateStore::step() {
  if (!step_) step_ = read(home(kStepState)).item<int64_t>();
  return *step_;
}

int64_t StateStore::updates_applied() {
  const auto it = homes_.find(kUpdatesState);
  return it == homes_.end() ? step() : read(it->second).item<int64_t>();
}

void StateStore::count_updates(int64_t more) {
  const auto it = homes_.find(kUpdatesState);
  if (it == homes_.end() || !it->second.valid || more == 0) return;
  write(it->second, Tensor::scalar<int64_t>(updates_applied() + more));
}

void StateStore::advance_step(std::optional<int64_t> steps) {
  if (step_ && steps)
    *step_ += *steps;
  else
    step_.reset();
}

bool StateStore::counts_nothing(const Home& home) {
  return home.name == kUpdatesState && home.valid && updates_applied() == step();
}

std::string StateStore::sha256() {
  Sha256 hash;
  for (const auto& [name, home] : homes_) {
    if (counts_nothing(home)) continue;
    const Tensor value = read(home);
    hash.update(name + "\n" + to_string(home.type) + "\n");
    hash.update(value.raw(), value.num_bytes());
  }
  return hash.finish();
}

}  // namespace keel
