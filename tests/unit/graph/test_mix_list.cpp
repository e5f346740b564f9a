// Mix lists: the four moves, files of both forms, and what is refused.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/graph/precision/mix_list.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("graph");

namespace {

using namespace keel;
using keel_test::contains;
using keel_test::error_of;

struct Parsed {
  MixList list;
  std::vector<std::string> warnings;
};

Parsed parsed(const std::string& text) {
  Parsed result;
  result.list = parse_mix_list(text, "mix.json", builtin_ops(), result.warnings);
  return result;
}

MixClass class_after(const std::string& text, const char* op) {
  return parsed(text).list.class_of(builtin_ops().at(op));
}

}  // namespace

TEST_CASE("modify_mixlist: ops have classes of their own") {
  const MixList none;
  const auto own = [&](const char* op) { return none.class_of(builtin_ops().at(op)); };
  for (const char* op : {"matmul", "conv2d", "conv2d_input_gradient", "conv2d_weight_gradient"})
    CHECK(own(op) == MixClass::kWhite);
  for (const char* op :
       {"exp", "log", "pow", "softmax", "softmax_cross_entropy", "layer_norm", "var"})
    CHECK(own(op) == MixClass::kBlack);
  for (const char* op : {"add", "mul", "relu", "sum", "max", "transpose", "gather", "cast"})
    CHECK(own(op) == MixClass::kGray);
}

TEST_CASE("modify_mixlist: to-add moves an op from wherever it was") {
  CHECK(class_after(R"({"black-list": {"to-add": ["sum"]}})", "sum") == MixClass::kBlack);
  CHECK(class_after(R"({"black-list": {"to-add": ["matmul"]}})", "matmul") == MixClass::kBlack);
  CHECK(class_after(R"({"white-list": {"to-add": ["sum"]}})", "sum") == MixClass::kWhite);
  CHECK(class_after(R"({"white-list": {"to-add": ["exp"]}})", "exp") == MixClass::kWhite);
  CHECK(class_after(R"({"white-list": {"to-add": ["matmul"]}})", "matmul") == MixClass::kWhite);
}

TEST_CASE("modify_mixlist: to-remove makes an op gray and nothing else") {
  CHECK(class_after(R"({"white-list": {"to-remove": ["matmul"]}})", "matmul") == MixClass::kGray);
  CHECK(class_after(R"({"black-list": {"to-remove": ["exp"]}})", "exp") == MixClass::kGray);
  const Parsed wrong = parsed(R"({"white-list": {"to-remove": ["exp", "sum"]}})");
  CHECK(wrong.list.changed.empty());
  REQUIRE(wrong.warnings.size() == 2);
  CHECK(wrong.warnings[0] == "mix.json: white-list.to-remove[0]: exp is not on the white list");
  // From one list to the other in two moves.
  CHECK(class_after(R"({"white-list": {"to-remove": ["matmul"]},
                        "black-list": {"to-add": ["matmul"]}})",
                    "matmul") == MixClass::kBlack);
}

TEST_CASE("modify_mixlist: an unknown op is a warning with the nearest name") {
  const Parsed result = parsed(R"({"black-list": {"to-add": ["softmx", "sum"]}})");
  CHECK(result.list.class_of(builtin_ops().at("sum")) == MixClass::kBlack);
  REQUIRE(result.warnings.size() == 1);
  CHECK(contains(result.warnings[0], "no op is called 'softmx'"));
  CHECK(contains(result.warnings[0], "did you mean 'softmax'?"));
}

TEST_CASE("modify_mixlist: contradictions and other schemas are errors with their path") {
  struct Wrong {
    const char* text;
    const char* where;
    const char* what;
  };
  const Wrong all[] = {
      {R"({"black-list": {"to-add": ["sum"]}, "white-list": {"to-add": ["sum"]}})",
       "white-list.to-add[0]", "on both lists, see mix.json: black-list.to-add[0]"},
      {R"({"black-list": {"to-add": ["sum", "exp", "sum"]}})", "black-list.to-add[2]",
       "named twice, see mix.json: black-list.to-add[0]"},
      {R"({"black-list": {"to-add": ["exp"], "to-remove": ["exp"]}})", "black-list.to-remove[0]",
       "added and removed"},
      {R"({"blacklist": {}})", "mix.json", "blacklist"},
      {R"({"black-list": {"add": []}})", "black-list", "add"},
      {R"({"black-list": {"to-add": [7]}})", "black-list.to-add[0]", "got 7"},
      {R"({"black-list": []})", "black-list", "expected"},
      {R"([])", "mix.json", "expected"},
      {R"({"sum": {"precision_reduce": {"flag": true}}})", "sum.precision_reduce.flag", "got true"},
      {R"({"sum": {"precision_reduce": {"flag": "maybe"}}})", "sum.precision_reduce.flag",
       "\"true\" or \"false\""}};
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.text);
    const std::string text = error_of([&] { parsed(wrong.text); });
    CHECK_MESSAGE(contains(text, wrong.where), text);
    CHECK_MESSAGE(contains(text, wrong.what), text);
  }
}

TEST_CASE("modify_mixlist: comments are refused with a hint and slashes in strings are not comments") {
  const std::string text =
      error_of([] { parsed("{\"black-list\": {  // which ops\n \"to-add\": [\"sum\"]}}"); });
  CHECK(contains(text, "remove the comments: JSON has none"));
  CHECK(contains(error_of([] { parsed("/* moves */ {}"); }), "remove the comments"));
  const std::string other = error_of([] { parsed(R"({"black-list": {"to-add": ["a//b",]}})"); });
  CHECK(!contains(other, "comments"));
  CHECK(parsed(R"({"black-list": {"to-add": ["a//b"]}})").warnings.size() == 1);
}

TEST_CASE("ops_info.json: what is written edited and loaded again reads back as it was") {
  const std::string own = write_ops_info(builtin_ops());
  CHECK(contains(own, "\"matmul\": {\n    \"precision_reduce\": {\n      \"flag\": \"true\""));
  CHECK(contains(own, "\"exp\": {\n    \"precision_reduce\": {\n      \"flag\": \"false\""));
  CHECK(!contains(own, "\"add\""));
  CHECK(parsed(own).list == MixList{});

  // Edited: sum is black, exp is gray since nothing names it.
  const Parsed edited = parsed(R"({"matmul": {"precision_reduce": {"flag": "true"}},
                                   "sum": {"precision_reduce": {"flag": "false"}}})");
  CHECK(edited.list.class_of(builtin_ops().at("matmul")) == MixClass::kWhite);
  CHECK(edited.list.class_of(builtin_ops().at("sum")) == MixClass::kBlack);
  CHECK(edited.list.class_of(builtin_ops().at("exp")) == MixClass::kGray);
  CHECK(edited.list.class_of(builtin_ops().at("conv2d")) == MixClass::kGray);
  CHECK(parsed(write_ops_info(builtin_ops(), edited.list)).list == edited.list);
}

TEST_SUITE_END();
