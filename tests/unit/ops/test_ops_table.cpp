// table_lookup: values by hand on every backend, in a sunk loop and as text, and where the tables
// of datasets and graphs may be.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/data/pipeline/dataset.h"
#include "keel/data/pipeline/iterator.h"
#include "keel/graph/ir/text.h"
#include "keel/keel.h"
#include "keel/ops/exchange/onnx/export.h"
#include "keel/ops/table.h"

#include "../ops_for_tests.h"
#include "../runtime_for_tests.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using namespace keel::testing;

std::shared_ptr<HashTable> squares(const std::string& name) {
  const std::vector<int64_t> keys = {9, 1, 4}, values = {3, 1, 2};
  auto table = HashTable::make(name);
  table->init(keys, values);
  return table;
}

const Tensor kAsked = Tensor::of<int32_t>({2, 2}, {4, 5, 9, -1});
const std::vector<double> kFound = {2, 7, 3, 7};

struct Lookup {
  explicit Lookup(const std::shared_ptr<HashTable>& table) : found(table_lookup(table, x, 7)) {}
  Graph graph;
  Value x = graph.input("x", i32, {2, 2});
  Value found;
};

}  // namespace

TEST_CASE("table_lookup gives values by hand on every backend") {
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    const auto table = squares("squares");
    Lookup m(table);
    Session session(m.graph, device(name));
    CHECK(m.found.type() == Type{i64, {2, 2}});
    CHECK(elements(session.run(m.found, {{m.x, kAsked}})) == kFound);
  }
}

TEST_CASE("table_lookup of an empty table gives the default") {
  const auto table = HashTable::make("empty");
  table->init(std::span<const int64_t>(), std::span<const int64_t>());
  Lookup m(table);
  CHECK(elements(Session(m.graph, device("npu")).run(m.found, {{m.x, kAsked}})) ==
        std::vector<double>{7, 7, 7, 7});
}

TEST_CASE("table_lookup of a table that is not filled names it and the line") {
  const auto table = HashTable::make("unfilled");
  Graph g;
  const Value x = g.input("x", i64, {3});
  const int line = __LINE__ + 1;
  const std::string error = error_of([&] { table_lookup(table, x); });
  CHECK(contains(error, "table 'unfilled': Table not initialized"));
  CHECK(contains(error, "test_ops_table.cpp:" + std::to_string(line)));
  const auto words = HashTable::make("words");
  const std::vector<int64_t> one = {1};
  words->init({"a"}, one);
  CHECK(contains(error_of([&] { table_lookup(words, x); }), "expected integers, got strings"));
  CHECK(contains(error_of([&] { table_lookup(squares("s"), cast(x, f32)); }),
                 "expected i64 or i32, got f32"));
  CHECK(contains(error_of([&] { table_lookup(nullptr, x); }), "expected a table"));
}

TEST_CASE("a graph with a table is printed and parsed and runs without the table") {
  Lookup m(squares("squares"));
  m.graph.set_outputs({m.found});
  const std::string text = print_graph(m.graph);
  CHECK(HashTable::find("squares") == nullptr);
  const auto parsed = parse_graph(text);
  CHECK(print_graph(*parsed) == text);
  Session session(*parsed, device("cpu"));
  CHECK(elements(session.run(parsed->outputs()[0], {{parsed->find_input("x"), kAsked}})) == kFound);
  std::string unsorted = text;
  const size_t at = unsorted.find("1, 4, 9");
  REQUIRE(at != std::string::npos);
  unsorted.replace(at, 7, "4, 1, 9");
  CHECK(contains(error_of([&] { parse_graph(unsorted); }), "ascending"));
}

TEST_CASE("damaged texts of a table are refused with what is wrong") {
  Lookup m(squares("squares"));
  m.graph.set_outputs({m.found});
  const std::string text = print_graph(m.graph);
  CAPTURE(text);
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string damaged = text;
    const size_t at = damaged.find(part);
    REQUIRE(at != std::string::npos);
    damaged.replace(at, part.size(), other);
    return error_of([&] { parse_graph(damaged); });
  };
  CHECK(contains(with("1, 4, 9", "1, 4, 4"), "ascending"));
  CHECK(contains(with("1, 4, 9", "1, 4"), "expected"));
  CHECK_FALSE(with("default_value=", "default_values=").empty());
  CHECK_FALSE(with("default_value=7", "default_value=seven").empty());
}

TEST_CASE("a model with a table is saved and goes on and has no ONNX form") {
  const keel_test::TempFolder folder;
  const auto table = squares("squares");
  const auto train = [&](const std::string& from, const std::string& to) {
    Graph g;
    const Value x = g.input("x", i64, {3});
    const Value w = g.state("w", from_tensor(Tensor::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})));
    const Value rows = gather(w, table_lookup(table, x, 0), 0);
    const Update update = sgd(0.125).minimize(sum(rows * rows));
    Session session(g, device("npu"), {.placement = PlacementPolicy::kMixed});
    if (!from.empty()) session.load(from);
    session.run(update, Values{}, {{x, Tensor::of<int64_t>({3}, {9, 4, 5})}});
    session.save(to);
    const std::string error = error_of([&] {
      onnx::save(g, {{"w", Tensor(f32, {4, 2})}}, {rows}, folder.file("model.onnx"));
    });
    CHECK(contains(error, "table_lookup"));
    CHECK(contains(error, "has no ONNX form"));
    CHECK(contains(error, "test_ops_table.cpp:"));
    CHECK_FALSE(std::filesystem::exists(folder.file("model.onnx")));
    return elements(session.read(w));
  };
  // Rows 3, 2 and, for a key that is not there, 0 become 0.75 of what they are; row 1 stays.
  CHECK(train("", folder.file("one")) == std::vector<double>{0.75, 1.5, 3, 4, 3.75, 4.5, 5.25, 6});
  CHECK(train(folder.file("one"), folder.file("two")) ==
        std::vector<double>{0.5625, 1.125, 3, 4, 2.8125, 3.375, 3.9375, 4.5});
}

TEST_CASE("a table is looked up in a sunk loop") {
  const auto table = squares("squares");
  for (const std::string& name : backend_names()) {
    CAPTURE(name);
    Graph g;
    const Value x = g.input("x", i64, {1});
    const Value total = g.state("total", from_tensor(Tensor::of<int64_t>({1}, {0})));
    const Value next = total + table_lookup(table, x, 100);
    auto feeder = std::make_shared<NumberFeeder>(device(name), ElementSpec{{{"x", {i64, {1}}}}},
                                                 [](int64_t i, const std::vector<void*>& fields) {
                                                   *static_cast<int64_t*>(fields[0]) = i;
                                                   return true;
                                                 });
    feeder->open({});
    Session session(g, device(name));
    Update update;
    update.assignments.push_back({total, next});
    Loop loop = session.sink({.update = update, .fetches = {next}, .source = feeder});
    CHECK(loop.kind() == LoopKind::kDevice);
    // Keys 0 to 9: 1, 4 and 9 are there.
    CHECK(loop.run(10).tensor(next).at(0) == 7 * 100 + 1 + 2 + 3);
  }
}

TEST_CASE("a table in a dataset map and on the device is split under full and runs under mixed") {
  const auto table = squares("squares");
  const auto items = Dataset::from_tensors({{"key", Tensor::of<int64_t>({4}, {9, 5, 1, 4})}});
  {
    const auto on_host = table->use_on_host();
    const auto mapped = items.map(items.spec(), [on_host](const ItemView& in, const ItemSlot& out) {
      out.data<int64_t>(0)[0] = on_host->lookup(in.data<int64_t>(0)[0], -1);
    });
    Lookup m(table);
    Session full(m.graph, device("npu"));
    const std::string error = error_of([&] { full.run(m.found, {{m.x, kAsked}}); });
    CAPTURE(error);
    CHECK(contains(error, "RESOURCE_SPLIT(table_init@npu, lookup@host)"));
    CHECK(contains(error, "table 'squares'"));
    CHECK(contains(error, "): table_lookup ("));
    CHECK(contains(error, " and lookup ("));
    Session mixed(m.graph, device("npu"), {.placement = PlacementPolicy::kMixed});
    CHECK(elements(mixed.run(m.found, {{m.x, kAsked}})) == kFound);
    CHECK(contains(mixed.describe({}, {m.found}, {{m.x, kAsked}}),
                   "policy mixed because table 'squares' is used on the host by lookup"));
    // The host's memory is one place.
    CHECK(elements(Session(m.graph, device("cpu")).run(m.found, {{m.x, kAsked}})) == kFound);
  }
  // Without the map the device may have it, and then a map may not.
  Lookup m(table);
  Session full(m.graph, device("npu"));
  CHECK(elements(full.run(m.found, {{m.x, kAsked}})) == kFound);
  CHECK(contains(error_of([&] { table->use_on_host(); }),
                 "RESOURCE_SPLIT(table_init@npu, lookup@host)"));
}

TEST_CASE("a graph as a dataset map keeps its table on the host") {
  const auto table = squares("squares");
  const ElementSpec spec{{{"key", {i64, {1}}}}};
  const auto function = graph_function(spec, device("cpu"), [&](const Values& in) {
    return NamedValues{{"value", table_lookup(table, in[0], 0)}};
  });
  CHECK(table->used_in("host").has_value());
  Lookup m(table);
  Session full(m.graph, device("npu"));
  CHECK(contains(error_of([&] { full.run(m.found, {{m.x, kAsked}}); }), "RESOURCE_SPLIT"));
}

TEST_CASE("strings are looked up in a dataset map and their numbers trained on") {
  const auto words = HashTable::make("words");
  const std::vector<int64_t> ids = {0, 1};
  words->init({"cat", "dog"}, ids);
  const Tensor text = Tensor::of<uint8_t>({3, 3}, {'d', 'o', 'g', 'c', 'o', 'w', 'c', 'a', 't'});
  const auto on_host = words->use_on_host();
  const auto numbered = Dataset::from_tensors({{"word", text}})
                            .map(ElementSpec{{{"id", {i64, {}}}}},
                                 [on_host](const ItemView& in, const ItemSlot& out) {
                                   const auto letters = in.data<uint8_t>(0);
                                   const std::string word(letters.begin(), letters.end());
                                   out.data<int64_t>(0)[0] = on_host->lookup(word, 9);
                                 })
                            .batch(3);
  std::vector<int64_t> got(3);
  DatasetIterator iterator(numbered);
  void* const fields[] = {got.data()};
  REQUIRE(iterator.next_into(fields));
  CHECK(got == std::vector<int64_t>{1, 9, 0});
}

TEST_SUITE_END();
