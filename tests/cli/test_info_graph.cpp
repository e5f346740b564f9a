#include <algorithm>
#include <cstdlib>
#include <set>

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "keel/graph/ir/text.h"
#include "keel/keel.h"

#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using keel_test::contains;
using namespace keel_test;
using nlohmann::json;

// As they are listed, by name.
const std::vector<std::string> kListedBackends = {"cpu", "npu", "ref"};
const std::vector<std::string> kDTypes = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"};

std::string output_of(const Words& words) {
  const ToolResult result = run_tool(words);
  CAPTURE(join(words));
  CHECK_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.err.empty());
  REQUIRE(!result.out.empty());
  return result.out;
}

int64_t count_of(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("info: as json it has the version the devices and every op on every backend") {
  const json info = json::parse(output_of({"info", "--json"}));
  CHECK(info.at("keel_version") == KEEL_VERSION);
  std::set<std::string> devices;
  for (const json& device : info.at("devices")) {
    devices.insert(device.at("device").get<std::string>());
    CHECK(device.at("description").is_string());
    CHECK(device.at("memory_bytes").is_number_unsigned());
    CHECK(device.at("device").get<std::string>().rfind(device.at("backend").get<std::string>(),
                                                       0) == 0);
    if (device.at("backend") == "npu") {
      CHECK(device.at("memory_bytes") > 0);
      CHECK(contains(device.at("properties").at("available isas").get<std::string>(), "scalar"));
    }
  }
  std::set<std::string> all_devices{"cpu:0", "ref:0"};
  for (int i = 0; i < 8; ++i) all_devices.insert("npu:" + std::to_string(i));
  CHECK(devices == all_devices);

  std::set<std::string> expected;
  for (const keel::OpDef* op : keel::builtin_ops().all()) {
    if (op->sample) expected.insert(op->name);
  }
  std::set<std::string> listed;
  for (const auto& entry : info.at("ops").items()) {
    const std::string& op = entry.key();
    const auto& backends = entry.value();
    CAPTURE(op);
    listed.insert(op);
    for (const std::string& backend : kListedBackends) {
      CAPTURE(backend);
      const json& native = backends.at(backend).at("native");
      const json& decomposed = backends.at(backend).at("decomposed");
      CHECK(native.size() + decomposed.size() > 0);  // an op that runs nowhere is no op
      std::set<std::string> dtypes;
      for (const json& list : {native, decomposed}) {
        for (const json& dtype : list) {
          CHECK(std::find(kDTypes.begin(), kDTypes.end(), dtype) != kDTypes.end());
          CHECK_MESSAGE(dtypes.insert(dtype).second, dtype << " is listed twice");
        }
      }
    }
  }
  CHECK(listed == expected);
  for (const char* op : {"add", "matmul", "softmax_cross_entropy", "gather", "uniform", "mean"}) {
    CHECK(listed.count(op) == 1);
  }
}

TEST_CASE("info: the text names the same ops and backends") {
  const std::string text = output_of({"info"});
  const json info = json::parse(output_of({"info", "--json"}));
  CHECK(contains(text, std::string("keel ") + KEEL_VERSION));
  CHECK(contains(text, "\n    isa: "));
  CHECK(contains(text, "\n    AMX: "));
  for (const json& device : info.at("devices")) {
    CHECK(contains(text, "\n  " + device.at("device").get<std::string>() + "  "));
  }
  const auto lines = lines_of(text);
  for (const auto& entry : info.at("ops").items()) {
    const std::string& op = entry.key();
    const auto& backends = entry.value();
    CAPTURE(op);
    auto line = std::find(lines.begin(), lines.end(), "  " + op);
    REQUIRE(line != lines.end());
    for (const std::string& backend : kListedBackends) {
      REQUIRE(++line != lines.end());
      CHECK(line->rfind("    " + backend + " ", 0) == 0);
      for (const json& dtype : backends.at(backend).at("native")) {
        CHECK(contains(*line, " " + dtype.get<std::string>()));
      }
    }
  }
}

TEST_CASE("graph: every model with every optimizer prints what parses back") {
  for (const char* model : {"softmax", "mlp"}) {
    for (const char* optimizer : {"sgd", "momentum", "adam", "adamw"}) {
      CAPTURE(model);
      CAPTURE(optimizer);
      const std::string text = output_of({"graph", "--model", model, "--optimizer", optimizer});
      const auto graph = keel::parse_graph(text);
      CHECK(keel::print_graph(*graph) + "\n" == text);
      CHECK(graph->inputs().size() == 2);
      CHECK(count_of(text, "matmul(") == (std::string(model) == "mlp" ? 3 : 1));
      CHECK(contains(text, std::string(model) + ".cpp\":"));  // the model's own lines
      CHECK(contains(text, "updates ("));
      CHECK(count_of(text, "{is_step_boundary=true} : token[]") == 1);
    }
  }
  CHECK(output_of({"graph"}) == output_of({"graph", "--model", "softmax", "--optimizer", "sgd"}));
}

TEST_CASE("graph: DOT declares every node that its edges name") {
  for (const char* model : {"softmax", "mlp"}) {
    const std::string dot = output_of({"graph", "--model", model, "--dot"});
    CHECK(dot.rfind("digraph", 0) == 0);
    CHECK(count_of(dot, "{") == count_of(dot, "}"));
    CHECK(count_of(dot, "\"") % 2 == 0);
    std::set<std::string> declared;
    std::set<std::string> used;
    for (std::string line : lines_of(dot)) {
      line.erase(0, line.find_first_not_of(' '));
      const auto word = [](const std::string& text) {
        return text.substr(0, text.find_first_of(" ;[:"));
      };
      const size_t arrow = line.find(" -> ");
      if (arrow != std::string::npos) {
        used.insert(word(line));
        used.insert(word(line.substr(arrow + 4)));
      } else if (line[0] == 'n' && contains(line, " [label=")) {
        declared.insert(word(line));
      }
    }
    CHECK(declared.size() >= 10);
    CHECK(used.size() >= 10);
    CHECK(std::includes(declared.begin(), declared.end(), used.begin(), used.end()));
    CHECK(contains(dot, "matmul"));
  }
}

TEST_CASE("graph: the compiled task list of each backend counts up and has the batch") {
  for (const std::string& backend : kListedBackends) {
    for (const char* model : {"softmax", "mlp"}) {
      CAPTURE(backend);
      CAPTURE(model);
      const std::string text = output_of(
          {"graph", "--model", model, "--compiled", "--backend", backend, "--batch", "32"});
      const auto lines = lines_of(text);
      // Tasks, the loop, what was inserted, then what the compiler says about its choices.
      const auto loop = std::find(lines.begin(), lines.end(), "loop: device");
      const auto tasks = static_cast<size_t>(loop - lines.begin());
      CHECK(tasks >= 3);
      REQUIRE(tasks + 1 < lines.size());
      for (size_t i = 0; i < tasks; ++i) {
        CHECK_MESSAGE(lines[i].rfind(std::to_string(i) + " ", 0) == 0, lines[i]);
      }
      CHECK(lines[tasks + 1].rfind("inserted: ", 0) == 0);
      for (const char* type : {"LOOP_INC", "LOOP_SWITCH", "LOOP_ACTIVE", "LOOP_RESET"}) {
        CHECK(contains(lines[tasks + 1], type));
        CHECK(count_of(text, type) == 2);  // its task, and the line of what was inserted
      }
      CHECK(contains(text, "[32, 784]"));
      CHECK(contains(text, "matmul"));
      CHECK(contains(text, std::string(model) + ".cpp:"));
    }
  }
}

TEST_CASE("help: the tool and its commands print theirs on stdout") {
  CHECK(contains(output_of({"--help"}), "usage: keel COMMAND"));
  CHECK(contains(output_of({"--version"}), KEEL_VERSION));
  const std::string train = output_of({"train", "--help"});
  for (const char* flag :
       {"model", "data", "backend", "batch", "epochs", "steps", "lr", "optimizer", "loop-size",
        "seed", "threads", "metrics", "summary", "save", "quiet"}) {
    CHECK_MESSAGE(contains(train, std::string("--") + flag + " "), flag);
  }
  CHECK(contains(output_of({"info", "--help"}), "--json"));
  CHECK(contains(output_of({"graph", "--help"}), "--dot"));
}

TEST_CASE("info and graph: output that cannot be written is an error") {
  for (const char* command : {"info", "graph"}) {
    const int status =
        std::system((std::string(KEEL_TOOL) + " " + command + " > /dev/full 2> /dev/null").c_str());
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 1);
  }
}
