// Module: a layer or a model as a value. It makes its states when it is constructed, in a Scope,
// which says in which graph and under which path; it is called as often as wanted, each time with
// the same states, and a copy of it is the same layer: it shares them. What differs between
// training and evaluation is an argument of the call (Mode).
//
//   struct Block : keel::Module {
//     keel::Dense query, key;
//     Block(const keel::Scope& scope, int64_t width)
//         : Module(scope), query(scope / "query", width, width), key(scope / "key", width, width)
//         {}
//     keel::Value operator()(keel::Value x) const {
//       const keel::LabelScope here = open_scope();
//       return query(x) * key(x);
//     }
//   };
//   const Block block(keel::Scope(g) / "encoder" / 0, 64);  // "encoder.0.query.weight" ...
//   auto train = keel::adam(1e-3).minimize(loss);
//   block.parameters();                                     // for groups, norms, reports
//
// Paths are those of the safetensors files that other frameworks write, so that weights are found
// by name. Nodes made by a call lie in the scope "encoder/0/query" (ir/scopes.h). Plain values; the
// graph must outlive them; building: one thread per graph.
#ifndef KEEL_OPS_NN_MODULE_H
#define KEEL_OPS_NN_MODULE_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "keel/core/base/export.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/initializer.h"
#include "keel/graph/ir/scopes.h"

namespace keel {

// Says what a call of a layer is for.
enum class Mode : uint8_t {
  kTraining,    // dropout drops, statistics come from the batch and move the running ones
  kEvaluation,  // nothing is random, and the running statistics are used
};

// Says where a module's states go: a graph and a path in it. `/` goes down, by name or by number.
// Errors about states name the line where the scope was begun.
class KEEL_API Scope {
 public:
  // Begins at the root of the graph (a body's states are made there, too), or from `path` on. Names
  // are joined by `separator`.
  explicit Scope(Graph& graph, std::string path = "", char separator = '.',
                 CallSite site = CallSite::here());

  // "encoder" / "attention" is "encoder.attention". Throws Error for an empty name.
  Scope operator/(std::string_view name) const;
  Scope operator/(int64_t number) const;

  // Makes a state "<path>.<name>" of this scope and of those above it: a parameter, which
  // optimizers train, or what only the layer itself changes (running statistics). Throws Error
  // where the name is taken: two layers need two paths, and one that is to be shared is passed on
  // as a value.
  Value parameter(std::string_view name, const Initializer& init) const;
  Value buffer(std::string_view name, const Initializer& init) const;

  Graph& graph() const noexcept { return *graph_; }
  const std::string& path() const noexcept { return path_; }
  CallSite site() const noexcept { return site_; }

 private:
  friend class Module;
  struct Members;
  std::string join(std::string_view name) const;
  Value state(std::string_view name, const Initializer& init, StateOptions options) const;

  Graph* graph_;
  std::string path_;
  char separator_;
  CallSite site_;
  std::shared_ptr<Members> members_;
};

// The base of layers and models: what their scope has made.
class KEEL_API Module {
 public:
  // Returns all parameters, those of the modules inside included, each once, in the order they were
  // made.
  Values parameters() const;
  // Likewise what is not trained.
  Values buffers() const;
  Graph& graph() const noexcept { return scope_.graph(); }
  const std::string& path() const noexcept { return scope_.path(); }

 protected:
  explicit Module(const Scope& scope) : scope_(scope) {}
  // Counts the states of a module that was made elsewhere, and is used here as well, among those of
  // this one and of those around it. They keep their names. Throws Error for one of another graph.
  void share(const Module& module);
  const Scope& scope() const noexcept { return scope_; }
  // Begins a call: what it adds to the graph lies in the module's scope. Inside the call
  // of the module around it only what that one lacks is added: "train/encoder/0" becomes
  // "train/encoder/0/query" for the module "encoder.0.query".
  LabelScope open_scope() const;

 private:
  Scope scope_;
};

// Attaches to `output`: the running value `state` moves on towards `observed`, to
// decay * state + (1 - decay) * observed. Of several under one loss (a layer that was called twice)
// each goes on from the one before (attached_updates of updates.h). Throws Error for another
// type than the state's and a decay outside [0, 1].
KEEL_API void attach_running_mean(Value output, Value state, Value observed, double decay,
                                  CallSite site = CallSite::here());

}  // namespace keel

#endif  // KEEL_OPS_NN_MODULE_H
