#include <algorithm>
#include <iostream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/base/machine.h"
#include "cli/base/text_list.h"
#include "cli/bench/bench.h"

namespace keel_cli {
namespace {

using Words = std::vector<std::string>;

struct AllSuiteFlags {
  std::vector<std::string> backends;
  std::string threads;  // as given
  std::string precision, data;
  double seconds = 0.2;
  bool tiny = false;  // next to nothing of everything
  std::vector<std::string> models;
  std::vector<std::string> batches;  // beside each model's usual one
  keel::Json left_out = keel::Json::array();
};

// Leaves out the batches that are larger than the data, and says so, before anything is measured.
void choose_batches(AllSuiteFlags& flags) {
  const int64_t images = load_data(flags.data).train.count();
  for (const std::string& name : flags.models) {
    const int64_t usual = usual_batch(keel_examples::find_model(name));
    if (usual <= images) continue;
    throw keel::Error(
        {.op = "--data",
         .argument = flags.data,
         .expected = fmt::format("at least {} training images, the batch of {}", usual, name),
         .got = std::to_string(images)});
  }
  const std::vector<int64_t> all =
      flags.tiny ? std::vector<int64_t>{16, 256} : std::vector<int64_t>{1, 16, 512};
  for (const int64_t batch : all) {
    if (batch <= images) {
      flags.batches.push_back(std::to_string(batch));
      continue;
    }
    const std::string reason = fmt::format("the data have {} training images", images);
    flags.left_out.push_back({{"batch", batch}, {"reason", reason}});
    std::cout << fmt::format("left out: trainings with batches of {}: {}\n", batch, reason);
  }
}

void headline(const std::string& suite) { std::cout << "\n== " << suite << "\n" << std::flush; }

// The usual batches by loop size, then other batches at the largest of those: no need to measure
// all with all.
keel::Json measure_trainings(const AllSuiteFlags& flags) {
  const Words common = {"--models",    joined(flags.models, ","),
                        "--backends",  joined(flags.backends, ","),
                        "--threads",   flags.threads,
                        "--precision", flags.precision,
                        "--data",      flags.data,
                        "--seconds",   fmt::format("{}", flags.seconds)};
  const auto with = [&](const Words& more) {
    Words words = common;
    words.insert(words.end(), more.begin(), more.end());
    return measure(train_suite(), words);
  };
  keel::Json json = with({"--loop-sizes", flags.tiny ? "1,10" : "1,10,50"});
  std::cout << "\n";
  const keel::Json more =
      with({"--batches", joined(flags.batches, ","), "--loop-sizes", flags.tiny ? "10" : "50"});
  for (const char* table : {"rows", "speed_ups", "processes", "modelled"}) {
    for (const keel::Json& row : more[table]) json[table].push_back(row);
  }
  json["left_out"] = flags.left_out;
  return json;
}

Words kernels_words(const AllSuiteFlags& flags) {
  Words words = {"--backends", joined(flags.backends, ","), "--seconds",
                 fmt::format("{}", std::max(kLeastSeconds, flags.seconds / 3))};
  const Words more = flags.tiny ? Words{"--sizes", "64", "--kib", "64", "--dtypes", "f32"}
                                : Words{"--sizes", "256,1024", "--dtypes", "f32,bf16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Suites that measure one model on one backend, once for each.
keel::Json each_backend(const AllSuiteFlags& flags, const Suite& suite, const Words& more) {
  keel::Json list = keel::Json::array();
  for (const std::string& backend : flags.backends) {
    headline(std::string(suite.name) + " on " + backend);
    Words words = {"--backend", backend,     "--data",
                   flags.data,  "--seconds", fmt::format("{}", flags.seconds)};
    words.insert(words.end(), more.begin(), more.end());
    list.push_back(measure(suite, words));
  }
  return list;
}

void declare_all_suite(CommandLine& line) {
  declare_data_flag(line);
  declare_backends(line, "cpu,npu");
  line.add("precision", "NAME,NAME,...", "of the trainings, as of keel train (fp32)");
  declare_thread_counts(line, "of the trainings", "1,2");
  declare_seconds(line, "each row", "0.2");
  line.add("tiny", "", "few and small rows: whether all works, not how fast");
}

keel::Json measure_all(const CommandLine& line) {
  AllSuiteFlags flags;
  flags.backends = read_backends(line, {"cpu", "npu"});
  read_thread_counts(line, {});  // wrong ones are an error before anything is measured
  flags.threads = line.text("threads").value_or("1,2");
  line.choices("precision", keel::precision_names(), {});
  flags.precision = line.text("precision").value_or(keel::kDefaultPrecision);
  flags.data = read_data(line);
  flags.seconds = read_seconds(line, flags.seconds);
  flags.tiny = line.has("tiny");
  flags.models = flags.tiny ? Words{"softmax"} : Words{"softmax", "mlp"};
  choose_batches(flags);

  keel::Json json;
  json["measured"] = utc_now();
  json["machine"] = describe_machine();
  keel::Json& parts = json["suites"];
  headline("train");
  parts["train"] = measure_trainings(flags);
  headline("kernels");
  parts["kernels"] = measure(kernels_suite(), kernels_words(flags));
  parts["loop"] =
      each_backend(flags, loop_suite(), {"--sizes", flags.tiny ? "1,10" : "1,5,20,100"});
  parts["feed"] = each_backend(flags, feed_suite(), {"--map", "normalise"});
  headline("compile");
  Words words = {"--backends", joined(flags.backends, ","), "--rounds", flags.tiny ? "1" : "3"};
  if (flags.tiny) words.insert(words.end(), {"--sizes", "100,300"});
  parts["compile"] = measure(compile_suite(), words);
  return json;
}

}  // namespace

Suite all_suite() { return {"all", "the suites above, in short", declare_all_suite, measure_all}; }

}  // namespace keel_cli
