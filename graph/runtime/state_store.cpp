#include "keel/graph/runtime/state_store.h"

#include <utility>
#include <vector>

#include "keel/core/base/random.h"
#include "keel/core/base/sha256.h"
#include "keel/core/tensor/canonical_nan.h"
#include "keel/graph/ir/skipped_steps.h"

namespace keel {
namespace {

// The value stays where it is; what lies behind it counts for nothing.
void make_plain(StateStore::State& state) {
  state.layout.clear();
  state.bytes = state.type.shape.num_bytes(state.type.dtype);
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
    if (states_.contains(name)) continue;
    // Until now no update was skipped, and what is new took part in none.
    if (name == kUpdatesState || counts_skipped_steps(name)) {
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

StateStore::State& StateStore::add(const std::string& name, const Tensor& value) {
  State state;
  state.name = name;
  state.type = value.type();
  state.bytes = value.num_bytes();
  state.current = allocate(state, "");
  upload(state, value.raw(), *transfer_);
  return states_.emplace(name, std::move(state)).first->second;
}

StateStore::State& StateStore::state(const std::string& name) {
  const auto it = states_.find(name);
  if (it == states_.end()) {
    throw Error({.op = "session", .argument = name, .message = "there is no such state"});
  }
  return it->second;
}

std::shared_ptr<Buffer> StateStore::allocate(const State& state, const char* what) const {
  return device_.backend().allocate(device_.index(), state.bytes, "state " + state.name + what);
}

void StateStore::upload(State& state, const void* plain, Stream& stream) const {
  std::vector<unsigned char> arranged;
  const void* bytes = plain;
  if (!state.layout.empty()) {
    arranged.resize(state.bytes);
    device_.backend().convert_layout(state.type, "", plain, state.layout, arranged.data());
    bytes = arranged.data();
  }
  if (state.bytes > 0) stream.copy_to_device(*state.current, 0, bytes, state.bytes);
  stream.synchronize();
}

void StateStore::require_valid(const State& state) const {
  if (state.valid) return;
  throw Error({.op = "session",
               .argument = "state '" + state.name + "'",
               .message = "its value was lost when a step that updates it failed half-way",
               .fix = "restore it with write() or load()"});
}

Tensor StateStore::read(const State& state) const {
  require_valid(state);
  Tensor plain(state.type.dtype, state.type.shape);
  if (plain.num_bytes() > 0)
    stream_->copy_to_host(plain.raw(), *state.current, 0, plain.num_bytes());
  stream_->synchronize();
  canonicalise_nans(plain);
  return plain;
}

void StateStore::write(State& state, const Tensor& value) {
  if (value.empty() || value.type() != state.type) {
    throw Error({.op = "write",
                 .argument = "state '" + state.name + "'",
                 .expected = to_string(state.type),
                 .got = value.empty() ? "an empty Tensor" : to_string(value.type())});
  }
  upload(state, value.raw(), *stream_);
  state.valid = true;
  if (state.name == kStepState) step_.reset();
}

void StateStore::write_by_hand(State& state, const Tensor& value) {
  const bool counts_some = state.name == kUpdatesState || counts_skipped_steps(state.name);
  const bool counts = state.name == kStepState || counts_some;
  const bool fits = !value.empty() && value.type() == state.type;
  if (counts && fits) {
    const auto count = value.item<int64_t>();
    const bool bounded = counts_some && this->state(kStepState).valid;
    if (count < 0 || (bounded && count > step())) {
      throw Error({.op = "write",
                   .argument = "state '" + state.name + "'",
                   .expected = bounded ? "0 to the " + std::to_string(step()) + " of " + kStepState
                                       : std::string("at least 0"),
                   .got = std::to_string(count),
                   .fix = bounded ? "write keel/step first" : ""});
    }
  }
  write(state, value);
  if (state.name == kStepState) count_from(value.item<int64_t>());
}

void StateStore::count_from(int64_t updates) {
  for (auto& [name, state] : states_) {
    if (name == kUpdatesState) write(state, Tensor::scalar(updates));
    if (counts_skipped_steps(name)) write(state, Tensor::scalar(step() - updates));
  }
}

void StateStore::prepare(State& state, const StateInfo& wanted) {
  require_valid(state);
  if (wanted.layout.empty()) {
    if (wanted.updated) make_plain(state);
  } else if (state.layout != wanted.layout) {
    arrange(state, wanted);
  }
  if (!wanted.second_buffer || (state.other != nullptr && state.other->size() >= wanted.bytes))
    return;
  state.other = allocate(state, " (second buffer)");
}

void StateStore::arrange(State& state, const StateInfo& wanted) {
  const Tensor plain = read(state);
  make_plain(state);
  State arranged = state;
  arranged.layout = wanted.layout;
  arranged.bytes = wanted.bytes;
  if (state.current->size() < wanted.bytes) arranged.current = allocate(arranged, "");
  upload(arranged, plain.raw(), *stream_);
  state = std::move(arranged);
}

int64_t StateStore::step() {
  if (!step_) step_ = read(state(kStepState)).item<int64_t>();
  return *step_;
}

int64_t StateStore::updates_applied() {
  const auto it = states_.find(kUpdatesState);
  return it == states_.end() ? step() : read(it->second).item<int64_t>();
}

void StateStore::count_updates(int64_t more) {
  const auto it = states_.find(kUpdatesState);
  if (it == states_.end() || !it->second.valid || more == 0) return;
  write(it->second, Tensor::scalar<int64_t>(updates_applied() + more));
}

void StateStore::count_skipped(State& skipped, int64_t more) {
  if (!skipped.valid || more == 0) return;
  write(skipped, Tensor::scalar(read(skipped).item<int64_t>() + more));
}

void StateStore::advance_step(std::optional<int64_t> steps) {
  if (step_ && steps)
    *step_ += *steps;
  else
    step_.reset();
}

bool StateStore::counts_nothing(const State& state) {
  if (!state.valid) return false;
  // A file that counts updates must say of all counts what they are: loading takes those that are
  // missing for the steps without one.
  if (counts_skipped_steps(state.name) && read(state).item<int64_t>() != 0) return false;
  return (counts_skipped_steps(state.name) || state.name == kUpdatesState) &&
         updates_applied() == step();
}

std::string StateStore::sha256() {
  Sha256 hash;
  for (const auto& [name, state] : states_) {
    if (counts_nothing(state)) continue;
    const Tensor value = read(state);
    hash.update(name + "\n" + to_string(state.type) + "\n");
    hash.update(value.raw(), value.num_bytes());
  }
  return hash.finish();
}

}  // namespace keel
