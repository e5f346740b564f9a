// An input of a file that no graph takes, of nine dimensions or without a printable name, ended its
// import with an error that named neither the file nor the input, and that hid all other refusals.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/imported_models.h"

namespace keel {
namespace {

using namespace keel_test;

const std::vector<int64_t> kNineSizes(9, 1);

// Returns what an import of a graph of an unknown op and this input refuses.
std::string refusal_of(const std::string& input, const onnx::ImportOptions& options = {}) {
  try {
    imported_onnx({.nodes = {onnx_node("Unheard", {"k"}, {"y"})},
                   .initializers = {onnx_floats("k", {1}, {1})},
                   .inputs = {input},
                   .outputs = {onnx_value("y", 1, {1})}},
                  options);
  } catch (const onnx::Unsupported& refused) {
    return refused.what();
  } catch (const Error& error) {
    return std::string("another error: ") + error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("an ONNX input that no graph takes is refused by its name beside all else") {
  for (const std::string& text :
       {refusal_of(onnx_value("image", 1, kNineSizes)),
        refusal_of(onnx_value("image", 1, kNineSizes), {.bind = {{"image", Tensor(f32, {1})}}})}) {
    CAPTURE(text);
    CHECK(text.starts_with("m.onnx"));
    CHECK(contains(text, "1 x Unheard"));
    CHECK(contains(text, "1 x input"));
    CHECK(contains(text, "image"));
    CHECK(contains(text, "rank of at most 8"));
  }
  const std::string empty = refusal_of(onnx_value("", 1, {1}));
  CHECK_MESSAGE(contains(empty, "1 x Unheard"), empty);
  CHECK_MESSAGE(contains(empty, "a name that no other input has"), empty);
  const std::string unprintable = refusal_of(onnx_value("a\nb", 1, {1}));
  CHECK_MESSAGE(contains(unprintable, "1 x Unheard"), unprintable);
  CHECK_MESSAGE(contains(unprintable, "UTF-8 text without control characters"), unprintable);
}

TEST_CASE("a TensorFlow input that no graph takes is refused by its name beside all else") {
  std::string dims;
  for (const int64_t dim : kNineSizes) dims += "dim { size: " + std::to_string(dim) + " } ";
  std::string text;
  try {
    imported_graph_def(
        node_text("image", "Placeholder", {},
                  {{"dtype", "type: DT_FLOAT"}, {"shape", "shape { " + dims + "}"}}) +
        const_text("k", Tensor(f32, {1})) + node_text("z", "Unheard", {"k"}) +
        node_text("y", "AddV2", {"image", "z"}));
  } catch (const onnx::Unsupported& refused) {
    text = refused.what();
  } catch (const Error& error) {
    text = std::string("another error: ") + error.what();
  }
  CAPTURE(text);
  CHECK(text.starts_with("g.pbtxt"));
  CHECK(contains(text, "1 x Unheard"));
  CHECK(contains(text, "image"));
  CHECK(contains(text, "rank of at most 8"));
}

TEST_SUITE_END();

}  // namespace keel
