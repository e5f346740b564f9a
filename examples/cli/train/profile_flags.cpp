#include "cli/train/profile_flags.h"

#include <optional>

#include <keel/keel.h>

#include "cli/base/flag_errors.h"

namespace keel_cli {
namespace {

constexpr const char* kFolder = "keel_profile";  // where nothing names one
constexpr const char* kModeVariable = "PROFILING_MODE";
constexpr const char* kOptionsVariable = "PROFILING_OPTIONS";

// "A-B" or "A".
void read_steps(const std::string& text, ProfileFlags& flags) {
  const size_t dash = text.find('-');
  flags.first_step = keel::parse_integer(text.substr(0, dash), "--profile-steps", 1, kMostCount);
  flags.last_step = flags.first_step;
  if (dash != std::string::npos) {
    flags.last_step =
        keel::parse_integer(text.substr(dash + 1), "--profile-steps", flags.first_step, kMostCount);
  }
}

// The folder of a profile that somebody wants.
void place(const std::optional<std::string>& folder, ProfileFlags& flags) {
  const std::string& output = flags.options.output;
  if (folder && !output.empty()) {
    refuse_flag("--profile", "the profiling options name a folder, too: output is " + output,
                "drop one of the two");
  }
  flags.folder = folder ? *folder : output.empty() ? kFolder : output;
}

void read_environment(const std::string& backend, ProfileFlags& flags) {
  if (keel::environment_choice(kModeVariable, {"true", "false"}) != "true") return;
  if (backend != "npu") {
    refuse_flag(kModeVariable, "only the NPU has profiles, and the backend is " + backend,
                "unset it, or use --backend npu");
  }
  if (const auto text = keel::environment_text(kOptionsVariable))
    flags.options = keel::npu::parse_profiling_options(*text, kOptionsVariable);
  place(std::nullopt, flags);
}

}  // namespace

void declare_profile_flags(CommandLine& line) {
  line.add("profile", "DIR", "where the modelled NPU's time goes: tables, timeline, advice");
  line.add("profile-steps", "N|A-B",
           "the steps in the profile, from the first one of this run on (1-3)");
  line.add("profiling-mode", "true|false",
           "a profile by Ascend's option of that name (PROFILING_MODE, else false)");
  line.add("profiling-options", "JSON",
           "what it holds, by Ascend's keys: output, storage_limit, training_trace, task_trace, "
           "aicpu, runtime_api, aic_metrics, fp_point, bp_point");
}

ProfileFlags read_profile_flags(const CommandLine& line, const std::string& backend) {
  ProfileFlags flags;
  for (const char* flag : {"profile", "profile-steps", "profiling-mode", "profiling-options"}) {
    if (!line.has(flag) || backend == "npu") continue;
    refuse_flag(std::string("--") + flag, "is about the NPU, and the backend is " + backend,
                "drop it, or use --backend npu");
  }
  const auto mode = line.choice("profiling-mode", {"true", "false"});
  const auto options = line.text("profiling-options");
  const auto folder = line.text("profile");
  if (mode == "false" && (options || folder)) {
    refuse_flag("--profiling-mode",
                std::string("is false, and ") + (options ? "--profiling-options" : "--profile") +
                    " asks for a profile",
                "drop one of the two");
  }
  if (options) flags.options = keel::npu::parse_profiling_options(*options, "--profiling-options");
  if (mode == "true" || options || folder)
    place(folder, flags);
  else if (!mode)
    read_environment(backend, flags);
  const auto steps = line.text("profile-steps");
  if (steps && flags.folder.empty())
    refuse_flag("--profile-steps", "no profile is asked for", "add --profile DIR");
  if (steps) read_steps(*steps, flags);
  return flags;
}

}  // namespace keel_cli
