#include "cli/train/train_options.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <keel/backends/npu/options.h>
#include <keel/core/group/group.h>
#include <keel/core/group/machine.h>

#include "cli/base/environment_table.h"
#include "cli/base/flag_errors.h"
#include "cli/base/pass_flags.h"
#include "cli/train/flag_reader.h"
#include "cli/train/train_outputs.h"

namespace keel_cli {
namespace {

constexpr double kMostRate = 1e6;
constexpr int64_t kMostMicroShards = 1024;
constexpr const char* kPasses = "disable-pass";

void require_npu(const CommandLine& line, const TrainFlags& flags, const std::string& flag) {
  if (!line.has(flag) || flags.backend == "npu") return;
  throw keel::Error({.op = "--" + flag,
                     .message = "is about the NPU, and the backend is " + flags.backend,
                     .fix = "drop it, or use --backend npu",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

[[noreturn]] void refuse_data(const std::string& flag, const std::string& argument,
                              const std::string& message, const std::string& fix) {
  throw keel::Error({.op = flag,
                     .argument = argument,
                     .message = message,
                     .fix = fix,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

std::shared_ptr<const TaskKind> task_of_resumed_file(const std::string& model,
                                                     const std::string& path) {
  try {
    return find_task_kind(model);
  } catch (const keel::Error& error) {
    std::error_code unknown;
    if (std::filesystem::exists(model, unknown)) throw;
    throw keel::Error({.op = "--resume: " + path,
                       .message = error.what(),
                       .fix = "say with --model FILE where its model is now",
                       .kind = error.info().kind});
  }
}

// A resumed file decides where there is one: a flag may only say the same.
std::shared_ptr<const TaskKind> read_task(const CommandLine& line,
                                          const std::optional<SavedRun>& resume) {
  const auto given = line.text("model");
  if (!resume) return find_task_kind(given.value_or("softmax"));
  std::string name = resume->at("model");
  // The file of a model may have been moved.
  const bool of_file = is_model_file(name);
  if (!of_file) name = resume->choice("model", task_names());
  if (!of_file || (given && !is_model_file(*given))) resume->require_same("model", given);
  auto task = given || !of_file ? find_task_kind(given.value_or(name))
                                : task_of_resumed_file(name, resume->path());
  if (task->model)
    require_same_model_file(*task->model, resume->find("model_sha256"), resume->path());
  return task;
}

// --data and --label, as they go with the task.
void read_task_data(const CommandLine& line, TrainFlags& flags) {
  const TaskKind& task = *flags.task;
  if (const auto data = line.text("data")) {
    flags.data = *data;
  } else if (flags.resume) {
    flags.data = flags.resume->at("data");
  } else if (task.data == TaskData::kText) {
    throw keel::Error({.op = "--data",
                       .expected = "a text file for " + task.name,
                       .got = "none",
                       .fix = "give --data FILE",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  // The name of the built-in images is that of an ordinary file, where a text is read.
  if (task.data == TaskData::kText && flags.data == kDigits)
    flags.data = std::string("./") + kDigits;
  if (task.data == TaskData::kImagesOrTable) {
    flags.label = read_label(line, flags.data);
    if (flags.label.empty() && flags.resume && is_csv(flags.data))
      flags.label = flags.resume->find("label").value_or("");
    return;
  }
  if (line.has("label")) {
    refuse_data("--label", "", "is about the classes of a table, and " + task.name + " has none",
                "drop it");
  }
  if (task.data == TaskData::kImages && is_csv(flags.data))
    refuse_data("--data", flags.data, "is a table, and " + task.name + " takes images", "");
}

// A mode that is named, or a file that is given, must be what the run was trained with.
void read_saved_precision(const CommandLine& line, TrainFlags& flags) {
  const SavedRun& saved = *flags.resume;
  const PrecisionFlags own = saved_precision(
      [&](const std::string& name) { return saved.find(name); }, "--resume: " + saved.path());
  constexpr const char* kFix = "drop the flag, or train from the beginning";
  const auto require = [&](const char* flag, const std::string& expected, const std::string& got) {
    if (!line.has(flag) || expected == got) return;
    throw keel::Error({.op = std::string("--") + flag,
                       .expected = expected + ", as " + saved.path() + " was trained with",
                       .got = got,
                       .fix = kFix});
  };
  const std::string mode = saved.at("precision");
  require("precision", mode, flags.precision.value.name);
  require("precision-mode", mode, flags.precision.value.mode);
  require("precision-mode-v2", mode, flags.precision.value.mode_v2);
  const auto require_text = [&](const char* flag, const std::string& saved_text,
                                const std::string& text) {
    if (!line.has(flag) || saved_text == text) return;
    if (!saved_text.empty()) require(flag, "the same file", "another one");
    throw keel::Error({.op = std::string("--") + flag,
                       .message = saved.path() + " was trained without such a file",
                       .fix = kFix});
  };
  require_text("modify-mixlist", own.mix_list, flags.precision.mix_list);
  require_text("customize-dtypes", own.dtypes, flags.precision.dtypes);
  flags.precision = own;
}

void read_accelerate(const CommandLine& line, TrainFlags& flags) {
  const FlagReader reader(line, flags.resume);
  const auto canonical = [](const std::string& text, const std::string& from) {
    return keel::to_string(keel::parse_accelerate_train_mode(text, from));
  };
  const std::string mode = reader.text("accelerate-train-mode", canonical, "");
  if (!mode.empty())
    flags.accelerate = keel::parse_accelerate_train_mode(mode, "--accelerate-train-mode");
  flags.target_loss = reader.number("target-loss", -1e30, 1e30);
  const bool by_loss =
      flags.accelerate && flags.accelerate->trigger == keel::AccelerateTrigger::kLoss;
  // Both would be the step's one stop value.
  if (by_loss && flags.update.fail_on_nan) {
    throw keel::Error({.op = "--fail-on-nan",
                       .message = "does not go with --accelerate-train-mode " + mode +
                                  ", whose loss is watched in its place",
                       .fix = "drop it, or accelerate by steps: 'fast|step'",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (!flags.target_loss || by_loss) return;
  throw keel::Error({.op = "--target-loss",
                     .message = "is about a training that is accelerated until a loss",
                     .fix = "add --accelerate-train-mode 'fast|loss', or drop it",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

// The trainer refuses such a precision, too, and calls the flags by the library's words for them.
void require_fast_phase(const TrainFlags& flags, const keel::DeviceOptions* options) {
  constexpr const char* kFlag = "--accelerate-train-mode";
  constexpr const char* kOwnWord = "accelerate_train_mode";
  const auto require = [&] {
    try {
      keel::fast_precision(*flags.accelerate, flags.precision.value, keel::backend(flags.backend),
                           options);
    } catch (const keel::Error& error) {
      keel::ErrorInfo info = error.info();
      const std::string flag = flags.precision.mode_flag();
      if (info.op != kOwnWord || flag.empty()) throw;
      info.argument = flag;
      throw keel::Error(std::move(info));
    }
  };
  in_flag(kFlag, require, kOwnWord);
}

// The compiler passes that were off for the training of a saved file.
std::vector<std::string> passes_in(const SavedRun& saved) {
  std::vector<std::string> names;
  std::istringstream text(saved.find(kPasses).value_or(""));
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  return keel::parse_in_file("--resume: " + saved.path(), [&] {
    keel::select_passes(names);
    return names;
  });
}

// A file has the items of a step on all ranks together, so a training may go on with others.
int64_t read_saved_batch(const SavedRun& saved, int64_t ranks) {
  const int64_t all = saved.integer("batch", 1, kMostCount);
  if (all % ranks == 0) return all / ranks;
  throw keel::Error({.op = "--resume",
                     .argument = saved.path(),
                     .expected = fmt::format("a number of ranks that divides the {} items of its "
                                             "steps",
                                             all),
                     .got = std::to_string(ranks)});
}

// Reads the flags that a resumed training must share with the one that was saved. The file's values
// hold; a flag that is given must agree with them, except --lr, which may change the rate.
void read_identity(const CommandLine& line, TrainFlags& flags) {
  const TaskKind& task = *flags.task;
  const std::string usual = task.has_own_update() ? kOwnUpdate : task.optimizer;
  flags.optimizer = line.choice("optimizer", optimizer_names()).value_or(usual);
  flags.batch = line.integer("batch", 1, kMostCount).value_or(task.batch);
  if (task.model) require_batch(*task.model, flags.batch);
  if (task.model && task.model->no_loss) throw keel::Error(*task.model->no_loss);
  flags.precision = read_precision(line);
  flags.disabled_passes =
      line.has(kPasses) || !flags.resume ? read_disabled_passes(line) : passes_in(*flags.resume);
  int64_t seed = line.integer("seed", 0).value_or(0);
  std::optional<double> rate = line.number("lr", 0, kMostRate);
  if (const auto& saved = flags.resume) {
    const auto given = [&](const char* flag, const std::string& value) {
      return line.has(flag) ? std::optional(value) : std::nullopt;
    };
    saved->require_same("optimizer", given("optimizer", flags.optimizer));
    saved->require_same("batch", given("batch", std::to_string(flags.global_batch())));
    saved->require_same("seed", given("seed", std::to_string(seed)));
    read_saved_precision(line, flags);
    std::vector<std::string> choices = optimizer_names();
    if (task.has_own_update()) choices.emplace_back(kOwnUpdate);
    flags.optimizer = saved->choice("optimizer", choices);
    flags.batch = read_saved_batch(*saved, flags.share.count);
    seed = saved->integer("seed", 0, std::numeric_limits<int64_t>::max());
    const std::string held_out = std::to_string(flags.judging.validation);
    saved->require_same("validation", given("validation", held_out), "0");
    flags.judging.validation = saved->integer("validation", 0, kMostCount, "0");
    if (!rate && !flags.own_update()) rate = saved->number("lr", 0, kMostRate);
  }
  flags.seed = static_cast<uint64_t>(seed);
  if (flags.own_update()) {
    require_no_update_flags(line, task.name,
                            flags.resume ? "drop them, as the training that is resumed had none"
                                         : "drop them, or add --optimizer NAME, which drops the "
                                           "graph's own update for one of ours");
    return;
  }
  flags.rate = rate.value_or(usual_rate(flags.optimizer, task.sgd_rate, task.adam_rate));
}

// In f16 a training scales its loss unless it is told not to. The gradients of a graph's own update
// are made already, of the loss as it is.
void require_unscaled(const CommandLine& line, const TrainFlags& flags) {
  const bool scales = flags.precision.value.name == "mixed_fp16";
  if (!flags.own_update() || flags.resume || !scales || line.has("loss-scale")) return;
  throw keel::Error({.op = "mixed_fp16",
                     .message = "scales the loss, and " + flags.task->name +
                                " trains by its own update, whose gradients are those of the loss "
                                "as it is",
                     .fix = "add --loss-scale none to train it without, take mixed_bf16, or add "
                            "--optimizer NAME",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

int64_t steps_of_loop(const std::string& text) {
  try {
    return keel::parse_integer(text, "--loop-size", 1);
  } catch (const keel::Error& error) {
    keel::ErrorInfo info = error.info();
    info.expected += ", auto, or a time in ms: 250ms";
    throw keel::Error(std::move(info));
  }
}

// "100", "auto", or a wall time: "250ms".
void read_loop_size(const std::string& text, TrainFlags& flags) {
  constexpr std::string_view kUnit = "ms";
  if (text == "auto") {
    flags.loop_tuner = keel::LoopTuner::plateau();
  } else if (text.ends_with(kUnit)) {
    const double ms =
        keel::parse_number(text.substr(0, text.size() - kUnit.size()), "--loop-size", 1e-3, 3.6e6);
    flags.loop_tuner = keel::LoopTuner::time_target(ms * 1e-3);
  } else {
    flags.loop_size.set(steps_of_loop(text), "--loop-size");
  }
}

// Behind --loop-size, whose conflicts with it are told of here.
void read_data_sink(const CommandLine& line, TrainFlags& flags) {
  flags.data_sink = line.choice("data-sink", {"on", "off"}).value_or("on") == "on";
  if (flags.data_sink) return;
  flags.loop_size.without_data_sink("--data-sink off");
  if (flags.loop_tuner)
    flags.loop_size.require_tunable("--loop-size " + line.text("loop-size").value_or(""));
}

void read_npu_flags(const CommandLine& line, TrainFlags& flags) {
  for (const char* flag : {"preset", "block-dim"}) require_npu(line, flags, flag);
  flags.preset = line.text("preset").value_or("");
  flags.block_dim = line.integer("block-dim", 1, kMostCount);
}

// They decide the last bits, so a resumed training goes on with as many.
int64_t read_micro_shards(const CommandLine& line, const TrainFlags& flags) {
  const auto refuse = [](const std::string& expected, const std::string& got) {
    throw keel::Error({.op = "--micro-shards",
                       .expected = expected,
                       .got = got,
                       .kind = keel::ErrorKind::kInvalidArgument});
  };
  const std::optional<int64_t> given = line.integer("micro-shards", 1, kMostMicroShards);
  if (given && !std::has_single_bit(static_cast<uint64_t>(*given)))
    refuse("a power of two", std::to_string(*given));
  if (given.value_or(1) > 1 && flags.own_update())
    refuse("1, since " + flags.task->name + " trains by the graph's own update", "more");
  const int64_t ranks = flags.share.count;
  int64_t shards = given.value_or(keel::default_micro_shards(ranks));
  if (const auto& saved = flags.resume) {
    const auto text = given ? std::optional(std::to_string(*given)) : std::nullopt;
    saved->require_same("micro-shards", text, "1");
    shards = saved->integer("micro-shards", 1, kMostMicroShards, "1");
  }
  if (shards % ranks == 0 && flags.batch % (shards / ranks) != 0)
    refuse(fmt::format("so many that a rank's part of them divides its batch of {}", flags.batch),
           std::to_string(shards));
  return shards;
}

// Refuses what one rank would do by itself, or what has not been made to work on several.
void require_for_ranks(const CommandLine& line, const TrainFlags& flags) {
  const auto refuse = [](const std::string& flag, const std::string& why) {
    throw keel::Error({.op = flag,
                       .message = why,
                       .fix = "drop it, or train on one rank",
                       .kind = keel::ErrorKind::kInvalidArgument});
  };
  if (flags.own_update())
    refuse("--model " + flags.task->name,
           "trains by the graph's own update, which knows of one rank");
  if (flags.loop_tuner)
    refuse("--loop-size " + line.text("loop-size").value_or(""),
           "is found by measuring, which comes out differently on each rank");
  for (const char* flag : {"check-numerics", "accelerate-train-mode"}) {
    if (line.has(flag)) refuse(std::string("--") + flag, "is about a training on one rank");
  }
  if (flags.dump.on()) refuse("--enable-dump", "is about a training on one rank");
}

}  // namespace

std::shared_ptr<const keel::DeviceOptions> device_options(const TrainFlags& flags) {
  if (flags.preset.empty() && !flags.block_dim) return nullptr;
  const auto read = [&] { return keel::npu::options(flags.preset, {.cap = flags.block_dim}); };
  return flags.preset.empty() ? read() : in_flag("--preset", read, "preset");
}

void require_target_loss(const TrainFlags& flags) {
  if (!flags.accelerate || flags.accelerate->trigger != keel::AccelerateTrigger::kLoss ||
      flags.target_loss || keel::target_loss_in_environment())
    return;
  throw keel::Error({.op = "--accelerate-train-mode",
                     .argument = keel::to_string(*flags.accelerate),
                     .expected = "--target-loss, the loss that the training is to come to",
                     .got = "none",
                     .fix = "add --target-loss LOSS, or set TARGET_LOSS",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

std::map<std::string, std::string> saved_acceleration(const TrainFlags& flags) {
  std::map<std::string, std::string> saved;
  if (!flags.accelerate) return saved;
  saved["accelerate-train-mode"] = keel::to_string(*flags.accelerate);
  if (flags.target_loss) saved["target-loss"] = fmt::format("{}", *flags.target_loss);
  return saved;
}

std::map<std::string, std::string> saved_passes(const TrainFlags& flags) {
  if (flags.disabled_passes.empty()) return {};
  return {{kPasses, fmt::format("{}", fmt::join(flags.disabled_passes, ","))}};
}

// Passes change no result but where they say so, so a resumed training may go on without others.
std::string other_passes(const TrainFlags& flags) {
  if (!flags.resume) return "";
  const auto saved = keel::select_passes(passes_in(*flags.resume)).disabled;
  const auto now = keel::select_passes(flags.disabled_passes).disabled;
  if (saved == now) return "";
  const auto differs = [&](const keel::Pass& pass) {
    const auto is_pass = [&](const std::string& name) { return name == pass.name; };
    return std::any_of(saved.begin(), saved.end(), is_pass) !=
           std::any_of(now.begin(), now.end(), is_pass);
  };
  const auto passes = keel::passes();
  const bool bits = std::any_of(passes.begin(), passes.end(), [&](const keel::Pass& pass) {
    return *pass.changes_bits != '\0' && differs(pass);
  });
  const auto listed = [](const std::vector<std::string>& names) {
    return names.empty() ? "no pass" : fmt::format("{}", fmt::join(names, ", "));
  };
  return fmt::format("{} was trained with {} switched off, and goes on with {}{}",
                     flags.resume->path(), listed(saved), listed(now),
                     bits ? ": the last bits may differ" : "");
}

void declare_train_flags(CommandLine& line) {
  line.add("model", alternatives(task_names()) + "|FILE.onnx|FILE.pb|FILE.keel",
           "what to train; a file's weights are what it begins with (softmax)");
  line.add(
      "data", "digits|DIR|FILE",
      "built-in digits, a folder with the files of MNIST or CIFAR-10, a table FILE.csv (digits); "
      "charlm: any text");
  line.add("label", "COLUMN", "of a table: the column with the classes");
  declare_place_flags(line, "where to train");
  declare_device_flag(line);
  declare_placement_flag(line);
  declare_precision_flags(line);
  declare_pass_flag(line);
  line.add(
      "accelerate-train-mode", "fast|fast1|step|loss[|RATIO]",
      "'fast|step|0.9': the first 0.9 of the steps in mixed f16 (fast1: bf16); 'fast|loss|1.05': "
      "until the loss is 1.05 times --target-loss");
  line.add("check-numerics", "off|first|every",
           "name the op that made the first infinite, NaN or saturated number, for the first step "
           "with one or for each (off)");
  declare_dump_flags(line);
  line.add("target-loss", "X", "what the loss is to come to (TARGET_LOSS)");
  line.add("batch", "N", "images, or windows of text, a step and rank (100; charlm 32)");
  line.add(
      "micro-shards", "M",
      "equal parts of a step's items on all ranks, computed one by one and added as a tree: with "
      "4, one, two and four ranks give the same bits (1; on N ranks the least power of two "
      "from N on)");
  line.add("epochs", "N", "passes over the training set (10)");
  line.add("steps", "N", "steps, instead of epochs");
  line.add(
      "lr", "RATE",
      "learning rate (lion 0.0002, adagrad 0.01, lamb 0.005; adam, adamw and rmsprop 0.001, lstm "
      "0.002, transformer and charlm 0.003; sgd and momentum by model: softmax 0.5, mlp 0.1, "
      "charlm 0.3 ...)");
  line.add("optimizer", alternatives(optimizer_names()),
           "momentum is 0.9; drops the update that a training graph brings (softmax and mlp sgd, "
           "other models adam; the graph's own update)");
  declare_update_flags(line);
  line.add(
      "loop-size", "N|auto|TIMEms",
      "steps in one launch, found by trying, or as many as take TIME (NPU_LOOP_SIZE, else 100)");
  line.add("data-sink", "on|off",
           "fill a device queue ahead of the steps, or feed and launch each step from the host: "
           "loop size 1, nothing kept on the device, the same bits (on)");
  line.add("seed", "N", "of initial values, the shuffle and random changes of images (0)");
  line.add("no-cache", "", "do not keep a training set of up to 256 MiB on the device");
  line.add("metrics", "FILE",
           "JSON lines, one object a step: step, epoch, loss; --resume goes on in it");
  line.add("summary", "FILE", "one JSON object about the run");
  line.add("save", "FILE", "all states and the place in the data, as safetensors");
  declare_checkpoint_flags(line);
  line.add("resume", "FILE|DIR",
           "go on from a file of --save, or the newest of --checkpoint DIR; steps and epochs count "
           "from the beginning");
  line.add("init", "FILE",
           "begin with the weights in a file of saved states, as far as they match");
  line.add("replace", "", "--save may name the file of --resume, which stays whole until then");
  declare_augmentation_flags(line);
  declare_judging_flags(line);
  line.add("allow-non-finite", "",
           "let states that hold NaN replace a file of finite ones, be resumed or begin a training "
           "(--init)");
  line.add("preset", "NAME|FILE", "the NPU to model (KEEL_NPU_PRESET, else ascend910b1)");
  line.add("block-dim", "N", "most blocks of a launch on the NPU (what the prices favour)");
  declare_profile_flags(line);
  line.add("quiet", "", "print nothing but errors and warnings");
}

TrainFlags read_train_flags(const CommandLine& line, keel::Group& group) {
  TrainFlags flags;
  flags.share = {.count = group.size(), .index = group.rank()};
  flags.metrics = line.text("metrics").value_or("");
  flags.summary = line.text("summary").value_or("");
  flags.save = line.text("save").value_or("");
  flags.init = line.text("init").value_or("");
  flags.checkpoint = read_checkpoint_flags(line);
  flags.backend = read_backend(line);
  flags.device = read_device(line);
  keel::device(flags.device, {});  // an error if the flag or the environment names none
  flags.config = {line.config_file(), line.config_flags()};
  check_training_environment();
  flags.profile = read_profile_flags(line, flags.backend);
  require_own_files(line, flags, line.text("data").value_or(kDigits));
  if (const auto resume = line.text("resume")) flags.resume = read_saved_run(*resume);
  flags.task = read_task(line, flags.resume);
  flags.judging = read_judging_flags(line, *flags.task);
  read_task_data(line, flags);
  read_identity(line, flags);
  const bool scales = flags.precision.value.name == "mixed_fp16" && !flags.own_update();
  flags.update = read_update_flags(line, flags.resume,
                                   {.loss_scale = scales ? kExponentialLossScale : kNoLossScale,
                                    .schedule = flags.task->schedule});
  require_unscaled(line, flags);
  flags.augmentation = read_augmentation_flags(line, flags.resume);
  flags.placement = keel::placement_policy(
      FlagReader(line, flags.resume)
          .choice("placement", keel::placement_policy_names(), keel::name_of(flags.placement)));
  read_accelerate(line, flags);
  // Once more with the data that the resumed file names.
  require_own_files(line, flags, flags.data);
  flags.epochs = line.integer("epochs", 1, kMostCount);
  flags.steps = line.integer("steps", 1, kMostCount);
  if (flags.epochs && flags.steps) {
    throw keel::Error({.op = "--steps",
                       .message = "--epochs is given as well",
                       .fix = "give one of the two",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (!flags.epochs && !flags.steps) flags.epochs = 10;
  if (const auto size = line.text("loop-size")) read_loop_size(*size, flags);
  read_data_sink(line, flags);
  flags.loop_size.value();  // a wrong environment variable is an error before anything is done
  flags.threads = read_threads(line, keel::ranks_on_this_machine(group));
  flags.allow_non_finite = line.has("allow-non-finite");
  flags.cache = !line.has("no-cache");
  flags.quiet = line.has("quiet");
  const auto numerics = line.choice("check-numerics", {"off", "first", "every"}).value_or("off");
  flags.check_numerics = numerics == "first"   ? keel::NumericsMode::kFirst
                         : numerics == "every" ? keel::NumericsMode::kEvery
                                               : keel::NumericsMode::kOff;
  read_npu_flags(line, flags);
  const auto options = device_options(flags);
  flags.precision.require_for_training(keel::backend(flags.backend), options.get());
  flags.precision_mode = flags.precision.mode_on(keel::backend(flags.backend), options.get());
  if (flags.accelerate) require_fast_phase(flags, options.get());
  flags.dump = read_dump_flags(line);
  flags.dump.model_name = flags.task->name;
  in_dump_flags(
      [&] { keel::require_dump(flags.dump, keel::backend(flags.backend), options.get()); });
  flags.micro_shards = read_micro_shards(line, flags);
  if (group.size() > 1) require_for_ranks(line, flags);
  // The others compute the same, write nothing and say nothing but errors.
  if (!flags.is_first_rank()) flags.quiet = true;
  return flags;
}

}  // namespace keel_cli
