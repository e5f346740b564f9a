// Attributes were compared by the address of a static of a hidden template, of which a program, the
// shared library and each plugin have one of their own: nobody outside the library could read any.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/table_attributes.h"
#include "keel/graph/ir/transfer.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"
#include "keel/ops/sum_of_parts.h"

#include "support/error_of.h"

namespace {

using keel_test::contains;
using keel_test::error_of;

// A struct of this program alone, and one that looks the same.
struct OwnAttributes {
  std::vector<int64_t> axes;
  bool keepdims = false;
  static void fields(auto&& visit) {
    visit("axes", &OwnAttributes::axes);
    visit("keepdims", &OwnAttributes::keepdims);
  }
};
struct LikeOwnAttributes {
  std::vector<int64_t> axes;
  bool keepdims = false;
  static void fields(auto&& visit) {
    visit("axes", &LikeOwnAttributes::axes);
    visit("keepdims", &LikeOwnAttributes::keepdims);
  }
};

// Returns true if the library's attributes of op `name` and this program's S are the same struct:
// each side reads and compares as equal what the other made.
template <class S>
bool shared(const char* name) {
  const keel::AttributesSchema* library = keel::builtin_ops().at(name).attributes;
  const keel::Attributes here = keel::Attributes::of(S{});
  const keel::Attributes there = library->parse({});
  static_cast<void>(there.as<S>());
  return keel::same_struct(&keel::attributes_schema<S>(), library) && here == there &&
         here.hash() == there.hash() && library->list(&here.as<S>()).size() == here.list().size();
}

}  // namespace

namespace keel {

TEST_SUITE_BEGIN("library");

TEST_CASE("a program reads and makes the attributes of the shared library") {
  Graph g;
  const Value a = g.input("a", f32, {2, 3});
  const Value b = g.input("b", f32, {4, 3});
  const Value c = matmul(a, b, {.transpose_b = true});
  CHECK(c.node().as<MatmulAttributes>().transpose_b);
  const Node& again = g.add("matmul", {a, b}, Attributes::of(MatmulAttributes{.transpose_b = true}),
                            CallSite::here());
  CHECK(again.attributes() == c.node().attributes());
  CHECK(again.attributes().hash() == c.node().attributes().hash());
  CHECK(again.as<MatmulAttributes>().transpose_b);
  const std::string other = error_of([&] { c.node().as<ReduceAttributes>(); });
  CHECK(contains(other, "keel::ReduceAttributes {axes, keepdims, parts}"));
  CHECK(contains(other, "keel::MatmulAttributes {"));
  CHECK(contains(error_of([&] {
                   g.add("matmul", {a, b}, Attributes::of(ReduceAttributes{}), CallSite::here());
                 }),
                 "attributes of another op"));
}

TEST_CASE("every attribute struct of the library is the program's") {
  CHECK(shared<InputAttributes>("input"));
  CHECK(shared<ConstantAttributes>("constant"));
  CHECK(shared<StateAttributes>("state"));
  CHECK(shared<StepEndAttributes>("step_end"));
  CHECK(shared<WhileAttributes>("while_loop"));
  CHECK(shared<DequeueAttributes>("dequeue"));
  CHECK(shared<CastAttributes>("cast"));
  CHECK(shared<MatmulAttributes>("matmul"));
  CHECK(shared<ReduceAttributes>("sum"));
  CHECK(shared<ArgmaxAttributes>("argmax"));
  CHECK(shared<GatherAttributes>("gather"));
  CHECK(shared<OneHotAttributes>("one_hot"));
  CHECK(shared<IotaAttributes>("iota"));
  CHECK(shared<ShapeAttributes>("reshape"));
  CHECK(shared<SameDimsAttributes>("same_dims"));
  CHECK(shared<AxesAttributes>("squeeze"));
  CHECK(shared<TransposeAttributes>("transpose"));
  CHECK(shared<SliceAttributes>("slice"));
  CHECK(shared<SplitAttributes>("split"));
  CHECK(shared<PadAttributes>("pad"));
  CHECK(shared<ConcatAttributes>("concat"));
  CHECK(shared<CrossEntropyOptions>("softmax_cross_entropy"));
  CHECK(shared<RandomAttributes>("uniform"));
  CHECK(shared<RandomLikeAttributes>("uniform_like"));
  CHECK(shared<VarianceAttributes>("var"));
  CHECK(shared<TriangleAttributes>("tril"));
  CHECK(shared<NormOptions>("layer_norm"));
  CHECK(shared<ChannelNormOptions>("batch_norm"));
  CHECK(shared<ScanAttributes>("cumsum"));
  CHECK(shared<SortAttributes>("sort"));
  CHECK(shared<TopKAttributes>("top_k"));
  CHECK(shared<Conv2dAttributes>("conv2d"));
  CHECK(shared<Conv2dGradientAttributes>("conv2d_input_gradient"));
  CHECK(shared<MaxPool2dAttributes>("max_pool2d"));
  CHECK(shared<AvgPool2dAttributes>("avg_pool2d"));
  CHECK(shared<AvgPool2dGradientAttributes>("avg_pool2d_gradient"));
  CHECK(shared<ResizeAttributes>("resize"));
  CHECK(shared<AttentionAttributes>("attention"));
  // The list above leaves none out.
  const AttributesSchema* known[] = {&attributes_schema<InputAttributes>(),
                                     &attributes_schema<ConstantAttributes>(),
                                     &attributes_schema<StateAttributes>(),
                                     &attributes_schema<StepEndAttributes>(),
                                     &attributes_schema<WhileAttributes>(),
                                     &attributes_schema<DequeueAttributes>(),
                                     &attributes_schema<CastAttributes>(),
                                     &attributes_schema<MatmulAttributes>(),
                                     &attributes_schema<ReduceAttributes>(),
                                     &attributes_schema<ArgmaxAttributes>(),
                                     &attributes_schema<GatherAttributes>(),
                                     &attributes_schema<OneHotAttributes>(),
                                     &attributes_schema<IotaAttributes>(),
                                     &attributes_schema<ShapeAttributes>(),
                                     &attributes_schema<SameDimsAttributes>(),
                                     &attributes_schema<AxesAttributes>(),
                                     &attributes_schema<TransposeAttributes>(),
                                     &attributes_schema<SliceAttributes>(),
                                     &attributes_schema<SplitAttributes>(),
                                     &attributes_schema<PadAttributes>(),
                                     &attributes_schema<ConcatAttributes>(),
                                     &attributes_schema<CrossEntropyOptions>(),
                                     &attributes_schema<RandomAttributes>(),
                                     &attributes_schema<RandomLikeAttributes>(),
                                     &attributes_schema<VarianceAttributes>(),
                                     &attributes_schema<TriangleAttributes>(),
                                     &attributes_schema<NormOptions>(),
                                     &attributes_schema<ChannelNormOptions>(),
                                     &attributes_schema<ScanAttributes>(),
                                     &attributes_schema<SortAttributes>(),
                                     &attributes_schema<TopKAttributes>(),
                                     &attributes_schema<Conv2dAttributes>(),
                                     &attributes_schema<Conv2dGradientAttributes>(),
                                     &attributes_schema<MaxPool2dAttributes>(),
                                     &attributes_schema<AvgPool2dAttributes>(),
                                     &attributes_schema<AvgPool2dGradientAttributes>(),
                                     &attributes_schema<ResizeAttributes>(),
                                     &attributes_schema<AttentionAttributes>(),
                                     &attributes_schema<TableAttributes>(),
                                     &attributes_schema<TransferAttributes>(),
                                     &attributes_schema<AllReduceAttributes>(),
                                     &attributes_schema<SumOfPartsAttributes>()};
  for (const OpDef* op : builtin_ops().all()) {
    if (op->attributes == nullptr) continue;
    int found = 0;
    for (const AttributesSchema* schema : known) found += same_struct(schema, op->attributes);
    CAPTURE(op->name);
    CAPTURE(op->attributes->type);
    CHECK(found == 1);
  }
}

TEST_CASE("structs of a program are told apart by name and layout and fields") {
  const AttributesSchema& own = attributes_schema<OwnAttributes>();
  CHECK_FALSE(same_struct(&own, &attributes_schema<LikeOwnAttributes>()));
  CHECK_FALSE(same_struct(&own, &attributes_schema<ReduceAttributes>()));
  CHECK_FALSE(same_struct(&own, nullptr));
  CHECK(same_struct(nullptr, nullptr));
  AttributesSchema copy = own;
  CHECK(same_struct(&own, &copy));
  copy.places[1].offset += 1;
  CHECK_FALSE(same_struct(&own, &copy));
  copy = own;
  copy.names[0] = "axis";
  CHECK_FALSE(same_struct(&own, &copy));
  const Attributes attributes = Attributes::of(OwnAttributes{{1, 2}, true});
  CHECK(attributes.as<OwnAttributes>().axes == std::vector<int64_t>{1, 2});
  CHECK(contains(error_of([&] { attributes.as<LikeOwnAttributes>(); }), "OwnAttributes {axes"));
  CHECK(contains(error_of([&] { Attributes().as<OwnAttributes>(); }), "got none"));
}

TEST_CASE("an op of a program runs in the shared library") {
  OpTable table;
  for (const OpDef* op : builtin_ops().all()) table.add(*op);
  table.add(
      {.name = "scale_by",
       .input_names = {"x"},
       .attributes = &attributes_schema<OwnAttributes>(),
       .infer =
           [](const InferContext& c) {
             return std::vector<Type>{c.as<OwnAttributes>().keepdims ? c.inputs[0] : Type{f32, {}}};
           },
       .reference =
           [](const ReferenceContext& c) {
             for (int64_t i = 0; i < c.outputs[0].num_elements(); ++i)
               c.outputs[0].set(
                   i, c.inputs[0].at(i) * static_cast<double>(c.as<OwnAttributes>().axes[0]));
           },
       .traits = kMovement});
  Graph g(table);
  const Value x = g.input("x", f32, {2});
  const Node& node =
      g.add("scale_by", {x}, Attributes::of(OwnAttributes{{5}, true}), CallSite::here());
  Session session(g, device("ref"));
  const auto out = session.run({node.output()}, {{x, Tensor::of<float>({2}, {1, 2})}});
  CHECK(bit_equal(out[0], Tensor::of<float>({2}, {5, 10})));
}

#ifdef KEEL_TEST_PLUGIN
TEST_CASE("a backend in a plugin reads attributes and throws what the program catches") {
  Graph g;
  const Value a = g.state("a", ones({2, 3}));
  const Value plain = matmul(a, transpose(a));
  const Value transposed = matmul(a, a, {.transpose_b = true});
  const int line = __LINE__ - 1;
  Session session(g, device(load_backend_plugin(KEEL_TEST_PLUGIN)));
  CHECK(session.run({plain})[0].at(0) == 3);
  const std::string text = error_of([&] { session.run({transposed}); });
  CAPTURE(text);
  CHECK(contains(text, "the second operand is transposed"));
  CHECK(contains(text, "test_attributes_across_library.cpp:" + std::to_string(line)));
  const Value large = g.state("large", zeros({1 << 20}));
  CHECK(contains(error_of([&] { session.read(large); }), "does not fit into 1 MiB"));
}
#endif

TEST_SUITE_END();

}  // namespace keel
