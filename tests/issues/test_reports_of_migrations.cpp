// Reports of `keel migrate` that depended on where a program lies, missed names, put rows of Keel's
// in front of the user's, gave advice that Keel's headers and README contradict, or called graphs a
// success that the import refuses.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/core/base/json.h"
#include "keel/ops/exchange/migration/builtin_tables.h"
#include "keel/ops/exchange/migration/python_script.h"
#include "keel/ops/exchange/migration/scan.h"

#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("migration");

namespace {

namespace fs = std::filesystem;
using namespace keel::migration;
using keel_test::contains;
using keel_test::node_text;
using keel_test::placeholder_text;
using keel_test::TempFolder;
using Uses = std::vector<std::string>;

const ApiTable& builtin() {
  static const ApiTable table = ApiTable::builtin();
  return table;
}

// "12 tf.Session" for each use.
Uses uses_of(const std::string& script) {
  Uses uses;
  scan_python(
      script, "script.py", builtin(), [](std::string_view) { return false; },
      [&](uint32_t line, const Finding& finding) {
        uses.push_back(std::to_string(line) + " " + finding.name);
      });
  return uses;
}

// The names that a scan of some paths finds.
std::set<std::string> names_found(const std::vector<std::string>& paths) {
  std::set<std::string> names;
  for (const Finding& finding : scan(plan_scan(paths, ""), builtin()).findings)
    names.insert(finding.name);
  return names;
}

// The report of a TensorFlow graph, which is its only file.
Report report_of(const std::string& graph) {
  const TempFolder temp;
  return scan(plan_scan({temp.write("g.pbtxt", graph)}, ""), builtin());
}

// The level of a node.
std::string level_of(const Report& report, const std::string& node) {
  for (const Row& row : report.files.at(0).rows)
    if (row.node == node) return std::string(name_of(report.findings.at(row.finding).level));
  return "no row";
}

Finding judge(const std::string& qualified) {
  return builtin().judge(builtin().canonical(qualified));
}

// Returns the text of y = f(x, v), where f negates the one and assigns to the other.
std::string assigning_call() {
  return node_text("v", "VarHandleOp", {}, {{"dtype", "type: DT_FLOAT"}}) +
         node_text("y", "PartitionedCall", {"x", "v"}, {{"f", "func { name: 'f' }"}}) +
         "library { function { signature { name: 'f' input_arg { name: 'a' } input_arg { "
         "name: 'h' } output_arg { name: 'r' } } node_def { name: 'set' op: "
         "'AssignAddVariableOp' input: 'h' input: 'a' } node_def { name: 'n' op: 'Neg' "
         "input: 'a' input: '^set' } ret { key: 'r' value: 'n:y:0' } } }";
}

}  // namespace

TEST_CASE("a pattern of the user's goes before each row of the tool's") {
  ApiTable table = ApiTable::builtin();
  table.add(R"json({"apis": [
      {"name": "tf.summary.*", "level": "unsupported-no plan", "advice": "ours"},
      {"name": "tf.layers.*", "level": "supported (no migration)", "advice": "ours"},
      {"name": "tf.layers.dense", "level": "deprecated", "advice": "ours alone"}]})json",
            "own.json");
  const auto advice = [&](const char* name) { return table.judge(table.canonical(name)).advice; };
  // The tool has rows of these names.
  for (const char* name : {"tensorflow.summary.FileWriter", "tensorflow.summary.scalar",
                           "tensorflow.layers.conv2d", "tensorflow.summary.FileWriter.flush"}) {
    CAPTURE(name);
    CHECK(judge(name).advice != "the table of API names has no row for it");
    CHECK(advice(name) == "ours");
  }
  CHECK(advice("tensorflow.layers.dense") == "ours alone");
  CHECK(advice("tensorflow.matmul") == judge("tensorflow.matmul").advice);
}

TEST_CASE("a user's row of a class leaves its members the rows that they have") {
  ApiTable table;
  table.add(R"({"apis": [
      {"name": "m.a.b", "level": "analysing", "advice": "tool"},
      {"name": "m.a.*", "level": "analysing", "advice": "tool, all"}]})",
            "tool");
  table.add(R"({"apis": [{"name": "m.a", "level": "analysing", "advice": "user"},
      {"name": "m.c", "level": "analysing", "advice": "user"}]})",
            "user");
  CHECK(table.judge({"m", "m.a", true}).advice == "user");
  CHECK(table.judge({"m", "m.a.b", true}).advice == "tool");
  CHECK(table.judge({"m", "m.a.c", true}).advice == "tool, all");
  CHECK(table.judge({"m", "m.c.d", true}).advice == "user");
}

TEST_CASE("folders above what is scanned are no packages of the program") {
  const TempFolder temp;
  fs::create_directories(temp.file("horovod/job/parts"));
  const std::string script = temp.write("horovod/job/train.py",
                                        "import horovod.tensorflow as hvd\n"
                                        "from job.parts.net import f\n"
                                        "from parts import net\n"
                                        "hvd.init(f, net.g)\n");
  temp.write("horovod/job/parts/net.py", "");
  const std::set<std::string> third = {"horovod.tensorflow.init"};
  CHECK(names_found({temp.file("horovod/job")}) == third);
  CHECK(names_found({temp.file("horovod/job") + "/"}) == third);
  CHECK(names_found({temp.file("horovod/job/parts/..")}) == third);
  // In any order, and beside files of its own.
  CHECK(names_found({script, temp.file("horovod/job")}) == third);
  CHECK(names_found({temp.file("horovod/job/parts"), temp.file("horovod/job")}) == third);
  // A script alone, by whatever path, has no packages around it.
  const std::set<std::string> alone = {"horovod.tensorflow.init", "job.parts.net.f", "parts.net.g"};
  CHECK(names_found({script}) == alone);
  CHECK(names_found({fs::relative(script).string()}) == alone);
  // The folder above was given.
  CHECK(names_found({temp.file("horovod")}).empty());
}

TEST_CASE("a folder that is given as a dot is a package only where Python's mark says so") {
  const TempFolder temp;
  fs::create_directories(temp.file("horovod/parts"));
  temp.write("horovod/train.py",
             "import horovod.tensorflow as hvd\n"
             "from parts import net\n"
             "hvd.init(net.g)\n");
  temp.write("horovod/parts/net.py", "");
  const fs::path before = fs::current_path();
  std::vector<std::set<std::string>> found;
  fs::current_path(temp.file("horovod"));
  for (const char* given : {"train.py", ".", "./", "parts/.."})
    found.push_back(names_found({given}));
  fs::current_path(temp.file("horovod/parts"));
  for (const char* given : {"..", "../"}) found.push_back(names_found({given}));
  temp.write("horovod/__init__.py", "");
  const std::set<std::string> marked = names_found({".."});
  fs::current_path(before);
  CHECK(found[0] == std::set<std::string>{"horovod.tensorflow.init", "parts.net.g"});
  for (size_t i = 1; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i] == std::set<std::string>{"horovod.tensorflow.init"});
  }
  CHECK(marked.empty());
}

TEST_CASE("folders above a script are packages where Python's own mark says so") {
  const TempFolder temp;
  fs::create_directories(temp.file("outer/whole/part"));
  temp.write("outer/whole/__init__.py", "");
  temp.write("outer/whole/part/__init__.py", "");
  const std::string script = temp.write("outer/whole/part/train.py",
                                        "from whole.part import f\n"
                                        "from outer.whole import g\n"
                                        "f(g)\n");
  CHECK(names_found({script}) == std::set<std::string>{"outer.whole.g"});
  CHECK(names_found({temp.file("outer/whole/part")}) == std::set<std::string>{"outer.whole.g"});
}

TEST_CASE("modules get other names by annotated assignments and by assignment expressions") {
  CHECK(uses_of("import tensorflow as tf\n"
                "from typing import Any\n"
                "layers: Any = tf.layers\n"
                "layers.conv3d(1)\n"
                "Any.conv3d(1)\n") == Uses{"4 tf.layers.conv3d"});
  CHECK(uses_of("import tensorflow as tf\n"
                "if (n := tf.layers) is not None:\n"
                "    n.conv3d(1)\n"
                "while m := tf.nn: m.relu(1)\n"
                "if (o := tf.layers is None): o.dense(1)\n"
                "n = f(n := 3)\n"
                "n.conv3d(1)\n") == Uses{"3 tf.layers.conv3d", "4 tf.nn.relu"});
  CHECK(uses_of("import tensorflow as tf\n"
                "a = b = tf.layers\n"
                "a.dense(1); b.dense(2)\n"
                "a = b = [1]\n"
                "a.dense(1); b.dense(2)\n") == Uses{"3 tf.layers.dense", "3 tf.layers.dense"});
  // A tuple is no module; inside of an expression the comma ends the value.
  CHECK(uses_of("import tensorflow as tf\n"
                "layers = tf.layers, 3\n"
                "layers.count(3)\n"
                "nn: tuple = tf.nn, 3\n"
                "nn.count(3)\n"
                "both = f(n := tf.layers, 3)\n"
                "n.dense(1)\n") == Uses{"7 tf.layers.dense"});
  // Behind the colon of an annotation no statement begins, behind that of a block one does.
  CHECK(uses_of("import tensorflow as tf\n"
                "x: a = tf.abs(1)\n"
                "self.x: tf = 3\n"
                "x[1:2]: tf = 3\n"
                "if x[1:2]: l = tf.layers\n"
                "else: n: f(k=1) = tf.nn\n"
                "class A: t: T = tf.train\n"
                "l.dense(n.relu, t.Saver, tf.abs)\n"
                "match: int = tf.nn\n"
                "match x:\n"
                "    case 1: l = tf.keras.layers\n"
                "l.Dense(match.relu)\n"
                "l: int\n"
                "l.Dense(1)\n") == Uses{"2 tf.abs", "8 tf.layers.dense", "8 tf.nn.relu",
                                        "8 tf.train.Saver", "8 tf.abs", "12 tf.keras.layers.Dense",
                                        "12 tf.nn.relu", "14 tf.keras.layers.Dense"});
}

TEST_CASE("options that are members of options are found") {
  CHECK(uses_of("import npu_device as npu\n"
                "npu.global_options().dump_config.enable_dump = True\n"
                "npu.global_options().experimental.multi_branches_config.input_shape = 'x'\n"
                "npu.global_options().precision_mode.strip()\n") ==
        Uses{"2 npu_device.global_options", "2 dump_config", "2 enable_dump",
             "3 npu_device.global_options", "3 experimental", "3 multi_branches_config",
             "3 input_shape", "4 npu_device.global_options", "4 precision_mode"});
}

TEST_CASE("the table of APIs knows of Keel's ranks") {
  for (const BuiltinTable& table : builtin_tables()) {
    const std::string text(table.json);
    CHECK_FALSE(contains(text, "ranks are not in Keel yet"));
    CHECK_FALSE(contains(text, "not in Keel yet: ranks"));
    CHECK_FALSE(contains(text, "ranks and distributions are not"));
  }
  struct Row {
    const char *name, *advice;
  };
  // By ops/nn/data_parallel.h, ops/all_reduce.h, core/group/group.h, graph/runtime/rank_states.h.
  const Row rows[] = {
      {"npu_bridge.NPUDistributedOptimizer", "keel::data_parallel("},
      {"npu_bridge.estimator.npu.npu_optimizer.npu_distributed_optimizer_wrapper",
       "keel::npu_distributed_optimizer_wrapper("},
      {"npu_bridge.hccl.hccl_ops.allreduce", "keel::all_reduce"},
      {"npu_bridge.hccl.hccl_ops.allgather", "keel::all_gather"},
      {"npu_bridge.NPUBroadcastGlobalVariablesHook", "keel::broadcast_states("},
      {"npu_bridge.get_rank_size", "keel::Group::size()"},
      {"hccl.manage.api.get_rank_id", "keel::Group::rank()"},
      {"hccl.split.api.set_split_strategy_by_idx", "keel::DataParallelOptions::bucket_bytes"},
      {"tensorflow.distribute.MirroredStrategy", "keel launch -n N -- keel train"},
      {"tensorflow.train.SyncReplicasOptimizer", "keel::data_parallel("},
      {"npu_device.distribute.all_reduce", "keel::DataParallel::means"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(judge(row.name).level != Level::kAnalysing);
    CHECK_MESSAGE(contains(judge(row.name).advice, row.advice), judge(row.name).advice);
  }
  // Nothing is claimed that a Group has not got.
  CHECK(judge("hccl.manage.api.create_group").level == Level::kAnalysing);
  CHECK(builtin().judge_option("train_distribute", "").level != Level::kAnalysing);
  CHECK(contains(builtin().judge_option("hccl_timeout", "").advice, "HCCL_EXEC_TIMEOUT"));
}

TEST_CASE("functions of another meaning are not told to need no migration") {
  // By TensorFlow 1's documentation: dropout's second argument is kept; images are resized by
  // corners; integers are divided to floats, or down (-7 // 2 is -4); where() with one argument
  // gives indices; in_top_k counts all of equal classes; he_normal is cut off at two deviations.
  for (const std::string name :
       {"nn.dropout", "image.resize_images", "image.resize_bilinear",
        "image.resize_nearest_neighbor", "truediv", "div", "floordiv", "floor_div", "math.floordiv",
        "where", "nn.in_top_k", "initializers.he_normal", "nn.weighted_cross_entropy_with_logits",
        "saturate_cast"}) {
    CAPTURE(name);
    CHECK(judge("tensorflow." + name).level == Level::kCompatibleClass);
  }
  CHECK(judge("npu_bridge.estimator.npu_ops.dropout").level == Level::kCompatibleClass);
  const auto advice = [](const std::string& name) { return judge("tensorflow." + name).advice; };
  CHECK(contains(advice("nn.dropout"), "1 - keep_prob"));
  CHECK(contains(advice("nn.relu_layer"), "keel::relu"));
  CHECK(contains(advice("linalg.band_part"), "keel::triu"));
  CHECK(contains(advice("is_inf"), "infinity"));
  CHECK(contains(advice("keras.datasets.cifar10.load_data"), "keel::load_cifar10"));
  CHECK(contains(advice("graph_util.convert_variables_to_constants"), "keel freeze"));
  CHECK_FALSE(contains(advice("keras.preprocessing.text.Tokenizer"), "ONNX"));
  CHECK_FALSE(contains(advice("keras.constraints.NonNeg"), "weight_decay"));
}

TEST_CASE("keel migrate and keel config know the same options of the adapter") {
  std::ifstream in(fs::path(KEEL_SOURCE_DIR) / "examples/cli/config/adapter_table.cpp");
  const std::string source{std::istreambuf_iterator<char>(in), {}};
  // Each entry, up to the next one.
  static const std::regex entry("\\{\\.name = \"(\\w+)\"([^{]*)");
  static const std::regex flag("\\.flag = \"([a-z-]+)\""), harmless("\\.harmless = ");
  std::set<std::string> of_config, of_migrate;
  for (std::sregex_iterator at(source.begin(), source.end(), entry); at != std::sregex_iterator();
       ++at) {
    const std::string name = (*at)[1], fields = (*at)[2];
    CAPTURE(name);
    CHECK(of_config.insert(name).second);
    const Finding row = builtin().judge_option(name, "");
    std::smatch found;
    if (std::regex_search(fields, found, flag)) {
      CHECK(row.level == Level::kApiAfterTool);
      CHECK_MESSAGE(contains(row.advice, "--" + found[1].str()), row.advice);
    } else if (std::regex_search(fields, harmless)) {
      // Its other values are refused.
      CHECK(row.level != Level::kUnsupportedNoImpact);
    }
  }
  for (const BuiltinTable& table : builtin_tables()) {
    const keel::Json json = keel::parse_json(table.json, table.name);
    for (const keel::Json& row : json["options"]["rows"]) of_migrate.insert(row["name"]);
  }
  CHECK(of_config.size() > 100);
  CHECK(of_config == of_migrate);
  // Both name what says so in C++.
  CHECK(contains(source, "keel::DataParallelOptions::bucket_bytes says"));
  CHECK(contains(builtin().judge_option("all_reduce_fusion_config", "").advice,
                 "keel::DataParallelOptions::bucket_bytes says"));
  // Shapes that change are no more nothing to declare than options that a job loses.
  CHECK(builtin().judge_option("dynamic_input", "").level == Level::kCompatibleClass);
  CHECK(builtin().judge_option("in_out_pair", "").level == Level::kCompatibleClass);
}

TEST_CASE("a TensorFlow graph that the import refuses is no success of a migration") {
  const std::string x = placeholder_text("x", keel::f32, {2}), y = node_text("y", "Neg", {"x"});
  struct Case {
    std::string graph, reason;
  };
  const Case cases[] = {
      {x + node_text("y", "Add", {"x", "gone"}), "reads 'gone', which is not in the graph"},
      {x + x + y, "two nodes have this name"},
      {x + y + node_text("z", "PartitionedCall", {"x"}, {{"f", "func { name: 'f' }"}}),
       "calls the function 'f', which is not in the graph"},
      {x + node_text("y", "Add", {"x", "c"}) +
           node_text("c", "Const", {},
                     {{"dtype", "type: DT_FLOAT"},
                      {"value",
                       "tensor { dtype: DT_FLOAT tensor_shape { dim { size: -1 } } "
                       "float_val: 1 }"}}),
       "its value has a dimension of -1"},
      {x + node_text("a", "Add", {"x", "b"}) + node_text("b", "Neg", {"a"}) +
           node_text("y", "Neg", {"a"}),
       "wait for each other"}};
  for (const Case& one : cases) {
    CAPTURE(one.reason);
    const Report report = report_of(one.graph);
    REQUIRE(report.files.size() == 1);
    CHECK_MESSAGE(contains(report.files[0].failure, one.reason), report.files[0].failure);
    CHECK(report.files[0].rows.empty());
  }
  CHECK(report_of(x + y).files.at(0).failure.empty());
}

TEST_CASE("a TensorFlow graph whose outputs have to be chosen is judged by its ops") {
  const std::string x = placeholder_text("x", keel::f32, {}),
                    p = placeholder_text("p", keel::boolean, {}),
                    s = node_text("s", "Switch", {"x", "p"}, {{"T", "type: DT_FLOAT"}});
  const std::string w = keel_test::variable_text("w", keel::Tensor::scalar<float>(1));
  // The graphs have an input alone, variables, and a value that one branch alone has.
  for (const std::string& graph :
       {x, w + node_text("y", "Neg", {"w/read"}), x + p + s + node_text("y", "Neg", {"s:1"})}) {
    CAPTURE(graph);
    const Report report = report_of(graph);
    CHECK_MESSAGE(report.files.at(0).failure.empty(), report.files.at(0).failure);
    CHECK_FALSE(report.has_obstacles());
  }
}

TEST_CASE("nodes whose control flow cannot be converted are no success of a migration") {
  const std::string x = placeholder_text("x", keel::f32, {}),
                    p = placeholder_text("p", keel::boolean, {}),
                    s = node_text("s", "Switch", {"x", "p"}, {{"T", "type: DT_FLOAT"}}),
                    n = node_text("n", "Neg", {"s:1"}),
                    m = node_text("m", "Merge", {"s", "n"}, {{"T", "type: DT_FLOAT"}});
  const auto function = [](const std::string& input) {
    return "library { function { signature { name: 'f' input_arg { name: 'a' } output_arg { name: "
           "'r' } } node_def { name: 't' op: 'Switch' input: 'a' input: 'a' } "
           "node_def { name: 'n' op: 'Neg' input: '" +
           input + "' } ret { key: 'r' value: 'n:y:0' } } }";
  };
  const std::string call = node_text("g", "PartitionedCall", {"x"}, {{"f", "func { name: 'f' }"}});
  struct Case {
    std::string graph, node, reason;
  };
  const Case cases[] = {
      {node_text("k", "Neg", {"l"}) + node_text("l", "Add", {"k", "m"}), "k", "is on a cycle"},
      {node_text("k", "Enter", {"x"}, {{"frame_name", "s: 'frame'"}}), "k", "has no LoopCond"},
      {call + function("gone:y:0"), "f/n", "there is no such node"}};
  for (const Case& one : cases) {
    CAPTURE(one.graph);
    const Report report = report_of(x + p + s + n + m + one.graph);
    CHECK(level_of(report, one.node) == name_of(Level::kUnsupportedNoPlan));
    CHECK(std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
      return contains(finding.advice, one.reason);
    }));
  }
  // Nothing calls the function.
  CHECK_FALSE(report_of(x + p + s + n + m + function("gone:y:0")).has_obstacles());
}

TEST_CASE("assignments in branches and functions are no success of a migration") {
  const auto set = [](const std::string& name, const std::string& value) {
    return node_text(name, "AssignAdd", {"w", value});
  };
  const std::string switched = keel_test::variable_text("w", keel::Tensor::scalar<float>(1)) +
                               placeholder_text("x", keel::f32, {}) +
                               placeholder_text("p", keel::boolean, {}) +
                               node_text("s", "Switch", {"x", "p"}, {{"T", "type: DT_FLOAT"}}) +
                               set("sometimes", "s:1") + set("always", "x");
  const std::string merged = node_text("t", "Identity", {"s:1", "^sometimes"}) +
                             node_text("m", "Merge", {"s", "t"}, {{"T", "type: DT_FLOAT"}});
  const std::string function =
      "library { function { signature { name: 'f' input_arg { name: 'h' } output_arg { name: 'r' } "
      "} node_def { name: 'set' op: 'AssignVariableOp' input: 'h' input: 'h' } "
      "ret { key: 'r' value: 'h' } } }";
  for (const std::string& graph : {switched, switched + merged}) {
    CAPTURE(graph);
    const Report report = report_of(graph + function);
    CHECK(level_of(report, "sometimes") == name_of(Level::kUnsupportedNoPlan));
    CHECK(level_of(report, "f/set") == name_of(Level::kUnsupportedNoPlan));
    CHECK(level_of(report, "always") == name_of(Level::kSupported));
    CHECK(level_of(report, "w/Assign") == name_of(Level::kSupported));
  }
}

// The file failed as a whole, and had no rows.
TEST_CASE("an assignment in a function is told by its row where nothing else assigns") {
  const Report report = report_of(placeholder_text("x", keel::f32, {}) + assigning_call());
  CHECK_MESSAGE(report.files.at(0).failure.empty(), report.files.at(0).failure);
  CHECK(level_of(report, "f/set") == name_of(Level::kUnsupportedNoPlan));
  CHECK(level_of(report, "f/n") == name_of(Level::kSupported));
  CHECK(level_of(report, "y") == name_of(Level::kSupported));
  CHECK(report.has_obstacles());
}

// It hid why the importer does not take other nodes.
TEST_CASE("an assignment in a function hides no other obstacle") {
  const Report report =
      report_of(placeholder_text("x", keel::f32, {4}) +
                keel_test::const_text("sizes", keel::Tensor::of<int32_t>({2}, {-1, -1})) +
                keel_test::const_text("axis", keel::Tensor::scalar<int32_t>(0)) +
                node_text("parts", "SplitV", {"x", "sizes", "axis"}, {{"num_split", "i: 2"}}) +
                assigning_call());
  CHECK_MESSAGE(report.files.at(0).failure.empty(), report.files.at(0).failure);
  CHECK(level_of(report, "parts") == name_of(Level::kUnsupportedNoPlan));
  CHECK(level_of(report, "f/set") == name_of(Level::kUnsupportedNoPlan));
  CHECK(level_of(report, "f/n") == name_of(Level::kSupported));
  CHECK(level_of(report, "y") == name_of(Level::kSupported));
}

TEST_CASE("a node in a function is no obstacle to one outside that has its name") {
  const Report report = report_of(
      placeholder_text("x", keel::f32, {4}) +
      node_text("y", "PartitionedCall", {"x"}, {{"f", "func { name: 'f' }"}}) +
      "library { function { signature { name: 'f' input_arg { name: 'a' } output_arg { name: 'r' } "
      "} node_def { name: 'x' op: 'Unheard' input: 'a' } ret { key: 'r' value: 'x:y:0' } } }");
  CHECK(level_of(report, "f/x") == name_of(Level::kUnsupportedNoPlan));
  CHECK(level_of(report, "x") == name_of(Level::kSupported));
}

TEST_SUITE_END();
