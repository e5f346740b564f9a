// The table of compiler passes: what it lists, what switching passes off is refused for and leads
// to, and that no bit depends on a pass of which the table does not say so.
#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/drawn_tensor.h"
#include "support/error_of.h"
#include "support/logged_warnings.h"

TEST_SUITE_BEGIN("unit");

namespace keel {
namespace {

using keel_test::contains;
using keel_test::drawn;
using keel_test::error_of;
using keel_test::LoggedWarnings;
using Names = std::vector<std::string>;

// Training steps that have something for each pass: equal nodes, cheap values that several read,
// variables of loops that nobody reads, dead nodes.
struct Step {
  Graph graph;
  Value x, y, loss;
  Update update;

  explicit Step(const std::string& model) {
    x = graph.input("x", f32, {6, 4, 8});
    y = graph.input("y", i32, {6});
    const Scope scope(graph);
    Value features;
    if (model == "lstm") {
      features = Lstm(scope / "lstm", 8, 12)(x).last.hidden;
    } else {
      Sequential layers(scope / "net");
      layers.add<Dense>(32, 40);
      if (model == "norm and dropout") layers.add<BatchNorm>(40);
      layers.add(gelu);
      if (model == "norm and dropout") layers.add<Dropout>(0.25);
      layers.add<Dense>(40, 12);
      if (model == "layer norm") layers.add<LayerNorm>(12);
      features = layers(reshape(x, {6, 32}), Mode::kTraining);
    }
    const Value centred = features - mean(features);
    exp(centred);  // nobody reads it
    const Value twice = tanh(centred * 0.5f) + tanh(centred * 0.5f) * 1.0f;
    loss = mean(softmax_cross_entropy(twice, y)) + mean(centred * centred) * 0.1f;
    update = adam(0.01).minimize(loss);
  }
};

struct ThreeSteps {
  std::vector<double> losses;
  std::string states;
  bool operator==(const ThreeSteps&) const = default;
};

ThreeSteps trained(const std::string& model, const std::string& where, const Names& disabled) {
  Step step(model);
  Session session(step.graph, device(where), {.seed = 5, .disabled_passes = disabled});
  ThreeSteps outcome;
  const Tensor labels = Tensor::of<int32_t>({6}, {0, 1, 2, 3, 4, 5});
  for (uint64_t i = 0; i < 3; ++i) {
    const Tensor loss =
        session.run(step.update, step.loss, {{step.x, drawn({6, 4, 8}, i)}, {step.y, labels}});
    outcome.losses.push_back(loss.item<float>());
  }
  outcome.states = session.state_sha256();
  return outcome;
}

Names that_may_be_disabled() {
  Names names;
  for (const Pass& pass : passes())
    if (pass.may_be_disabled()) names.emplace_back(pass.name);
  return names;
}

Loop counting_loop(Session& session, Graph& graph, Names disabled = {}) {
  const Value w = graph.find_state("w");
  const Value next = w * 2.0f + 1.0f;
  return session.sink(
      {.update = {{{w, next}}}, .fetches = {next}, .disabled_passes = std::move(disabled)});
}

}  // namespace

TEST_CASE("the table of passes has each pass that runs in its order") {
  std::vector<std::string> listed;
  for (const Pass& pass : passes()) {
    CAPTURE(pass.name);
    listed.emplace_back(pass.name);
    CHECK(std::string(pass.summary).size() > 10);
    CHECK((pass.may_be_disabled() || *pass.changes_bits == '\0'));
    CHECK((!pass.may_be_disabled() || pass.run != nullptr));
  }
  CHECK(std::set<std::string>(listed.begin(), listed.end()).size() == listed.size());
  CHECK(that_may_be_disabled() == Names{"fold", "cancel_transposes", "drop_unread_variables", "cse",
                                        "recompute_cheap", "fuse"});

  Graph graph;
  graph.state("w", zeros({2}));
  Session session(graph, device("npu"));
  const Loop loop = counting_loop(session, graph);
  size_t at = 0;
  for (const PassReport& pass : loop.compile_report().passes) {
    if (pass.name == "backend") continue;
    CAPTURE(pass.name);
    const auto found =
        std::find(listed.begin() + static_cast<std::ptrdiff_t>(at), listed.end(), pass.name);
    REQUIRE(found != listed.end());
    at = static_cast<size_t>(found - listed.begin()) + 1;
  }
}

TEST_CASE("passes are switched off by name and wrong names are refused") {
  const auto refused = [](const Names& names) { return error_of([&] { select_passes(names); }); };
  const std::string unknown = refused({"fold", "fusee"});
  CHECK(contains(unknown, "'fusee'"));
  CHECK(contains(unknown, "did you mean 'fuse'?"));
  CHECK(contains(unknown,
                 "fold, cancel_transposes, drop_unread_variables, cse, recompute_cheap, fuse"));
  CHECK(contains(refused({"decompose"}), "cannot be switched off: the backend needs it"));
  for (const Pass& pass : passes()) {
    CAPTURE(pass.name);
    CHECK(refused({pass.name}).empty() == pass.may_be_disabled());
    if (!pass.may_be_disabled()) CHECK(contains(refused({pass.name}), pass.required));
  }
  CHECK(contains(refused({""}), "a pass that may be switched off"));

  Graph graph;
  graph.state("w", zeros({2}));
  const std::string error =
      error_of([&] { Session(graph, device("cpu"), {.disabled_passes = {"precision"}}); });
  CHECK(contains(error, "cannot be switched off"));
  CHECK(contains(error, "test_pass_table.cpp"));
  Session session(graph, device("cpu"));
  CHECK(contains(error_of([&] { counting_loop(session, graph, {"nothing"}); }), "'nothing'"));
}

TEST_CASE("conflicts between passes switch off what is of no use and tell of it") {
  // By hand: which passes are off, and what is told.
  struct Case {
    Names asked, off;
    size_t notices;
  };
  const std::vector<Case> cases = {
      {{}, {}, 0},
      {{"cse", "cse"}, {"cse"}, 0},
      {{"fuse"}, {"recompute_cheap", "fuse"}, 1},
      {{"fuse", "recompute_cheap"}, {"recompute_cheap", "fuse"}, 0},
      {{"recompute_cheap"}, {"recompute_cheap"}, 0},
      {{"fold", "cse"}, {"fold", "cse"}, 0},
      {{"fold", "cse", "drop_unread_variables"}, {"fold", "drop_unread_variables", "cse"}, 0},
      {{"fold", "fuse", "cse", "drop_unread_variables"},
       {"fold", "drop_unread_variables", "cse", "recompute_cheap", "fuse"},
       1}};
  for (const Case& c : cases) {
    const PassSelection selection = select_passes(c.asked);
    CAPTURE(c.asked.size());
    CHECK(selection.disabled == c.off);
    CHECK(selection.notices.size() == c.notices);
  }
  for (const PassConflict& conflict : pass_conflicts()) {
    CHECK(error_of([&] { select_passes(conflict.off); }).empty());
    CHECK(select_passes(conflict.off).notices.size() == 1);
  }

  const LoggedWarnings warnings;
  Graph graph;
  graph.state("w", zeros({2}));
  Session session(graph, device("cpu"), {.disabled_passes = {"fuse"}});
  REQUIRE(warnings.lines().size() == 1);
  CHECK(contains(warnings.lines()[0], "without fuse the pass recompute_cheap is off, too"));
  const Loop loop = counting_loop(session, graph);
  const CompileReport& report = loop.compile_report();
  CHECK(report.disabled_passes == Names{"recompute_cheap", "fuse"});
  CHECK(report.notices == warnings.lines());
  for (const PassReport& pass : report.passes) {
    CHECK(pass.name != "fuse");
    CHECK(pass.name != "recompute_cheap");
  }
}

TEST_CASE("the passes that are off are a part of a program's key") {
  Graph graph;
  const Value w = graph.state("w", zeros({2}));
  const Value next = w * 2.0f + 1.0f;
  const Update update{{{w, next}}};
  Session session(graph, device("npu"));
  const auto tasks = [&](Names disabled) {
    return session
        .sink({.update = update, .fetches = {next}, .disabled_passes = std::move(disabled)})
        .program()
        .info()
        .task_count;
  };
  const int64_t fused = tasks({});
  CHECK(session.compiles() == 1);
  CHECK(tasks({"fuse"}) > fused);
  CHECK(session.compiles() == 2);
  tasks({"fuse"});
  tasks({});
  CHECK(session.compiles() == 2);
}

TEST_CASE("no bit depends on a pass but where the table says so") {
  for (const char* where : {"cpu:0", "npu:0"}) {
    for (const char* model : {"dense", "norm and dropout", "layer norm", "lstm"}) {
      const ThreeSteps expected = trained(model, where, {});
      CHECK(expected.losses.size() == 3);
      for (const Pass& pass : passes()) {
        if (!pass.may_be_disabled() || *pass.changes_bits != '\0') continue;
        CAPTURE(where);
        CAPTURE(model);
        CAPTURE(pass.name);
        CHECK(trained(model, where, {pass.name}) == expected);
      }
    }
  }
}

TEST_CASE(
    "without fold a step computes what fold evaluates and the same as with it where ops are "
    "exact") {
  for (const char* where : {"cpu:0", "npu:0"}) {
    CAPTURE(where);
    // These steps have no constants but literals.
    CHECK(trained("dense", where, {"fold"}) == trained("dense", where, {}));
    Graph graph;
    const Value x = graph.input("x", f32, {3});
    const Value exact = (graph.constant(drawn({3}, 1)) * graph.constant(drawn({3}, 2))) + x;
    Session with(graph, device(where)),
        without(graph, device(where), {.disabled_passes = {"fold"}});
    const Tensor fed = drawn({3}, 3);
    CHECK(bit_equal(with.run(exact, {{x, fed}}), without.run(exact, {{x, fed}})));
  }
}

TEST_CASE("what follows of passes that are off for one loop is in the log once") {
  const auto told = [](const Names& session_off, const Names& loop_off) {
    Graph graph;
    graph.state("w", zeros({2}));
    const LoggedWarnings warnings;
    Session session(graph, device("npu"), {.disabled_passes = session_off});
    const Loop loop = counting_loop(session, graph, loop_off);
    return warnings.lines();
  };
  const Names of_loop = told({}, {"fuse"});
  REQUIRE(of_loop.size() == 1);
  CHECK(contains(of_loop[0], "the pass recompute_cheap is off, too"));
  CHECK(told({}, {"cse"}).empty());
  // The session has said so already.
  CHECK(told({"fuse"}, {"cse"}) == of_loop);
}

TEST_CASE("no step computes what no result needs whichever passes are off") {
  Graph graph;
  const Value q = graph.input("q", f64, {3, 2});
  const Value y = attention(q, q, q);  // whose composition makes sums that nobody reads
  Session session(graph, device("cpu"), {.disabled_passes = that_may_be_disabled()});
  const std::string tasks = session.describe({}, {y}, {{q, Tensor(f64, {3, 2})}});
  CAPTURE(tasks);
  CHECK(contains(tasks, "softmax"));
  CHECK_FALSE(contains(tasks, "exp"));
  CHECK_FALSE(contains(tasks, "sum"));
}

}  // namespace keel

TEST_SUITE_END();
