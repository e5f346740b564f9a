// all_reduce: sums over ranks inside of a step, on every backend. The ranks are threads. Expected
// sums are worked out by hand.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/core/group/group_agreement.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/all_reduce.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/reduce.h"

#include "ranks_for_tests.h"
#include "runtime_for_tests.h"
#include "support/built_in_backends.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;
using keel_test::kBuiltInBackends;

std::vector<float> floats_of(const Tensor& t) {
  const auto data = t.data<float>();
  return {data.begin(), data.end()};
}

TEST_CASE("all_reduce: each rank gets the sum of all ranks") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    for (const int size : {1, 2, 3, 4}) {
      std::vector<std::vector<float>> first(static_cast<size_t>(size)), second = first;
      const auto errors = run_ranks(size, [&](const std::shared_ptr<Group>& group) {
        const auto rank = static_cast<size_t>(group->rank());
        Graph g;
        const Value x = g.input("x", f32, {3});
        const Value y = g.input("y", f32, {2, 2});
        const Values sums = all_reduce({x * 2.0f, -y}, group, {.scale = 0.5});
        Session session(g, device(name));
        const auto own = static_cast<float>(rank + 1);
        const std::vector<Tensor> out =
            session.run(sums, {{x, Tensor::of<float>({3}, {own, 10 * own, 100 * own})},
                               {y, Tensor::of<float>({2, 2}, {own, 0, 0, 2 * own})}});
        first[rank] = floats_of(out[0]);
        second[rank] = floats_of(out[1]);
      });
      CHECK(errors == no_errors(size));
      const auto total = static_cast<float>(size * (size + 1)) / 2;  // of 1 to size
      for (size_t rank = 0; rank < first.size(); ++rank) {
        CHECK(first[rank] == std::vector<float>{total, 10 * total, 100 * total});
        CHECK(second[rank] == std::vector<float>{-total / 2, 0, 0, -total});
      }
    }
  }
}

TEST_CASE("all_reduce: four ranks sum as a balanced tree") {
  // (1e8 + 1) + (-1e8 + 1) is 0 where each 1 is lost beside 1e8; one after the other it is 1.
  const float own[] = {1e8f, 1, -1e8f, 1};
  const auto errors = run_ranks(4, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value x = g.input("x", f32, {});
    const Values sums = all_reduce({x}, group);
    Session session(g, device("cpu"));
    CHECK(session.run(sums[0], {{x, Tensor::scalar(own[group->rank()])}}).item<float>() == 0);
  });
  CHECK(errors == no_errors(4));
}

TEST_CASE("all_reduce: values are computed in the bucket unless others read them") {
  const auto tasks = [](bool fetched) {
    std::string text;
    const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Graph g;
      const Value x = g.input("x", f32, {4, 8});
      const Value a = matmul(x, g.state("w", ones({8, 3})));
      const Value b = exp(g.state("v", ones({5})));
      Values fetches = all_reduce({a, b}, group, {.bucket = 1, .buckets = 3});
      if (fetched) fetches.push_back(a);
      Session session(g, device("npu"));
      const std::string described = session.describe({}, fetches, {{x, Tensor(f32, {4, 8})}});
      if (group->rank() == 0) text = described;
    });
    CHECK(errors == no_errors(2));
    return text;
  };
  const std::string direct = tasks(false);
  CHECK(contains(direct, "HCCL"));
  // 4 x 3 and 5 floats, each from a multiple of 64 bytes on.
  CHECK(contains(direct, "bucket 2 of 3, 128 bytes over 2 ranks"));
  CHECK_FALSE(contains(direct, "into the bucket"));
  CHECK(contains(tasks(true), "into the bucket"));
}

TEST_CASE("all_reduce: sums of one value of a state and of a value that is read besides") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
      Graph g;
      const Value w = g.state("w", from_tensor(Tensor::of<float>({2}, {3, 4})));
      const Value x = g.input("x", f32, {2});
      const Value y = x + w;
      const Values sums = all_reduce({y, w, y}, group);
      const Value after = sums[0] + y;
      const Value z = x * 3.0f;
      const Value both = all_reduce({z}, group)[0] + z;
      Update update;
      update.assignments.push_back({w, sums[1]});
      Session session(g, device(name));
      const float own = group->rank() == 0 ? 1 : 10;
      const Feeds feeds = {{x, Tensor::of<float>({2}, {own, own})}};
      const auto out = session.run(update, {sums[0], sums[1], sums[2], after, y}, feeds);
      CHECK(floats_of(out[0]) == std::vector<float>{17, 19});
      CHECK(floats_of(out[1]) == std::vector<float>{6, 8});
      CHECK(floats_of(out[2]) == std::vector<float>{17, 19});
      CHECK(floats_of(out[3]) == std::vector<float>{17 + 3 + own, 19 + 4 + own});
      CHECK(floats_of(out[4]) == std::vector<float>{3 + own, 4 + own});
      CHECK(floats_of(session.read(w)) == std::vector<float>{6, 8});
      CHECK(floats_of(session.run(both, feeds)) == std::vector<float>{33 + 3 * own, 33 + 3 * own});
    });
    CHECK(errors == no_errors(2));
  }
}

TEST_CASE("all_reduce: refuses what ranks cannot sum") {
  Graph g;
  const Value x = g.input("x", f16, {3});
  const Value y = g.input("y", f32, {3});
  const auto groups = make_local_groups(2);
  CHECK(contains(error_of([&] { all_reduce({x}, groups[0]); }), "f32, in which ranks sum"));
  CHECK(contains(error_of([&] { all_reduce({}, groups[0]); }), "at least one"));
  CHECK(contains(error_of([&] { all_reduce({Value()}, groups[0]); }), "an empty Value"));
  CHECK(contains(error_of([&] {
                   cond(
                       g.input("on", boolean, {}), {y},
                       [&](const Values& v) { return all_reduce(v, groups[0]); },
                       [](const Values& v) { return v; });
                 }),
                 "every rank has to sum equally often"));
  // A group of one and none sum nothing.
  CHECK(all_reduce({x}, make_local_groups(1)[0])[0] == x);
  CHECK(all_reduce({x}, nullptr)[0] == x);
  CHECK(contains(error_of([&] { keel::gradients(sum(all_reduce({y}, groups[0])[0]), {y}); }),
                 "all_reduce"));
}

TEST_CASE("all_reduce: graphs of all ranks print alike and text has no group") {
  const auto groups = make_local_groups(2);
  std::vector<std::string> texts;
  for (const auto& group : groups) {
    Graph g;
    g.set_outputs(all_reduce({g.input("x", f32, {3})}, group));
    texts.push_back(print_graph(g));
  }
  CHECK(texts[0] == texts[1]);
  CHECK(contains(texts[0], "all_reduce"));
  const auto parsed = parse_graph(texts[0]);
  Session session(*parsed, device("cpu"));
  CHECK(contains(error_of([&] {
                   session.run(parsed->outputs(), {{parsed->inputs()[0], Tensor(f32, {3})}});
                 }),
                 "this graph came from text"));
}

TEST_CASE("all_reduce: a rank whose step fails ends the step of the others with its cause") {
  for (const std::string& name : kBuiltInBackends) {
    CAPTURE(name);
    const auto errors = run_ranks(3, [&](const std::shared_ptr<Group>& group) {
      Graph g;
      const Value table = g.state("table", ones({4, 2}));
      const Value id = g.input("id", i64, {1});
      const Values sums = all_reduce({gather(table, id)}, group, {.bucket = 0, .buckets = 2});
      Update update;
      update.assignments.push_back({table, table + sum(sums[0])});
      const Device on = device(name);
      Session session(g, on);
      // Rank 1 reads beyond the table in the third step.
      const bool is_one = group->rank() == 1;
      auto feeder = std::make_shared<NumberFeeder>(
          on, ElementSpec{{{"id", {i64, {1}}}}},
          [is_one](int64_t i, const std::vector<void*>& fields) {
            *static_cast<int64_t*>(fields[0]) = i == 2 && is_one ? 7 : 1;
            return true;
          });
      feeder->open({});
      Loop loop = session.sink(
          {.update = update, .source = feeder, .agreement = make_group_agreement(group)});
      loop.run(5);
    });
    CHECK(contains(errors[1], "7"));
    for (const size_t other : {size_t{0}, size_t{2}}) {
      CHECK(contains(errors[other], "bucket 1 of 2 on rank " + std::to_string(other)));
      CHECK(contains(errors[other], "rank 1 ended its step"));
      CAPTURE(errors[other]);
      CHECK(contains(errors[other], "step 3"));
    }
  }
}

TEST_CASE("all_reduce: a rank that is stopped ends the step of the others") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value x = g.input("x", f32, {1});
    // A loop in the step is where a stop is obeyed.
    const Value y = while_loop(
        {x}, [](const Values& v) { return less(sum(v[0]), 3.0f); },
        [](const Values& v) { return Values{v[0] + 1.0f}; })[0];
    const Values sums = all_reduce({y}, group);
    Session session(g, device("cpu"));
    const Feeds feeds = {{x, Tensor::of<float>({1}, {0})}};
    CHECK(session.run(sums[0], feeds).at(0) == 6);
    if (group->rank() == 1) session.request_stop();
    session.run(sums[0], feeds);
  });
  CHECK(contains(errors[0], "bucket 1 of 1 on rank 0: rank 1 "));
  CHECK(!errors[1].empty());
}

TEST_CASE("all_reduce: ranks that compile different buckets hear of it") {
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Group>& group) {
    Graph g;
    const Value x = g.input("x", f32, {group->rank() == 0 ? 3 : 40});
    const Values sums = all_reduce({x}, group);
    Session session(g, device("cpu"));
    session.run(sums, {{x, Tensor(f32, x.shape())}});
  });
  for (const std::string& error : errors) {
    CHECK(contains(error, "COLLECTIVE_DIVERGED"));
    CHECK(contains(error, "of 16"));
    CHECK(contains(error, "of 48"));
  }
}

}  // namespace

TEST_SUITE_END();
