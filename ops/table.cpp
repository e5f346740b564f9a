#include "keel/ops/table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "keel/graph/ir/emit.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/op_table.h"
#include "keel/graph/ir/sample.h"
#include "keel/graph/ir/table_attributes.h"
#include "keel/ops/gather.h"

namespace keel {
namespace {

bool is_column(const Tensor& tensor) {
  return !tensor.empty() && tensor.dtype() == i64 && tensor.shape().rank() == 1;
}

std::vector<Type> infer_lookup(const InferContext& c) {
  const DType dtype = c.inputs[0].dtype;
  if (dtype != i64 && dtype != i32)
    c.fail("x", "i64 or i32", name_of(dtype), "convert it with cast(x, keel::i64)");
  const auto& a = c.as<TableAttributes>();
  if (a.table.empty()) c.fail("table", "a name", "none");
  if (!is_column(a.keys) || !is_column(a.values) || a.keys.shape() != a.values.shape()) {
    const auto told = [](const Tensor& t) { return t.empty() ? "none" : to_string(t.type()); };
    c.fail("keys and values", "i64[n] both", told(a.keys) + " and " + told(a.values));
  }
  const auto keys = a.keys.data<int64_t>();
  const auto wrong = std::adjacent_find(keys.begin(), keys.end(),
                                        [](int64_t one, int64_t next) { return one >= next; });
  if (wrong != keys.end())
    c.fail("keys", "ascending ones",
           std::to_string(*wrong) + " and then " + std::to_string(*(wrong + 1)));
  return {{i64, c.inputs[0].shape}};
}

void reference_lookup(const ReferenceContext& c) {
  const auto& a = c.as<TableAttributes>();
  const auto out = c.outputs[0].data<int64_t>();
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = lookup_sorted(a.keys.data<int64_t>(), a.values.data<int64_t>(),
                           integer_at(c.inputs[0], static_cast<int64_t>(i)), a.default_value);
  }
}

Value emit_lookup(TableAttributes attributes, Operand keys, CallSite site) {
  return emit("table_lookup", {keys}, Attributes::of(std::move(attributes)), site);
}

Sample sample_lookup(SampleSource& source) {
  const int64_t count = source.integer(0, 20);
  TableAttributes table{.table = "sample",
                        .keys = Tensor(i64, {count}),
                        .values = Tensor(i64, {count}),
                        .default_value = source.integer(-3, 3)};
  int64_t key = source.integer(-20, 0);
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    table.keys.data<int64_t>()[at] = key;
    table.values.data<int64_t>()[at] = source.integer(-1000, 1000);
    key += source.integer(1, 3);
  }
  const Tensor asked = source.values(source.coin() ? i64 : i32, source.shape(0, 3), -24, 40);
  return {{asked}, [table](Graph&, const Values& in) {
            return Values{emit_lookup(table, in[0], CallSite::here())};
          }};
}

}  // namespace

Value table_lookup(const std::shared_ptr<HashTable>& table, Operand keys, int64_t default_value,
                   CallSite site) {
  if (table == nullptr)
    throw Error({.op = "table_lookup",
                 .argument = "table",
                 .expected = "a table",
                 .got = "none",
                 .site = site});
  return emit_lookup({.table = table->name(),
                      .keys = table->keys(site),
                      .values = table->values(site),
                      .default_value = default_value},
                     keys, site);
}

void register_table(OpTable& table) {
  table.add({.name = "table_lookup",
             .summary = "values of a table by integer keys",
             .input_names = {"x"},
             .attributes = &attributes_schema<TableAttributes>(),
             .infer = infer_lookup,
             .reference = reference_lookup,
             .gradient = [](const BuildContext&) { return Values{Value()}; },
             .sample = sample_lookup});
}

}  // namespace keel
