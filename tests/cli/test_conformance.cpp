// `keel conformance`: the scorecard of a backend, of the built-in ones and of others.
#include <string>

#include <doctest/doctest.h>

#include "cli/tool.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel_test {
namespace {

// The verdict on an op in a dtype; "" where the scorecard has none.
nlohmann::json score_of(const nlohmann::json& card, const std::string& op,
                        const std::string& dtype) {
  for (const auto& score : card.at("scores")) {
    if (score.at("op") == op && score.at("dtype") == dtype) return score;
  }
  return {{"verdict", ""}};
}

const std::string kWrong = std::string(KEEL_TEST_PLUGINS) + "/wrong_backend.so";

}  // namespace

TEST_SUITE_BEGIN("cli");

TEST_CASE("conformance of the built-in backends passes and says what is composed") {
  for (const std::string backend : {"ref", "cpu", "npu"}) {
    const TempFolder temp;
    const ToolResult result = run_tool({"conformance", "--backend", backend, "--ops",
                                        "add,matmul,exp,sigmoid,sum,softplus", "--cases", "10",
                                        "--json", temp.file("card")});
    CAPTURE(result.out + result.err);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.out, ", 0 fail"));
    const nlohmann::json card = read_json(temp.file("card"));
    CHECK(card.at("backend") == backend);
    CHECK(card.at("device") == backend + ":0");
    CHECK(card.at("counts").at("fail") == 0);
    CHECK(score_of(card, "add", "f32").at("verdict") == "pass");
    CHECK(score_of(card, "add", "f32").at("cases").get<int>() >= 10);
    CHECK(score_of(card, "exp", "i64").at("verdict") == "");
    // Nobody but ref has a kernel for it.
    CHECK(score_of(card, "softplus", "f32").at("verdict") ==
          (backend == "ref" ? "pass" : "composed"));
    int64_t counted = 0;
    for (const auto& [verdict, count] : card.at("counts").items()) counted += count.get<int64_t>();
    CHECK(counted == static_cast<int64_t>(card.at("scores").size()));
  }
}

TEST_CASE("conformance of a wrong backend names the first element and exits with 3") {
  const TempFolder temp;
  const ToolResult result =
      run_tool({"conformance", "--plugin", kWrong, "--backend", "wrong", "--ops",
                "mul,sqrt,exp,neg", "--cases", "20", "--json", temp.file("card")});
  CAPTURE(result.out + result.err);
  CHECK(result.exit_code == 3);
  CHECK(contains(result.out, "FAIL"));
  CHECK(contains(result.out, "mul f32: "));
  CHECK(contains(result.out, "the first, number 2: got "));
  const nlohmann::json card = read_json(temp.file("card"));
  CHECK(score_of(card, "mul", "f32").at("verdict") == "fail");
  CHECK(contains(score_of(card, "mul", "f32").at("detail"), "the first, number 2: got "));
  CHECK(score_of(card, "mul", "f64").at("verdict") == "pass");
  CHECK(score_of(card, "neg", "i32").at("verdict") == "pass");
  // Its gradient is weighted by products.
  CHECK(contains(score_of(card, "neg", "f32").at("detail"), "gradient of x0"));
  CHECK(score_of(card, "sqrt", "f32").at("verdict") == "fail");
  CHECK(contains(score_of(card, "sqrt", "f32").at("detail"), "no exception"));
  CHECK(score_of(card, "exp", "f32").at("verdict") == "unsupported");
  CHECK(contains(score_of(card, "exp", "f32").at("detail"), "nobody wrote a kernel"));
}

TEST_CASE("every command takes a plugin and lists its backend") {
  const ToolResult info = run_tool({"info", "--plugin", kWrong});
  CHECK(info.exit_code == 0);
  CHECK(contains(info.out, "wrong:0  for tests"));
  for (const Words& words : {Words{"train"}, Words{"info"}, Words{"graph"}, Words{"profile"},
                             Words{"calibrate"}, Words{"conformance"}, Words{"bench", "kernels"},
                             Words{"eval"}, Words{"predict"}, Words{"inspect"}, Words{"sample"}}) {
    Words help = words;
    help.push_back("--help");
    CHECK(contains(run_tool(help).out, "--plugin FILE.so"));
    CHECK(contains(run_tool(help).out, "--read-budget MIB"));
    Words missing = words;
    missing.insert(missing.end(), {"--plugin", "/no/such.so"});
    const ToolResult result = run_tool(missing);
    CAPTURE(join(missing));
    CHECK(result.exit_code == 1);
    CHECK(contains(result.err, "/no/such.so"));
  }
  const ToolResult graph =
      run_tool({"graph", "--plugin", kWrong, "--compiled", "--backend", "wrong"});
  CHECK(graph.exit_code == 0);
  CHECK(contains(graph.out, "AI_CPU"));
}

TEST_CASE("conformance refuses what it does not know") {
  CHECK(run_tool({"conformance", "--ops", "addd"}).exit_code == 2);
  // Ops that compute nothing by themselves, before anything is printed.
  for (const char* op : {"cond", "while_loop", "state"}) {
    const ToolResult result = run_tool({"conformance", "--ops", op});
    CHECK(result.exit_code == 2);
    CHECK_MESSAGE(result.out.empty(), result.out);
    CHECK(result.err.find(op) != std::string::npos);
  }
  CHECK(run_tool({"conformance", "--backend", "none"}).exit_code == 2);
  CHECK(run_tool({"conformance", "--cases", "0"}).exit_code == 2);
  CHECK(run_tool({"conformance", "--ops", "add", "--json", "/no/such/file"}).exit_code == 1);
}

TEST_SUITE_END();

}  // namespace keel_test
