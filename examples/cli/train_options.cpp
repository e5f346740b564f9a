#include "cli/train_options.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace keel_cli {
namespace {

const std::vector<std::string> kOptimizers = {"sgd", "momentum", "adam", "adamw"};
constexpr int64_t kMost = int64_t{1} << 40;

double default_rate(const std::string& optimizer, const keel_examples::Model& model) {
  return optimizer == "adam" || optimizer == "adamw" ? 0.001 : model.sgd_rate;
}

void require_npu(const CommandLine& line, const TrainFlags& flags, const std::string& flag) {
  if (!line.has(flag) || flags.backend == "npu") return;
  throw keel::Error({.op = "--" + flag,
                     .message = "is about the NPU, and the backend is " + flags.backend,
                     .fix = "drop it, or use --backend npu",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// "A-B" or "A".
void read_steps(const std::string& text, TrainFlags& flags) {
  const size_t dash = text.find('-');
  flags.profile_first = keel::parse_integer(text.substr(0, dash), "--profile-steps", 1, kMost);
  flags.profile_last = flags.profile_first;
  if (dash != std::string::npos) {
    flags.profile_last =
        keel::parse_integer(text.substr(dash + 1), "--profile-steps", flags.profile_first, kMost);
  }
}

void read_npu_flags(const CommandLine& line, TrainFlags& flags) {
  for (const char* flag : {"preset", "block-dim", "profile", "profile-steps"}) {
    require_npu(line, flags, flag);
  }
  flags.preset = line.text("preset").value_or("");
  flags.block_dim = line.integer("block-dim", 1, kMost);
  flags.profile = line.text("profile").value_or("");
  if (const auto steps = line.text("profile-steps")) {
    if (flags.profile.empty()) {
      throw keel::Error({.op = "--profile-steps",
                         .message = "no profile is asked for",
                         .fix = "add --profile DIR",
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    read_steps(*steps, flags);
  }
}

}  // namespace

void declare_train_flags(CommandLine& line) {
  line.add("model", "softmax|mlp", "what to train (softmax)");
  line.add("data", "digits|DIR",
           "the built-in digits, or a folder with the four MNIST files (digits)");
  line.add("backend", "ref|cpu|npu", "where to train (npu)");
  line.add("batch", "N", "images a step (100)");
  line.add("epochs", "N", "passes over the training set (10)");
  line.add("steps", "N", "steps, instead of epochs");
  line.add("lr", "RATE", "learning rate (softmax 0.5, mlp 0.1; adam and adamw 0.001)");
  line.add("optimizer", "sgd|momentum|adam|adamw", "momentum is 0.9 (sgd)");
  line.add("loop-size", "N", "steps in one launch (NPU_LOOP_SIZE, else 100)");
  line.add("seed", "N", "of initial values and the shuffle (0)");
  line.add("threads", "N", "compute threads, the device's included (all)");
  line.add("metrics", "FILE", "JSON lines, one object a step: step, epoch, loss");
  line.add("summary", "FILE", "one JSON object about the run");
  line.add("save", "FILE", "all states as safetensors");
  line.add("preset", "NAME|FILE", "the NPU to model (KEEL_NPU_PRESET, else ascend910b1)");
  line.add("block-dim", "N", "most blocks of a launch on the NPU (what the prices favour)");
  line.add("profile", "DIR", "where the modelled NPU's time goes: tables, timeline, advice");
  line.add("profile-steps", "A-B", "the steps in the profile (1-3)");
  line.add("quiet", "", "print nothing but errors");
}

TrainFlags read_train_flags(const CommandLine& line) {
  TrainFlags flags;
  flags.model = &keel_examples::find_model(line.text("model").value_or("softmax"));
  flags.data = line.text("data").value_or(flags.data);
  flags.backend = line.choice("backend", keel::backend_names()).value_or(flags.backend);
  flags.optimizer = line.choice("optimizer", kOptimizers).value_or(flags.optimizer);
  flags.batch = line.integer("batch", 1, kMost).value_or(flags.batch);
  flags.epochs = line.integer("epochs", 1, kMost);
  flags.steps = line.integer("steps", 1, kMost);
  if (flags.epochs && flags.steps) {
    throw keel::Error({.op = "--steps",
                       .message = "--epochs is given as well",
                       .fix = "give one of the two",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (!flags.epochs && !flags.steps) flags.epochs = 10;
  flags.rate = line.number("lr", 0, 1e6).value_or(default_rate(flags.optimizer, *flags.model));
  // The environment is a default only, but a wrong one is an error all the same.
  const auto environment = keel::environment_integer("NPU_LOOP_SIZE", 1, kMost);
  flags.loop_size =
      line.integer("loop-size", 1, kMost).value_or(environment.value_or(flags.loop_size));
  flags.seed = static_cast<uint64_t>(line.integer("seed", 0).value_or(0));
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  flags.threads =
      static_cast<int>(line.integer("threads", 1, keel::kMaxComputeThreads).value_or(cores));
  flags.metrics = line.text("metrics").value_or("");
  flags.summary = line.text("summary").value_or("");
  flags.save = line.text("save").value_or("");
  flags.quiet = line.has("quiet");
  read_npu_flags(line, flags);
  return flags;
}

keel::Optimizer make_optimizer(const std::string& name, double rate) {
  if (name == "momentum") return keel::sgd(rate, {.momentum = 0.9});
  if (name == "adam") return keel::adam(rate);
  if (name == "adamw") return keel::adamw(rate);
  return keel::sgd(rate);
}

}  // namespace keel_cli
