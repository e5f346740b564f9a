#include "cli/train/train_outputs.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <keel/backends/npu/profile/profile.h>
#include <keel/keel.h>

#include "cli/base/output_files.h"
#include "cli/model/chosen_model.h"
#include "cli/train/checkpoint_flags.h"

namespace keel_cli {
namespace {

// Says whether the file lies in the folder of --checkpoint, which is made later.
bool in_new_folder(const TrainFlags& flags, const std::string& file) {
  const std::string& folder = flags.checkpoint.folder;
  std::error_code unknown;
  if (folder.empty() || std::filesystem::exists(folder, unknown)) return false;
  const auto whole = [&](const std::filesystem::path& path) {
    return (std::filesystem::absolute(path, unknown) / "").lexically_normal();
  };
  return whole(std::filesystem::path(file).parent_path()) == whole(folder);
}

}  // namespace

void require_own_files(const CommandLine& line, const TrainFlags& flags, const std::string& data) {
  const auto resume = flags.resume ? flags.resume->path() : line.text("resume").value_or("");
  const auto init = line.text("init").value_or("");
  if (!init.empty() && !resume.empty()) {
    throw keel::Error({.op = "--init",
                       .message = "--resume is given as well, which takes all states",
                       .fix = "give one of the two",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (line.has("replace") && (resume.empty() || flags.save.empty())) {
    throw keel::Error({.op = "--replace",
                       .message = "is about a file that is both resumed and saved",
                       .fix = "give --resume and --save, or drop it",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  std::vector<NamedFile> outputs = {{"--metrics", flags.metrics},
                                    {"--summary", flags.summary},
                                    {"--save-best", line.text("save-best").value_or("")}};
  const ProfileFlags& profile = flags.profile;
  if (!profile.folder.empty()) {
    for (const std::string& path : keel::npu::profile_files(profile.folder, profile.options))
      outputs.push_back({"--profile", path});
  }
  // --save replaces its file at once and whole, so the one that is resumed may be meant.
  if (line.has("replace")) require_distinct(outputs, {{"--resume", resume}});
  outputs.push_back({"--save", flags.save});
  if (!line.has("replace")) require_distinct(outputs, {{"--resume", resume}});
  std::vector<NamedFile> with_folder = outputs;
  with_folder.push_back({"--checkpoint", line.text("checkpoint").value_or("")});
  require_distinct(with_folder, {});
  for (const NamedFile& output : outputs) {
    require_no_checkpoint(flags.checkpoint, output);
    require_no_name_of_checkpoint(output);
  }
  std::vector<NamedFile> inputs = data_files(data);
  inputs.push_back({"--init", init});
  const auto saved_model = flags.resume ? flags.resume->find("model") : std::nullopt;
  for (NamedFile& file : model_files(line.text("model").value_or(saved_model.value_or(""))))
    inputs.push_back(std::move(file));
  require_distinct(outputs, inputs);
}

void require_writable_files(const TrainFlags& flags) {
  const auto require = [&](const char* flag, const std::string& file) {
    if (!in_new_folder(flags, file)) require_writable(flag, file);
  };
  require("--summary", flags.summary);
  require("--save", flags.save);
  require("--save-best", flags.judging.save_best);
  // Written line by line: pipes and devices will do.
  std::error_code unknown;
  if (!std::filesystem::is_other(flags.metrics, unknown)) require("--metrics", flags.metrics);
}

}  // namespace keel_cli
