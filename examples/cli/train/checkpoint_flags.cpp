#include "cli/train/checkpoint_flags.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <keel/core/base/file.h>

#include "cli/base/flag_errors.h"

namespace keel_cli {
namespace {

constexpr double kLeastSeconds = 1e-3;
constexpr double kMostSeconds = 86400.0 * 365;

// The longer unit first where one ends with the other.
constexpr std::pair<std::string_view, double> kUnits[] = {
    {"ms", 1e-3}, {"min", 60}, {"s", 1}, {"h", 3600}};

// "1000" steps, or a time: "30s".
void read_save_every(const std::string& text, CheckpointFlags& flags) try {
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    flags.seconds =
        seconds * keel::parse_number(text.substr(0, text.size() - unit.size()), "--save-every",
                                     kLeastSeconds / seconds, kMostSeconds / seconds);
    return;
  }
  flags.steps = keel::parse_integer(text, "--save-every", 1, kMostCount);
} catch (const keel::Error&) {
  throw keel::Error(
      {.op = "--save-every",
       .expected = "a number of steps, or a time from 1ms to a year: 500ms, 30s, 10min, 2h",
       .got = text,
       .kind = keel::ErrorKind::kInvalidArgument});
}

// The first number in a file's name; nothing where there is none.
std::optional<int64_t> number_in_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const size_t digits = std::min(name.size(), name.find_first_of("0123456789"));
  int64_t number = 0;
  const auto read = std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

void declare_checkpoint_flags(CommandLine& line) {
  line.add("checkpoint", "DIR",
           "write files to go on from (--resume DIR) while the training goes on, and at its end");
  line.add("save-every", "STEPS|TIME",
           "how often: 1000 steps, or 500ms, 30s, 10min, 2h (at the end of each epoch)");
  line.add("keep", "N", "files that stay, the newest; 0: all (3). --keep-best keeps the best, too");
  line.add("on-save-error", "continue|stop",
           "what a checkpoint that cannot be written does to the training (continue)");
}

CheckpointFlags read_checkpoint_flags(const CommandLine& line) {
  CheckpointFlags flags;
  flags.folder = line.text("checkpoint").value_or("");
  for (const char* flag : {"save-every", "keep", "on-save-error"}) {
    if (!flags.folder.empty() || !line.has(flag)) continue;
    throw keel::Error({.op = std::string("--") + flag,
                       .message = "is about checkpoints, and none are written",
                       .fix = "add --checkpoint DIR, or drop it",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (const auto text = line.text("save-every")) read_save_every(*text, flags);
  flags.keep = line.integer("keep", 0, kMostCount).value_or(flags.keep);
  if (line.choice("on-save-error", {"continue", "stop"}) == "stop")
    flags.on_error = keel::OnSaveError::kStop;
  return flags;
}

keel::CheckpointOptions checkpoint_options(const CheckpointFlags& flags, int64_t steps_per_epoch) {
  const bool each_epoch = flags.steps == 0 && flags.seconds == 0;
  return {.folder = flags.folder,
          .every_n_steps = each_epoch ? steps_per_epoch : flags.steps,
          .every_seconds = flags.seconds,
          .keep = flags.keep,
          .on_error = flags.on_error};
}

void require_no_checkpoint(const CheckpointFlags& flags, const NamedFile& output) {
  if (flags.folder.empty()) return;
  std::vector<std::string> checkpoints;
  std::error_code unknown;
  if (std::filesystem::is_directory(flags.folder, unknown)) {
    for (const auto& file : keel::checkpoints_in(flags.folder)) checkpoints.push_back(file.path);
  }
  // One that this training may write yet: if the number in the output's name is a step, the folder
  // has the same path for it.
  if (const auto step = number_in_name(output.path))
    checkpoints.push_back(keel::checkpoint_path(flags.folder, *step));
  for (const std::string& path : checkpoints)
    require_distinct({{"--checkpoint", path}, output}, {});
}

void require_no_name_of_checkpoint(const NamedFile& output) {
  const auto step = number_in_name(output.path);
  const auto name_of = [](const std::string& path) {
    return std::filesystem::path(path).filename();
  };
  if (!step || name_of(keel::checkpoint_path(".", *step)) != name_of(output.path)) return;
  throw keel::Error({.op = output.flag,
                     .argument = output.path,
                     .message = "is the name of a checkpoint, and would say that it is of step " +
                                std::to_string(*step),
                     .fix = "give it a name of its own",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

void prepare_checkpoint_folder(const CheckpointFlags& flags,
                               const std::optional<SavedRun>& resume) {
  if (flags.folder.empty()) return;
  in_flag(
      "--checkpoint",
      [&] {
        keel::make_folder(flags.folder);
        // Another training's lock refuses this one before it cuts its metrics file; fit() takes it
        // anew.
        const keel::FolderLock held(flags.folder);
        keel::require_own_checkpoints(flags.folder, resume ? resume->path() : "");
      },
      "resume");
  require_writable("--checkpoint", keel::checkpoint_path(flags.folder, 0));
}

SavedRun read_saved_run(const std::string& file_or_folder) {
  return SavedRun(in_flag(
      "--resume", [&] { return keel::checkpoint_to_resume(file_or_folder); }, "resume"));
}

}  // namespace keel_cli
