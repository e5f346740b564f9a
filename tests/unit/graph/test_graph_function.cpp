#include <cstring>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/data/feed/feed.h"
#include "keel/data/pipeline/iterator.h"
#include "keel/graph/runtime/graph_function.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/ops.h"

#include "runtime_for_tests.h"

TEST_SUITE_BEGIN("pipeline");

namespace {

using namespace keel;
using namespace keel::testing;

constexpr int64_t kItems = 41;
constexpr int64_t kPixels = 9;

Dataset labelled_images(int64_t bad_label_at = -1) {
  Tensor pixels(u8, {kItems, kPixels});
  Tensor labels(i32, {kItems});
  for (int64_t i = 0; i < kItems; ++i) {
    for (int64_t j = 0; j < kPixels; ++j)
      pixels.set(i * kPixels + j, static_cast<double>((i * 7 + j * 13) % 256));
    labels.set(i, i == bad_label_at ? 99.0 : static_cast<double>(i % 4));
  }
  return Dataset::from_tensors({{"image", pixels}, {"label", labels}});
}

// Per item or per batch: the same arithmetic.
NamedValues normalised(const Values& in) {
  return {{"image", (cast(in[0], f32) - 33.0f) / 78.5f}, {"label", in[1]}};
}

// The same in C++.
void normalise(const ItemView& in, const ItemSlot& out) {
  const auto from = in.data<uint8_t>(0);
  const auto to = out.data<float>(0);
  for (size_t i = 0; i < from.size(); ++i) to[i] = (static_cast<float>(from[i]) - 33.0f) / 78.5f;
  std::memcpy(out.data<int32_t>(1).data(), in.data<int32_t>(1).data(),
              in.data<int32_t>(1).size() * sizeof(int32_t));
}

ElementSpec normalised_spec(const ElementSpec& items) {
  ElementSpec spec = items;
  spec.fields[0].type.dtype = f32;
  return spec;
}

void check_same(const Dataset& a, const Dataset& b) {
  DatasetIterator left(a);
  DatasetIterator right(b);
  CHECK(a.spec() == b.spec());
  int64_t count = 0;
  while (const auto element = left.next()) {
    const auto other = right.next();
    REQUIRE(other);
    for (size_t f = 0; f < element->size(); ++f) {
      CHECK(std::memcmp((*element)[f].raw(), (*other)[f].raw(), (*element)[f].num_bytes()) == 0);
    }
    ++count;
  }
  CHECK_FALSE(right.next());
  CHECK(count > 0);
}

}  // namespace

TEST_CASE("graph function: in map it gives the bits of the C++ function whatever the threads") {
  for (const char* backend : {"ref", "cpu"}) {
    CAPTURE(backend);
    const auto function = graph_function(labelled_images().spec(), device(backend), normalised);
    CHECK(function->output() == normalised_spec(labelled_images().spec()));
    for (const int threads : {1, 2, 4}) {
      CAPTURE(threads);
      const MapOptions options{.name = "normalise", .threads = threads};
      check_same(labelled_images().shuffle(3).map(function, options).batch(7).repeat(2),
                 labelled_images()
                     .shuffle(3)
                     .map(normalised_spec(labelled_images().spec()), normalise, options)
                     .batch(7)
                     .repeat(2));
    }
    // On batches.
    const Dataset batches = labelled_images().shuffle(3).batch(7);
    check_same(batches.map(graph_function(batches.spec(), device(backend), normalised)),
               batches.map(normalised_spec(batches.spec()), normalise));
  }
}

TEST_CASE("graph function: one of a graph that is there reads only what it needs") {
  Graph graph;
  const Value label = graph.input("label", i32, {});
  const Value image = graph.input("image", u8, {kPixels});
  graph.state("w", zeros({3}));  // nothing that the results need
  const Value bright = max(cast(image, f32));
  const auto function = graph_function(graph, {image, label}, {{"bright", bright}}, device("cpu"));
  CHECK(function->input() == labelled_images().spec());
  DatasetIterator iterator(labelled_images().map(function).batch(5));
  const auto element = iterator.next();
  REQUIRE(element);
  REQUIRE(element->size() == 1);
  for (int64_t i = 0; i < 5; ++i) {
    int64_t largest = 0;
    for (int64_t j = 0; j < kPixels; ++j)
      largest = std::max<int64_t>(largest, (i * 7 + j * 13) % 256);
    CHECK((*element)[0].data<float>()[static_cast<size_t>(i)] == static_cast<float>(largest));
  }
  CHECK(contains(error_of([&] {
                   graph_function(graph, {label}, {{"bright", bright}}, device("cpu"));
                 }),
                 "input 'image' among them"));
}

TEST_CASE("graph function: states and random numbers are refused when it is built") {
  Graph model;
  const Value scale = model.state("scale", zeros({kPixels}));
  const int line = __LINE__ - 1;
  const ElementSpec items = labelled_images().spec();
  const auto refusal = [&](const std::function<NamedValues(const Values&)>& build) {
    return error_of([&] { graph_function(items, device("cpu"), build); });
  };
  const auto names_it = [](const std::string& text) {
    CAPTURE(text);
    CHECK(contains(text, "DATASET_CAPTURES_VARIABLE"));
    CHECK(contains(text, "state 'scale'"));
    CHECK(contains(text, "graph.constant(session.read(state))"));
  };
  // On either side of an operator, and as a result.
  names_it(refusal([&](const Values& in) { return NamedValues{{"x", cast(in[0], f32) * scale}}; }));
  names_it(refusal([&](const Values& in) { return NamedValues{{"x", scale * cast(in[0], f32)}}; }));
  names_it(refusal([&](const Values&) { return NamedValues{{"x", scale}}; }));
  // In a graph that is there, with the state's line.
  const Value image = model.input("image", u8, {kPixels});
  const std::string text = error_of([&] {
    graph_function(model, {image}, {{"x", cast(image, f32) * (scale + 1.0f)}}, device("cpu"));
  });
  names_it(text);
  CHECK(contains(text, "test_graph_function.cpp:" + std::to_string(line)));
  // The fix works.
  Session session(model, device("ref"));
  const Tensor value = session.read(scale);
  CHECK(refusal([&](const Values& in) {
          return NamedValues{{"x", cast(in[0], f32) * in[0].graph().constant(value)}};
        }) == "");
  // Random numbers come from keel/seed.
  const std::string random = refusal([](const Values& in) {
    return NamedValues{{"x", dropout(cast(in[0], f32), 0.5)}};
  });
  CHECK(contains(random, "DATASET_CAPTURES_VARIABLE"));
  CHECK(contains(random, "behind the queue"));
}

TEST_CASE("graph function: what goes wrong in it names the item and the line of the map") {
  const auto function =
      graph_function(labelled_images().spec(), device("cpu"), [](const Values& in) {
        const Value table = in[0].graph().constant(Tensor::of<float>({4}, {1, 2, 3, 4}));
        return NamedValues{{"weight", gather(table, in[1])}};
      });
  const Dataset mapped = labelled_images(17).map(function, {.name = "weigh", .threads = 2});
  const int line = __LINE__ - 1;
  for (const Dataset& dataset : {mapped, mapped.batch(10)}) {
    DatasetIterator iterator(dataset);
    const std::string text = error_of([&] {
      while (iterator.next()) {
      }
    });
    CAPTURE(text);
    CHECK(contains(text, "map 'weigh': item 17"));
    CHECK(contains(text, "indices from 0 to 3, got 99"));
    CHECK(contains(text, "test_graph_function.cpp:" + std::to_string(line)));
  }
  // The function works on after it.
  DatasetIterator rest(labelled_images().map(function).skip(18));
  CHECK(rest.next());
}

TEST_CASE("graph function: wrong descriptions are refused") {
  const ElementSpec open{{{"x", {f32, {-1}}}}};
  const auto same = [](const Values& in) { return NamedValues{{"x", in[0]}}; };
  CHECK(contains(error_of([&] { graph_function(open, device("cpu"), same); }), "known"));
  const ElementSpec known{{{"x", {f32, {2}}}}};
  CHECK(contains(error_of([&] {
                   graph_function(known, device("cpu"),
                                  [](const Values&) { return NamedValues{}; });
                 }),
                 "at least one result"));
  CHECK(contains(error_of([&] {
                   graph_function(known, device("cpu"), [](const Values& in) {
                     return NamedValues{{"x", in[0]}, {"x", in[0]}};
                   });
                 }),
                 "twice"));
  // Items of other types than the function's.
  CHECK(
      contains(error_of([&] { labelled_images().map(graph_function(known, device("cpu"), same)); }),
               "one that takes"));
}

TEST_SUITE_END();
