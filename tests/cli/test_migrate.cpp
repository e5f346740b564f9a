// `keel migrate`: reports on small scripts and models of ours, whose rows and counts were written
// by hand, and on files that are hostile.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <keel/core/base/csv.h>
#include <sys/stat.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "support/onnx_bytes.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

namespace fs = std::filesystem;

// A plain session script with the loop sunk by hand.
constexpr const char* kSession = R"py(import tensorflow as tf
from npu_bridge.estimator.npu import util
from npu_bridge.npu_init import *
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

x = tf.placeholder(tf.float32, [None, 784])
y = tf.layers.dense(x, 10)
loss = tf.reduce_mean(tf.square(y))
train_op = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["enable_data_pre_proc"].b = True
custom_op.parameter_map["iterations_per_loop"].i = 10
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    train_op = util.set_iteration_per_loop(sess, train_op, 10)
    for step in range(100):
        sess.run(train_op)
)py";

// An estimator with hooks, a mix list and loss scaling.
constexpr const char* kEstimator = R"py(import os
import tensorflow.compat.v1 as tf
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator
from npu_bridge.estimator.npu.npu_loss_scale_manager import ExponentialUpdateLossScaleManager
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_bridge.estimator.npu.npu_hook import SetIterationsVarHook as VarHook


def model_fn(features, labels, mode):
    manager = ExponentialUpdateLossScaleManager(init_loss_scale=1024, incr_every_n_steps=1000)
    optimizer = NPULossScaleOptimizer(tf.train.AdamOptimizer(1e-3), manager)
    return tf.estimator.EstimatorSpec(mode)


config = NPURunConfig(
    iterations_per_loop=10,
    save_checkpoints_steps=100,
    precision_mode='allow_mix_precision',
    modify_mixlist=os.path.join('here', 'ops_info.json'))
estimator = NPUEstimator(model_fn=model_fn, config=config)
hooks = [VarHook(10), tf.train.LoggingTensorHook({}, every_n_iter=10), tf.train.NanTensorHook(None)]
estimator.train(lambda: tf.data.Dataset.from_tensor_slices([1]).batch(1), hooks=hooks)
)py";

constexpr const char* kDistributed = R"py(import tensorflow as tf
from npu_bridge.npu_init import *
optimizer = npu_distributed_optimizer_wrapper(tf.train.GradientDescentOptimizer(0.1))
hooks = [NPUBroadcastGlobalVariablesHook(0)]
)py";

constexpr const char* kThirdParty = R"py(import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from model import net
hvd.init()
data = net(np.zeros(3)) + np.zeros(3)
rate = tf.contrib.training.HParams(rate=hvd.size())
)py";

constexpr const char* kQuoted = R"py(import tensorflow as tf
# import horovod; horovod.init(); tf.Session()
"""tf.contrib.layers
hvd.init()"""
a = 'tf.py_func' + r"\'tf.image.decode_jpeg" + f'{1} tf.nn.lrn'
)py";

ToolResult migrate(const TempFolder& temp, Words words) {
  words.insert(words.begin(), "migrate");
  words.insert(words.end(), {"--out", temp.file("out")});
  return run_tool(words);
}

nlohmann::json report_of(const TempFolder& temp) { return read_json(temp.file("out/report.json")); }

// "file line-or-node name | level" for each row.
std::vector<std::string> rows_of(const nlohmann::json& report) {
  std::vector<std::string> rows;
  for (const auto& row : report["rows"]) {
    const std::string file = row["file"];
    const std::string place =
        row.contains("line") ? row["line"].dump() : row["node"].get<std::string>();
    rows.push_back(file.substr(file.rfind('/') + 1) + " " + place + " " +
                   row["name"].get<std::string>() + " | " + row["level"].get<std::string>());
  }
  return rows;
}

std::map<std::string, std::pair<int, int>> levels_of(const nlohmann::json& report) {
  std::map<std::string, std::pair<int, int>> levels;
  for (const auto& level : report["levels"])
    levels[level["level"]] = {level["apis"], level["occurrences"]};
  return levels;
}

std::vector<std::string> names(const nlohmann::json& files) {
  std::vector<std::string> list;
  for (const auto& file : files) {
    const std::string name = file.is_string() ? file : file["file"];
    list.push_back(name.substr(name.rfind('/') + 1));
  }
  return list;
}

using Rows = std::vector<std::string>;

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("migrate reports a session script row by row") {
  const TempFolder temp;
  const ToolResult result = migrate(temp, {temp.write("session.py", kSession)});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 0);
  const nlohmann::json report = report_of(temp);
  const std::string rewriter =
      " tf.core.protobuf.rewriter_config_pb2.RewriterConfig | unsupported-no impact";
  CHECK(rows_of(report) ==
        Rows{"session.py 6 tf.placeholder | API works after tool",
             "session.py 6 tf.float32 | supported (no migration)",
             "session.py 7 tf.layers.dense | compatible class",
             "session.py 8 tf.reduce_mean | supported (no migration)",
             "session.py 8 tf.square | supported (no migration)",
             "session.py 9 tf.train.MomentumOptimizer | compatible class",
             "session.py 11 tf.ConfigProto | API works after tool",
             "session.py 14 enable_data_pre_proc | API works after tool",
             "session.py 15 iterations_per_loop | API works after tool", "session.py 16" + rewriter,
             "session.py 17" + rewriter, "session.py 18 tf.Session | compatible class",
             "session.py 19 tf.global_variables_initializer | unsupported-no impact",
             "session.py 20 npu_bridge.set_iteration_per_loop | API works after tool"});
  CHECK(levels_of(report) ==
        std::map<std::string, std::pair<int, int>>{{"supported (no migration)", {3, 3}},
                                                   {"API works after tool", {5, 5}},
                                                   {"training works after tool", {0, 0}},
                                                   {"compatible class", {3, 3}},
                                                   {"deprecated", {0, 0}},
                                                   {"unsupported-no impact", {2, 3}},
                                                   {"unsupported-no plan", {0, 0}},
                                                   {"analysing", {0, 0}}});
  CHECK(names(report["files"]["needs_work"]) == Rows{"session.py"});
  CHECK(contains(report["rows"][8]["advice"], "--loop-size"));
}

TEST_CASE("migrate reports an estimator with hooks and a mix list") {
  const TempFolder temp;
  const ToolResult result = migrate(temp, {temp.write("estimator.py", kEstimator)});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 0);
  CHECK(rows_of(report_of(temp)) ==
        Rows{"estimator.py 11 npu_bridge.ExponentialUpdateLossScaleManager | compatible class",
             "estimator.py 12 npu_bridge.NPULossScaleOptimizer | compatible class",
             "estimator.py 12 tf.train.AdamOptimizer | compatible class",
             "estimator.py 13 tf.estimator.EstimatorSpec | training works after tool",
             "estimator.py 16 npu_bridge.NPURunConfig | API works after tool",
             "estimator.py 17 iterations_per_loop | API works after tool",
             "estimator.py 18 save_checkpoints_steps | API works after tool",
             "estimator.py 19 precision_mode | API works after tool",
             "estimator.py 20 modify_mixlist | API works after tool",
             "estimator.py 21 npu_bridge.NPUEstimator | training works after tool",
             "estimator.py 22 npu_bridge.SetIterationsVarHook | API works after tool",
             "estimator.py 22 tf.train.LoggingTensorHook | training works after tool",
             "estimator.py 22 tf.train.NanTensorHook | training works after tool",
             "estimator.py 23 tf.data.Dataset.from_tensor_slices | supported (no migration)"});
}

TEST_CASE("migrate counts a folder without duplicates and lists its files") {
  const TempFolder temp;
  fs::create_directories(temp.file("job/deep"));
  temp.write("job/ranks.py", kDistributed);
  temp.write("job/third.py", kThirdParty);
  temp.write("job/deep/quoted.py", kQuoted);
  temp.write("job/deep/model.py", "def net(x): return x\n");
  temp.write("job/broken.py", "x = '''never closed\n");
  temp.write("job/graph.pb", "no graph");
  temp.write("job/notes.txt", "tf.Session");
  const ToolResult result = migrate(temp, {temp.file("job")});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 3);
  const nlohmann::json report = report_of(temp);
  CHECK(names(report["files"]["success"]) == Rows{"model.py", "quoted.py"});
  CHECK(names(report["files"]["needs_work"]) == Rows{"ranks.py", "third.py"});
  CHECK(names(report["files"]["failed"]) == Rows{"broken.py", "graph.pb"});
  CHECK(contains(report["files"]["failed"][0]["reason"], "broken.py:1: a string is not closed"));
  CHECK(report["files"]["skipped"] == 1);
  CHECK(rows_of(report) ==
        Rows{"ranks.py 3 npu_bridge.npu_distributed_optimizer_wrapper | API works after tool",
             "ranks.py 3 tf.train.GradientDescentOptimizer | compatible class",
             "ranks.py 4 npu_bridge.NPUBroadcastGlobalVariablesHook | training works after tool",
             "third.py 5 horovod.tensorflow.init | unsupported-no plan",
             "third.py 6 numpy.zeros | unsupported-no plan",
             "third.py 6 numpy.zeros | unsupported-no plan",
             "third.py 7 tf.contrib.training.HParams | deprecated",
             "third.py 7 horovod.tensorflow.size | unsupported-no plan"});
  const auto levels = levels_of(report);
  CHECK(levels.at("unsupported-no plan") == std::pair(3, 4));
  CHECK(levels.at("analysing") == std::pair(0, 0));
  CHECK(levels.at("deprecated") == std::pair(1, 1));
  CHECK(report["rows"][3]["module"] == "horovod");
  CHECK(contains(report["rows"][0]["advice"], "keel launch -n N -- keel train"));
  CHECK(contains(result.out, "6 files: 2 success, 2 needs work, 2 failed; 1 of other kinds"));
  CHECK(contains(result.out, "2 x numpy.zeros of numpy"));
  CHECK(contains(result.err, "broken.py"));
}

TEST_CASE("migrate judges the nodes of TensorFlow graphs") {
  const TempFolder temp;
  const keel::Tensor one = keel::Tensor::of<float>({1}, {1});
  const std::string training = placeholder_text("x", keel::f32, {1}) + variable_text("w", one) +
                               node_text("s", "Switch", {"x", "x"}) +
                               node_text("g", "Unique", {"x"}) +
                               node_text("save", "SaveV2", {"w"}) + node_text("it", "IteratorV2") +
                               node_text("train", "ApplyGradientDescent", {"w", "x", "g"});
  const ToolResult result = migrate(temp, {temp.write("t.pbtxt", training)});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 3);
  CHECK(rows_of(report_of(temp)) ==
        Rows{"t.pbtxt x Placeholder | supported (no migration)",
             "t.pbtxt w VariableV2 | supported (no migration)",
             "t.pbtxt w/initial_value Const | supported (no migration)",
             "t.pbtxt w/Assign Assign | supported (no migration)",
             "t.pbtxt w/read Identity | supported (no migration)",
             "t.pbtxt s Switch | API works after tool", "t.pbtxt g Unique | unsupported-no plan",
             "t.pbtxt save SaveV2 | unsupported-no impact",
             "t.pbtxt it IteratorV2 | training works after tool",
             "t.pbtxt train ApplyGradientDescent | supported (no migration)"});
  // All of a frozen graph is tried: attributes count, too.
  const TempFolder other;
  const std::string frozen = placeholder_text("x", keel::f32, {1}) + node_text("y", "Relu", {"x"}) +
                             node_text("z", "LeakyRelu", {"y"}, {{"beta", "f: 1"}});
  CHECK(migrate(other, {other.write("f.pb", frozen)}).exit_code == 3);
  const nlohmann::json report = report_of(other);
  CHECK(rows_of(report)[2] == "f.pb z LeakyRelu | unsupported-no plan");
  CHECK(contains(report["rows"][2]["advice"], "attribute beta"));
}

TEST_CASE("migrate writes the same table as CSV and as a page") {
  const TempFolder temp;
  migrate(temp, {temp.write("third.py", kThirdParty)});
  const auto table = keel::parse_csv(read_text(temp.file("out/report.csv")), "report.csv");
  const nlohmann::json report = report_of(temp);
  CHECK(table.front() ==
        keel::CsvRow{"index", "file", "line or node", "module", "name", "level", "advice"});
  REQUIRE(table.size() == report["rows"].size() + 1);
  for (size_t i = 1; i < table.size(); ++i) {
    const auto& row = report["rows"][i - 1];
    CHECK(table[i] == keel::CsvRow{std::to_string(i), row["file"], row["line"].dump(),
                                   row["module"], row["name"], row["level"], row["advice"]});
  }
  const std::string page = read_text(temp.file("out/report.html"));
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK_FALSE(contains(page, "<script"));
  CHECK(contains(page, "<td>horovod.tensorflow.init</td>"));
}

TEST_CASE("migrate gives the same reports each time") {
  const TempFolder temp;
  fs::create_directories(temp.file("job"));
  temp.write("job/b.py", kThirdParty);
  temp.write("job/a.py", kSession);
  const Words inside = {"migrate", temp.file("job"), "--out", temp.file("job/reports")};
  std::vector<std::string> first;
  for (int run = 0; run < 2; ++run) {
    CHECK(run_tool(inside).exit_code == 3);
    std::vector<std::string> texts;
    for (const char* name : {"report.json", "report.csv", "report.html"})
      texts.push_back(read_text(temp.file("job/reports/" + std::string(name))));
    if (run == 0) first = texts;
    CHECK((texts == first));
  }
  // Paths in another order, and files that two of them lead to.
  CHECK(migrate(temp, {temp.file("job/b.py"), temp.file("job"), temp.file("job/a.py")}).exit_code ==
        3);
  CHECK(report_of(temp)["rows"] == read_json(temp.file("job/reports/report.json"))["rows"]);
}

TEST_CASE("migrate names files as they were given") {
  const TempFolder temp;
  temp.write("a.py", kSession);
  const ToolResult result = run_bash("cd \"$1\" && \"$0\" migrate .", {temp.path()});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 0);
  const std::string text = read_text(temp.file("keel-migration/report.json"));
  CHECK_FALSE(contains(text, temp.path()));
  CHECK(nlohmann::json::parse(text)["rows"][0]["file"] == "a.py");
}

TEST_CASE("migrate reports each node of a model") {
  const TempFolder temp;
  const std::string good =
      temp.write("good.onnx", onnx_model({.nodes = {onnx_node("MatMul", {"x", "w"}, {"xw"}),
                                                    onnx_node("Relu", {"xw"}, {"y"})},
                                          .initializers = {onnx_floats("w", {2, 2}, {1, 2, 3, 4})},
                                          .inputs = {onnx_value("x", 1, {-1, 2})},
                                          .outputs = {onnx_value("y", 1, {-1, 2})}}));
  CHECK(migrate(temp, {good}).exit_code == 0);
  CHECK(rows_of(report_of(temp)) == Rows{"good.onnx xw MatMul | supported (no migration)",
                                         "good.onnx y Relu | supported (no migration)"});
  CHECK(names(report_of(temp)["files"]["success"]) == Rows{"good.onnx"});

  const std::string bound =
      temp.write("bound.onnx",
                 onnx_model({.nodes = {onnx_node("Reshape", {"x", "shape"}, {"y"})},
                             .initializers = {},
                             .inputs = {onnx_value("x", 1, {-1, 2}), onnx_value("shape", 7, {1})},
                             .outputs = {onnx_value("y", 1, {-1})}}));
  CHECK(migrate(temp, {bound}).exit_code == 0);
  CHECK(rows_of(report_of(temp)) == Rows{"bound.onnx y Reshape | API works after tool"});
  CHECK(contains(report_of(temp)["rows"][0]["advice"], "--bind shape=FILE.npy"));

  const std::string bad = temp.write(
      "bad.onnx",
      onnx_model({.nodes = {onnx_node("Relu", {"x"}, {"r"}), onnx_node("NoSuchOp", {"r"}, {"u"}),
                            onnx_node("Relu", {"u"}, {"y"})},
                  .initializers = {},
                  .inputs = {onnx_value("x", 1, {-1, 2})},
                  .outputs = {onnx_value("y", 1, {-1, 2})}}));
  CHECK(migrate(temp, {bad}).exit_code == 3);
  CHECK(rows_of(report_of(temp)) == Rows{"bad.onnx r Relu | supported (no migration)",
                                         "bad.onnx u NoSuchOp | unsupported-no plan",
                                         "bad.onnx y Relu | analysing"});
  CHECK(migrate(temp, {temp.write("cut.onnx", read_text(good).substr(0, 40))}).exit_code == 1);
  CHECK(names(report_of(temp)["files"]["failed"]) == Rows{"cut.onnx"});
}

TEST_CASE("migrate takes rows of a table of one's own first") {
  const TempFolder temp;
  const std::string script = temp.write("third.py", kThirdParty);
  temp.write("model.py", "def net(x): return x\n");  // beside the script, not scanned
  const std::string table = temp.write("table.json", R"({"apis": [
        {"name": "numpy.*", "level": "unsupported-no impact", "advice": "stays in Python"},
        {"name": "horovod.tensorflow.*", "level": "analysing", "advice": "later"}]})");
  const ToolResult result = migrate(temp, {script, "--table", table});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 0);
  CHECK(levels_of(report_of(temp)).at("unsupported-no impact") == std::pair(1, 2));
  const ToolResult wrong =
      migrate(temp, {script, "--table", temp.write("wrong.json", "{\"x\": 1}")});
  CHECK(wrong.exit_code == 1);
  CHECK(contains(wrong.err, "unknown key 'x'"));
}

TEST_CASE("migrate refuses what was typed wrong and what it cannot write") {
  const TempFolder temp;
  const std::string script = temp.write("a.py", kSession);
  const auto check = [&](const Words& words, int code, const std::string& part) {
    const ToolResult result = run_tool(words);
    CAPTURE(result.err);
    CHECK(result.exit_code == code);
    CHECK(contains(result.err, part));
  };
  check({"migrate"}, 2, "the file or folder is missing");
  check({"migrate", ""}, 2, "is missing");
  check({"migrate", script, "--outt", "x"}, 2, "--out");
  check({"migrate", temp.file("absent"), "--out", temp.file("out")}, 1, "absent");
  check({"migrate", script, "--out", script}, 1, "expected a folder");
  CHECK_FALSE(fs::exists(temp.file("out")));

  // The folder of the scripts is theirs.
  check({"migrate", temp.path(), "--out", temp.path()}, 2, "has files of its own: 'a.py'");
  check({"migrate", script, "--out", temp.path()}, 2, "has files of its own: 'a.py'");
  // Files of these names that somebody else wrote stay.
  for (const char* name : {"report.json", "report.csv", "report.html"}) {
    const TempFolder other;
    const std::string foreign = other.write(name, "mine");
    check({"migrate", script, "--out", other.path()}, 2, name);
    CHECK(read_text(foreign) == "mine");
    CHECK(names_in(other.path()) == Rows{name});
  }
  // A link from there to what is scanned.
  const TempFolder linked;
  CHECK(migrate(linked, {script}).exit_code == 0);
  const std::string scanned = linked.write("b.py", read_text(linked.file("out/report.csv")));
  fs::remove(linked.file("out/report.csv"));
  fs::create_symlink(scanned, linked.file("out/report.csv"));
  check({"migrate", scanned, "--out", linked.file("out")}, 2, "would overwrite");
}

TEST_CASE("migrate leaves all three reports or none") {
  const TempFolder temp;
  const std::string script = temp.write("a.py", kSession);
  fs::create_directory(temp.file("out"));
  fs::create_directory(temp.file("out/report.json"));
  const ToolResult result = migrate(temp, {script});
  CHECK(result.exit_code != 0);
  CHECK(names_in(temp.file("out")) == Rows{"report.json"});
}

TEST_CASE("migrate survives hostile files and names") {
  const TempFolder temp;
  const std::string job = temp.file("job");
  fs::create_directories(job + "/loop");
  fs::create_directory_symlink(job, job + "/loop/again");
  temp.write("job/long.py",
             "import tensorflow as tf; x = [" + std::string(10 << 20, '1') + "]; tf.abs(x)\n");
  temp.write("job/nul.py", std::string("import os\0", 10));
  temp.write("job/latin.py", "import tensorflow as tf\n# \xe9\xff\nx = tf.abs('\xfe')\n");
  temp.write("job/quote'\".py", kThirdParty);
  temp.write("job/<script>alert(1)<x>.py",
             "from <script> import x\nimport tensorflow as tf\ntf.abs");
  temp.write("job/line\nbreak.py", kThirdParty);
  temp.write("job/=cmd.py", kThirdParty);
  temp.write("job/\xff\xfe.py", kThirdParty);
  CHECK(::mkfifo((job + "/pipe.py").c_str(), 0600) == 0);
  const ToolResult result = migrate(temp, {job});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 3);
  const nlohmann::json report = report_of(temp);
  CHECK(names(report["files"]["failed"]) == Rows{"nul.py", "pipe.py"});
  CHECK(report["files"]["links"] == 1);
  CHECK(report["files"]["needs_work"].size() == 4);
  CHECK(contains(report["files"]["needs_work"].dump(), "line\\\\nbreak.py"));
  const std::string page = read_text(temp.file("out/report.html"));
  CHECK_FALSE(contains(page, "<script"));
  CHECK(contains(page, "&lt;script&gt;alert(1)&lt;x&gt;.py"));
  // A name that a spreadsheet would take for a formula.
  const ToolResult inside = run_bash("cd \"$1\" && \"$0\" migrate =cmd.py --out ../named", {job});
  CHECK(inside.exit_code == 3);
  const auto table = keel::parse_csv(read_text(temp.file("named/report.csv")), "report.csv");
  CHECK(table.at(1).at(1) == "'=cmd.py");
}

TEST_CASE("migrate keeps to the read budget") {
  const TempFolder temp;
  std::string script = "import tensorflow as tf\n";
  for (int i = 0; i < 20000; ++i) script += "tf.abs\n";
  temp.write("a.py", script);
  const ToolResult result = migrate(temp, {temp.file("a.py"), "--read-budget", "8"});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 1);
  const nlohmann::json report = report_of(temp);
  REQUIRE(report["files"]["failed"].size() == 1);
  CHECK(contains(report["files"]["failed"][0]["reason"], "--read-budget"));
  CHECK(report["rows"].empty());
  CHECK(migrate(temp, {temp.file("a.py")}).exit_code == 0);
  CHECK(report_of(temp)["rows"].size() == 20000);
}

TEST_CASE("migrate says which folders it cannot read") {
  if (::geteuid() == 0) {
    MESSAGE("keel test skipped: root reads every folder");
    return;
  }
  const TempFolder temp;
  fs::create_directories(temp.file("job/shut"));
  temp.write("job/locked.py", kSession);
  ::chmod(temp.file("job/shut").c_str(), 0);
  ::chmod(temp.file("job/locked.py").c_str(), 0);
  const ToolResult result = migrate(temp, {temp.file("job")});
  CHECK(result.exit_code == 1);
  CHECK(names(report_of(temp)["files"]["failed"]) == Rows{"locked.py", "shut"});
  ::chmod(temp.file("job/shut").c_str(), 0700);
}

}  // namespace keel_test
