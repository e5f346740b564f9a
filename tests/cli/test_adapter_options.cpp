// `keel config --from-adapter`: options of Ascend's adapter as flags, option by option, and what is
// refused.
#include <limits>
#include <regex>

#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/refusals.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

// A file of the adapter's options, and the folder that it lies in.
class Options {
 public:
  explicit Options(const std::string& text) { files_.write("adapter.json", text); }
  explicit Options(const json& options) : Options(options.dump()) {}

  std::string path() const { return files_.file("adapter.json"); }
  const TempFolder& files() const { return files_; }
  ToolResult translate(const Words& words = {}) const {
    Words all = {"config", "--from-adapter", path()};
    all.insert(all.end(), words.begin(), words.end());
    return run_tool(all);
  }

 private:
  TempFolder files_;
};

// The line of the report about an option.
std::string told_of(const std::string& report, const std::string& option) {
  for (const std::string& line : lines_of(report)) {
    if (line.starts_with(option + " ")) return line;
  }
  return "";
}

void check_options_refused(const json& options, int exit_code, const Words& parts) {
  CAPTURE(options.dump());
  const Options file(options);
  const ToolResult result = file.translate({"--out", file.files().file("out.json")});
  CHECK(result.exit_code == exit_code);
  REQUIRE_MESSAGE(lines_of(result.err).size() == 1, result.err);
  CHECK_MESSAGE(contains(result.err, file.path()), result.err);
  for (const std::string& part : parts)
    CHECK_MESSAGE(contains(result.err, part), result.err << " lacks " << part);
  CHECK(result.out.empty());
  CHECK_THROWS(read_json(file.files().file("out.json")));
}

}  // namespace

TEST_CASE("from-adapter: each option that a flag means the same as") {
  const TempFolder files;
  files.write("mix.json", R"({"black-list": {"to-add": ["sum"]}})");
  files.write("dtypes.cfg", "OpType::sum::InputDtype:float32,OutputDtype:float32\n");
  struct Row {
    json options, config;
  };
  const std::string folder = files.path();
  const Row rows[] = {
      {{{"iterations_per_loop", 10}}, {{"loop-size", 10}}},
      {{{"iterations_per_loop", 1}}, {{"loop-size", 1}}},
      {{{"session_device_id", 3}}, {{"device-id", 3}}},
      {{{"precision_mode", "must_keep_origin_dtype"}},
       {{"precision-mode", "must_keep_origin_dtype"}}},
      {{{"precision_mode_v2", "mixed_float16"}}, {{"precision-mode-v2", "mixed_float16"}}},
      {{{"precision_mode", "allow_mix_precision"}, {"modify_mixlist", files.file("mix.json")}},
       {{"precision-mode", "allow_mix_precision"}, {"modify-mixlist", files.file("mix.json")}}},
      {{{"customize_dtypes", files.file("dtypes.cfg")}},
       {{"customize-dtypes", files.file("dtypes.cfg")}}},
      {{{"experimental_accelerate_train_mode", "fast|step|0.5"}},
       {{"accelerate-train-mode", "fast|step|0.5"}}},
      {{{"profiling_mode", true}}, {{"profiling-mode", true}}},
      {{{"profiling_mode", true}, {"profiling_options", R"({"task_trace": "l0"})"}},
       {{"profiling-mode", true}, {"profiling-options", R"({"task_trace": "l0"})"}}},
      {{{"profiling_mode", true}, {"profiling_options", {{"task_trace", "l0"}}}},
       {{"profiling-mode", true}, {"profiling-options", {{"task_trace", "l0"}}}}},
      {{{"enable_dump", true},
        {"dump_path", folder},
        {"dump_step", "0|5|10-20"},
        {"dump_mode", "all"},
        {"dump_data", "stats"},
        {"dump_layer", "matmul"}},
       {{"enable-dump", true},
        {"dump-path", folder},
        {"dump-step", "0|5|10-20"},
        {"dump-mode", "all"},
        {"dump-data", "stats"},
        {"dump-layer", "matmul"}}},
      {{{"enable_dump_debug", true}, {"dump_path", folder}, {"dump_debug_mode", "all"}},
       {{"enable-dump-debug", true}, {"dump-path", folder}, {"dump-debug-mode", "all"}}},
      {{{"model_dir", files.file("runs")},
        {"save_checkpoints_steps", 50},
        {"keep_checkpoint_max", 5}},
       {{"checkpoint", files.file("runs")}, {"save-every", 50}, {"keep", 5}}},
      {{{"model_dir", files.file("runs")}, {"save_checkpoints_secs", 600}},
       {{"checkpoint", files.file("runs")}, {"save-every", "600s"}}},
      {{{"tf_random_seed", 7}}, {{"seed", 7}}},
      {{{"mix_compile_mode", true}}, {{"placement", "mixed"}}},
      {{{"enable_profiling", true}, {"profiling_options", R"({"task_trace": "l0"})"}},
       {{"profiling-mode", true}, {"profiling-options", R"({"task_trace": "l0"})"}}},
      {{{"mix_compile_mode", true}, {"iterations_per_loop", 1}},
       {{"placement", "mixed"}, {"loop-size", 1}}},
      {json::object(), json::object()},
  };
  for (const Row& row : rows) {
    CAPTURE(row.options.dump());
    const Options file(row.options);
    const ToolResult result = file.translate();
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(json::parse(result.out) == row.config);
    CHECK(lines_of(result.err).size() == row.options.size());
    for (const auto& option : row.options.items())
      CHECK_MESSAGE(!told_of(result.err, option.key()).empty(), option.key());
    // With --out the configuration is a file, and the report the output.
    const std::string out = file.files().file("out.json");
    const ToolResult to_file = file.translate({"--out", out});
    CHECK(to_file.exit_code == 0);
    CHECK(to_file.err.empty());
    CHECK(to_file.out == result.err);
    CHECK(read_json(out) == row.config);
  }
}

TEST_CASE("from-adapter: options without effect are told with the reason") {
  struct Row {
    json options;
    std::string option, why;
  };
  const Row rows[] = {
      {{{"enable_data_pre_proc", true}}, "enable_data_pre_proc", "Keel does so anyway"},
      {{{"mix_compile_mode", false}}, "mix_compile_mode", "it is off"},
      {{{"graph_run_mode", 1}}, "graph_run_mode", "Keel does so anyway"},
      {{{"enable_dump", false}, {"dump_path", "/nowhere"}}, "dump_path", "which is not on"},
      {{{"dump_step", "101"}}, "dump_step", "it is about enable_dump"},
      {{{"dump_debug_mode", "all"}}, "dump_debug_mode", "it is about enable_dump_debug"},
      {{{"profiling_options", "{}"}}, "profiling_options", "it is about profiling_mode"},
      {{{"save_summary_steps", 100}}, "save_summary_steps", "--metrics FILE has every step"},
      {{{"log_step_count_steps", 100}}, "log_step_count_steps", "--metrics FILE has every step"},
      {{{"op_execute_timeout", 120}}, "op_execute_timeout", "no op of a simulated device hangs"},
      {{{"stream_sync_timeout", -1}}, "stream_sync_timeout", "no op of a simulated device hangs"},
      {{{"deterministic", 1}}, "deterministic", "the same bits"},
      {{{"op_precision_mode", "op_precision.ini"}}, "op_precision_mode", "op compiler"},
      {{{"oo_level", "O3"}}, "oo_level", "another compiler"},
      {{{"external_weight", false}}, "external_weight", "memory is planned"},
      {{{"hccl_timeout", 1800}}, "hccl_timeout", "HCCL_EXEC_TIMEOUT"},
      {{{"local_rank_id", -1}}, "local_rank_id", "Keel does so anyway"},
      {{{"hcom_parallel", true}}, "hcom_parallel", "no collectives"},
      {{{"op_debug_level", 0}}, "op_debug_level", "op compiler"},
      {{{"graph_memory_max_size", "1024"}}, "graph_memory_max_size", "memory is planned"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.options.dump());
    const ToolResult result = Options(row.options).translate();
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(json::parse(result.out) == json::object());
    const std::string told = told_of(result.err, row.option);
    CHECK_MESSAGE(contains(told, " no effect: "), told);
    CHECK_MESSAGE(contains(told, row.why), told);
  }
}

TEST_CASE("from-adapter: what Keel has nothing for is refused all at once") {
  check_options_refused({{"in_out_pair", "x"}, {"iterations_per_loop", 1}}, kUnsupported,
                        {"nothing for 1 of its options: in_out_pair \"x\""});
  check_options_refused(
      {{"variable_placement", "Host"},
       {"horovod_mode", true},
       {"dynamic_dims", "1;2"},
       {"graph_run_mode", 0},
       {"use_off_line", false},
       {"save_summary_steps", 5}},
      kUnsupported,
      {"nothing for 5 of its options", "variable_placement \"Host\"", "horovod_mode true",
       "dynamic_dims \"1;2\"", "graph_run_mode 0", "keel eval", "--backend cpu"});
  check_options_refused({{"variable_placement", "Host"}}, kUnsupported, {"variable_placement"});
  check_options_refused({{"dump_config", {{"enable_dump", true}}}}, kUnsupported,
                        {"its parts are options of their own"});
  check_options_refused({{"eval_distribute", "x"}}, kUnsupported,
                        {"keel launch -n N -- keel train"});
}

TEST_CASE("from-adapter: a value beyond those that an option has is wrong whatever it would do") {
  const std::pair<const char*, json> wrong[] = {{"graph_run_mode", 2},
                                                {"variable_placement", "device"},
                                                {"deterministic", 3},
                                                {"dump_mode", "both"},
                                                {"dump_data", "csv"},
                                                {"dump_debug_mode", "overflow"},
                                                {"enable_exception_dump", 4},
                                                {"op_debug_level", 5},
                                                {"op_compiler_cache_mode", "on"},
                                                {"op_select_implmode", "fast"},
                                                {"buffer_optimize", "l3_optimize"},
                                                {"enable_small_channel", 2},
                                                {"aoe_mode", "3"}};
  for (const auto& entry : wrong) {
    const std::string option = entry.first;
    CAPTURE(option);
    check_options_refused({{entry.first, entry.second}}, 2, {option + ": expected one of "});
  }
}

TEST_CASE("from-adapter: values and combinations that the adapter refuses") {
  const TempFolder files;
  files.write("mix.json", R"({"black-list": {"to-add": ["sum"]}})");
  files.write("twice.json",
              R"({"black-list": {"to-add": ["sum"]}, "white-list": {"to-add": ["sum"]}})");
  const std::string folder = files.path();
  const auto with = [](json options, const json& more) {
    options.update(more);
    return options;
  };
  const json loop = {{"iterations_per_loop", 10}};
  const json dump = {{"enable_dump", true}, {"dump_path", folder}};
  std::string sets = "1";
  for (int i = 2; i <= 101; ++i) sets += "|" + std::to_string(2 * i);
  struct Row {
    json options;
    Words parts;
    int exit_code = kWrongArgument;
  };
  const Row rows[] = {
      // iterations_per_loop
      {{{"iterations_per_loop", 0}}, {"iterations_per_loop: expected an integer", "got 0"}},
      {{{"iterations_per_loop", -5}}, {"iterations_per_loop: expected an integer"}},
      {{{"iterations_per_loop", 2.5}}, {"iterations_per_loop: expected an integer"}},
      {{{"iterations_per_loop", "10"}}, {"iterations_per_loop: expected an integer"}},
      {{{"iterations_per_loop", true}}, {"iterations_per_loop: expected an integer"}},
      {with(loop, {{"enable_data_pre_proc", false}}),
       {"iterations_per_loop 10 does not go with enable_data_pre_proc false"}},
      {with(loop, {{"mix_compile_mode", true}}),
       {"iterations_per_loop 10 does not go with mix_compile_mode true"}},
      {with(loop, {{"dynamic_input", true}}),
       {"iterations_per_loop 10 does not go with dynamic_input true"}},
      // precision
      {{{"precision_mode", "fast"}}, {"--precision-mode: expected one of", "precision_mode"}},
      {{{"precision_mode_v2", "mixed_float61"}}, {"did you mean 'mixed_float16'?"}},
      {{{"precision_mode", "allow_mix_precision"}, {"precision_mode_v2", "mixed_float16"}},
       {"precision_mode_v2", "precision_mode"}},
      {{{"precision_mode", "force_fp16"}, {"modify_mixlist", files.file("mix.json")}}, {"mix"}},
      {{{"precision_mode_v2", "mixed_hif8"}}, {"hif8"}},
      {{{"modify_mixlist", files.file("mix.json")}}, {"mix"}},
      {{{"precision_mode", "allow_mix_precision"}, {"modify_mixlist", files.file("twice.json")}},
       {"sum"}},
      {{{"precision_mode", "allow_mix_precision"}, {"modify_mixlist", files.file("none.json")}},
       {"none.json"},
       kFailed},
      // accelerated
      {{{"experimental_accelerate_train_mode", "fast"}}, {"expected <fast|fast1>|<step|loss>"}},
      {{{"experimental_accelerate_train_mode", "slow|step"}}, {"fast, fast1"}},
      {{{"experimental_accelerate_train_mode", "fast|step|0.95"}}, {"0.95"}},
      {{{"experimental_accelerate_train_mode", "fast|loss|1.6"}}, {"1.6"}},
      {{{"experimental_accelerate_train_mode", "fast|step"},
        {"precision_mode", "allow_mix_precision"}},
       {"accelerate_train_mode"}},
      {{{"experimental_accelerate_train_mode", "fast|step"},
        {"accelerate_train_mode", "fast|step"}},
       {"they say it twice"}},
      // dumps
      {with(dump, {{"enable_dump_debug", true}}),
       {"--enable-dump is given as well", "enable_dump"}},
      {{{"enable_dump", true}}, {"--dump-path is not given"}},
      {{{"enable_dump", true}, {"dump_path", "/dev/null/at/all"}}, {"/dev/null/at/all"}, kFailed},
      {with(dump, {{"dump_step", sets}}), {"at most 100 steps and ranges", "dump_step"}},
      {with(dump, {{"dump_step", "20-10"}}), {"expected ranges whose first step", "dump_step"}},
      {with(dump, {{"dump_step", "a"}}), {"--dump-step is dump_step"}},
      {with(dump, {{"dump_step", 5}}), {"dump_step: expected"}},
      {with(dump, {{"dump_mode", "both"}}), {"dump_mode: expected one of"}},
      {{{"enable_dump_debug", true}, {"dump_path", folder}, {"dump_debug_mode", "none"}},
       {"dump_debug_mode: expected one of"}},
      // profiles
      {{{"profiling_mode", "on"}}, {"profiling_mode: expected"}},
      {{{"profiling_mode", true}, {"profiling_options", R"({"training_trace": "off"})"}},
       {"task_trace: expected off"}},
      {{{"profiling_mode", true}, {"profiling_options", R"({"storage_limit": "100MB"})"}},
       {"storage_limit"}},
      {{{"profiling_mode", true}, {"profiling_options", "task_trace"}}, {"profiling_options"}},
      // devices, checkpoints
      {{{"session_device_id", -1}}, {"session_device_id: expected an integer"}},
      {{{"session_device_id", "0"}}, {"session_device_id: expected an integer"}},
      {{{"session_device_id", 8}}, {"from 0 to 7"}},
      {{{"save_checkpoints_steps", 50}}, {"--save-every is save_checkpoints_steps"}},
      {{{"model_dir", files.file("runs")}, {"save_checkpoints_steps", 0}},
       {"save_checkpoints_steps: expected"}},
      {{{"model_dir", files.file("runs")},
        {"save_checkpoints_steps", 5},
        {"save_checkpoints_secs", 5}},
       {"they say it twice"}},
      {{{"keep_checkpoint_max", -1}}, {"keep_checkpoint_max: expected"}},
      {{{"session_device_id", 1}, {"device_id", 1}}, {"they say it twice"}},
      {{{"profiling_mode", true}, {"enable_profiling", true}}, {"they say it twice"}},
      {{{"stream_sync_timeout", -2}}, {"stream_sync_timeout: expected"}},
      // names and documents
      {{{"iteration_per_loop", 5}}, {"no option 'iteration_per_loop'", "'iterations_per_loop'"}},
      {{{"loop-size", 5}}, {"no option 'loop-size'"}},
      {json::array(), {"expected an object"}},
  };
  for (const Row& row : rows) check_options_refused(row.options, row.exit_code, row.parts);
}

TEST_CASE("from-adapter: texts that no flag takes are refused once by the option") {
  for (const char* option : {"model_dir", "precision_mode"}) {
    const Options file(json{{option, ""}});
    const ToolResult result = file.translate();
    CHECK(result.exit_code == kWrongArgument);
    CHECK_MESSAGE(contains(result.err, file.path() + ": " + option +
                                           ": expected a text that is not empty and has no NUL"),
                  result.err);
    CHECK_MESSAGE(result.err.find(file.path()) == result.err.rfind(file.path()), result.err);
    CHECK(result.out.empty());
  }
  // Nothing is asked of what has no effect.
  CHECK(Options(json{{"dump_path", ""}}).translate().exit_code == 0);
}

TEST_CASE("from-adapter: a random seed may have 63 bits") {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const Options file(json{{"tf_random_seed", most}});
  const std::string out = file.files().file("out.json");
  const ToolResult result = file.translate({"--out", out});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(read_json(out) == json{{"seed", most}});
  const std::string summary = file.files().file("summary");
  REQUIRE(run_tool({"train", "--quiet", "--config", out, "--data", small_data().path(), "--batch",
                    "20", "--steps", "1", "--summary", summary})
              .exit_code == 0);
  CHECK(read_json(summary).at("seed") == most);
  check_options_refused({{"tf_random_seed", -1}}, kWrongArgument, {"tf_random_seed"});
  check_options_refused({{"tf_random_seed", uint64_t{1} << 63}}, kWrongArgument,
                        {"tf_random_seed"});
  check_options_refused({{"keep_checkpoint_max", most}}, kWrongArgument, {"keep_checkpoint_max"});
}

TEST_CASE("from-adapter: files that are no such JSON") {
  const auto refused = [](const std::string& text, const std::string& part,
                          int exit_code = kWrongArgument) {
    const Options file(text);
    const ToolResult result = file.translate();
    CHECK(result.exit_code == exit_code);
    CHECK_MESSAGE(contains(result.err, file.path()), result.err);
    CHECK_MESSAGE(contains(result.err, part), result.err);
    CHECK(result.out.empty());
  };
  refused("", ":1:");
  refused("{\"iterations_per_loop\": 10, // ten\n}", ":1:");
  refused("{\"iterations_per_loop\": 10, \"iterations_per_loop\": 5}", "stands here twice");
  refused(std::string("{\0}", 3), ":1:");
  refused(std::string(2 << 20, ' '), "bytes", kFailed);
  const Options file(std::string("{}"));
  CHECK(run_tool({"config", "--from-adapter", file.files().file("none")}).exit_code == kFailed);
  CHECK(run_tool({"config"}).exit_code == kWrongArgument);
  CHECK(run_tool({"config", "--out", "x"}).exit_code == kWrongArgument);
  CHECK(contains(run_tool({"config", "--environment", "--out", "x"}).err,
                 "got --environment and --out"));
  CHECK(file.translate({"--environment"}).exit_code == kWrongArgument);
  CHECK(file.translate({"--out", file.path()}).exit_code == kWrongArgument);
  CHECK(read_text(file.path()) == "{}");
}

TEST_CASE("from-adapter: the configuration trains as the flags given by hand do") {
  const Options file(json{{"iterations_per_loop", 5},
                          {"enable_data_pre_proc", true},
                          {"mix_compile_mode", false},
                          {"precision_mode", "allow_mix_precision"},
                          {"session_device_id", 2},
                          {"save_summary_steps", 10},
                          {"tf_random_seed", 3}});
  const std::string out = file.files().file("run.json");
  REQUIRE(file.translate({"--out", out}).exit_code == 0);
  const auto summary = [&](const Words& more) {
    Words words = {"train",     "--quiet", "--data",    small_data().path(),
                   "--batch",   "20",      "--steps",   "12",
                   "--threads", "1",       "--summary", file.files().file("summary")};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    json read = read_json(file.files().file("summary"));
    // Where the flags are from, and what no two runs have in common.
    for (const char* own :
         {"config", "train_seconds", "step_us", "images_per_second", "feeding", "elements_ahead",
          "queue_wait_seconds", "metrics_wait_seconds", "peak_rss_bytes"})
      read.erase(own);
    return read;
  };
  const json of_file = summary({"--config", out});
  CHECK(of_file == summary({"--loop-size", "5", "--precision-mode", "allow_mix_precision",
                            "--device-id", "2", "--seed", "3"}));
  CHECK(of_file["loop_size"] == 5);
  CHECK(of_file["launches"] == 3);
  CHECK(of_file["device"] == "npu:2");
}

TEST_SUITE_END();
